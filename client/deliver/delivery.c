/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of one handoff.
 *
 * handoff_delivery_go_on looks at the state and does the next thing; what then happens (an answer,
 * a time-out, a word by the API) ends in a move; and move() is the only function that changes the
 * state. It checks the move against life.def, counts, tells the observer and has the store write
 * it. When the store has written it, written() goes on: so an attempt is recorded before the next
 * one begins, and a parking before the sender hears of it.
 *
 * A store that cannot write (a full disk) does not stop deliveries: the handoff goes on in memory,
 * its end is written again every second, and a sender that waits for a parking is told of the
 * store's error. The store meanwhile has it as live, so a crash delivers it again rather than
 * losing it.
 */
#include "client/deliver/delivery.h"

#include <stdio.h>
#include <string.h>

#include "client/assemble/legacy.h"
#include "client/base/check.h"
#include "client/base/error.h"
#include "client/base/memory.h"
#include "client/deliver/backoff.h"
#include "client/deliver/circuit.h"

enum {
    ARENA_FIRST = sizeof(struct handoff_delivery) + 640, /* and its names, ids and trace */
    WRITE_AGAIN_MS = 1000,  /* after the store failed: a disk does not empty itself faster */
    MEMORY_AGAIN_MS = 1000, /* after an attempt could not begin for want of memory */
    PROBE_LOOK_MS = 250,    /* how often one that waits for another's probe looks */
};

static void timer_fired(struct handoff_timer *timer);
static void write_timer_fired(struct handoff_timer *timer);
static void answered(struct handoff_post *post, const struct handoff_answer *answer,
                     const struct handoff_transport_facts *facts);
static void submit_write(struct handoff_delivery *delivery);

const char *handoff_outcome_name(enum handoff_outcome outcome)
{
    static const char *const names[] = {
        [HANDOFF_OUTCOME_NONE] = "",
        [HANDOFF_OUTCOME_ACKNOWLEDGED] = "acknowledged",
        [HANDOFF_OUTCOME_EXHAUSTED] = "exhausted",
        [HANDOFF_OUTCOME_REFUSED] = "refused",
        [HANDOFF_OUTCOME_EXPIRED] = "expired",
        [HANDOFF_OUTCOME_HOP_LIMIT] = "hop_limit",
        [HANDOFF_OUTCOME_CIRCUIT_OPEN] = "circuit_open",
    };
    return names[outcome];
}

/* ---- clocks --------------------------------------------------------------------------------- */

static int64_t wall_ms(const struct handoff_delivery *delivery)
{
    return handoff_wall_ms(delivery->lane->engine->options.clock);
}

static int64_t now_ns(const struct handoff_delivery *delivery)
{
    return handoff_monotonic_ns(delivery->lane->engine->options.clock);
}

/* Milliseconds until the deadline, INT64_MAX where there is none. */
static int64_t until_deadline(const struct handoff_delivery *delivery)
{
    return delivery->deadline_ms ? delivery->deadline_ms - wall_ms(delivery) : INT64_MAX;
}

/* Wakes it in `wait_ms`, or at its deadline if that is earlier. */
static void wake_in(struct handoff_delivery *delivery, int64_t wait_ms)
{
    int64_t left = until_deadline(delivery);
    int64_t wait = wait_ms < left ? wait_ms : left;
    handoff_timers_start(&delivery->lane->timers, &delivery->timer,
                         handoff_lane_now_ms(delivery->lane) + (wait > 0 ? wait : 0));
}

/* ---- making and freeing --------------------------------------------------------------------- */

struct handoff_delivery *handoff_delivery_new(struct handoff_lane *lane,
                                              const struct handoff_uuid *id)
{
    struct handoff_arena arena;
    handoff_arena_init(&arena, ARENA_FIRST);
    struct handoff_delivery *delivery = handoff_arena_calloc(&arena, 1, sizeof *delivery);
    if (!delivery)
        return NULL;
    delivery->magic = HANDOFF_DELIVERY_MAGIC;
    delivery->arena = arena;
    delivery->lane = lane;
    delivery->id = *id;
    handoff_uuid_format(id, delivery->id_text);
    snprintf(delivery->id_header, sizeof delivery->id_header, "Handoff-Id: %s", delivery->id_text);
    snprintf(delivery->key_header, sizeof delivery->key_header, "Idempotency-Key: %s",
             delivery->id_text);
    delivery->live.id = &delivery->id;
    delivery->live.lane = lane;
    delivery->live.owner = delivery;
    delivery->offer.lane = lane;
    delivery->offer.id = *id;
    delivery->timer.fire = timer_fired;
    delivery->write_timer.fire = write_timer_fired;
    delivery->reason = "";
    return delivery;
}

