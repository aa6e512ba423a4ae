/* SPDX-License-Identifier: Apache-2.0 */
/* Loads handoffs from the store: at startup those that were live when the last process ended, later
   single ones that an operator or a late acknowledgement decides about. Pages are read on the
   thread that opens the client, before the lanes run; a single handoff is loaded on a reader thread
   (decide.c). */
#include <string.h>
#include <yyjson.h>

#include "client/deliver/delivery.h"
#include "client/deliver/dormant.h"
#include "lib/base/check.h"
#include "lib/base/error.h"

enum { RESUME_PAGE = 256 };

static struct base_span text_at(yyjson_val *object, const char *key)
{
    yyjson_val *value = yyjson_obj_get(object, key);
    return base_span(yyjson_get_str(value), yyjson_get_len(value));
}

static enum handoff_code unreadable(const struct handoff_delivery *delivery,
                                    struct handoff_error *error)
{
    return handoff_error_set(
        error, HANDOFF_ERR_STORE_CORRUPT,
        "the stored envelope is not valid JSON; run `handoffctl store check` and restore a backup",
        "id", delivery->id_text);
}

/* Reads what delivery needs from the envelope itself. */
static enum handoff_code read_envelope(struct handoff_delivery *delivery,
                                       struct handoff_error *error)
{
    yyjson_read_err why;
    yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)delivery->envelope.data,
                                       delivery->envelope.size, 0, NULL, &why);
    if (!doc)
        return why.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION ? handoff_error_no_memory(error)
                                                               : unreadable(delivery, error);
    yyjson_val *root = yyjson_doc_get_root(doc), *trace = yyjson_obj_get(root, "trace");
    delivery->tokens = yyjson_get_uint(yyjson_obj_get(yyjson_obj_get(root, "tokens"), "count"));
    bool memory = handoff_delivery_keep_trace(delivery, text_at(trace, "traceparent"),
                                              text_at(trace, "tracestate"));
    yyjson_doc_free(doc);
    return memory ? HANDOFF_OK : handoff_error_no_memory(error);
}

static enum handoff_code load_own_envelope(struct handoff_delivery *delivery,
                                           struct handoff_error *error)
{
    struct handoff_stored_envelope envelope;
    enum handoff_code code = handoff_store_get_envelope(
        delivery->lane->engine->options.store, &delivery->id, &delivery->arena, &envelope, error);
    if (code == HANDOFF_OK)
        delivery->envelope = envelope.body;
    return code;
}

/* Its texts are in the arena of the delivery. */
static enum handoff_code use_read_envelope(struct handoff_delivery *delivery,
                                           const struct handoff_stored_whole *whole,
                                           struct handoff_error *error)
{
    const struct base_span excerpt = handoff_excerpt_of_row(whole->stored.excerpt);
    enum handoff_code code = whole->envelope_error.code;
    if (code != HANDOFF_OK) {
        *error = whole->envelope_error;
    } else {
        delivery->excerpt = excerpt;
        delivery->envelope = whole->envelope.body;
        code = read_envelope(delivery, error);
    }
    if (code != HANDOFF_OK)
        delivery->envelope = base_span("", 0);
    return code;
}

/* Read once for all deliveries of a publication that are loaded one after the other. */
static void share(struct handoff_delivery *delivery, struct handoff_shared_envelope *shared)
{
    BASE_CHECK(shared != NULL);
    delivery->shared = handoff_shared_envelope_ref(shared);
    delivery->envelope = shared->envelope;
    delivery->excerpt = shared->excerpt;
}

static enum handoff_code load_shared_envelope(struct handoff_delivery *delivery,
                                              struct base_span excerpt,
                                              struct handoff_shared_envelope **last,
                                              struct handoff_error *error)
{
    struct handoff_stored_envelope envelope;
    struct base_arena arena;
    if (*last && memcmp(&(*last)->id, &delivery->publication, sizeof delivery->publication) == 0) {
        share(delivery, *last);
        return HANDOFF_OK;
    }
    handoff_shared_envelope_release(last);
    base_arena_init(&arena, 0);
    enum handoff_code code = handoff_store_get_envelope(delivery->lane->engine->options.store,
                                                        &delivery->id, &arena, &envelope, error);
    if (code == HANDOFF_OK) {
        *last = handoff_shared_envelope_new(&delivery->publication, envelope.body, excerpt,
                                            base_span(NULL, 0));
        code = *last ? HANDOFF_OK : handoff_error_no_memory(error);
    }
    base_arena_free(&arena);
    if (code == HANDOFF_OK)
        share(delivery, *last);
    return code;
}

