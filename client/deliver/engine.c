/* SPDX-License-Identifier: Apache-2.0 */
/* The ways into delivery: a new handoff, one found at the start, and a word by the API. */
#include "client/deliver/engine.h"

#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#include "client/base/check.h"
#include "client/base/error.h"
#include "client/base/memory.h"
#include "client/deliver/circuit.h"
#include "client/deliver/delivery.h"
#include "client/deliver/parked.h"

enum { ENGINE_MAGIC = 0x656e676eu, RESUME_PAGE = 256 };

enum handoff_code handoff_engine_new(struct handoff_engine **engine,
                                     const struct handoff_engine_options *options,
                                     struct handoff_error *error)
{
    *engine = NULL;
    struct handoff_engine *made = handoff_calloc(1, sizeof *made);
    if (!made || !handoff_live_init(&made->live)) {
        handoff_free(made);
        return handoff_error_no_memory(error);
    }
    made->magic = ENGINE_MAGIC;
    made->options = *options;
    *engine = made;
    return HANDOFF_OK;
}

void handoff_engine_free(struct handoff_engine **engine)
{
    struct handoff_engine *dying = *engine;
    if (!dying)
        return;
    HANDOFF_CHECK_MAGIC(dying, ENGINE_MAGIC);
    *engine = NULL;
    handoff_live_free(&dying->live);
    dying->magic = 0;
    handoff_free(dying);
}

void handoff_engine_drain(struct handoff_engine *engine)
{
    atomic_store(&engine->draining, true);
}

struct handoff_live *handoff_engine_live(struct handoff_engine *engine)
{
    return &engine->live;
}

unsigned handoff_engine_in_flight(const struct handoff_engine *engine)
{
    return atomic_load_explicit(&engine->in_flight, memory_order_relaxed);
}

unsigned handoff_engine_attempting(const struct handoff_engine *engine)
{
    return atomic_load_explicit(&engine->attempting, memory_order_relaxed);
}

/* ---- a new handoff -------------------------------------------------------------------------- */

static bool copy_span(struct handoff_arena *arena, struct handoff_span from,
                      struct handoff_span *to)
{
    *to = from;
    if (!from.data)
        return true;
    to->data = handoff_arena_copy(arena, from.data, from.size);
    return to->data != NULL;
}

static bool copy_header(struct handoff_arena *arena, const char *name, struct handoff_span value,
                        const char **header)
{
    *header = NULL;
    if (!value.data || value.size == 0)
        return true;
    *header = handoff_arena_printf(arena, "%s: %.*s", name, (int)value.size, value.data);
    return *header != NULL;
}

/* "00-<32 digits>-<16 digits>-01"; lends from it */
static struct handoff_span trace_id_of(struct handoff_span traceparent)
{
    enum { BEFORE = sizeof "00-" - 1, DIGITS = 32 };
    if (!traceparent.data || traceparent.size < BEFORE + DIGITS)
        return handoff_span(NULL, 0);
    return handoff_span(traceparent.data + BEFORE, DIGITS);
}

static bool copy_trace(struct handoff_delivery *delivery, struct handoff_span traceparent,
                       struct handoff_span tracestate)
{
    if (!copy_header(&delivery->arena, "traceparent", traceparent, &delivery->traceparent) ||
        !copy_header(&delivery->arena, "tracestate", tracestate, &delivery->tracestate))
        return false;
    if (delivery->traceparent)
        delivery->trace_id =
            trace_id_of(handoff_span_text(delivery->traceparent + sizeof "traceparent: " - 1));
    return true;
}

