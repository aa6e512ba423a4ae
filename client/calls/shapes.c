/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What calls answer, in rows of fields: the schemas of answers are written from them. The answers
 * themselves are written by render.c and its like; the tests compare the two at the real daemon.
 *
 * Constant data; any thread.
 */
#include "client/calls/call.h"

#include "client/assemble/request.h"
#include "client/model/model.h"

#define ROW(text, kind, ...)                                                                       \
    {                                                                                              \
        .name = (text), .type = HANDOFF_FIELD_##kind, .required = true, .most = INT64_MAX,         \
        __VA_ARGS__                                                                                \
    }
/* One that an answer may lack. */
#define MAYBE(text, kind, ...)                                                                     \
    {                                                                                              \
        .name = (text), .type = HANDOFF_FIELD_##kind, .most = INT64_MAX, __VA_ARGS__               \
    }
#define SHAPE(variable, rows_of, text, words)                                                      \
    const struct handoff_fields variable = {.rows = (rows_of),                                     \
                                            .count = HANDOFF_FIELDS_COUNT(rows_of),                \
                                            .name = (text),                                        \
                                            .doc = (words),                                        \
                                            .open = true}
#define ITEM(variable, shape)                                                                      \
    static const struct handoff_field variable = {                                                 \
        .name = "items", .type = HANDOFF_FIELD_OBJECT, .members = &(shape)}
