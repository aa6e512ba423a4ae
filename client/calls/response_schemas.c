/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fields of every answer, from which the schemas of answers are generated. The answers
 * themselves are written by render.c and similar files; tests compare the two on the real daemon.
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
/* A field that an answer may omit. */
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

/* Of an answer to a request that prefers lenient handling. */
static const struct handoff_field warning_rows[] = {
    ROW("field", TEXT, .doc = "the field that was ignored"),
    ROW("detail", TEXT, .doc = "why, and the nearest name"),
};
static const struct handoff_fields warning_fields = {
    .rows = warning_rows, .count = HANDOFF_FIELDS_COUNT(warning_rows), .open = true};
static const struct handoff_field warning_item = {
    .name = "warnings", .type = HANDOFF_FIELD_OBJECT, .members = &warning_fields};
#define WARNINGS                                                                                   \
    MAYBE("warnings", ARRAY, .item = &warning_item,                                                \
          .doc = "what the sender should know: unknown fields that were ignored (`Prefer: "        \
                 "handling=lenient`), credentials replaced by markers, handoffs of the task left " \
                 "to the next request")

/* ---- handoffs ------------------------------------------------------------------------------- */

static const struct handoff_field ref_item = {
    .name = "memory_refs", .type = HANDOFF_FIELD_TEXT, .most = INT64_MAX};
static const struct handoff_field missing_rows[] = {
    ROW("id", TEXT, .doc = "the memory; `*pinned` or `*recent` if they could not be looked up"),
    ROW("reason", TEXT, .doc = "why it is unavailable"),
    MAYBE("detail", STRING, .doc = "what happened when the spine was asked"),
    ROW("since_hop", WHOLE,
        .doc = "the hop since which it is missing; absent for `*pinned` and `*recent`"),
};
static const struct handoff_fields missing_fields = {
    .rows = missing_rows, .count = HANDOFF_FIELDS_COUNT(missing_rows), .open = true};
static const struct handoff_field missing_item = {
    .name = "missing", .type = HANDOFF_FIELD_OBJECT, .members = &missing_fields};
static const struct handoff_field completeness_rows[] = {
    ROW("requested", WHOLE, .doc = "memories requested by id, pinned or inherited"),
    ROW("included", WHOLE, .doc = "those included in any form, also by their ids alone"),
    {.name = "ratio", .type = HANDOFF_FIELD_NUMBER, .required = true, .most = 1},
};
static const struct handoff_fields completeness_fields = {
    .rows = completeness_rows, .count = HANDOFF_FIELDS_COUNT(completeness_rows), .open = true};

static const struct handoff_field gap_rows[] = {
    ROW("id", TEXT, .doc = "the memory; `*pinned` or `*recent` as in `missing`"),
    ROW("agent", TEXT, .doc = "the receiver that lacked it"),
    ROW("at", TIME, .doc = "when that was recorded"),
    ROW("recovered_at", TIME, .nullable = true,
        .doc = "when the receiver fetched it; null: it went on without it"),
};
static const struct handoff_fields gap_fields = {
    .rows = gap_rows, .count = HANDOFF_FIELDS_COUNT(gap_rows), .open = true};
static const struct handoff_field gap_item = {
    .name = "gaps", .type = HANDOFF_FIELD_OBJECT, .members = &gap_fields};

static const struct handoff_field successor_rows[] = {
    ROW("id", UUID, .doc = "the successor"),
    ROW("state", WORD, .words = state_names, .doc = "`ready`, or `parked`"),
    ROW("reason", TEXT, .doc = "why it is parked (`hop_limit`); otherwise empty"),
};
static const struct handoff_fields successor_fields = {
    .rows = successor_rows, .count = HANDOFF_FIELDS_COUNT(successor_rows), .open = true};

