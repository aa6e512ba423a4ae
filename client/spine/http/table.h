/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - how a remote spine is asked, and where its answers have what we need.
 *
 * The table is a JSON document (docs/spines.md): for each operation the method, a path with
 * placeholders, a body in which a text that is a placeholder stands for a value, and the JSON
 * pointer (RFC 6901) to the memory or the memories of the answer; and for the members of a memory
 * a pointer each. It is checked as a whole when it is read.
 *
 * A placeholder can never become anything but a value: in a path it is percent-encoded, slashes
 * too, and a body is composed as JSON, not as text.
 *
 * Pure; constant once it is read; any thread.
 */
#ifndef HANDOFF_SPINE_HTTP_TABLE_H
#define HANDOFF_SPINE_HTTP_TABLE_H

#include <yyjson.h>

#include "client/spine/spine.h"
#include "lib/base/arena.h"
#include "lib/base/buffer.h"

enum handoff_http_operation {
    HANDOFF_HTTP_GET,
    HANDOFF_HTTP_GET_MANY,
    HANDOFF_HTTP_SEARCH,
    HANDOFF_HTTP_RECENT,
    HANDOFF_HTTP_PINNED,
    HANDOFF_HTTP_PUT,
    HANDOFF_HTTP_DELETE,
    HANDOFF_HTTP_OPERATIONS,
};

/* The members of a memory that an answer may have. */
enum handoff_http_member {
    HANDOFF_HTTP_ID,
    HANDOFF_HTTP_CONTENT,
    HANDOFF_HTTP_SUMMARY,
    HANDOFF_HTTP_IMPORTANCE,
    HANDOFF_HTTP_TAGS,
    HANDOFF_HTTP_METADATA,
    HANDOFF_HTTP_PINNED_MEMBER,
    HANDOFF_HTTP_CREATED_AT,
    HANDOFF_HTTP_UPDATED_AT,
    HANDOFF_HTTP_SCOPE,
    HANDOFF_HTTP_AGENT,
    HANDOFF_HTTP_TASK_ID,
    HANDOFF_HTTP_MEMBERS,
};

struct handoff_http_row {
    const char *method;        /* NULL: the spine cannot do it */
    struct base_span path;     /* with placeholders; it begins with a slash */
    yyjson_val *body;          /* NULL: none */
    struct base_span memories; /* pointer to what is answered: one memory, or an array of them */
};

struct handoff_http_table {
    struct base_arena arena;
    yyjson_doc *doc;
    struct handoff_http_row rows[HANDOFF_HTTP_OPERATIONS];
    struct base_span members[HANDOFF_HTTP_MEMBERS]; /* pointers; absent: answers lack it */
};

/* `text` NULL: the members and calls of a handoff-exporter. The table is the caller's to free, also
   on failure. invalid_request, with the field ("operations.get.memory"), what was seen and what is
   allowed; out_of_memory. */
enum handoff_code handoff_http_table_read(struct handoff_http_table *table, const char *text,
                                          struct handoff_error *error) HANDOFF_MUST_CHECK;
void handoff_http_table_free(struct handoff_http_table *table);

const char *handoff_http_operation_name(enum handoff_http_operation operation);

/* What takes the place of the placeholders; absent ones are empty. */
struct handoff_http_values {
    struct base_span id, query;
    const struct base_span *ids;
    size_t id_count;
    size_t limit;
    const struct handoff_memory *memory;
};

/* Appends the path, and the body if the row has one. */
void handoff_http_compose_path(const struct handoff_http_row *row,
                               const struct handoff_http_values *values, struct base_buffer *out);
void handoff_http_compose_body(const struct handoff_http_row *row,
                               const struct handoff_http_values *values, struct base_buffer *out);

/* A memory of an answer; texts are lent by the document and the arena. false: it is none, or there
   is no memory for it. */
bool handoff_http_read_memory(const struct handoff_http_table *table, yyjson_val *value,
                              struct base_arena *arena, struct handoff_memory *memory);

#endif
