/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Observations: handoffs that agents made without the sidecar and now report. Each is checked and
 * passed to the observer; the answer lists those that were rejected.
 *
 * Nothing is stored and nothing is delivered: an observation only increments counters. So a
 * repeated id is recognized only among the most recent (recent.h), and not after a restart.
 *
 * An observation never opens or closes a circuit. A circuit reflects our own attempts; a third
 * party's report must not stop deliveries. Reported failures in a row are counted separately
 * (agents.h).
 *
 * Any thread; never waits.
 */
#include "client/assemble/request.h"
#include "client/calls/observation.h"
#include "client/client.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/json.h"

enum { BATCH_MAX = 1000 };

struct taking {
    struct handoff_client *client;
    struct base_span caller;
    int64_t now_ms;
    size_t accepted, repeated;
    struct base_buffer rejected; /* the entries, with commas between them */
};

/* ---- telling --------------------------------------------------------------------------------- */

static unsigned told_of(const struct handoff_observation *observation)
{
    return (observation->latency_s >= 0 ? HANDOFF_TOLD_LATENCY : 0u) |
           (observation->refs.ratio >= 0 ? HANDOFF_TOLD_RATIO : 0u) |
           (observation->refs.included >= 0 ? HANDOFF_TOLD_REFS : 0u) |
           (observation->tokens >= 0 ? HANDOFF_TOLD_TOKENS : 0u) |
           (observation->hops > 0 ? HANDOFF_TOLD_HOPS : 0u);
}

static struct handoff_observed observed_of(const struct handoff_observation *observation)
{
    const struct handoff_observed_refs *refs = &observation->refs;
    struct handoff_observed observed = {.outcome = (enum handoff_outcome)observation->outcome,
                                        .told = told_of(observation),
                                        .hop_count = observation->hops,
                                        .cycle = observation->cycle,
                                        .budget = (uint64_t)observation->budget};
    if (observed.told & HANDOFF_TOLD_LATENCY)
        observed.elapsed_ns = (int64_t)(observation->latency_s * 1e9);
    if (observed.told & HANDOFF_TOLD_RATIO)
        observed.ratio = refs->ratio;
    if (observed.told & HANDOFF_TOLD_TOKENS)
        observed.tokens = (uint64_t)observation->tokens;
    if (observed.told & HANDOFF_TOLD_REFS)
        observed.memories =
            (struct handoff_memory_counts){(size_t)refs->requested, (size_t)refs->included,
                                           (size_t)refs->missing, (size_t)refs->trimmed};
    for (int i = 0; i < HANDOFF_RESULT_COUNT; i++)
        observed.attempts[i] = (uint64_t)observation->attempts[i];
    return observed;
}

static struct handoff_event event_of(const struct handoff_observation *observation)
{
    struct handoff_event event = {.kind = HANDOFF_EVENT_OBSERVED,
                                  .who = {.id = observation->id.data,
                                          .task_id = observation->task_id.data,
                                          .source_agent = observation->source_agent.data,
                                          .target_agent = observation->target_agent.data,
                                          .pattern = (enum handoff_pattern)observation->pattern},
                                  .of.observed = observed_of(observation)};
    handoff_copy_trace_id(event.who.trace_id, observation->trace_id);
    return event;
}

static void tell_completed(struct handoff_client *client,
                           const struct handoff_observation *observation)
{
    const struct handoff_event event = {.kind = HANDOFF_EVENT_TASK_COMPLETED,
                                        .who = {.task_id = observation->task_id.data,
                                                .source_agent = observation->source_agent.data},
                                        .of.task_completed.handoffs =
                                            (uint64_t)observation->task_handoffs};
    handoff_client_tell(client, &event);
}

static void note_failures(struct handoff_client *client,
                          const struct handoff_observation *observation)
{
    struct handoff_agent *agent = handoff_agents_find(client->agents, observation->target_agent);
    if (agent)
        handoff_agent_note_observed(agent, (enum handoff_outcome)observation->outcome);
}

static void report_observation(struct taking *taking, const struct handoff_observation *observation)
{
    struct handoff_event event = event_of(observation);
    struct handoff_observed *observed = &event.of.observed;
    observed->repeated =
        observation->id.data &&
        handoff_recent_add(&taking->client->observed, observation->source_agent, observation->id);
    handoff_client_tell(taking->client, &event);
    if (observed->repeated) {
        taking->repeated++;
        return;
    }
    taking->accepted++;
    note_failures(taking->client, observation);
    if (observation->task_handoffs > 0)
        tell_completed(taking->client, observation);
}

