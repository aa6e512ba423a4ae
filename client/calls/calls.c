/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of calls, see call.h: calls.def with what its rows share.
 *
 * Lists inside a row are compound literals, so that a row is whole in one place.
 *
 * Constant data; any thread.
 */
#include "client/calls/call.h"

#include <stddef.h>

#include "client/assemble/request.h"
#include "client/calls/memory_json.h"
#include "client/calls/observation.h"
#include "client/model/gaps.h"
#include "client/model/model.h"

/* ---- who may -------------------------------------------------------------------------------- */

#define IN_ITS_OWN_NAME                                                                            \
    "in its own name; a different `source_agent` is 403 `forbidden`, a missing one defaults to "   \
    "the caller. `previous_id` must name a handoff, and `task_id` a task, to which it is a "       \
    "party; otherwise 404. It starts a task by naming a new `task_id` or none."
#define AS_A_PARTY    "if it is a party; otherwise 404, as if the id did not exist"
#define AS_ITS_HOLDER "if it holds the handoff; other parties get 403, all others 404"
#define AS_ITS_SENDER "if it sent the handoff; other parties get 403, all others 404"
#define SHARED                                                                                     \
    "yes; the agents of a pipeline share the spine. A token that is bound to scopes sees only "    \
    "their memories and the shared ones; others are 404"
#define AS_ITS_OWNER                                                                               \
    "if it owns the memory, or the id is unused; otherwise 403. It stores memories in its own "    \
    "name, and in the scopes that its token is bound to"
#define NO "no; operators only"

/* ---- fields that several calls have --------------------------------------------------------- */

#define AT(member) offsetof(struct handoff_call_input, member)

#define SEGMENT(text, words, shown)                                                                \
    {                                                                                              \
        .name = (text), .type = HANDOFF_FIELD_STRING, .place = HANDOFF_IN_PATH, .required = true,  \
        .offset = AT(id), .least = 1, .most = HANDOFF_SEGMENT_MAX, .doc = (words),                 \
        .example = (shown)                                                                         \
    }
#define HANDOFF_ID SEGMENT("id", "UUID of the handoff", "\"01890a5d-ac96-774b-bcce-b302099a8057\"")
#define ENVELOPE_ID                                                                                \
    SEGMENT("id", "UUID of the envelope, and of its handoff",                                      \
            "\"01890a5d-ac96-774b-bcce-b302099a8057\"")
#define MEMORY_ID SEGMENT("id", "1 to 128 characters of A-Z a-z 0-9 . _ : -", "\"ms-4821\"")
#define CHANNEL_NAME                                                                               \
    {                                                                                              \
        .name = "channel", .type = HANDOFF_FIELD_STRING, .place = HANDOFF_IN_PATH,                 \
        .required = true, .offset = AT(channel), .least = 1, .most = HANDOFF_SEGMENT_MAX,          \
        .doc = "a channel", .example = "\"oauth-migration\""                                       \
    }
#define RECEIVER_NAME SEGMENT("agent", "the agent", "\"coder\"")
#define PUBLICATION_ID                                                                             \
    SEGMENT("id", "UUID of the publication, and of its envelope",                                  \
            "\"01890a5d-ac96-774b-bcce-b302099a8057\"")
#define AGENT_NAME SEGMENT("name", "the agent", "\"coder\"")

/* 0 is left to mean all kinds. */
static enum handoff_code check_item_kind(const struct handoff_field *field, yyjson_val *value,
                                         void *at, struct handoff_error *error)
{
    enum handoff_code code = handoff_field_check_word(field, value, at, error);
    if (code == HANDOFF_OK)
        ++*(int *)at;
    return code;
}

#define PAGE(at_cursor, at_limit)                                                                  \
    {.name = "cursor",                                                                             \
     .type = HANDOFF_FIELD_STRING,                                                                 \
     .place = HANDOFF_IN_QUERY,                                                                    \
     .offset = (at_cursor),                                                                        \
     .most = HANDOFF_CURSOR_MAX,                                                                   \
     .doc = "`next` of the previous page"},                                                        \
    {                                                                                              \
        .name = "limit", .type = HANDOFF_FIELD_WHOLE, .place = HANDOFF_IN_QUERY,                   \
        .offset = (at_limit), .least = 1, .most = HANDOFF_PAGE_MAX, .fallback = "50",              \
        .doc = "maximum number of items", .example = "10"                                          \
    }

