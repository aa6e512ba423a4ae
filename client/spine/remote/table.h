/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - how a remote spine is asked, and where its answers have what we need.
 *
 * The table is a JSON document (docs/spines.md): for each operation how it is asked for, which
 * depends on the kind of spine (wire.h), a template in which a text that is a placeholder stands
 * for a value, and the JSON pointer (RFC 6901) to the memory or the memories of the answer; and for
 * the members of a memory a pointer each. It is checked as a whole when it is read.
 *
 * A placeholder can never become anything but a value: a template is composed as JSON, not as text.
 *
 * Pure; constant once it is read; any thread.
 */
#ifndef HANDOFF_SPINE_REMOTE_TABLE_H
#define HANDOFF_SPINE_REMOTE_TABLE_H

#include <yyjson.h>

#include "client/spine/spine.h"
#include "lib/base/arena.h"
#include "lib/base/buffer.h"

enum handoff_remote_operation {
    HANDOFF_REMOTE_GET,
    HANDOFF_REMOTE_GET_MANY,
    HANDOFF_REMOTE_SEARCH,
    HANDOFF_REMOTE_RECENT,
    HANDOFF_REMOTE_PINNED,
    HANDOFF_REMOTE_PUT,
    HANDOFF_REMOTE_DELETE,
    HANDOFF_REMOTE_OPERATIONS,
};

/* The members of a memory that an answer may have. */
enum handoff_remote_member {
    HANDOFF_REMOTE_ID,
    HANDOFF_REMOTE_CONTENT,
    HANDOFF_REMOTE_SUMMARY,
    HANDOFF_REMOTE_IMPORTANCE,
    HANDOFF_REMOTE_TAGS,
    HANDOFF_REMOTE_METADATA,
    HANDOFF_REMOTE_PINNED_MEMBER,
    HANDOFF_REMOTE_CREATED_AT,
    HANDOFF_REMOTE_UPDATED_AT,
    HANDOFF_REMOTE_SCOPE,
    HANDOFF_REMOTE_AGENT,
    HANDOFF_REMOTE_TASK_ID,
    HANDOFF_REMOTE_MEMBERS,
};

struct handoff_remote_row {
    bool exists;               /* false: the spine cannot do it */
    yyjson_val *template;      /* of what is sent; NULL: nothing */
    struct base_span memories; /* pointer to what is answered: one memory, or an array of them */
    struct base_span more;     /* pointer to what says that there are more; absent: nothing does */

    /* http */
    const char *method;
    struct base_span path; /* with placeholders; it begins with a slash */

    /* mcp */
    struct base_span tool;
    struct base_span absent; /* part of what it says without such a memory; absent: the usual */
};

struct handoff_remote_wire;

struct handoff_remote_table {
    struct base_arena arena;
    yyjson_doc *doc;
    struct handoff_remote_row rows[HANDOFF_REMOTE_OPERATIONS];
    struct base_span members[HANDOFF_REMOTE_MEMBERS]; /* pointers; absent: answers lack it */
};

/* The table is the caller's to free, also on failure. invalid_request, with the field
   ("operations.get.memory"), what was seen and what is allowed; out_of_memory. */
enum handoff_code handoff_remote_table_read(struct handoff_remote_table *table,
                                            const struct handoff_remote_wire *wire,
                                            const char *text,
                                            struct handoff_error *error) HANDOFF_MUST_CHECK;
void handoff_remote_table_free(struct handoff_remote_table *table);

const char *handoff_remote_operation_name(enum handoff_remote_operation operation);

/* What takes the place of the placeholders; absent ones are empty. */
struct handoff_remote_values {
    struct base_span id, query;
    const struct base_span *ids;
    size_t id_count;
    const struct base_span *scopes; /* that are looked into beside what is shared */
    size_t scope_count;
    size_t limit;
    const struct handoff_memory *memory;
};

/* Appends the template with its values, if the row has one. */
void handoff_remote_compose(const struct handoff_remote_row *row,
                            const struct handoff_remote_values *values, struct base_buffer *out);

/* A memory of an answer; texts are lent by the document and the arena. false: it is none, or there
   is no memory for it. */
bool handoff_remote_read_memory(const struct handoff_remote_table *table, yyjson_val *value,
                                struct base_arena *arena, struct handoff_memory *memory);

/* ---- for wires: what is wrong with a row ------------------------------------------------------
 */

/* `place` is that of the row ("operations.get"), `member` one of it or "". */
enum handoff_code handoff_remote_refuse_entry(const char *place, const char *member,
                                              const char *message, const char *seen,
                                              const char *allowed, struct handoff_error *error);

/* Where `name` is among the names, or -1. */
int handoff_remote_find_name(const char *const *names, int count, const char *name);

#endif