static bool copy_parcel(struct handoff_delivery *delivery, const struct handoff_parcel *parcel)
{
    struct handoff_arena *arena = &delivery->arena;
    struct handoff_store_accept *accept = &delivery->write.accept;
    delivery->pattern = parcel->pattern;
    delivery->created_ms = parcel->created_ms;
    delivery->deadline_ms = parcel->deadline_ms;
    delivery->tokens = parcel->tokens;
    delivery->context_at = parcel->context_at;
    delivery->context_size = parcel->context_size;
    accept->put.id = parcel->id;
    accept->put.cut_at = parcel->cut_at;
    accept->put.cut_size = parcel->cut_size;
    accept->put.created_ms = parcel->created_ms;
    memcpy(accept->put.digest, parcel->digest, sizeof accept->put.digest);
    memcpy(accept->request_digest, parcel->request_digest, sizeof accept->request_digest);
    accept->pattern = parcel->pattern;
    accept->deadline_ms = parcel->deadline_ms;
    /* the envelope last: it gets a block of its own size, and nothing has to follow it */
    return copy_span(arena, parcel->source, &delivery->source) &&
           copy_span(arena, parcel->target, &delivery->asked_target) &&
           copy_span(arena, parcel->task_id, &accept->put.task_id) &&
           copy_span(arena, parcel->idempotency_key, &accept->idempotency_key) &&
           copy_trace(delivery, parcel->traceparent, parcel->tracestate) &&
           copy_span(arena, parcel->envelope, &delivery->envelope);
}

static void accepted(struct handoff_store_job *job)
{
    struct handoff_delivery *delivery =
        (void *)((char *)job - offsetof(struct handoff_delivery, write.accept.put.job));
    HANDOFF_CHECK_MAGIC(delivery, HANDOFF_DELIVERY_MAGIC);
    delivery->lane->awaited--;
    delivery->writing = false;
    if (job->error.code != HANDOFF_OK) {
        struct handoff_error error = job->error;
        handoff_delivery_drop(delivery, &error);
        return;
    }
    delivery->seq = delivery->write.accept.seq;
    handoff_delivery_observe_start(delivery, false);
    if (delivery->waiter && delivery->waiter->accepted) {
        struct handoff_news news;
        handoff_delivery_news(delivery, &news);
        delivery->waiter->accepted(delivery->waiter, &news);
    }
    handoff_delivery_go_on(delivery);
}

static void submit_accept(struct handoff_delivery *delivery)
{
    struct handoff_store_accept *accept = &delivery->write.accept;
    accept->put.job.mailbox = &delivery->lane->mailbox;
    accept->put.job.batch = &delivery->lane->writes;
    accept->put.job.done = accepted;
    accept->put.body = delivery->envelope;
    accept->source = delivery->source;
    accept->asked_target = delivery->asked_target;
    accept->standing.state = HANDOFF_STATE_READY;
    accept->standing.target = handoff_span(delivery->agent->name, delivery->agent->name_size);
    accept->standing.alternate = delivery->alternate;
    delivery->writing = true;
    delivery->lane->awaited++;
    handoff_store_accept(delivery->lane->engine->options.store, accept);
}

static enum handoff_code refuse_circuit(const struct handoff_lane *lane,
                                        const struct handoff_parcel *parcel,
                                        struct handoff_agent *agent, int64_t wait_ms,
                                        struct handoff_error *error)
{
    const struct handoff_engine_options *options = &lane->engine->options;
    struct handoff_delivery_event event = {.happened = HANDOFF_HAPPENED_REFUSED,
                                           .handoff_id = "",
                                           .source = parcel->source,
                                           .trace_id = trace_id_of(parcel->traceparent),
                                           .target = agent->name,
                                           .pattern = parcel->pattern,
                                           .outcome = HANDOFF_OUTCOME_CIRCUIT_OPEN,
                                           .reason = "circuit_open"};
    if (options->observe)
        options->observe(options->observer, &event);
    handoff_error_set(error, HANDOFF_ERR_CIRCUIT_OPEN,
                      "the agent failed too often in a row, and nothing is sent to it until its "
                      "cooldown is over; try again then, or close the breaker by hand",
                      "target_agent", agent->name);
    if (error)
        error->needed = wait_ms;
    return HANDOFF_ERR_CIRCUIT_OPEN;
}

/* The one that was asked for, or the first alternate that can be reached where its circuit is open.
 */