static const struct handoff_field handoff_rows[] = {
    ROW("id", UUID, .doc = "UUIDv7; receivers get it as `Handoff-Id`"),
    ROW("state", WORD, .words = state_names, .doc = "current state"),
    ROW("pattern", WORD, .words = handoff_pattern_names, .doc = "how the target was chosen"),
    ROW("source_agent", TEXT, .doc = "the sender"),
    ROW("target_agent", TEXT, .doc = "the current receiver; an alternate, if one took over"),
    ROW("task_id", TEXT, .doc = "the task"),
    ROW("envelope_version", TEXT, .nullable = true, .doc = "version of its envelope"),
    ROW("token_count", WHOLE, .nullable = true, .doc = "tokens of the envelope's context"),
    ROW("memory_refs", ARRAY, .nullable = true, .item = &ref_item,
        .doc = "memories that the envelope includes or references"),
    ROW("missing", ARRAY, .nullable = true, .item = &missing_item,
        .doc = "requested memories that are unavailable"),
    ROW("completeness", OBJECT, .nullable = true, .members = &completeness_fields,
        .doc = "share of the requested memories included in the envelope"),
    ROW("attempts", WHOLE, .doc = "attempts so far, including those before a replay"),
    ROW("created_at", TIME, .doc = "when it was accepted"),
    ROW("settled_at", TIME, .nullable = true, .doc = "when it finished; null until then"),
    ROW("reason", TEXT, .doc = "why it is no longer being delivered; otherwise empty"),
    MAYBE("replaced_by", UUID, .doc = "the handoff that took its place, if an operator edited it"),
    MAYBE("summary", TEXT, .doc = "in a list: the beginning of what the receiver should do"),
    MAYBE("error", TEXT,
          .doc = "likewise: why its last attempt failed, or that its `next` was refused; otherwise "
                 "empty"),
    MAYBE("replays", WHOLE, .doc = "likewise: how often it was replayed"),
    MAYBE("previous_id", UUID, .nullable = true,
          .doc = "likewise: the handoff, or the publication, that it continues; null if none"),
    MAYBE("progress", TEXT, .doc = "what the agent last reported about its work, if it did"),
    MAYBE("progress_at", TIME, .doc = "when it reported that"),
    MAYBE("gaps", ARRAY, .item = &gap_item,
          .doc = "memories that its receiver lacked, if it flagged or recovered any"),
    MAYBE("next", OBJECT, .members = &successor_fields,
          .doc = "in the answer to an acknowledgement with `next`: the successor, which is parked "
                 "where it is over the hop limit"),
    WARNINGS,
};
SHAPE(handoff_shape_handoff, handoff_rows, "Handoff", "A handoff and its state.");
ITEM(handoff_item, handoff_shape_handoff);
LIST(handoff_shape_handoffs, handoff_item, "HandoffList", "Handoffs in order of acceptance.");

static const struct handoff_field attempt_rows[] = {
    ROW("attempt", WHOLE, .nullable = true, .doc = "its number; null if the agent was passed over"),
    ROW("at", TIME, .nullable = true, .doc = "when it started"),
    ROW("duration_seconds", NUMBER, .doc = "how long it took"),
    ROW("target_agent", TEXT, .doc = "the agent it was sent to"),
    ROW("result", WORD, .words = record_names, .doc = "how it ended"),
    ROW("status", WHOLE, .doc = "HTTP status; 0 if there was no response"),
    ROW("error", TEXT,
        .doc = "why it failed, that its `next` was refused, or why the agent was passed over"),
    ROW("peer", TEXT, .doc = "the address connected to"),
    ROW("answer", TEXT,
        .doc = "how a response with an error status begins; empty after a nack, and if it had no "
               "body"),
};
static const struct handoff_fields attempt_shape = {.rows = attempt_rows,
                                                    .count = HANDOFF_FIELDS_COUNT(attempt_rows),
                                                    .name = "Attempt",
                                                    .doc = "One attempt to deliver a handoff.",
                                                    .open = true};
