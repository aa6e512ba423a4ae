/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.h - what an agent asks for, checked.
 *
 * A request is the body of POST /v1/handoffs. Its fields are declared once, in the table of
 * validate.c. A field that is not in the table is refused: a constraint that was misspelt would
 * otherwise be lost in silence. null counts as absent. The texts and values of a checked request
 * are lent by the JSON document that it owns.
 */
#ifndef HANDOFF_ASSEMBLE_REQUEST_H
#define HANDOFF_ASSEMBLE_REQUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <yyjson.h>

#include "client/assemble/plan.h"
#include "client/model/field.h"
#include "lib/base/arena.h"
#include "lib/base/error.h"
#include "lib/base/span.h"

struct handoff_secrets;
struct handoff_warnings;

enum {
    HANDOFF_NAME_MAX = 128,         /* bytes of an agent's or channel's name */
    HANDOFF_ID_MAX = 256,           /* bytes of a task's or memory's id */
    HANDOFF_TEXT_MAX = 64 * 1024,   /* bytes of an intent or summary: longer is a document */
    HANDOFF_MEMORY_IDS_MAX = 1000,  /* asked for at once */
    HANDOFF_RECENT_MAX = 1000,      /* include_recent */
    HANDOFF_HISTORY_MAX = 1000,     /* steps of one chain */
    HANDOFF_BUDGET_MAX = 100000000, /* tokens; no model reads as many */
};

struct handoff_request {
    yyjson_doc *doc; /* owns all texts and values below */
    struct base_span source_agent, target_agent;
    struct base_span task_id; /* absent: inherited, or a new one */
    struct base_span task_summary;
    struct base_span intent;   /* absent: inherited, or the summary */
    struct base_span channel;  /* absent unless the pattern is broadcast */
    struct base_span pipeline; /* absent unless the target is "next" */
    yyjson_val *previous_id;   /* an id, or several; NULL: none */
    yyjson_val *state;         /* each of these NULL where absent */
    yyjson_val *scope;         /* a name or an array; handoff_scopes_of_json reads it */
    yyjson_val *memory_ids;
    yyjson_val *constraints;
    yyjson_val *execution_history;
    yyjson_val *expected_output;
    int64_t include_recent;
    bool include_pins;
    bool new_chain; /* it continues nothing, though its task is known */
    bool raw_log;
    int strategy; /* enum handoff_strategy; -1: it names none */
    int pattern;  /* enum handoff_pattern */
};

/* What a request may have; what an edit of one may have; a step of the history. */
extern const struct handoff_fields handoff_request_fields;
extern const struct handoff_fields handoff_edit_fields;
extern const struct handoff_fields handoff_step_fields;

/* Reads and checks a body, into the arena if there is one. On success the caller frees the request,
 * before the arena; on failure there is nothing to free. `source_agent`, where present, is who the
 * caller is known to be: the field may then be left out, and may not differ. `secrets`: what is
 * done about credentials; NULL: nothing. `lenient`: fields that are not known are ignored, with
 * warnings; else they are rejected. */
enum handoff_code handoff_request_read(struct base_arena *arena, struct base_span body,
                                       struct base_span source_agent,
                                       struct handoff_secrets *secrets,
                                       struct handoff_warnings *warnings, bool lenient,
                                       struct handoff_request *request,
                                       struct handoff_error *error) HANDOFF_MUST_CHECK;
void handoff_request_free(struct handoff_request *request);

/* Whether the target is the one after the source, in some pipeline. */
bool handoff_request_wants_next(const struct handoff_request *request);
/* The receivers of a channel: only an envelope can be assembled for them here. */
bool handoff_request_is_broadcast(const struct handoff_request *request);

/* max_tokens of constraints that passed the check, 0 where there is none. */
uint64_t handoff_constraints_max_tokens(yyjson_val *constraints);

/* What a constraint with a known meaning must look like, wherever it comes from. */
enum handoff_code handoff_constraints_check(yyjson_val *constraints, struct handoff_error *error);

/* Whether an object says of itself that it is a raw conversation log: `"raw_log": true` or
 * `"kind": "conversation"`. */
bool handoff_marks_raw_log(yyjson_val *object);

#endif