#define LIST(variable, of, text, words)                                                            \
    static const struct handoff_field variable##_rows[] = {                                        \
        ROW("items", ARRAY, .item = &(of)),                                                        \
        ROW("next", STRING, .nullable = true,                                                      \
            .doc = "`cursor` of the next page; null on the last")};                                \
    SHAPE(variable, variable##_rows, text, words)

static const char *const state_names[] = {
#define HANDOFF_STATE(state, number, text, ...) text,
#include "client/model/handoff_model.def"
    NULL};
static const char *const circuit_names[] = {
#define HANDOFF_CIRCUIT(circuit, text, ...) text,
#include "client/model/handoff_model.def"
    NULL};
static const char *const record_names[] = {
#define HANDOFF_RESULT(result, number, text, ...) text,
#include "client/model/handoff_model.def"
    "passed_over", NULL};
static const char *const delivery_names[] = {"push", "pull", NULL};
static const char *const run_names[] = {"running", "done", "stopped", "failed", NULL};

/* ---- handoffs ------------------------------------------------------------------------------- */

static const struct handoff_field ref_item = {
    .name = "memory_refs", .type = HANDOFF_FIELD_TEXT, .most = INT64_MAX};
static const struct handoff_field missing_rows[] = {
    ROW("id", TEXT,
        .doc = "the memory, or `*pinned` and `*recent` for those that were to be found"),
    ROW("reason", TEXT, .doc = "why it is unavailable"),
};
static const struct handoff_fields missing_fields = {
    .rows = missing_rows, .count = HANDOFF_FIELDS_COUNT(missing_rows), .open = true};
static const struct handoff_field missing_item = {
    .name = "missing", .type = HANDOFF_FIELD_OBJECT, .members = &missing_fields};
static const struct handoff_field completeness_rows[] = {
    ROW("requested", WHOLE, .doc = "requested memories"),
    ROW("included", WHOLE, .doc = "of these, in full or by their summary"),
    {.name = "ratio", .type = HANDOFF_FIELD_NUMBER, .required = true, .most = 1},
};
static const struct handoff_fields completeness_fields = {
    .rows = completeness_rows, .count = HANDOFF_FIELDS_COUNT(completeness_rows), .open = true};

static const struct handoff_field handoff_rows[] = {
    ROW("id", UUID, .doc = "UUIDv7; what receivers know as `Handoff-Id`"),
    ROW("state", WORD, .words = state_names, .doc = "where it is in its life"),
    ROW("pattern", WORD, .words = handoff_pattern_names, .doc = "how the target was chosen"),
    ROW("source_agent", TEXT, .doc = "who handed off"),
    ROW("target_agent", TEXT, .doc = "who has it now: an alternate, where one took over"),
    ROW("task_id", TEXT, .doc = "the task"),
    ROW("envelope_version", TEXT, .nullable = true, .doc = "of its envelope"),
    ROW("token_count", WHOLE, .nullable = true, .doc = "tokens of the envelope's context"),
    ROW("memory_refs", ARRAY, .nullable = true, .item = &ref_item,
        .doc = "memories that the envelope carries or points to"),
    ROW("missing", ARRAY, .nullable = true, .item = &missing_item,
        .doc = "requested memories that are unavailable"),
    ROW("completeness", OBJECT, .nullable = true, .members = &completeness_fields,
        .doc = "share of the requested memories that is in the envelope"),
    ROW("attempts", WHOLE, .doc = "so far, also before a replay"),
    ROW("created_at", TIME, .doc = "when it was accepted"),
    ROW("settled_at", TIME, .nullable = true, .doc = "when it ended; null while it has not"),
    ROW("reason", TEXT, .doc = "why it does not go on; empty while it does"),
};
SHAPE(handoff_shape_handoff, handoff_rows, "Handoff", "A handoff and its state.");
ITEM(handoff_item, handoff_shape_handoff);
LIST(handoff_shape_handoffs, handoff_item, "HandoffList", "Handoffs in the order of acceptance.");

static const struct handoff_field attempt_rows[] = {
    ROW("attempt", WHOLE, .nullable = true,
        .doc = "its number; null where an agent was passed over"),
    ROW("at", TIME, .nullable = true, .doc = "when it began"),
    ROW("duration_seconds", NUMBER, .doc = "how long it took"),
    ROW("target_agent", TEXT, .doc = "the agent that it went to"),
    ROW("result", WORD, .words = record_names, .doc = "how it ended"),
    ROW("status", WHOLE, .doc = "of the HTTP answer; 0 where there was none"),
    ROW("error", TEXT, .doc = "why it failed, or why the agent was passed over"),
    ROW("peer", TEXT, .doc = "the address that was reached"),
};
static const struct handoff_fields attempt_shape = {.rows = attempt_rows,
                                                    .count = HANDOFF_FIELDS_COUNT(attempt_rows),
                                                    .name = "Attempt",
                                                    .doc = "One attempt to deliver a handoff.",
                                                    .open = true};
ITEM(attempt_item, attempt_shape);
LIST(handoff_shape_attempts, attempt_item, "AttemptList", "Attempts, oldest first.");

/* ---- tasks ---------------------------------------------------------------------------------- */

static const struct handoff_field task_end_rows[] = {
    ROW("task_id", TEXT, .doc = "the task"),
    ROW("completed_at", TIME, .nullable = true, .doc = "when it ended; null while it goes on"),
    ROW("handoffs", WHOLE, .nullable = true, .doc = "how many it took; null while it goes on"),
};
SHAPE(handoff_shape_task_end, task_end_rows, "Task", "Whether a task is over.");

static const struct handoff_field task_rows[] = {
    ROW("items", ARRAY, .item = &handoff_item),
    ROW("next", STRING, .nullable = true, .doc = "`cursor` of the next page; null on the last"),
    ROW("task", OBJECT, .members = &handoff_shape_task_end),
};
SHAPE(handoff_shape_task, task_rows, "TaskHandoffs", "The handoffs of a task.");

/* ---- agents --------------------------------------------------------------------------------- */

static const struct handoff_field agent_rows[] = {
    ROW("name", TEXT),
    ROW("configured", BOOL, .doc = "false: it was once, and may still have handoffs"),
    ROW("delivery", WORD, .words = delivery_names, .doc = "whether handoffs are posted to it"),
    ROW("circuit", WORD, .words = circuit_names, .doc = "as a handoff would find it now"),
    ROW("consecutive_failures", WHOLE, .doc = "exhausted handoffs in a row"),
    ROW("retry_after_seconds", WHOLE, .doc = "until an open circuit is probed"),
    ROW("in_flight", WHOLE, .doc = "handoffs under way to it"),
};
static const struct handoff_fields agent_shape = {.rows = agent_rows,
                                                  .count = HANDOFF_FIELDS_COUNT(agent_rows),
                                                  .name = "Agent",
                                                  .doc = "An agent that work can be handed to.",
                                                  .open = true};
ITEM(agent_item, agent_shape);
LIST(handoff_shape_agents, agent_item, "AgentList", "The agents.");

/* ---- replays -------------------------------------------------------------------------------- */

static const struct handoff_field replay_rows[] = {
    ROW("id", UUID),
    ROW("state", WORD, .words = run_names,
        .doc =
            "`stopped` by hand, or because the sidecar drained; `failed`: the store could not be "
            "read"),
    ROW("target", TEXT, .nullable = true, .doc = "as it was asked for, like the next four"),
    ROW("reason", TEXT, .nullable = true),
    ROW("to", TEXT, .nullable = true),
    ROW("limit", WHOLE, .nullable = true),
    ROW("rate", WHOLE),
    ROW("replayed", WHOLE, .doc = "how many are being delivered again"),
    ROW("skipped", WHOLE, .doc = "replayed or discarded meanwhile, or expired"),
    ROW("failed", WHOLE, .doc = "could not be replayed, and are still parked"),
    ROW("started_at", TIME),
    ROW("ended_at", TIME, .nullable = true, .doc = "null while it goes on"),
    ROW("error", TEXT, .nullable = true, .doc = "the code of the last failure"),
};
SHAPE(handoff_shape_replay, replay_rows, "Replay", "A run that delivers parked handoffs again.");
ITEM(replay_item, handoff_shape_replay);
LIST(handoff_shape_replays, replay_item, "ReplayList", "The runs that are remembered.");

/* ---- memories ------------------------------------------------------------------------------- */

static const struct handoff_field tag_item = {
    .name = "tags", .type = HANDOFF_FIELD_TEXT, .most = INT64_MAX};
static const struct handoff_field memory_rows[] = {
    ROW("id", TEXT),
    ROW("content", TEXT),
    MAYBE("summary", TEXT, .doc = "where it has one"),
    ROW("importance", WORD, .words = handoff_importance_names),
    ROW("tags", ARRAY, .item = &tag_item),
    ROW("metadata", OBJECT),
    ROW("pinned", BOOL),
    ROW("created_at", TIME),
    ROW("updated_at", TIME),
};
SHAPE(handoff_shape_memory, memory_rows, "Memory", "Something that agents share.");
ITEM(memory_item, handoff_shape_memory);
LIST(handoff_shape_memories, memory_item, "MemoryList", "Memories.");

/* ---- observations --------------------------------------------------------------------------- */

static const struct handoff_field rejected_rows[] = {
    ROW("index", WHOLE, .doc = "in the batch"),
    ROW("code", TEXT),
    MAYBE("field", TEXT),
    ROW("detail", TEXT),
    MAYBE("seen", TEXT),
    MAYBE("allowed", TEXT),
};
static const struct handoff_fields rejected_shape = {.rows = rejected_rows,
                                                     .count = HANDOFF_FIELDS_COUNT(rejected_rows),
                                                     .name = "Rejection",
                                                     .doc = "An observation that does not count.",
                                                     .open = true};
ITEM(rejected_item, rejected_shape);
static const struct handoff_field observed_rows[] = {
    ROW("accepted", WHOLE, .doc = "how many count"),
    ROW("repeated", WHOLE, .doc = "how many were reported before"),
    ROW("rejected", ARRAY, .item = &rejected_item),
};
SHAPE(handoff_shape_observed, observed_rows, "ObservationReceipt",
      "The result of reporting observations.");

/* ---- errors and documents ------------------------------------------------------------------- */

static const struct handoff_field problem_rows[] = {
    ROW("type", TEXT, .doc = "`about:blank`"),
    ROW("title", TEXT, .doc = "of the status"),
    ROW("status", WHOLE),
    ROW("detail", TEXT, .doc = "for people"),
    ROW("code", TEXT, .doc = "stable, for programs"),
    MAYBE("field", TEXT, .doc = "of the request that it is about"),
    MAYBE("seen", TEXT, .doc = "what was there"),
    MAYBE("allowed", TEXT, .doc = "what may be there"),
    MAYBE("needed", WHOLE, .doc = "the number that is needed"),
    MAYBE("handoff", OBJECT, .members = &handoff_shape_handoff,
          .doc = "where there is one in spite of the error"),
};
SHAPE(handoff_shape_problem, problem_rows, "Problem", "An error, RFC 9457.");

const struct handoff_fields handoff_shape_envelope = {.name = "Envelope", .open = true};
const struct handoff_fields handoff_shape_pulled = {.name = "Envelope", .open = true};
const struct handoff_fields handoff_shape_openapi = {.open = true};