static enum handoff_code load_envelope(struct handoff_delivery *delivery,
                                       const struct handoff_stored *stored,
                                       struct handoff_shared_envelope **last,
                                       struct handoff_error *error)
{
    const struct base_span excerpt = handoff_excerpt_of_row(stored->excerpt);
    const bool shares = last && stored->of_publication && !stored->projected;
    enum handoff_code code = HANDOFF_OK;
    if (shares)
        code = load_shared_envelope(delivery, excerpt, last, error);
    else if (handoff_delivery_keep(delivery, excerpt, &delivery->excerpt))
        code = load_own_envelope(delivery, error);
    else
        code = handoff_error_no_memory(error);
    if (code == HANDOFF_OK)
        code = read_envelope(delivery, error);
    if (code != HANDOFF_OK)
        delivery->envelope = base_span("", 0);
    return code;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The longest wait in this state, as its agent is configured now. */
static int64_t longest_wait_ms(struct handoff_agents *agents,
                               const struct handoff_standing *standing)
{
    struct handoff_agent *agent = handoff_agents_find(agents, standing->target);
    struct handoff_settings *settings = agent ? handoff_agent_settings(agent) : NULL;
    if (!settings)
        return INT64_MAX; /* unknown: the agent is not configured */
    const struct handoff_agent_options *options = &settings->options;
    int64_t longest_ms = options->backoff_max_ms;
    if (standing->state == HANDOFF_STATE_AWAITING_ACK)
        longest_ms = options->ack_timeout_ms;
    else if (longest_ms < settings->protocol->retry_after_max_ms)
        longest_ms = settings->protocol->retry_after_max_ms;
    handoff_settings_release(&settings);
    return longest_ms;
}

/* Wall-clock times, and the clock may have been set back since they were stored: no wait becomes
   longer than it could have been, and no deadline further away than when it was accepted. */
static void load_moments(struct handoff_delivery *delivery, const struct handoff_stored *stored)
{
    const int64_t now_ms = handoff_delivery_wall_ms(delivery), due_ms = stored->standing.due_ms;
    const int64_t given_ms = stored->deadline_ms - stored->created_ms;
    handoff_delivery_set_deadline(
        delivery, stored->deadline_ms ? smaller(stored->deadline_ms, now_ms + given_ms) : 0);
    if (due_ms == 0)
        return;
    struct handoff_agents *agents = delivery->lane->engine->options.agents;
    int64_t longest_ms = longest_wait_ms(agents, &stored->standing);
    handoff_delivery_set_due_in(delivery, smaller(due_ms - now_ms, longest_ms));
}

enum handoff_code handoff_delivery_load_row(struct handoff_delivery *delivery,
                                            const struct handoff_stored *stored,
                                            struct handoff_error *error)
{
    const struct handoff_standing *standing = &stored->standing;
    if (!handoff_delivery_keep(delivery, stored->source, &delivery->source) ||
        !handoff_delivery_keep(delivery, stored->asked_target, &delivery->asked_target) ||
        !handoff_delivery_keep(delivery, stored->task_id, &delivery->task_id))
        return handoff_error_no_memory(error);
    delivery->seq = stored->seq;
    if (stored->of_publication)
        delivery->publication = stored->previous;
    if (stored->of_publication && !handoff_delivery_join_feed(delivery, stored->channel))
        return handoff_error_no_memory(error);
    delivery->pattern = stored->pattern;
    delivery->created_ms = stored->created_ms;
    delivery->attempts = standing->attempts;
    delivery->failures = standing->failures;
    delivery->alternate = standing->alternate;
    delivery->replays = standing->replays;
    if (stored->progress.text.data) /* without memory it is shown by the row alone */
        delivery->progress =
            handoff_progress_note_new(stored->progress.text, stored->progress.at_ms);
    base_buffer_append(&delivery->gaps, stored->gaps.data, stored->gaps.size); /* likewise */
    load_moments(delivery, stored);
    handoff_delivery_name_chain(delivery, &stored->root, &stored->previous);
    return HANDOFF_OK;
}

enum handoff_code handoff_delivery_load(struct handoff_delivery *delivery,
                                        const struct handoff_stored *stored,
                                        struct handoff_shared_envelope **last,
                                        struct handoff_error *error)
{
    const enum handoff_code code = handoff_delivery_load_row(delivery, stored, error);
    return code == HANDOFF_OK ? load_envelope(delivery, stored, last, error) : code;
}

enum handoff_code handoff_delivery_load_whole(struct handoff_delivery *delivery,
                                              const struct handoff_stored_whole *whole,
                                              struct handoff_error *error)
{
    const enum handoff_code code = handoff_delivery_load_row(delivery, &whole->stored, error);
    return code == HANDOFF_OK ? use_read_envelope(delivery, whole, error) : code;
}

/* When the handoff was accepted, on the monotonic clock of this process. */
static int64_t began_ns(const struct base_clock *clock, int64_t created_ms)
{
    int64_t age_ms = base_wall_ms(clock) - created_ms;
    return base_monotonic_ns(clock) - (age_ms > 0 ? age_ms : 0) * 1000000;
}

/* The attempt whose acknowledgement is outstanding: this process reports and records how it ends.
   If it cannot be read, the handoff continues without it. */
static void load_attempt(struct handoff_delivery *delivery, const struct handoff_agent *agent)
{
    struct handoff_attempt *list;
    size_t count;
    if (handoff_store_attempts(delivery->lane->engine->options.store, delivery->seq,
                               &delivery->arena, &list, &count, NULL) != HANDOFF_OK ||
        count == 0)
        return;
    delivery->attempt = list[count - 1]; /* its texts are in the delivery's arena */
    delivery->attempt.target = base_span(agent->name, agent->name_size);
    delivery->attempt_target = agent->name;
}

void handoff_delivery_park_unreadable(struct handoff_delivery *delivery)
{
    delivery->reason = HANDOFF_REASON_STORE_CORRUPT;
    handoff_delivery_move(delivery, HANDOFF_STATE_PARKED);
}

static enum handoff_code resume_one(struct handoff_lane *lane, const struct handoff_stored *stored,
                                    struct handoff_shared_envelope **last,
                                    struct handoff_error *error)
{
    struct handoff_agent *agent =
        handoff_agents_remember(lane->engine->options.agents, stored->standing.target);
    struct handoff_delivery *delivery =
        agent ? handoff_delivery_new(lane, &stored->id, HANDOFF_DELIVERY_NAMES) : NULL;
    if (!delivery)
        return handoff_error_no_memory(error);
    bool fresh = handoff_delivery_claim(delivery);
    BASE_CHECK(fresh); /* the store lists each handoff once */
    enum handoff_code code = handoff_delivery_load_row(delivery, stored, error);
    struct handoff_dormant *dormant =
        code == HANDOFF_OK ? handoff_dormant_for_start(delivery, agent, stored) : NULL;
    if (code == HANDOFF_OK && !dormant)
        code = load_envelope(delivery, stored, last, error);
    if (code != HANDOFF_OK && code != HANDOFF_ERR_STORE_CORRUPT) {
        handoff_delivery_unclaim(delivery);
        return code;
    }
    if (stored->standing.state == HANDOFF_STATE_AWAITING_ACK)
        load_attempt(delivery, agent);
    handoff_delivery_count(lane->engine, agent, false);
    delivery->began_ns = began_ns(lane->engine->options.clock, stored->created_ms);
    handoff_delivery_enter(delivery, (enum handoff_state)stored->standing.state, agent);
    handoff_delivery_observe_start(delivery, true);
    if (code == HANDOFF_ERR_STORE_CORRUPT)
        handoff_delivery_park_unreadable(delivery);
    else if (dormant)
        handoff_delivery_start_dormant(delivery, dormant);
    else
        handoff_delivery_advance(delivery);
    return HANDOFF_OK;
}

static enum handoff_code resume_state(struct handoff_engine *engine, enum handoff_state state,
                                      struct handoff_lane **lanes, size_t count, size_t *next,
                                      struct handoff_error *error)
{
    struct handoff_store_filter filter = {.states = 1u << state, .limit = RESUME_PAGE};
    struct base_arena arena;
    struct handoff_stored *page;
    struct handoff_shared_envelope *last = NULL;
    size_t found = RESUME_PAGE;
    enum handoff_code code = HANDOFF_OK;
    base_arena_init(&arena, 0);
    while (code == HANDOFF_OK && found == RESUME_PAGE) {
        base_arena_reset(&arena);
        code = handoff_store_list(engine->options.store, &filter, &arena, &page, &found, error);
        for (size_t i = 0; code == HANDOFF_OK && i < found; i++) {
            filter.after_seq = page[i].seq;
            code = resume_one(lanes[(*next)++ % count], &page[i], &last, error);
        }
    }
    handoff_shared_envelope_release(&last);
    base_arena_free(&arena);
    return code;
}

/* Those that an agent holds first: with `ordered` they have the turn, and one that was replayed may
   be older (order.c). */
enum handoff_code handoff_engine_resume(struct handoff_engine *engine, struct handoff_lane **lanes,
                                        size_t count, struct handoff_error *error)
{
    size_t next = 0;
    enum handoff_code code =
        resume_state(engine, HANDOFF_STATE_AWAITING_ACK, lanes, count, &next, error);
    if (code == HANDOFF_OK)
        code = resume_state(engine, HANDOFF_STATE_READY, lanes, count, &next, error);
    return code;
}