ITEM(attempt_item, attempt_shape);
LIST(handoff_shape_attempts, attempt_item, "AttemptList", "Attempts, oldest first.");

static const struct handoff_field ledger_rows[] = {
    ROW("kind", WORD, .words = handoff_item_names, .doc = "what it is"),
    ROW("hop", WHOLE, .doc = "hop count of the envelope that brought it"),
    ROW("agent", TEXT, .doc = "the source of that hop"),
    ROW("at", TIME, .doc = "when that envelope was made"),
    ROW("envelope_id", UUID, .doc = "its id"),
    {.name = "name",
     .type = HANDOFF_FIELD_TEXT,
     .doc = "of a constraint, or of a member of `state`: its name"},
    {.name = "value", .type = HANDOFF_FIELD_ANY, .required = true, .doc = "as it was supplied"},
};
static const struct handoff_fields ledger_shape = {.rows = ledger_rows,
                                                   .count = HANDOFF_FIELDS_COUNT(ledger_rows),
                                                   .name = "LedgerItem",
                                                   .doc = "What one hop of a chain has said.",
                                                   .open = true};
ITEM(ledger_item, ledger_shape);
LIST(handoff_shape_ledger, ledger_item, "Ledger", "Items of a chain, oldest first.");

/* ---- channels ------------------------------------------------------------------------------- */

static const struct handoff_field receiver_rows[] = {
    ROW("agent", TEXT),
    ROW("subscribed", BOOL,
        .doc = "false if it is no receiver of the channel, but something waits for it"),
    ROW("configured", BOOL, .doc = "the configuration names it; otherwise it subscribed"),
    ROW("catching_up", BOOL, .doc = "it is being sent what was published before it subscribed"),
    ROW("pending", WHOLE, .doc = "deliveries in progress"),
    ROW("oldest_pending_at", TIME, .nullable = true,
        .doc = "when the oldest of these was made: as it was published, or offered to a subscriber "
               "that catches up"),
    ROW("parked", WHOLE, .doc = "parked deliveries"),
    ROW("dropped", WHOLE,
        .doc = "publications that retention removed before this subscriber had come to them"),
};
static const struct handoff_fields receiver_shape = {
    .rows = receiver_rows, .count = HANDOFF_FIELDS_COUNT(receiver_rows), .open = true};
static const struct handoff_field receiver_of_channel = {
    .name = "receivers", .type = HANDOFF_FIELD_OBJECT, .members = &receiver_shape};
static const struct handoff_field channel_rows[] = {
    ROW("name", TEXT),
    ROW("receivers", ARRAY, .item = &receiver_of_channel),
};
SHAPE(handoff_shape_channel, channel_rows, "Channel",
      "A channel and what waits for its receivers.");
static const struct handoff_field subscription_rows[] = {
    ROW("channel", TEXT),
    ROW("agent", TEXT),
    ROW("subscribed", BOOL),
    ROW("catching_up", BOOL, .doc = "what was published before is being delivered first"),
};
SHAPE(handoff_shape_subscription, subscription_rows, "Subscription",
      "Whether an agent receives a channel.");
ITEM(channel_item, handoff_shape_channel);
LIST(handoff_shape_channels, channel_item, "ChannelList", "The channels.");

static const struct handoff_field delivery_rows[] = {
    ROW("handoff_id", UUID, .doc = "the handoff; the receiver gets it as `Handoff-Id`"),
    ROW("receiver", TEXT, .doc = "the receiver it was published to"),
    ROW("target_agent", TEXT, .doc = "who has it; an alternate, if one took over"),
    ROW("envelope_id", UUID,
        .doc = "the envelope that it carries: the publication's, or a projection within the "
               "receiver's budget, which has the id of the handoff"),
    ROW("state", WORD, .words = state_names),
    ROW("reason", TEXT, .doc = "why it is no longer being delivered; otherwise empty"),
    ROW("attempts", WHOLE),
    ROW("settled_at", TIME, .nullable = true, .doc = "when it finished; null until then"),
};
static const struct handoff_fields delivery_shape = {
    .rows = delivery_rows, .count = HANDOFF_FIELDS_COUNT(delivery_rows), .open = true};