/* ---- taking ---------------------------------------------------------------------------------- */

static void append_member(struct base_buffer *out, const char *key, const char *text)
{
    if (*text == '\0')
        return;
    base_json_write_key(out, base_span_text(key));
    base_json_write_string(out, base_span_text(text));
}

static void reject(struct taking *taking, size_t index, const struct handoff_error *error)
{
    struct base_buffer *out = &taking->rejected;
    const struct handoff_event event = {.kind = HANDOFF_EVENT_OBSERVED, .code = error->code};
    handoff_client_tell(taking->client, &event);
    base_buffer_printf(out, "%s{\"index\":%zu", out->size ? "," : "", index);
    append_member(out, "code", handoff_code_name(error->code));
    append_member(out, "field", error->field);
    append_member(out, "detail", error->message);
    append_member(out, "seen", error->seen);
    append_member(out, "allowed", error->allowed);
    base_buffer_byte(out, '}');
}

static enum handoff_code take(struct taking *taking, yyjson_val *item, size_t index,
                              struct handoff_error *error)
{
    struct handoff_observation observation;
    enum handoff_code code =
        handoff_observation_read(item, taking->caller, taking->now_ms, &observation, error);
    if (code == HANDOFF_OK)
        report_observation(taking, &observation);
    else
        reject(taking, index, error);
    return code;
}

/* ---- the body -------------------------------------------------------------------------------- */

static enum handoff_code refuse_body(struct handoff_error *error, const char *message,
                                     const char *field)
{
    handoff_error_set(error, HANDOFF_ERR_INVALID, message, field, NULL);
    handoff_error_allow(error, "one observation, or {\"items\": [observations]}");
    return HANDOFF_ERR_INVALID;
}

static enum handoff_code take_observations(struct taking *taking, yyjson_val *root,
                                           yyjson_val *items, struct handoff_error *error)
{
    size_t i, n;
    yyjson_val *item;
    if (yyjson_obj_size(root) != 1)
        return refuse_body(error, "a batch may contain only items", "body");
    if (!yyjson_is_arr(items))
        return refuse_body(error, "items is not an array", "items");
    if (yyjson_arr_size(items) > BATCH_MAX) {
        handoff_error_set(error, HANDOFF_ERR_TOO_LARGE, "too many items in the batch", "items",
                          NULL);
        handoff_error_seen(error, "%zu items", yyjson_arr_size(items));
        handoff_error_allow(error, "%d", BATCH_MAX);
        return HANDOFF_ERR_TOO_LARGE;
    }
    yyjson_arr_foreach(items, i, n, item)
    {
        struct handoff_error refusal;
        if (take(taking, item, i, &refusal) != HANDOFF_OK)
            continue; /* listed in the answer; the other items still count */
    }
    return handoff_error_clear(error);
}

static enum handoff_code take_body(struct taking *taking, yyjson_val *root,
                                   struct handoff_error *error)
{
    yyjson_val *items = yyjson_obj_get(root, "items");
    if (!yyjson_is_obj(root))
        return refuse_body(error, "the body is not an object", "body");
    return items ? take_observations(taking, root, items, error) : take(taking, root, 0, error);
}

enum handoff_code handoff_observe(struct handoff_client *client, const struct handoff_ask *ask,
                                  struct handoff_text *text, struct handoff_error *error)
{
    BASE_CHECK_MAGIC(client, HANDOFF_CLIENT_MAGIC);
    struct taking taking = {.client = client,
                            .caller = base_span_text(ask->caller ? ask->caller : ask->sender),
                            .now_ms = base_wall_ms(client->assembler.clock)};
    struct base_buffer out = {0};
    yyjson_doc *doc;
    *text = (struct handoff_text){0};
    enum handoff_code code = base_json_read(base_span(ask->body, ask->size), "body", &doc, error);
    if (code == HANDOFF_OK)
        code = take_body(&taking, yyjson_doc_get_root(doc), error);
    if (code == HANDOFF_OK) {
        struct base_span rejected = base_buffer_span(&taking.rejected);
        base_buffer_printf(&out, "{\"accepted\":%zu,\"repeated\":%zu,\"rejected\":[",
                           taking.accepted, taking.repeated);
        base_buffer_append(&out, rejected.data, rejected.size);
        base_buffer_text(&out, "]}");
        out.failed = out.failed || taking.rejected.failed;
        code = handoff_client_give(&out, text, error);
    }
    base_buffer_free(&taking.rejected);
    yyjson_doc_free(doc);
    return code;
}
