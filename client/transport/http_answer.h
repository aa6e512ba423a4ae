/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_answer.h - parsing the answer to a POST as its bytes arrive (RFC 9112).
 *
 * Keeps only what delivery needs of the head: the status, Handoff-Ack, Retry-After, and how the
 * answer ends. Independent of sockets, so tests feed it byte by byte. One thread at a time.
 */
#ifndef HANDOFF_TRANSPORT_HTTP_ANSWER_H
#define HANDOFF_TRANSPORT_HTTP_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/transport/fault.h"
#include "client/transport/retry_after.h"
#include "lib/base/buffer.h"

enum {
    HANDOFF_HTTP_ACK_MAX = 80, /* longer than any handoff id, so a truncated one never matches */
    HANDOFF_HTTP_BODY_MAX = 65536,      /* an acknowledgement, or an error page */
    HANDOFF_HTTP_HEAD_MAX = 256 * 1024, /* everything but the body, also the ends of chunks */
};

enum handoff_http_progress {
    HANDOFF_HTTP_MORE,   /* the rest has yet to arrive */
    HANDOFF_HTTP_WHOLE,  /* the answer is read */
    HANDOFF_HTTP_BROKEN, /* see fault */
};

enum handoff_http_part {
    HANDOFF_HTTP_STATUS,
    HANDOFF_HTTP_HEADERS,
    HANDOFF_HTTP_BODY, /* of a known length */
    HANDOFF_HTTP_BODY_TO_THE_END,
    HANDOFF_HTTP_CHUNK_SIZE,
    HANDOFF_HTTP_CHUNK,
    HANDOFF_HTTP_CHUNK_END,
    HANDOFF_HTTP_TRAILERS,
};

struct handoff_http_answer {
    int status;
    bool keep; /* the connection may carry another request */
    bool has_ack;
    char ack[HANDOFF_HTTP_ACK_MAX];             /* value of Handoff-Ack */
    char retry_after[HANDOFF_RETRY_AFTER_SIZE]; /* value of Retry-After, or "" */
    struct base_buffer body;
    enum handoff_fault fault; /* why it is broken */
    const char *detail;       /* constant text; NULL: none */
    /* the reader's own */
    enum handoff_http_part part;
    bool begun; /* a byte has arrived */
    bool has_length, chunked;
    bool is_1_0, closes;     /* "close" outranks any "keep-alive" */
    uint64_t missing;        /* of the body, or of the chunk */
    size_t head_size;        /* read so far */
    struct base_buffer line; /* a line whose end has not arrived */
};

void handoff_http_answer_begin(struct handoff_http_answer *answer);
/* Harmless on a zeroed answer. */
void handoff_http_answer_free(struct handoff_http_answer *answer);

/* Sets `used` to the number of bytes that belong to the answer: all, unless it is whole or broken.
 */
enum handoff_http_progress handoff_http_answer_read(struct handoff_http_answer *answer,
                                                    const char *bytes, size_t size, size_t *used);
/* The agent sends nothing more. Never MORE. */
enum handoff_http_progress handoff_http_answer_end(struct handoff_http_answer *answer);

#endif