#define FILTER(text, at, words, shown)                                                             \
    {                                                                                              \
        .name = (text), .type = HANDOFF_FIELD_STRING, .place = HANDOFF_IN_QUERY, .offset = (at),   \
        .most = HANDOFF_SEGMENT_MAX, .doc = (words), .example = (shown)                            \
    }
#define PARKED_FILTERS                                                                             \
    FILTER("target", AT(parked.target), "only those parked for this agent", "\"coder\""),          \
        FILTER("source", AT(parked.source), "only those that this agent sent", "\"analyst\""),     \
        FILTER("task", AT(parked.task), "only those of this task", "\"task-42\""),                 \
        {.name = "reason",                                                                         \
         .type = HANDOFF_FIELD_STRING,                                                             \
         .place = HANDOFF_IN_QUERY,                                                                \
         .offset = AT(parked.reason),                                                              \
         .most = HANDOFF_REASON_MAX,                                                               \
         .doc = "only those parked for this reason",                                               \
         .example = "\"exhausted\""},                                                              \
        FILTER("error", AT(parked.error), "only those whose last attempt failed with these words", \
               NULL),                                                                              \
        FILTER("query", AT(parked.query),                                                          \
               "only those in whose summary, error, reason or agents all these words are",         \
               "\"timeout invoice\""),                                                             \
        FILTER("since", AT(parked.since), "only those parked at this time or later, RFC 3339",     \
               "\"2026-01-31T18:00:00Z\""),                                                        \
        FILTER("until", AT(parked.until), "only those parked before this time, RFC 3339", NULL)
#define JOB_ID SEGMENT("id", "UUID of the bulk job", "\"01890a5d-ac96-774b-bcce-b302099a8057\"")
#define HEADER(text, words, shown)                                                                 \
    {                                                                                              \
        .name = (text), .type = HANDOFF_FIELD_STRING, .place = HANDOFF_IN_HEADER, .doc = (words),  \
        .example = (shown)                                                                         \
    }
#define ASYNC                                                                                      \
    "`respond-async`: answer as soon as the handoff is durable; `wait=N`: answer after N seconds " \
    "at the latest. With both, wait up to N seconds for the end"
#define ASYNC_HEADER         HEADER("Prefer", ASYNC, "\"wait=20\"")
#define ASYNC_LENIENT_HEADER HEADER("Prefer", ASYNC "; " LENIENT, "\"wait=20\"")
#define LENIENT              "`handling=lenient`: ignore unknown fields of the body and list them in `warnings`"
#define LENIENT_HEADER       HEADER("Prefer", LENIENT, "\"handling=lenient\"")
#define IDEMPOTENCY_HEADER                                                                         \
    {                                                                                              \
        .name = "Idempotency-Key", .type = HANDOFF_FIELD_STRING, .place = HANDOFF_IN_HEADER,       \
        .least = 1, .most = HANDOFF_IDEMPOTENCY_KEY_MAX,                                           \
        .doc = "chosen by the sender; a repeat with the same key returns the first handoff",       \
        .example = "\"run-17\""                                                                    \
    }
#define DECIDED_BY_HEADER                                                                          \
    HEADER("Handoff-Decided-By",                                                                   \
           "who decides, where the token does not say which person; recorded as `by`",             \
           "\"alice\"")
#define TRACE_HEADERS                                                                              \
    HEADER("traceparent", "W3C Trace Context; the envelope continues the trace",                   \
           "\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\""),                         \
        HEADER("tracestate", "W3C Trace Context", NULL)

/* HTTP negotiates these; another binding names the form. */
#define FORMS                                                                                      \
    "`Accept: text/markdown` returns a brief for a prompt, `Accept: " HANDOFF_ENVELOPE_TYPE_1      \
    "` the flat form for older readers."

/* What an edit may contain is checked once the old envelope is known, and a request by assembling.
 */
static enum handoff_code accept_object(const struct handoff_field *field, yyjson_val *value,
                                       void *at, struct handoff_error *error)
{
    if (!yyjson_is_obj(value))
        return handoff_field_refuse_type(error, field->name, value, "an object");
    *(yyjson_val **)at = value;
    return HANDOFF_OK;
}