static enum handoff_code choose_agent(struct handoff_lane *lane,
                                      const struct handoff_parcel *parcel,
                                      struct handoff_agent **agent, uint32_t *alternate,
                                      struct handoff_error *error)
{
    struct handoff_agents *agents = lane->engine->options.agents;
    int64_t now_ms = handoff_lane_now_ms(lane), wait_ms, other_wait_ms;
    *alternate = 0;
    *agent = handoff_agents_find(agents, parcel->target);
    if (!*agent) {
        handoff_error_set(error, HANDOFF_ERR_UNKNOWN_AGENT,
                          "the configuration has no agent of this name", "target_agent", NULL);
        handoff_error_seen(error, "%.*s",
                           (int)(parcel->target.size < 128 ? parcel->target.size : 128),
                           parcel->target.data);
        return HANDOFF_ERR_UNKNOWN_AGENT;
    }
    if (!handoff_agent_is_open(*agent, now_ms, &wait_ms))
        return HANDOFF_OK;
    struct handoff_agent *asked = *agent;
    struct handoff_settings *settings = handoff_agent_settings(asked);
    for (*agent = NULL; settings && !*agent && *alternate < settings->options.nalternates;) {
        const char *name = settings->options.alternates[(*alternate)++];
        *agent = handoff_agents_find(agents, handoff_span_text(name));
        if (*agent && handoff_agent_is_open(*agent, now_ms, &other_wait_ms))
            *agent = NULL;
    }
    handoff_settings_release(&settings);
    return *agent ? HANDOFF_OK : refuse_circuit(lane, parcel, asked, wait_ms, error);
}

static enum handoff_code refuse_full(struct handoff_error *error)
{
    return handoff_error_set(error, HANDOFF_ERR_TOO_MANY_IN_FLIGHT,
                             "as many handoffs are under way as may be; try again when some have "
                             "ended (api.max_in_flight, api.max_in_flight_per_agent)",
                             "target_agent", NULL);
}

enum handoff_code handoff_engine_deliver(struct handoff_lane *lane,
                                         const struct handoff_parcel *parcel,
                                         struct handoff_waiter *waiter, struct handoff_error *error)
{
    HANDOFF_CHECK_MAGIC(lane, HANDOFF_LANE_MAGIC);
    struct handoff_agent *agent;
    uint32_t alternate;
    if (lane->closing || atomic_load(&lane->engine->draining))
        return handoff_error_set(error, HANDOFF_ERR_SHUTTING_DOWN,
                                 "the process drains and takes nothing new; try another, or again",
                                 NULL, NULL);
    enum handoff_code code = choose_agent(lane, parcel, &agent, &alternate, error);
    if (code != HANDOFF_OK)
        return code;
    if (!handoff_delivery_count(lane->engine, agent, true))
        return refuse_full(error);
    struct handoff_delivery *delivery = handoff_delivery_new(lane, &parcel->id);
    bool memory = delivery && copy_parcel(delivery, parcel);
    if (!memory) {
        handoff_delivery_uncount(lane->engine, agent);
        if (delivery)
            handoff_delivery_free(delivery);
        return handoff_error_no_memory(error);
    }
    delivery->alternate = alternate;
    delivery->waiter = waiter;
    if (waiter)
        waiter->delivery = delivery;
    bool fresh = handoff_delivery_enter(delivery, HANDOFF_STATE_READY, agent);
    HANDOFF_CHECK(fresh); /* ids are made once */
    submit_accept(delivery);
    return HANDOFF_OK;
}

/* ---- found at the start --------------------------------------------------------------------- */

static struct handoff_span text_at(yyjson_val *object, const char *key)
{
    yyjson_val *value = yyjson_obj_get(object, key);
    return handoff_span(yyjson_get_str(value), yyjson_get_len(value));
}

/* What delivery needs of an envelope, from its own words. */
static bool read_envelope(struct handoff_delivery *delivery)
{
    yyjson_doc *doc = yyjson_read(delivery->envelope.data, delivery->envelope.size, 0);
    if (!doc)
        return false;
    yyjson_val *root = yyjson_doc_get_root(doc), *trace = yyjson_obj_get(root, "trace");
    delivery->tokens = yyjson_get_uint(yyjson_obj_get(yyjson_obj_get(root, "tokens"), "count"));
    bool fine = copy_trace(delivery, text_at(trace, "traceparent"), text_at(trace, "tracestate"));
    yyjson_doc_free(doc);
    return fine;
}