void handoff_delivery_free(struct handoff_delivery *delivery)
{
    HANDOFF_CHECK_MAGIC(delivery, HANDOFF_DELIVERY_MAGIC);
    HANDOFF_CHECK(!delivery->writing && !delivery->post.transfer);
    handoff_settings_release(&delivery->settings);
    handoff_buffer_free(&delivery->flat);
    struct handoff_arena arena = delivery->arena; /* it holds the delivery itself */
    delivery->magic = 0;
    handoff_arena_free(&arena);
}

static bool agent_counts(struct handoff_agent *agent, unsigned limit)
{
    pthread_mutex_lock(&agent->lock);
    bool room = limit == 0 || agent->in_flight < limit;
    agent->in_flight += room;
    pthread_mutex_unlock(&agent->lock);
    return room;
}

static void agent_uncounts(struct handoff_agent *agent)
{
    pthread_mutex_lock(&agent->lock);
    agent->in_flight--;
    pthread_mutex_unlock(&agent->lock);
}

bool handoff_delivery_count(struct handoff_engine *engine, struct handoff_agent *agent,
                            bool limited)
{
    const struct handoff_engine_options *options = &engine->options;
    unsigned before = atomic_fetch_add_explicit(&engine->in_flight, 1, memory_order_relaxed);
    bool room = !limited || options->max_in_flight == 0 || before < options->max_in_flight;
    if (room && agent_counts(agent, limited ? options->max_in_flight_per_agent : 0))
        return true;
    atomic_fetch_sub_explicit(&engine->in_flight, 1, memory_order_relaxed);
    return false;
}

void handoff_delivery_uncount(struct handoff_engine *engine, struct handoff_agent *agent)
{
    agent_uncounts(agent);
    atomic_fetch_sub_explicit(&engine->in_flight, 1, memory_order_relaxed);
}

/* ---- telling -------------------------------------------------------------------------------- */

void handoff_delivery_news(const struct handoff_delivery *delivery, struct handoff_news *news)
{
    *news = (struct handoff_news){.id = delivery->id_text,
                                  .envelope = delivery->envelope,
                                  .context_at = delivery->context_at,
                                  .context_size = delivery->context_size,
                                  .state = delivery->state,
                                  .target = delivery->agent->name,
                                  .reason = delivery->reason,
                                  .attempts = delivery->attempts,
                                  .settled_ms = delivery->settled_ms};
}

/* For one that was replayed; who waits for the end of a sending has been told of its acceptance. */
static void tell_ready(struct handoff_delivery *delivery)
{
    struct handoff_waiter *waiter = delivery->waiter;
    if (!waiter || !waiter->accepted || delivery->state != HANDOFF_STATE_READY)
        return;
    struct handoff_news news;
    handoff_delivery_news(delivery, &news);
    waiter->accepted(waiter, &news);
}

static void tell_settled(struct handoff_delivery *delivery, const struct handoff_error *error)
{
    struct handoff_waiter *waiter = delivery->waiter;
    if (!waiter)
        return;
    struct handoff_news news;
    handoff_delivery_news(delivery, &news);
    if (error)
        news.error = *error;
    if (!delivery->seq) /* there is no such handoff */
        news.envelope = handoff_span(NULL, 0);
    delivery->waiter = NULL;
    waiter->delivery = NULL;
    waiter->settled(waiter, &news);
}

void handoff_waiter_withdraw(struct handoff_waiter *waiter)
{
    if (waiter->delivery)
        waiter->delivery->waiter = NULL;
    waiter->delivery = NULL;
}

static void observe(struct handoff_delivery *delivery, struct handoff_delivery_event *event)
{
    const struct handoff_engine_options *options = &delivery->lane->engine->options;
    if (!options->observe)
        return;
    event->handoff_id = delivery->id_text;
    event->source = delivery->source;
    event->trace_id = delivery->trace_id;
    event->target = delivery->agent->name;
    event->pattern = delivery->pattern;
    event->attempts = delivery->attempts;
    event->replays = delivery->replays;
    event->elapsed_us = (now_ns(delivery) - delivery->began_ns) / 1000;
    options->observe(options->observer, event);
}

static void observe_circuit(struct handoff_delivery *delivery,
                            const struct handoff_breaker *breaker)
{
    struct handoff_delivery_event event = {.happened = HANDOFF_HAPPENED_CIRCUIT,
                                           .circuit = breaker->circuit,
                                           .opened = breaker->opened &&
                                                     breaker->circuit == HANDOFF_CIRCUIT_OPEN,
                                           .consecutive_failures = breaker->consecutive_failures};
    observe(delivery, &event);
}