static const struct handoff_field receiver_item = {
    .name = "receivers", .type = HANDOFF_FIELD_NAME, .least = 1, .most = HANDOFF_NAME_MAX};

/* It is judged when it is assembled: the acknowledgement counts whatever it says. */
static enum handoff_code accept_next(const struct handoff_field *field, yyjson_val *value, void *at,
                                     struct handoff_error *error)
{
    (void)field;
    (void)error;
    *(yyjson_val **)at = value;
    return HANDOFF_OK;
}

static const struct handoff_field memory_id_item = {
    .name = "missing", .type = HANDOFF_FIELD_STRING, .least = 1, .most = HANDOFF_GAP_ID_MAX};
#define LACKING(at, words, ...)                                                                    \
    {                                                                                              \
        .name = "missing", .type = HANDOFF_FIELD_ARRAY, .offset = (at), .most = HANDOFF_GAPS_MAX,  \
        .item = &memory_id_item, .doc = (words), .example = "[\"ms-4821\"]", __VA_ARGS__           \
    }

/* ---- a filter in a body -----------------------------------------------------------------------
 */

#define IN_FILTER(text, member, words, shown)                                                      \
    {                                                                                              \
        .name = (text), .type = HANDOFF_FIELD_STRING,                                              \
        .offset = offsetof(struct handoff_parked_query, member), .vital = true,                    \
        .most = HANDOFF_REASON_MAX, .doc = (words), .example = (shown)                             \
    }
static const struct handoff_field job_filter_rows[] = {
    IN_FILTER("target", target, "only those parked for this agent", "\"coder\""),
    IN_FILTER("source", source, "only those that this agent sent", NULL),
    IN_FILTER("task", task, "only those of this task", NULL),
    IN_FILTER("reason", reason, "only those parked for this reason", "\"exhausted\""),
    IN_FILTER("error", error, "only those whose last attempt failed with these words", NULL),
    IN_FILTER("query", query, "only those that have all these words", NULL),
    IN_FILTER("since", since, "only those parked at this time or later, RFC 3339", NULL),
    IN_FILTER("until", until, "only those parked before this time, RFC 3339", NULL),
};
static const struct handoff_fields job_filter_fields = {
    .rows = job_filter_rows, .count = HANDOFF_FIELDS_COUNT(job_filter_rows)};

/* ---- the table ------------------------------------------------------------------------------ */

#define INPUT(...)                                                                                 \
    .input = {.rows = (const struct handoff_field[]){__VA_ARGS__},                                 \
              .count = sizeof((const struct handoff_field[]){__VA_ARGS__}) /                       \
                       sizeof(struct handoff_field)}
#define INPUT_NONE .input = {.rows = NULL}
#define ANSWERS(...)                                                                               \
    .answers = (const struct handoff_call_answer[])                                                \
    {                                                                                              \
        __VA_ARGS__,                                                                               \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }
#define CODES(...)                                                                                 \
    .codes = (const enum handoff_code[])                                                           \
    {                                                                                              \
        __VA_ARGS__, HANDOFF_OK                                                                    \
    }

/* What a request may be answered, wherever one is assembled. */
#define CODES_OF_REQUESTS                                                                          \
    HANDOFF_ERR_SECRET_IN_REQUEST, HANDOFF_ERR_INVALID, HANDOFF_ERR_INVALID_JSON,                  \
        HANDOFF_ERR_FORBIDDEN, HANDOFF_ERR_NOT_FOUND, HANDOFF_ERR_ENVELOPE_REMOVED,                \
        HANDOFF_ERR_CONFLICT, HANDOFF_ERR_TOO_LARGE, HANDOFF_ERR_BUDGET_TOO_SMALL,                 \
        HANDOFF_ERR_CONSTRAINT_LOOSENED, HANDOFF_ERR_DEADLINE_PASSED, HANDOFF_ERR_SCOPE_WIDENED,   \
        HANDOFF_ERR_SCOPE_CONFLICT, HANDOFF_ERR_NO_NEXT_AGENT, HANDOFF_ERR_RAW_LOG,                \
        HANDOFF_ERR_TOO_MANY_IN_FLIGHT

const struct handoff_call handoff_calls[HANDOFF_CALLS] = {
#define CALL(id, ...) {.name = #id, __VA_ARGS__},
#include "client/calls/calls.def"
#undef CALL
};