enum handoff_code handoff_delivery_load(struct handoff_lane *lane,
                                        const struct handoff_stored *stored,
                                        struct handoff_delivery **delivery,
                                        struct handoff_error *error)
{
    struct handoff_store *store = lane->engine->options.store;
    struct handoff_stored_envelope envelope;
    const struct handoff_standing *standing = &stored->standing;
    struct handoff_delivery *made = handoff_delivery_new(lane, &stored->id);
    *delivery = NULL;
    if (!made)
        return handoff_error_no_memory(error);
    enum handoff_code code =
        handoff_store_get_envelope(store, &stored->id, &made->arena, &envelope, error);
    if (code == HANDOFF_OK) {
        made->envelope = envelope.body;
        if (!copy_span(&made->arena, stored->source, &made->source) ||
            !copy_span(&made->arena, stored->asked_target, &made->asked_target) ||
            !read_envelope(made))
            code = handoff_error_no_memory(error);
    }
    if (code != HANDOFF_OK) {
        handoff_delivery_free(made);
        return code;
    }
    made->seq = stored->seq;
    made->pattern = stored->pattern;
    made->created_ms = stored->created_ms;
    made->deadline_ms = stored->deadline_ms;
    made->attempts = standing->attempts;
    made->failures = standing->failures;
    made->alternate = standing->alternate;
    made->replays = standing->replays;
    made->due_ms = standing->due_ms;
    *delivery = made;
    return HANDOFF_OK;
}

/* When it was accepted, on the monotonic clock of this process. */
static int64_t began_ns(const struct handoff_clock *clock, int64_t created_ms)
{
    int64_t age_ms = handoff_wall_ms(clock) - created_ms;
    return handoff_monotonic_ns(clock) - (age_ms > 0 ? age_ms : 0) * 1000000;
}

static enum handoff_code resume_one(struct handoff_lane *lane, const struct handoff_stored *stored,
                                    struct handoff_error *error)
{
    struct handoff_delivery *delivery = NULL;
    struct handoff_agent *agent =
        handoff_agents_remember(lane->engine->options.agents, stored->standing.target);
    if (!agent)
        return handoff_error_no_memory(error);
    enum handoff_code code = handoff_delivery_load(lane, stored, &delivery, error);
    if (code != HANDOFF_OK || !delivery)
        return code;
    handoff_delivery_count(lane->engine, agent, false);
    delivery->began_ns = began_ns(lane->engine->options.clock, stored->created_ms);
    bool fresh =
        handoff_delivery_enter(delivery, (enum handoff_state)stored->standing.state, agent);
    HANDOFF_CHECK(fresh); /* the store has each once */
    handoff_delivery_observe_start(delivery, true);
    handoff_delivery_go_on(delivery);
    return HANDOFF_OK;
}

enum handoff_code handoff_engine_resume(struct handoff_engine *engine, struct handoff_lane **lanes,
                                        size_t count, struct handoff_error *error)
{
    struct handoff_store_filter filter = {
        .states = 1u << HANDOFF_STATE_READY | 1u << HANDOFF_STATE_AWAITING_ACK,
        .limit = RESUME_PAGE,
    };
    struct handoff_arena arena;
    struct handoff_stored *page;
    size_t found = RESUME_PAGE, next = 0;
    enum handoff_code code = HANDOFF_OK;
    handoff_arena_init(&arena, 0);
    while (code == HANDOFF_OK && found == RESUME_PAGE) {
        handoff_arena_reset(&arena);
        code = handoff_store_list(engine->options.store, &filter, &arena, &page, &found, error);
        for (size_t i = 0; code == HANDOFF_OK && i < found; i++) {
            filter.after_seq = page[i].seq;
            code = resume_one(lanes[next++ % count], &page[i], error);
        }
    }
    handoff_arena_free(&arena);
    return code;
}

/* ---- a word by the API ---------------------------------------------------------------------- */