static enum handoff_outcome outcome_of(const struct handoff_delivery *delivery,
                                       enum handoff_state state)
{
    if (state == HANDOFF_STATE_ACKNOWLEDGED)
        return HANDOFF_OUTCOME_ACKNOWLEDGED;
    if (state == HANDOFF_STATE_EXPIRED)
        return HANDOFF_OUTCOME_EXPIRED;
    if (state != HANDOFF_STATE_PARKED)
        return HANDOFF_OUTCOME_NONE;
    if (strcmp(delivery->reason, "refused") == 0)
        return HANDOFF_OUTCOME_REFUSED;
    if (strcmp(delivery->reason, "circuit_open") == 0)
        return HANDOFF_OUTCOME_CIRCUIT_OPEN;
    return HANDOFF_OUTCOME_EXHAUSTED;
}

/* Each attempt is told of once, when it has ended: not when it begins, not while the word on a 202
   is still to come, and not again where a late acknowledgement follows a time-out. */
static bool attempt_is_news(struct handoff_delivery *delivery)
{
    if (!delivery->has_attempt || delivery->attempt.number == delivery->attempt_told ||
        delivery->state == HANDOFF_STATE_IN_FLIGHT || delivery->state == HANDOFF_STATE_AWAITING_ACK)
        return false;
    delivery->attempt_told = delivery->attempt.number;
    return true;
}

static void observe_move(struct handoff_delivery *delivery, enum handoff_state from, bool resumed)
{
    struct handoff_delivery_event event = {
        .happened = HANDOFF_HAPPENED_MOVE,
        .from = from,
        .to = delivery->state,
        .resumed = resumed,
        .outcome = resumed ? HANDOFF_OUTCOME_NONE : outcome_of(delivery, delivery->state),
        .reason = delivery->reason,
        .has_attempt = attempt_is_news(delivery),
        .attempt_target = delivery->attempt_target,
        .result = (enum handoff_attempt_result)delivery->attempt.result,
        .attempt_us = delivery->attempt.duration_us,
        .said = delivery->attempt_error,
    };
    observe(delivery, &event);
}

/* ---- moving --------------------------------------------------------------------------------- */

static void take_back_offer(struct handoff_delivery *delivery)
{
    if (delivery->offered)
        handoff_inbox_take_back(&delivery->agent->inbox, &delivery->offer);
    delivery->offered = false;
}

/* The one place where a handoff changes its state. */
static void move(struct handoff_delivery *delivery, enum handoff_state to)
{
    enum handoff_state from = delivery->state;
    HANDOFF_CHECK(handoff_life_move(from, to) != NULL);
    take_back_offer(delivery);
    if (!handoff_state_is_live(to)) {
        handoff_timers_stop(&delivery->lane->timers, &delivery->timer);
        delivery->settled_ms = wall_ms(delivery);
        delivery->due_ms = 0;
    }
    if (handoff_state_is_live(from) && !handoff_state_is_live(to))
        handoff_delivery_uncount(delivery->lane->engine, delivery->agent);
    delivery->state = to;
    handoff_live_note(&delivery->live, (int)to);
    observe_move(delivery, from, false);
    if (to == HANDOFF_STATE_IN_FLIGHT)
        return; /* a restart does not need to know */
    submit_write(delivery);
    if (to == HANDOFF_STATE_ACKNOWLEDGED)
        tell_settled(delivery, NULL);
}

bool handoff_delivery_enter(struct handoff_delivery *delivery, enum handoff_state state,
                            struct handoff_agent *agent)
{
    delivery->agent = agent;
    delivery->state = state;
    handoff_live_note(&delivery->live, (int)state);
    if (delivery->began_ns == 0)
        delivery->began_ns = now_ns(delivery);
    delivery->live.since_ns = delivery->began_ns;
    handoff_live_note_agent(&delivery->live, agent);
    if (!handoff_live_add(&delivery->lane->engine->live, &delivery->live))
        return false;
    TAILQ_INSERT_TAIL(&delivery->lane->deliveries, delivery, entry);
    return true;
}

void handoff_delivery_observe_start(struct handoff_delivery *delivery, bool resumed)
{
    observe_move(delivery, 0, resumed);
}

static void leave(struct handoff_delivery *delivery)
{
    take_back_offer(delivery);
    handoff_timers_stop(&delivery->lane->timers, &delivery->timer);
    handoff_timers_stop(&delivery->lane->timers, &delivery->write_timer);
    handoff_live_remove(&delivery->lane->engine->live, &delivery->live);
    TAILQ_REMOVE(&delivery->lane->deliveries, delivery, entry);
    handoff_delivery_free(delivery);
}

