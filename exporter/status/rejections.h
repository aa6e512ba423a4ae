/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rejections.h - the last requests to the agent API that were answered with a problem: who sent
 * them, to which call, and which field was wrong.
 *
 * The alert about failing requests names a call and a code; this leads to the caller. Only names
 * are kept: neither values nor anything else of a body.
 */
#ifndef EXPORTER_STATUS_REJECTIONS_H
#define EXPORTER_STATUS_REJECTIONS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/handoff.h"

enum {
    EXPORTER_REJECTIONS_KEPT = 20,
    EXPORTER_REJECTION_NAME_MAX = 136,
    EXPORTER_REJECTION_FIELD_MAX = 64,
};

/* One request, or several that are alike but for their time. Texts are printable ASCII. */
struct exporter_rejection {
    int64_t at_ms;  /* the last time; wall clock */
    uint64_t times; /* since it was first remembered */
    const char *call;
    enum handoff_code code;
    char field[EXPORTER_REJECTION_FIELD_MAX];  /* ""; or which one was wrong */
    char caller[EXPORTER_REJECTION_NAME_MAX];  /* the owner of its token; "": none is known */
    char source[EXPORTER_REJECTION_NAME_MAX];  /* the agent that its body names; "": none */
    char address[64];                          /* without the port */
    char program[EXPORTER_REJECTION_NAME_MAX]; /* its User-Agent; "": none */
};

struct exporter_rejections {
    pthread_mutex_t lock;
    /* under the lock; the latest first */
    struct exporter_rejection entries[EXPORTER_REJECTIONS_KEPT];
    int64_t logged_ms[EXPORTER_REJECTIONS_KEPT];
    size_t count;
};

/* The texts of a request; each may be NULL. */
struct exporter_rejected {
    const char *call;
    enum handoff_code code;
    const char *field, *caller, *address, *program;
    const char *source; /* NULL: as the body names it */
    const char *body;
    size_t size;
};

void exporter_rejections_init(struct exporter_rejections *rejections);

/* Remembers and logs what was answered, unless the code says how a handoff ended: then other alerts
 * are about it. Alike ones are one line a minute. Any thread. */
void exporter_rejections_note(struct exporter_rejections *rejections,
                              const struct exporter_rejected *rejected);

/* Copies what is remembered, the latest first; answers how many there are. Any thread. */
size_t exporter_rejections_read(struct exporter_rejections *rejections,
                                struct exporter_rejection entries[EXPORTER_REJECTIONS_KEPT]);

#endif