static void tell(struct handoff_mail *mail)
{
    struct handoff_reply *reply = (void *)mail;
    reply->told(reply);
}

/* Back to the caller's lane, from whichever thread this is. */
static void send_back(struct handoff_reply *reply)
{
    reply->mail.deliver = tell;
    handoff_mailbox_post(&reply->lane->mailbox, &reply->mail);
}

static enum handoff_code unknown(struct handoff_reply *reply)
{
    char text[HANDOFF_UUID_TEXT];
    handoff_uuid_format(&reply->id, text);
    return handoff_error_set(&reply->error, HANDOFF_ERR_NOT_FOUND, "no handoff has this id", "id",
                             text);
}

static enum handoff_code forbid(struct handoff_reply *reply)
{
    return handoff_error_set(&reply->error, HANDOFF_ERR_FORBIDDEN,
                             "only the agent that has the handoff may answer for it", "id", NULL);
}

static enum handoff_code conflict(struct handoff_reply *reply, enum handoff_state state)
{
    reply->state = state;
    return handoff_error_set(&reply->error, HANDOFF_ERR_CONFLICT,
                             "the handoff is settled and this answer no longer fits", "state",
                             handoff_state_name(state));
}

/* What the word means for one that is settled. */
static void answer_settled(struct handoff_reply *reply, enum handoff_state state)
{
    bool agrees = reply->word == HANDOFF_WORD_ACK ? state == HANDOFF_STATE_ACKNOWLEDGED
                  : reply->word == HANDOFF_WORD_EXTEND
                      ? false
                      : state == HANDOFF_STATE_PARKED || state == HANDOFF_STATE_DISCARDED;
    reply->state = state;
    if (agrees)
        handoff_error_clear(&reply->error); /* said again: harmless */
    else
        conflict(reply, state);
}

static const struct handoff_finding word_findings[] = {
    [HANDOFF_WORD_ACK] = {.verdict = HANDOFF_VERDICT_ACKNOWLEDGED,
                          .result = HANDOFF_RESULT_ACK,
                          .reason = ""},
    [HANDOFF_WORD_NACK_RETRY] = {.verdict = HANDOFF_VERDICT_RETRY,
                                 .result = HANDOFF_RESULT_NACK,
                                 .reason = "the agent did not take it"},
    [HANDOFF_WORD_NACK_FINAL] = {.verdict = HANDOFF_VERDICT_REFUSED,
                                 .result = HANDOFF_RESULT_NACK,
                                 .reason = "the agent did not take it"},
};

/* A live one, on its lane. */
static void answer_live(struct handoff_reply *reply, struct handoff_delivery *delivery)
{
    handoff_error_clear(&reply->error);
    if (reply->word == HANDOFF_WORD_EXTEND) {
        if (!handoff_delivery_extend(delivery))
            conflict(reply, delivery->state);
        reply->state = delivery->state;
        return;
    }
    struct handoff_finding finding = word_findings[reply->word];
    snprintf(finding.said, sizeof finding.said, "%s", reply->said);
    bool out = delivery->state == HANDOFF_STATE_IN_FLIGHT;
    if (delivery->state == HANDOFF_STATE_READY) {
        if (reply->word == HANDOFF_WORD_NACK_RETRY) { /* it will be tried again anyway */
            reply->state = delivery->state;
            return;
        }
        delivery->attempt.number = 0; /* that attempt was recorded when it timed out */
    }
    handoff_delivery_break_off(delivery);
    delivery->attempts += out;
    handoff_delivery_judged(delivery, &finding);
    reply->state = delivery->state;
}

static void answer_delivery(struct handoff_reply *reply, struct handoff_delivery *delivery)
{
    if (handoff_state_is_live(delivery->state))
        answer_live(reply, delivery);
    else
        answer_settled(reply, delivery->state);
}

/* Only the agent that has it may answer; who is no party to it does not even learn that it is
   there. False: it was refused. */
static bool may_answer(struct handoff_reply *reply, const struct handoff_stored *parties)
{
    if (!reply->agent.data || handoff_span_equal(reply->agent, parties->standing.target))
        return true;
    if (handoff_stored_concerns(parties, reply->agent))
        forbid(reply);
    else
        unknown(reply);
    return false;
}