static void set_posting(struct handoff_delivery *delivery, bool posting)
{
    if (delivery->posting != posting)
        atomic_fetch_add_explicit(&delivery->lane->engine->attempting, posting ? 1u : -1u,
                                  memory_order_relaxed);
    delivery->posting = posting;
}

void handoff_delivery_break_off(struct handoff_delivery *delivery)
{
    handoff_transport_cancel(delivery->lane->transport, &delivery->post);
    set_posting(delivery, false);
}

void handoff_delivery_drop(struct handoff_delivery *delivery, const struct handoff_error *error)
{
    tell_settled(delivery, error);
    if (handoff_state_is_live(delivery->state))
        handoff_delivery_uncount(delivery->lane->engine, delivery->agent);
    leave(delivery);
}

void handoff_delivery_abandon(struct handoff_delivery *delivery)
{
    struct handoff_error error;
    handoff_delivery_break_off(delivery);
    handoff_error_set(&error, HANDOFF_ERR_SHUTTING_DOWN,
                      "the process ends; the handoff is stored and goes on at the next start", NULL,
                      NULL);
    handoff_delivery_drop(delivery, &error);
}

/* ---- writing -------------------------------------------------------------------------------- */

static void fill_standing(const struct handoff_delivery *delivery,
                          struct handoff_standing *standing)
{
    /* in flight is not written; an attempt that is out counts when it has ended */
    enum handoff_state state =
        delivery->state == HANDOFF_STATE_IN_FLIGHT ? HANDOFF_STATE_READY : delivery->state;
    *standing = (struct handoff_standing){
        .state = (int)state,
        .target = handoff_span(delivery->agent->name, delivery->agent->name_size),
        .reason = handoff_span_text(delivery->reason),
        .due_ms = delivery->due_ms,
        .settled_ms = delivery->settled_ms,
        .attempts = delivery->attempts,
        .failures = delivery->failures,
        .alternate = delivery->alternate,
        .replays = delivery->replays,
    };
}

static void written(struct handoff_store_job *job)
{
    struct handoff_delivery *delivery =
        (void *)((char *)job - offsetof(struct handoff_delivery, write.move.job));
    HANDOFF_CHECK_MAGIC(delivery, HANDOFF_DELIVERY_MAGIC);
    delivery->lane->awaited--;
    delivery->writing = false;
    if (delivery->changed) {
        submit_write(delivery);
        return;
    }
    bool failed = job->error.code != HANDOFF_OK;
    if (failed && !handoff_state_is_live(delivery->state)) {
        struct handoff_error error = job->error;
        tell_settled(delivery, &error);
        handoff_timers_start(&delivery->lane->timers, &delivery->write_timer,
                             handoff_lane_now_ms(delivery->lane) + WRITE_AGAIN_MS);
        return;
    }
    if (!failed)
        delivery->has_attempt = false;
    if (!failed)
        tell_ready(delivery);
    handoff_delivery_go_on(delivery);
}

static struct handoff_span lend(char *to, size_t room, struct handoff_span from)
{
    HANDOFF_CHECK(from.size <= room);
    memcpy(to, from.data, from.size);
    return handoff_span(to, from.size);
}

static void fill_attempt(struct handoff_delivery *delivery, struct handoff_attempt *attempt)
{
    *attempt = delivery->attempt;
    attempt->error = lend(delivery->written_error, sizeof delivery->written_error, attempt->error);
    attempt->peer = lend(delivery->written_peer, sizeof delivery->written_peer, attempt->peer);
}

static void submit_write(struct handoff_delivery *delivery)
{
    delivery->changed = delivery->writing;
    if (delivery->writing)
        return;
    struct handoff_store_move *write = &delivery->write.move;
    *write = (struct handoff_store_move){
        .job = {.mailbox = &delivery->lane->mailbox,
                .batch = &delivery->lane->writes,
                .lazy = delivery->state == HANDOFF_STATE_ACKNOWLEDGED, /* it is passed on already */
                .done = written},
        .seq = delivery->seq,
        .has_attempt = delivery->has_attempt,
        .over = handoff_state_is_over(delivery->state),
    };
    fill_standing(delivery, &write->standing);
    if (delivery->has_attempt)
        fill_attempt(delivery, &write->attempt);
    delivery->writing = true;
    delivery->lane->awaited++;
    handoff_store_move(delivery->lane->engine->options.store, write);
}

static void write_timer_fired(struct handoff_timer *timer)
{
    struct handoff_delivery *delivery =
        (void *)((char *)timer - offsetof(struct handoff_delivery, write_timer));
    HANDOFF_CHECK_MAGIC(delivery, HANDOFF_DELIVERY_MAGIC);
    submit_write(delivery);
}