static const struct handoff_field delivery_of_publication = {
    .name = "deliveries", .type = HANDOFF_FIELD_OBJECT, .members = &delivery_shape};
#define OF_PUBLICATION                                                                             \
    ROW("id", UUID, .doc = "of the publication and its envelope"), ROW("channel", TEXT),           \
        ROW("source_agent", TEXT, .doc = "the publisher"), ROW("task_id", TEXT),                   \
        ROW("published_at", TIME)
static const struct handoff_field publication_rows[] = {
    OF_PUBLICATION,
    ROW("deliveries", ARRAY, .item = &delivery_of_publication, .doc = "one for each receiver"),
    WARNINGS,
};
SHAPE(handoff_shape_publication, publication_rows, "Publication",
      "A publication and its deliveries.");
static const struct handoff_field publication_head_rows[] = {OF_PUBLICATION};
static const struct handoff_fields publication_head_shape = {
    .rows = publication_head_rows,
    .count = HANDOFF_FIELDS_COUNT(publication_head_rows),
    .open = true};
ITEM(publication_item, publication_head_shape);
LIST(handoff_shape_publications, publication_item, "PublicationList",
     "Publications, newest first.");

/* ---- tasks ---------------------------------------------------------------------------------- */

static const struct handoff_field task_end_rows[] = {
    ROW("task_id", TEXT, .doc = "the task"),
    ROW("completed_at", TIME, .nullable = true, .doc = "when it was completed; null until then"),
    ROW("handoffs", WHOLE, .nullable = true, .doc = "how many handoffs it took; null until then"),
};
SHAPE(handoff_shape_task_end, task_end_rows, "Task", "Whether a task is complete.");

static const struct handoff_field refusal_rows[] = {
    ROW("id", UUID, .doc = "the handoff that was acknowledged"),
    ROW("at", TIME),
    ROW("code", TEXT, .doc = "of the problem"),
    ROW("detail", TEXT, .doc = "what is wrong with it"),
    MAYBE("request", TEXT,
          .doc = "the request as JSON, with markers in place of credentials; only for the agent "
                 "that sent it, and operators"),
};
static SHAPE(handoff_shape_refusal, refusal_rows, "RefusedNext",
             "The next request of an acknowledgement, and why it was refused.");
ITEM(refusal_item, handoff_shape_refusal);

static const struct handoff_field task_rows[] = {
    ROW("items", ARRAY, .item = &handoff_item),
    ROW("next", STRING, .nullable = true, .doc = "`cursor` of the next page; null on the last"),
    ROW("task", OBJECT, .members = &handoff_shape_task_end),
    MAYBE("next_refused", ARRAY, .item = &refusal_item,
          .doc =
              "requests that came with an acknowledgement and of which no handoff could be made"),
};
SHAPE(handoff_shape_task, task_rows, "TaskHandoffs", "The handoffs of a task.");

/* ---- agents --------------------------------------------------------------------------------- */

static const char protocols_doc[] =
#define HANDOFF_PROTOCOL(name, text, meaning) text ": " meaning "; "
#include "client/model/handoff_model.def"
    "null: the agent is no longer configured";

static const struct handoff_field agent_rows[] = {
    ROW("name", TEXT),
    ROW("configured", BOOL,
        .doc = "false if it was removed from the configuration; it may still have handoffs"),
    ROW("delivery", WORD, .nullable = true, .words = handoff_protocol_names, .doc = protocols_doc),
    ROW("circuit", WORD, .words = circuit_names, .doc = "current state of its circuit"),
    ROW("consecutive_failures", WHOLE, .doc = "failed handoffs in a row"),
    ROW("retry_after_seconds", WHOLE, .doc = "time until an open circuit is probed"),
    ROW("in_flight", WHOLE, .doc = "handoffs in flight to it"),
};
static const struct handoff_fields agent_shape = {.rows = agent_rows,
                                                  .count = HANDOFF_FIELDS_COUNT(agent_rows),
                                                  .name = "Agent",
                                                  .doc = "An agent that can receive handoffs.",
                                                  .open = true};