static struct handoff_stored parties_of(const struct handoff_delivery *delivery)
{
    return (struct handoff_stored){
        .source = delivery->source,
        .asked_target = delivery->asked_target,
        .standing.target = handoff_span(delivery->agent->name, delivery->agent->name_size)};
}

static void on_owning_lane(struct handoff_mail *mail)
{
    struct handoff_reply *reply = (void *)mail;
    struct handoff_engine *engine = reply->owner->engine;
    struct handoff_delivery *delivery = handoff_live_find(&engine->live, &reply->id, reply->owner);
    if (!delivery) {
        handoff_engine_reply(engine, reply); /* it settled meanwhile: the store knows */
        return;
    }
    HANDOFF_CHECK_MAGIC(delivery, HANDOFF_DELIVERY_MAGIC);
    const struct handoff_stored parties = parties_of(delivery);
    if (!delivery->seq)
        unknown(reply); /* nobody can know it before it is accepted */
    else if (may_answer(reply, &parties))
        answer_delivery(reply, delivery);
    send_back(reply);
}

static void acknowledged_late(struct handoff_waiter *waiter, const struct handoff_news *news)
{
    struct handoff_reply *reply = (void *)((char *)waiter - offsetof(struct handoff_reply, waiter));
    reply->state = news->state;
    reply->error = news->error;
    reply->told(reply);
}

/* On the caller's lane: the agent had done the work after all. */
static void acknowledge_parked(struct handoff_mail *mail)
{
    struct handoff_reply *reply = (void *)mail;
    reply->waiter = (struct handoff_waiter){.settled = acknowledged_late};
    if (handoff_engine_decide(reply->lane, &reply->id, HANDOFF_DECISION_ACKNOWLEDGE,
                              handoff_span(NULL, 0), handoff_span(NULL, 0), &reply->waiter,
                              &reply->error) != HANDOFF_OK)
        reply->told(reply);
}

/* Not live: what the store has of it. */
static void answer_stored(struct handoff_engine *engine, struct handoff_reply *reply)
{
    struct handoff_arena arena;
    struct handoff_stored stored;
    bool late = false;
    handoff_arena_init(&arena, 0);
    if (handoff_store_get_handoff(engine->options.store, &reply->id, &arena, &stored,
                                  &reply->error) == HANDOFF_OK &&
        may_answer(reply, &stored)) {
        late = stored.standing.state == HANDOFF_STATE_PARKED && reply->word == HANDOFF_WORD_ACK;
        if (!late)
            answer_settled(reply, (enum handoff_state)stored.standing.state);
    }
    handoff_arena_free(&arena);
    reply->mail.deliver = late ? acknowledge_parked : tell;
    handoff_mailbox_post(&reply->lane->mailbox, &reply->mail);
}

void handoff_engine_reply(struct handoff_engine *engine, struct handoff_reply *reply)
{
    reply->owner = handoff_live_lane(&engine->live, &reply->id);
    if (!reply->owner) {
        answer_stored(engine, reply);
        return;
    }
    reply->mail.deliver = on_owning_lane;
    handoff_mailbox_post(&reply->owner->mailbox, &reply->mail);
}

/* ---- by hand -------------------------------------------------------------------------------- */

bool handoff_engine_reset(struct handoff_engine *engine, struct handoff_lane *lane,
                          struct handoff_span name)
{
    struct handoff_breaker after;
    struct handoff_agent *agent = handoff_agents_find(engine->options.agents, name);
    if (!agent)
        return false;
    if (!handoff_agent_learn(agent, HANDOFF_LESSON_RESET, handoff_lane_now_ms(lane), &after))
        return true;
    struct handoff_delivery_event event = {.happened = HANDOFF_HAPPENED_CIRCUIT,
                                           .handoff_id = "",
                                           .target = agent->name,
                                           .reason = "reset",
                                           .circuit = after.circuit};
    if (engine->options.observe)
        engine->options.observe(engine->options.observer, &event);
    handoff_circuit_save(lane, agent, &after);
    return true;
}