/* ---- the breaker ---------------------------------------------------------------------------- */

static void learn(struct handoff_delivery *delivery, enum handoff_lesson lesson)
{
    struct handoff_breaker after;
    if (!handoff_agent_learn(delivery->agent, lesson, handoff_lane_now_ms(delivery->lane), &after))
        return;
    observe_circuit(delivery, &after);
    handoff_circuit_save(delivery->lane, delivery->agent, &after);
}

/* The attempt that was out has been answered, or has failed. */
static void report_probe(struct handoff_delivery *delivery, enum handoff_lesson lesson)
{
    if (delivery->probe)
        learn(delivery, lesson);
    delivery->probe = false;
}

/* ---- where to ------------------------------------------------------------------------------- */

/* Can the handoff go to this one now? */
static bool is_usable(const struct handoff_delivery *delivery, struct handoff_agent *agent)
{
    int64_t wait_ms;
    if (!agent || agent == delivery->agent ||
        handoff_agent_is_open(agent, handoff_lane_now_ms(delivery->lane), &wait_ms))
        return false;
    struct handoff_settings *settings = handoff_agent_settings(agent);
    bool fits = settings && delivery->tokens <= settings->options.token_budget;
    handoff_settings_release(&settings);
    return fits;
}

/* The next alternate of the agent that was asked for, or NULL. Uses it up. */
static struct handoff_agent *next_alternate(struct handoff_delivery *delivery)
{
    struct handoff_agents *agents = delivery->lane->engine->options.agents;
    struct handoff_agent *asked = handoff_agents_find(agents, delivery->asked_target);
    struct handoff_settings *settings = asked ? handoff_agent_settings(asked) : NULL;
    struct handoff_agent *found = NULL;
    while (settings && !found && delivery->alternate < settings->options.nalternates) {
        const char *name = settings->options.alternates[delivery->alternate++];
        found = handoff_agents_find(agents, handoff_span_text(name));
        if (!is_usable(delivery, found))
            found = NULL;
    }
    handoff_settings_release(&settings);
    return found;
}

static void hand_to(struct handoff_delivery *delivery, struct handoff_agent *agent)
{
    take_back_offer(delivery);
    agent_uncounts(delivery->agent);
    agent_counts(agent, 0);
    delivery->agent = agent;
    handoff_live_note_agent(&delivery->live, agent);
    delivery->failures = 0;
    delivery->waited_for_circuit = false;
    delivery->due_ms = 0;
}

/* This agent is done with: to the next alternate, or to the people. */
static void give_up(struct handoff_delivery *delivery, const char *reason)
{
    handoff_settings_release(&delivery->settings);
    delivery->reason = reason;
    struct handoff_agent *alternate = next_alternate(delivery);
    if (!alternate) {
        move(delivery, HANDOFF_STATE_PARKED);
        return;
    }
    hand_to(delivery, alternate);
    if (delivery->state == HANDOFF_STATE_READY)
        submit_write(delivery);
    else
        move(delivery, HANDOFF_STATE_READY);
}

/* ---- an attempt ----------------------------------------------------------------------------- */

static size_t fill_headers(struct handoff_delivery *delivery)
{
    const char **headers = delivery->headers;
    size_t count = 0;
    snprintf(delivery->attempt_header, sizeof delivery->attempt_header, "Handoff-Attempt: %u",
             delivery->attempts + 1);
    headers[count++] = "Content-Type: application/vnd.handoff.envelope+json; version=2.0";
    headers[count++] = "Expect:"; /* curl would ask before it sends a body of more than 1 MiB */
    headers[count++] = delivery->id_header;
    headers[count++] = delivery->key_header;
    headers[count++] = delivery->attempt_header;
    if (delivery->traceparent)
        headers[count++] = delivery->traceparent;
    if (delivery->tracestate)
        headers[count++] = delivery->tracestate;
    if (delivery->settings->authorization)
        headers[count++] = delivery->settings->authorization;
    return count;
}

static void note_attempt(struct handoff_delivery *delivery)
{
    delivery->attempt_target = delivery->agent->name;
    delivery->attempt_error[0] = delivery->attempt_peer[0] = '\0';
    delivery->attempt = (struct handoff_attempt){
        .number = delivery->attempts + 1,
        .at_ms = wall_ms(delivery),
        .target = handoff_span(delivery->agent->name, delivery->agent->name_size),
        .error = handoff_span("", 0),
        .peer = handoff_span("", 0),
    };
}