ITEM(agent_item, agent_shape);
LIST(handoff_shape_agents, agent_item, "AgentList", "The agents.");

/* ---- what is parked -------------------------------------------------------------------------- */

static const struct handoff_field group_rows[] = {
    ROW("target_agent", TEXT, .doc = "the agent they were parked for"),
    ROW("reason", TEXT, .doc = "why they were parked"),
    ROW("error", TEXT, .doc = "why their last attempt failed; empty if there was none"),
    ROW("count", WHOLE, .doc = "how many share this cause"),
    ROW("oldest_at", TIME, .doc = "when the first of them was parked"),
    ROW("newest_at", TIME, .doc = "when the last of them was parked"),
    ROW("example_id", TEXT, .doc = "id of one of them"),
};
static SHAPE(handoff_shape_group, group_rows, "ParkedGroup", "Parked handoffs that share a cause.");
ITEM(group_item, handoff_shape_group);
static const struct handoff_field groups_rows[] = {
    ROW("items", ARRAY, .item = &group_item),
    ROW("next", STRING, .nullable = true, .doc = "`cursor` of the next page; null on the last"),
    ROW("total", WHOLE, .doc = "number of handoffs in all groups"),
};
SHAPE(handoff_shape_parked_groups, groups_rows, "ParkedGroupList",
      "Parked handoffs by cause, the most frequent first.");

static const struct handoff_field way_rows[] = {
    ROW("code", TEXT, .doc = "the code of the error that it would cause"),
    ROW("detail", TEXT, .doc = "what is in the way, and what to do about it"),
};
static SHAPE(handoff_shape_way, way_rows, "Obstacle", "What keeps a handoff from being delivered.");
ITEM(way_item, handoff_shape_way);
static const struct handoff_field prospect_rows[] = {
    ROW("id", TEXT, .doc = "the handoff"),
    ROW("target_agent", TEXT, .doc = "the agent it would be delivered to"),
    ROW("deliverable", BOOL, .doc = "true if nothing is in the way"),
    ROW("obstacles", ARRAY, .item = &way_item),
    MAYBE("note", TEXT,
          .doc = "what a replay does not change, of one that is beyond the hop limit"),
};
SHAPE(handoff_shape_prospect, prospect_rows, "Prospect",
      "Whether a replay would be delivered now.");

static const char *const change_names[] = {"same", "removed", "added", NULL};
static const struct handoff_field line_rows[] = {
    ROW("change", WORD, .words = change_names),
    ROW("line", TEXT),
};
static const struct handoff_fields line_fields = {
    .rows = line_rows, .count = HANDOFF_FIELDS_COUNT(line_rows), .open = true};
static const struct handoff_field line_item = {
    .name = "difference", .type = HANDOFF_FIELD_OBJECT, .members = &line_fields};
static const struct handoff_field preview_rows[] = {
    ROW("id", UUID, .doc = "the handoff that is edited"),
    ROW("target_agent", TEXT, .doc = "the agent it would be delivered to"),
    ROW("token_count", WHOLE, .doc = "tokens of the new envelope's context"),
    ROW("token_budget", WHOLE, .doc = "the budget it was assembled for"),
    ROW("token_count_before", WHOLE, .doc = "tokens of the old one"),
    ROW("fields", OBJECT, .doc = "current values of the fields that an edit can replace"),
    ROW("difference", ARRAY, .item = &line_item,
        .doc = "lines of the brief that would change, with a few lines of context"),
    WARNINGS,
};
SHAPE(handoff_shape_edit_preview, preview_rows, "EditPreview",
      "What an edit would make of a handoff.");

