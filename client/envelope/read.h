/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read.h - reading an envelope.
 *
 * A reader of major version 2 reads every 2.x: unknown fields are ignored, and only the members
 * that this program uses are required. Size and nesting are bounded, because an envelope may come
 * from anywhere.
 */
#ifndef HANDOFF_ENVELOPE_READ_H
#define HANDOFF_ENVELOPE_READ_H

#include <stdint.h>
#include <yyjson.h>

#include "lib/base/arena.h"
#include "lib/base/error.h"
#include "lib/base/span.h"

enum { HANDOFF_ENVELOPE_MAX = 64 * 1024 * 1024 }; /* bytes */

struct handoff_envelope {
    yyjson_doc *doc; /* owns the texts and values below */
    struct base_span id, digest, created_at, task_id, source_agent, target_agent, pattern;
    struct base_span intent, summary;
    struct base_span traceparent, tracestate; /* absent if it has none */
    yyjson_val *scope;                        /* array of strings; NULL: it sees what is shared */
    int64_t hop_count, hop_max;
    yyjson_val *path;            /* array of strings */
    yyjson_val *context;         /* with the five components: */
    yyjson_val *state;           /* object; never NULL, like those that follow */
    yyjson_val *memories;        /* array of objects */
    yyjson_val *history;         /* array of objects */
    yyjson_val *constraints;     /* object */
    yyjson_val *expected_output; /* object */
};

/* Reads one. On success the caller frees it; on failure there is nothing to free. */
enum handoff_code handoff_envelope_read(struct base_span text, struct handoff_envelope *envelope,
                                        struct handoff_error *error) HANDOFF_MUST_CHECK;
/* The same in an arena, or without one where that is NULL. Freeing it is then harmless, and of no
 * use. */
enum handoff_code handoff_envelope_read_in(struct base_arena *arena, struct base_span text,
                                           struct handoff_envelope *envelope,
                                           struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Reads what is left of one (inheritance.h), likewise: only what a child inherits, the rest is
 * empty or NULL. */
enum handoff_code handoff_envelope_read_inheritance(struct base_arena *arena, struct base_span text,
                                                    struct handoff_envelope *envelope,
                                                    struct handoff_error *error) HANDOFF_MUST_CHECK;
void handoff_envelope_free(struct handoff_envelope *envelope);

#endif