/* The envelope in the newest form that the agent reads. The flat form is made for the attempt. */
static bool choose_body(struct handoff_delivery *delivery, struct handoff_span *body)
{
    struct handoff_envelope envelope;
    struct handoff_buffer *flat = &delivery->flat;
    *body = delivery->envelope;
    if (delivery->settings->options.accepts != HANDOFF_ACCEPTS_1 ||
        delivery->settings->options.emit == HANDOFF_EMIT_DUAL)
        return true;
    handoff_buffer_clear(flat);
    if (handoff_envelope_read(delivery->envelope, &envelope, NULL) != HANDOFF_OK)
        return false;
    handoff_legacy_write(flat, &envelope);
    handoff_envelope_free(&envelope);
    delivery->headers[0] = "Content-Type: application/vnd.handoff.envelope+json; version=1";
    *body = handoff_buffer_span(flat);
    return !flat->failed;
}

static bool post(struct handoff_delivery *delivery)
{
    const struct handoff_agent_options *options = &delivery->settings->options;
    int64_t left = until_deadline(delivery);
    size_t nheaders = fill_headers(delivery);
    struct handoff_span body;
    if (!choose_body(delivery, &body))
        return false;
    delivery->post = (struct handoff_post){
        .url = options->url,
        .headers = delivery->headers,
        .nheaders = nheaders,
        .body = body.data,
        .size = body.size,
        .timeout_ms = options->timeout_ms < left ? options->timeout_ms : left,
        .done = answered,
    };
    if (options->ca_file || options->cert_file) {
        delivery->tls =
            (struct handoff_tls){options->ca_file, options->cert_file, options->key_file};
        delivery->post.tls = &delivery->tls;
    }
    return handoff_transport_start(delivery->lane->transport, &delivery->post) == HANDOFF_OK;
}

static void attempt(struct handoff_delivery *delivery, bool probe)
{
    delivery->probe = probe;
    note_attempt(delivery);
    if (!post(delivery)) {
        report_probe(delivery, HANDOFF_LESSON_PROBE_ABANDONED);
        handoff_settings_release(&delivery->settings);
        wake_in(delivery, MEMORY_AGAIN_MS);
        return;
    }
    set_posting(delivery, true);
    move(delivery, HANDOFF_STATE_IN_FLIGHT);
}

/* The circuit is open, or a probe is out. One cooldown is waited for, since the agent may be back
   after it; if it is not, the handoff goes where somebody looks at it. */
static void wait_for_circuit(struct handoff_delivery *delivery, int64_t wait_ms)
{
    if (wait_ms > 0 && delivery->waited_for_circuit) {
        give_up(delivery, "circuit_open");
        return;
    }
    delivery->waited_for_circuit |= wait_ms > 0;
    handoff_settings_release(&delivery->settings);
    wake_in(delivery, wait_ms > 0 ? wait_ms : PROBE_LOOK_MS);
}

/* ---- a lease -------------------------------------------------------------------------------- */

static bool fill_lease(struct handoff_delivery *delivery, struct handoff_poller_request *request)
{
    request->envelope = handoff_malloc(delivery->envelope.size);
    if (!request->envelope)
        return false;
    memcpy(request->envelope, delivery->envelope.data, delivery->envelope.size);
    request->envelope_size = delivery->envelope.size;
    request->id = delivery->id;
    request->attempt = delivery->attempts + 1;
    request->lease_ms = delivery->settings->options.ack_timeout_ms;
    return true;
}

bool handoff_delivery_lease(struct handoff_delivery *delivery,
                            struct handoff_poller_request *request)
{
    HANDOFF_CHECK_MAGIC(delivery, HANDOFF_DELIVERY_MAGIC);
    delivery->offered = false;
    if (delivery->state != HANDOFF_STATE_READY || delivery->agent != request->agent ||
        delivery->writing || !delivery->settings)
        return false;
    if (!fill_lease(delivery, request)) { /* no memory: it is offered again */
        wake_in(delivery, MEMORY_AGAIN_MS);
        return false;
    }
    note_attempt(delivery);
    delivery->leased = true;
    delivery->due_ms = wall_ms(delivery) + request->lease_ms;
    move(delivery, HANDOFF_STATE_IN_FLIGHT);
    wake_in(delivery, request->lease_ms);
    handoff_inbox_tell(request);
    return true;
}

bool handoff_delivery_extend(struct handoff_delivery *delivery)
{
    bool held = delivery->leased || delivery->state == HANDOFF_STATE_AWAITING_ACK;
    if (held && !delivery->settings) /* it was resumed */
        delivery->settings = handoff_agent_settings(delivery->agent);
    if (!held || !delivery->settings)
        return false;
    delivery->due_ms = wall_ms(delivery) + delivery->settings->options.ack_timeout_ms;
    wake_in(delivery, delivery->settings->options.ack_timeout_ms);
    if (delivery->state == HANDOFF_STATE_AWAITING_ACK)
        submit_write(delivery);
    return true;
}