/* ---- decisions ------------------------------------------------------------------------------ */

static const struct handoff_field edited_field = {
    .name = "fields", .type = HANDOFF_FIELD_TEXT, .most = INT64_MAX};
static const struct handoff_field decision_rows[] = {
    ROW("id", WHOLE, .doc = "later decisions have greater ones"),
    ROW("at", TIME),
    ROW("action", WORD, .words = handoff_action_names, .doc = "what was decided"),
    ROW("who", TEXT,
        .doc =
            "the owner of the token: `@operator` or an agent; `@anyone` if no token is required"),
    ROW("by", TEXT, .doc = "what the caller called itself; empty if it did not"),
    ROW("reason", TEXT, .doc = "why; empty if no reason was given"),
    ROW("handoff_id", UUID),
    ROW("task_id", TEXT),
    ROW("source_agent", TEXT),
    ROW("target_agent", TEXT, .doc = "the agent that had the handoff"),
    ROW("to", TEXT, .doc = "another agent that was chosen instead; otherwise empty"),
    ROW("cause", TEXT, .doc = "why it was parked; of a handoff that was not, its state"),
    ROW("fields", ARRAY, .item = &edited_field, .doc = "the fields that an edit replaced"),
    ROW("replacement_id", UUID, .nullable = true,
        .doc = "the handoff that took its place; null if none did"),
    ROW("job_id", UUID, .nullable = true, .doc = "the bulk job that it belongs to; null if none"),
};
static SHAPE(handoff_shape_decision, decision_rows, "Decision", "A decision about a handoff.");
ITEM(decision_item, handoff_shape_decision);
LIST(handoff_shape_decisions, decision_item, "DecisionList", "Decisions.");

/* ---- bulk jobs --------------------------------------------------------------------------------
 */

static const struct handoff_field job_rows[] = {
    ROW("id", UUID),
    ROW("action", WORD, .words = handoff_action_names,
        .doc = "`replay`, `redirect` if it has a `to`, or `discard`"),
    ROW("state", WORD, .words = handoff_run_state_names,
        .doc = "`waiting` after its canary; `stopped` by an operator"),
    ROW("to", TEXT, .doc = "the other agent; empty if there is none"),
    ROW("reason", TEXT, .doc = "why; empty if no reason was given"),
    ROW("who", TEXT, .doc = "the owner of the token that began it"),
    ROW("by", TEXT, .doc = "what the caller called itself; empty if it did not"),
    ROW("rate", WHOLE, .doc = "maximum number per second"),
    ROW("total", WHOLE, .doc = "number of its handoffs"),
    ROW("done", WHOLE, .doc = "number of those that have a result; the sum of the next three"),
    ROW("succeeded", WHOLE, .doc = "number that were decided as asked for"),
    ROW("skipped", WHOLE,
        .doc = "number that were not parked any more, or whose deadline had passed"),
    ROW("failed", WHOLE, .doc = "number that could not be decided, and are still parked"),
    ROW("canary_id", UUID, .nullable = true, .doc = "its first handoff, if it began with a canary"),
    ROW("started_at", TIME),
    ROW("ended_at", TIME, .nullable = true, .doc = "null until then"),
    WARNINGS,
};
SHAPE(handoff_shape_job, job_rows, "Job", "A decision about many parked handoffs.");
ITEM(job_in_list, handoff_shape_job);
LIST(handoff_shape_jobs, job_in_list, "JobList", "Bulk jobs.");

static const struct handoff_field job_item_rows[] = {
    ROW("handoff_id", UUID),
    ROW("result", WORD, .words = handoff_fate_names, .doc = "its result"),
    ROW("code", TEXT, .doc = "code of the error, if nothing was decided; otherwise empty"),
    ROW("detail", TEXT, .doc = "the error in words; otherwise empty"),
};
static SHAPE(handoff_shape_job_item, job_item_rows, "JobItem", "One handoff of a bulk job.");
ITEM(job_item_item, handoff_shape_job_item);
LIST(handoff_shape_job_items, job_item_item, "JobItemList", "The handoffs of a bulk job.");

static const struct handoff_field counted_rows[] = {
    ROW("code", TEXT, .doc = "the code of the error that it would cause"),
    ROW("count", WHOLE, .doc = "number of handoffs"),
};
static const struct handoff_fields counted_fields = {
    .rows = counted_rows, .count = HANDOFF_FIELDS_COUNT(counted_rows), .open = true};
ITEM(counted_item, counted_fields);
static const struct handoff_field forecast_rows[] = {
    ROW("count", WHOLE, .doc = "number of handoffs that the filter finds"),
    ROW("deliverable", WHOLE, .doc = "number of those of which nothing is in the way"),
    ROW("obstacles", ARRAY, .item = &counted_item, .doc = "what is in the way of the others"),
    ROW("items", ARRAY, .item = &handoff_item, .doc = "the first twenty"),
    WARNINGS,
};
SHAPE(handoff_shape_forecast, forecast_rows, "JobForecast", "What a bulk job would be about.");

/* ---- memories ------------------------------------------------------------------------------- */

static const struct handoff_field tag_item = {
    .name = "tags", .type = HANDOFF_FIELD_TEXT, .most = INT64_MAX};
static const struct handoff_field matched_word = {
    .name = "words", .type = HANDOFF_FIELD_TEXT, .most = INT64_MAX};
static const struct handoff_field piece_of_snippet = {
    .name = "snippet", .type = HANDOFF_FIELD_TEXT, .most = INT64_MAX};
static const struct handoff_field match_rows[] = {
    {.name = "score",
     .type = HANDOFF_FIELD_NUMBER,
     .required = true,
     .most = 1,
     .doc = "relevance with the importance and age of the memory; 1 for the best"},
    {.name = "relevance",
     .type = HANDOFF_FIELD_NUMBER,
     .required = true,
     .most = 1,
     .doc = "how well it fits the query; 1 for the most relevant"},
    ROW("words", ARRAY, .item = &matched_word,
        .doc = "words of the query that it has, as they are written there; rare ones first"),
    ROW("snippet", ARRAY, .item = &piece_of_snippet,
        .doc = "the part of its content that has most of these words, in pieces: every second one, "
               "from "
               "the second on, is such a word"),
    ROW("similar", WHOLE, .doc = "how many others were left out because they say nearly the same"),
};
static const struct handoff_fields match_fields = {
    .rows = match_rows, .count = HANDOFF_FIELDS_COUNT(match_rows), .open = true};
static const struct handoff_field memory_rows[] = {
    ROW("id", TEXT),
    ROW("content", TEXT),
    MAYBE("summary", TEXT, .doc = "if it has one"),
    ROW("importance", WORD, .words = handoff_importance_names),
    ROW("tags", ARRAY, .item = &tag_item),
    ROW("metadata", OBJECT),
    ROW("pinned", BOOL),
    ROW("agent", TEXT, .nullable = true, .doc = "the agent that stored it; null if none"),
    ROW("scope", TEXT, .doc = "who may see it; empty if it is shared"),
    ROW("task_id", TEXT, .nullable = true, .doc = "the task that it was stored for; null if none"),
    ROW("created_at", TIME),
    ROW("updated_at", TIME),
    MAYBE("stale", BOOL,
          .doc =
              "true for the last known copy of what a remote spine has, which does not answer now"),
    MAYBE("age_seconds", WHOLE, .doc = "how long ago the spine had that copy"),
    MAYBE("match", OBJECT, .members = &match_fields,
          .doc = "in a list with `query`: why it was found"),
    WARNINGS,
};
SHAPE(handoff_shape_memory, memory_rows, "Memory", "A piece of knowledge that agents share.");
ITEM(memory_item, handoff_shape_memory);
static const struct handoff_field memories_rows[] = {
    ROW("items", ARRAY, .item = &memory_item),
    ROW("next", STRING, .nullable = true, .doc = "`cursor` of the next page; null on the last"),
    MAYBE("complete", BOOL, .doc = "false if there was no time to search all memories"),
};
SHAPE(handoff_shape_memories, memories_rows, "MemoryList", "Memories.");