/* READY, for an agent that pulls. */
static void offer(struct handoff_delivery *delivery)
{
    if (delivery->deadline_ms)
        wake_in(delivery, INT64_MAX);
    delivery->offered = true;
    struct handoff_poller_request *request =
        handoff_inbox_offer(&delivery->agent->inbox, &delivery->offer);
    if (request && !handoff_delivery_lease(delivery, request))
        handoff_inbox_tell(request);
}

/* READY, and its time has come. */
static void begin(struct handoff_delivery *delivery)
{
    int64_t wait_ms;
    struct handoff_breaker after;
    handoff_settings_release(&delivery->settings);
    delivery->settings = handoff_agent_settings(delivery->agent);
    if (!delivery->settings) {
        give_up(delivery, "unknown_agent");
        return;
    }
    if (!delivery->settings->options.url) {
        offer(delivery);
        return;
    }
    switch (handoff_agent_admit(delivery->agent, handoff_lane_now_ms(delivery->lane), &wait_ms,
                                &after)) {
    case HANDOFF_ADMIT:
        attempt(delivery, false);
        break;
    case HANDOFF_ADMIT_PROBE:
        observe_circuit(delivery, &after);
        attempt(delivery, true);
        break;
    case HANDOFF_ADMIT_LATER:
        wait_for_circuit(delivery, wait_ms);
        break;
    }
}

/* ---- what comes of it ----------------------------------------------------------------------- */

static void note_answer(struct handoff_delivery *delivery, const struct handoff_answer *answer,
                        const struct handoff_transport_facts *facts)
{
    struct handoff_attempt *attempt = &delivery->attempt;
    attempt->duration_us = facts->duration_us;
    attempt->status = answer->answered ? answer->status : 0;
    snprintf(delivery->attempt_peer, sizeof delivery->attempt_peer, "%s", facts->peer);
    snprintf(delivery->attempt_error, sizeof delivery->attempt_error, "%s", facts->error);
    attempt->peer = handoff_span_text(delivery->attempt_peer);
}

/* The best words there are for what went wrong: the agent's, curl's, or ours. */
static void note_finding(struct handoff_delivery *delivery, const struct handoff_finding *finding)
{
    const char *words = finding->said[0]             ? finding->said
                        : delivery->attempt_error[0] ? delivery->attempt_error
                                                     : finding->reason;
    if (words != delivery->attempt_error)
        snprintf(delivery->attempt_error, sizeof delivery->attempt_error, "%s", words);
    delivery->attempt.error = handoff_span_text(delivery->attempt_error);
    delivery->attempt.result = (int)finding->result;
    delivery->has_attempt = delivery->attempt.number > 0;
}

static void answered(struct handoff_post *posted, const struct handoff_answer *answer,
                     const struct handoff_transport_facts *facts)
{
    struct handoff_delivery *delivery =
        (void *)((char *)posted - offsetof(struct handoff_delivery, post));
    HANDOFF_CHECK_MAGIC(delivery, HANDOFF_DELIVERY_MAGIC);
    struct handoff_finding finding;
    set_posting(delivery, false);
    handoff_judge(answer, delivery->id_text, delivery->settings->options.ack, &finding);
    note_answer(delivery, answer, facts);
    delivery->attempts++;
    handoff_delivery_judged(delivery, &finding);
}

static void expire(struct handoff_delivery *delivery)
{
    handoff_delivery_break_off(delivery);
    report_probe(delivery, HANDOFF_LESSON_PROBE_ABANDONED);
    delivery->reason = "expired";
    move(delivery, HANDOFF_STATE_EXPIRED);
}

/* After a failure that may pass. */
static void retry(struct handoff_delivery *delivery, const struct handoff_finding *finding)
{
    report_probe(delivery, HANDOFF_LESSON_PROBE_FAILED);
    if (!delivery->settings) /* it was resumed */
        delivery->settings = handoff_agent_settings(delivery->agent);
    if (!delivery->settings) {
        give_up(delivery, "unknown_agent");
        return;
    }
    const struct handoff_agent_options *options = &delivery->settings->options;
    const struct handoff_backoff backoff = {options->backoff_base_ms, options->backoff_max_ms};
    delivery->failures++;
    if (delivery->failures > options->retries) {
        learn(delivery, HANDOFF_LESSON_EXHAUSTED);
        give_up(delivery, "exhausted");
        return;
    }
    int64_t wait = handoff_backoff_draw_ms(&backoff, delivery->failures,
                                           delivery->lane->engine->options.random);
    if (wait < finding->retry_after_ms)
        wait = finding->retry_after_ms;
    if (wait >= until_deadline(delivery)) { /* there is no time for another attempt */
        expire(delivery);
        return;
    }
    delivery->due_ms = wall_ms(delivery) + wait;
    if (delivery->state == HANDOFF_STATE_READY)
        submit_write(delivery);
    else
        move(delivery, HANDOFF_STATE_READY);
}