static const struct handoff_field absent_rows[] = {
    ROW("id", TEXT, .doc = "the memory, or `*pinned` or `*recent`"),
    ROW("reason", TEXT, .doc = "why it is unavailable"),
    MAYBE("detail", STRING, .doc = "what happened when the spine was asked"),
};
static const struct handoff_fields absent_fields = {
    .rows = absent_rows, .count = HANDOFF_FIELDS_COUNT(absent_rows), .open = true};
static const struct handoff_field absent_item = {
    .name = "missing", .type = HANDOFF_FIELD_OBJECT, .members = &absent_fields};
static const struct handoff_field recovered_rows[] = {
    ROW("found", ARRAY, .item = &memory_item, .doc = "the memories that are there"),
    ROW("missing", ARRAY, .item = &absent_item, .doc = "those that are not, and why"),
};
SHAPE(handoff_shape_recovered, recovered_rows, "RecoveredMemories",
      "Memories fetched for the receiver of a handoff.");

/* ---- observations --------------------------------------------------------------------------- */

static const struct handoff_field rejected_rows[] = {
    ROW("index", WHOLE, .doc = "position in the batch"),
    ROW("code", TEXT),
    MAYBE("field", TEXT),
    ROW("detail", TEXT),
    MAYBE("seen", TEXT),
    MAYBE("allowed", TEXT),
};
static const struct handoff_fields rejected_shape = {.rows = rejected_rows,
                                                     .count = HANDOFF_FIELDS_COUNT(rejected_rows),
                                                     .name = "Rejection",
                                                     .doc = "An observation that was rejected.",
                                                     .open = true};
ITEM(rejected_item, rejected_shape);
static const struct handoff_field observed_rows[] = {
    ROW("accepted", WHOLE, .doc = "number that were counted"),
    ROW("repeated", WHOLE, .doc = "number that had already been reported"),
    ROW("rejected", ARRAY, .item = &rejected_item),
    WARNINGS,
};
SHAPE(handoff_shape_observed, observed_rows, "ObservationReceipt",
      "The result of reporting observations.");

/* ---- errors and documents ------------------------------------------------------------------- */

static const struct handoff_field problem_rows[] = {
    ROW("type", TEXT, .doc = "`about:blank`"),
    ROW("title", TEXT, .doc = "title of the status"),
    ROW("status", WHOLE),
    ROW("detail", TEXT, .doc = "human-readable explanation"),
    ROW("code", TEXT, .doc = "stable machine-readable code"),
    MAYBE("field", TEXT, .doc = "the request field at fault"),
    MAYBE("seen", TEXT, .doc = "the value found"),
    MAYBE("allowed", TEXT, .doc = "the values allowed"),
    MAYBE("needed", WHOLE, .doc = "the number required"),
    MAYBE("retry_after_seconds", WHOLE, .doc = "with 429 and 503: when to try again"),
    MAYBE("handoff", OBJECT, .members = &handoff_shape_handoff,
          .doc = "the handoff, if it was accepted despite the error, or an edit replaced it (its "
                 "`replaced_by`)"),
    MAYBE("publication", OBJECT, .members = &handoff_shape_publication,
          .doc = "the publication that the key was used for"),
    WARNINGS,
};
SHAPE(handoff_shape_problem, problem_rows, "Problem", "An error, RFC 9457.");

const struct handoff_fields handoff_shape_envelope = {.name = "Envelope", .open = true};
const struct handoff_fields handoff_shape_pulled = {.name = "Envelope", .open = true};
const struct handoff_fields handoff_shape_openapi = {.open = true};