static void await_ack(struct handoff_delivery *delivery)
{
    int64_t wait = delivery->settings->options.ack_timeout_ms;
    delivery->due_ms = wall_ms(delivery) + wait;
    move(delivery, HANDOFF_STATE_AWAITING_ACK);
    wake_in(delivery, wait);
}

void handoff_delivery_judged(struct handoff_delivery *delivery,
                             const struct handoff_finding *finding)
{
    note_finding(delivery, finding);
    delivery->leased = false;
    if (finding->verdict != HANDOFF_VERDICT_RETRY) {
        delivery->probe = false;
        learn(delivery, HANDOFF_LESSON_ANSWERED);
    }
    switch (finding->verdict) {
    case HANDOFF_VERDICT_ACKNOWLEDGED:
        delivery->reason = "";
        move(delivery, HANDOFF_STATE_ACKNOWLEDGED);
        break;
    case HANDOFF_VERDICT_DEFERRED:
        await_ack(delivery);
        break;
    case HANDOFF_VERDICT_REFUSED:
        delivery->reason = "refused"; /* a decision, not a failure: no alternate is asked */
        move(delivery, HANDOFF_STATE_PARKED);
        break;
    case HANDOFF_VERDICT_RETRY:
        retry(delivery, finding);
        break;
    }
}

static void ack_overdue(struct handoff_delivery *delivery)
{
    const struct handoff_finding finding = {.verdict = HANDOFF_VERDICT_RETRY,
                                            .result = HANDOFF_RESULT_TIMEOUT,
                                            .reason = "announced, but never acknowledged"};
    delivery->attempt_error[0] = '\0';
    handoff_delivery_judged(delivery, &finding);
}

static void lease_over(struct handoff_delivery *delivery)
{
    const struct handoff_finding finding = {.verdict = HANDOFF_VERDICT_RETRY,
                                            .result = HANDOFF_RESULT_TIMEOUT,
                                            .reason = "the lease ran out"};
    delivery->attempts++;
    handoff_delivery_judged(delivery, &finding);
}

/* ---- a person's decisions ------------------------------------------------------------------- */

void handoff_delivery_replay(struct handoff_delivery *delivery)
{
    delivery->replays++;
    delivery->failures = 0;
    delivery->alternate = 0;
    delivery->settled_ms = 0;
    delivery->reason = "";
    move(delivery, HANDOFF_STATE_READY);
}

void handoff_delivery_discard(struct handoff_delivery *delivery, const char *reason)
{
    delivery->reason = reason;
    move(delivery, HANDOFF_STATE_DISCARDED);
}

void handoff_delivery_settle_late(struct handoff_delivery *delivery)
{
    delivery->reason = "";
    move(delivery, HANDOFF_STATE_ACKNOWLEDGED);
}

/* ---- going on ------------------------------------------------------------------------------- */

static int64_t until_due(const struct handoff_delivery *delivery)
{
    int64_t wait = delivery->due_ms ? delivery->due_ms - wall_ms(delivery) : 0;
    return wait > 0 ? wait : 0;
}

void handoff_delivery_go_on(struct handoff_delivery *delivery)
{
    if (!handoff_state_is_live(delivery->state)) {
        tell_settled(delivery, NULL); /* it is written, so it may be told */
        leave(delivery);
        return;
    }
    if (delivery->lane->closing)
        return; /* the next start goes on */
    if (delivery->state == HANDOFF_STATE_IN_FLIGHT && !delivery->leased)
        return; /* the transport will tell */
    if (until_deadline(delivery) <= 0)
        expire(delivery);
    else if (until_due(delivery) > 0)
        wake_in(delivery, until_due(delivery));
    else if (delivery->state == HANDOFF_STATE_AWAITING_ACK)
        ack_overdue(delivery);
    else if (delivery->leased)
        lease_over(delivery);
    else
        begin(delivery);
}

static void timer_fired(struct handoff_timer *timer)
{
    struct handoff_delivery *delivery =
        (void *)((char *)timer - offsetof(struct handoff_delivery, timer));
    HANDOFF_CHECK_MAGIC(delivery, HANDOFF_DELIVERY_MAGIC);
    if (!delivery->writing)
        handoff_delivery_go_on(delivery); /* else written() does */
}
