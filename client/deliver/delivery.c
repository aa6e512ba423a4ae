/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of one handoff.
 *
 * handoff_delivery_advance looks at the state and takes the next step. What then happens (an
 * answer, a timeout, a report through the API) ends in a move (move.c), and once the store has
 * written the move (persist.c), the handoff advances again. Attempts are in attempt.c, what happens
 * if an agent cannot be reached in alternates.c, and who is notified in notify.c.
 *
 * A store that cannot write (a full disk) does not stop deliveries: the handoff continues in
 * memory, its final state is retried every second, and a waiting sender gets the store's error. The
 * store meanwhile has the handoff as live, so after a crash it is delivered again rather than lost.
 * Runs on the lane of the delivery.
 */
#include "client/deliver/delivery.h"

#include <string.h>

#include "client/deliver/backoff.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/utf8.h"

enum {
    PROBE_LOOK_MS = 250,    /* how often a handoff checks while another one is the probe */
    CIRCUIT_LOOK_MS = 1000, /* and during the cooldown, which an operator may end */
    OWN_FAILURE_MS = 1000,  /* what we could not store is not asked for again before that */
    ENOUGH_TIME_MS = 1000,  /* to answer in, unless the agent's timeout is shorter */
};

/* ---- clocks --------------------------------------------------------------------------------- */

int64_t handoff_delivery_wall_ms(const struct handoff_delivery *delivery)
{
    return base_wall_ms(delivery->lane->engine->options.clock);
}

int64_t handoff_delivery_now_ns(const struct handoff_delivery *delivery)
{
    return base_monotonic_ns(delivery->lane->engine->options.clock);
}

int64_t handoff_delivery_from_wall_ms(const struct handoff_delivery *delivery, int64_t wall_ms)
{
    return handoff_lane_now_ms(delivery->lane) + (wall_ms - handoff_delivery_wall_ms(delivery));
}

int64_t handoff_delivery_to_wall_ms(const struct handoff_delivery *delivery, int64_t mono_ms)
{
    return handoff_delivery_wall_ms(delivery) + (mono_ms - handoff_lane_now_ms(delivery->lane));
}

void handoff_delivery_set_deadline(struct handoff_delivery *delivery, int64_t wall_ms)
{
    delivery->deadline_mono_ms =
        wall_ms ? handoff_delivery_from_wall_ms(delivery, wall_ms) : INT64_MAX;
}

void handoff_delivery_set_due_in(struct handoff_delivery *delivery, int64_t wait_ms)
{
    delivery->due_mono_ms = handoff_lane_now_ms(delivery->lane) + wait_ms;
}

int64_t handoff_delivery_until_deadline(const struct handoff_delivery *delivery)
{
    return delivery->deadline_mono_ms == INT64_MAX
               ? INT64_MAX
               : delivery->deadline_mono_ms - handoff_lane_now_ms(delivery->lane);
}

void handoff_delivery_wake_in(struct handoff_delivery *delivery, int64_t wait_ms)
{
    int64_t left = handoff_delivery_until_deadline(delivery);
    int64_t wait = wait_ms < left ? wait_ms : left;
    base_timers_start(delivery->lane->timers, &delivery->timer,
                      handoff_lane_now_ms(delivery->lane) + (wait > 0 ? wait : 0));
}

/* ---- beginning ------------------------------------------------------------------------------ */

/* The circuit is open, or a probe is in flight. Waits for one cooldown, since the agent may have
   recovered by then; if not, the handoff goes to an alternate or is parked. */
static void wait_for_circuit(struct handoff_delivery *delivery, int64_t wait_ms)
{
    int64_t now_ms = handoff_lane_now_ms(delivery->lane), look_ms = PROBE_LOOK_MS;
    if (wait_ms > 0) {
        if (delivery->circuit_until_ms == 0)
            delivery->circuit_until_ms = now_ms + wait_ms;
        if (delivery->circuit_until_ms <= now_ms) {
            handoff_delivery_give_up_untried(delivery, HANDOFF_OBSTACLE_CIRCUIT_OPEN);
            return;
        }
        look_ms = wait_ms < CIRCUIT_LOOK_MS ? wait_ms : CIRCUIT_LOOK_MS;
    }
    handoff_settings_release(&delivery->settings);
    handoff_delivery_wake_in(delivery, look_ms);
}

/* READY, and due. */
static void begin_or_wait(struct handoff_delivery *delivery)
{
    int64_t wait_ms;
    struct handoff_breaker after;
    handoff_settings_release(&delivery->settings);
    delivery->settings = handoff_agent_settings(delivery->agent);
    if (!delivery->settings) {
        handoff_delivery_give_up_untried(delivery, HANDOFF_OBSTACLE_UNKNOWN_AGENT);
        return;
    }
    if (!handoff_delivery_has_turn(delivery))
        return;
    if (handoff_delivery_offer(delivery))
        return; /* the agent pulls it */
    switch (handoff_agent_admit(delivery->agent, handoff_lane_now_ms(delivery->lane), &wait_ms,
                                &after)) {
    case HANDOFF_ADMIT:
        handoff_delivery_attempt(delivery, false);
        break;
    case HANDOFF_ADMIT_PROBE:
        handoff_delivery_observe_circuit(delivery, &after);
        handoff_delivery_attempt(delivery, true);
        break;
    case HANDOFF_ADMIT_LATER:
        wait_for_circuit(delivery, wait_ms);
        break;
    }
}

/* One that waited in its feed and has passed calls up the next there. No other does: each call-up
   would have another follow it, and a row is loaded for each. */
static void begin_attempt_or_wait(struct handoff_delivery *delivery)
{
    struct handoff_feed *feed = atomic_load_explicit(&delivery->live.feed, memory_order_relaxed);
    const bool waited = delivery->held.queued;
    begin_or_wait(delivery);
    if (feed && waited && !delivery->held.queued)
        handoff_engine_call_up_held(feed);
}

/* ---- how an attempt ended ------------------------------------------------------------------- */

/* The best available description of the failure: the agent's, curl's, or ours. */
static const char *words_about(const struct handoff_delivery *delivery,
                               const struct handoff_finding *finding)
{
    return finding->said[0]             ? finding->said
           : delivery->attempt_error[0] ? delivery->attempt_error
                                        : finding->reason;
}

/* Where it was not our request, or the report arrived before its answer, it ends now. */
static int64_t duration_us(const struct handoff_delivery *delivery)
{
    return delivery->attempt.duration_us
               ? delivery->attempt.duration_us
               : (handoff_delivery_now_ns(delivery) - delivery->attempt_began_ns) / 1000;
}

static void note_finding(struct handoff_delivery *delivery, const struct handoff_finding *finding)
{
    handoff_delivery_observe_secrets(delivery, finding->secrets);
    const char *words = words_about(delivery, finding);
    if (words != delivery->attempt_error)
        base_utf8_cut(delivery->attempt_error, sizeof delivery->attempt_error, words,
                      strlen(words));
    delivery->attempt.error = base_span_text(delivery->attempt_error);
    delivery->attempt.result = finding->result;
    delivery->attempt.duration_us = duration_us(delivery);
    delivery->has_attempt = delivery->attempt.number > 0;
}

bool handoff_delivery_make_record(const struct handoff_delivery *delivery,
                                  const struct handoff_finding *finding,
                                  struct handoff_delivery_record *made)
{
    const char *words = words_about(delivery, finding);
    const struct base_span peer = delivery->attempt.peer;
    if (delivery->attempt.number == 0 || delivery->state == HANDOFF_STATE_READY)
        return false;
    made->record = (struct handoff_attempt_record){.attempt = delivery->attempt};
    base_utf8_cut(made->error, sizeof made->error, words, strlen(words));
    base_utf8_cut(made->peer, sizeof made->peer, peer.data, peer.size);
    made->record.attempt.error = base_span_text(made->error);
    made->record.attempt.peer = base_span_text(made->peer);
    made->record.attempt.result = finding->result;
    made->record.attempt.duration_us = duration_us(delivery);
    return true;
}

static void expire(struct handoff_delivery *delivery)
{
    handoff_delivery_break_off(delivery);
    handoff_delivery_report_probe(delivery, HANDOFF_BREAKER_PROBE_ABANDONED);
    delivery->reason = HANDOFF_REASON_EXPIRED;
    handoff_delivery_move(delivery, HANDOFF_STATE_EXPIRED);
}

/* Did an attempt that the deadline cut off have enough time to blame the agent? One that was taken,
   or will be acknowledged later, is the agent's to finish, and has a time of its own. */
static bool had_its_time(const struct handoff_delivery *delivery)
{
    if (delivery->state != HANDOFF_STATE_IN_FLIGHT || handoff_delivery_is_taken(delivery))
        return false;
    const int64_t timeout_ms = delivery->settings->options.timeout_ms;
    const int64_t enough_ms = timeout_ms < ENOUGH_TIME_MS ? timeout_ms : ENOUGH_TIME_MS;
    return delivery->attempt.duration_us >= enough_ms * 1000;
}

/* The deadline leaves no time for another attempt. */
static void expire_by_fault_of_agent(struct handoff_delivery *delivery)
{
    handoff_delivery_report_probe(delivery, HANDOFF_BREAKER_PROBE_FAILED);
    handoff_delivery_learn(delivery, HANDOFF_BREAKER_EXHAUSTED);
    expire(delivery);
}

/* After a temporary failure. */
static void retry(struct handoff_delivery *delivery, const struct handoff_finding *finding)
{
    if (handoff_delivery_until_deadline(delivery) <= 0) {
        if (had_its_time(delivery))
            expire_by_fault_of_agent(delivery);
        else
            expire(delivery);
        return;
    }
    handoff_delivery_report_probe(delivery, HANDOFF_BREAKER_PROBE_FAILED);
    if (!delivery->settings) /* resumed: take a reference, which the delivery keeps */
        delivery->settings = handoff_agent_settings(delivery->agent);
    if (!delivery->settings) {
        handoff_delivery_give_up_untried(delivery, HANDOFF_OBSTACLE_UNKNOWN_AGENT);
        return;
    }
    const struct handoff_agent_options *options = &delivery->settings->options;
    const struct handoff_backoff backoff = {options->backoff_base_ms, options->backoff_max_ms};
    delivery->failures++;
    if (delivery->failures > options->retries) {
        handoff_delivery_learn(delivery, HANDOFF_BREAKER_EXHAUSTED);
        handoff_delivery_give_up(delivery, HANDOFF_REASON_EXHAUSTED);
        return;
    }
    int64_t wait = handoff_backoff_draw_ms(&backoff, delivery->failures,
                                           delivery->lane->engine->options.random);
    if (wait < finding->retry_after_ms)
        wait = finding->retry_after_ms + 1; /* the current millisecond does not count */
    if (wait >= handoff_delivery_until_deadline(delivery)) {
        expire_by_fault_of_agent(delivery);
        return;
    }
    handoff_delivery_set_due_in(delivery, wait);
    if (delivery->state == HANDOFF_STATE_READY)
        handoff_delivery_write(delivery);
    else
        handoff_delivery_move(delivery, HANDOFF_STATE_READY);
}

/* Its work is done, and it would do it again: not at once, whatever the agent's options are. */
static void deliver_again_later(struct handoff_delivery *delivery)
{
    const struct handoff_agent_options *options = &delivery->settings->options;
    const struct handoff_backoff backoff = {options->backoff_base_ms, options->backoff_max_ms};
    handoff_delivery_set_due_in(
        delivery, OWN_FAILURE_MS + handoff_backoff_draw_ms(&backoff, delivery->attempts,
                                                           delivery->lane->engine->options.random));
    handoff_delivery_move(delivery, HANDOFF_STATE_READY);
}

void handoff_delivery_not_acknowledged(struct handoff_delivery *delivery,
                                       const struct handoff_finding *finding)
{
    struct handoff_progress_note *none = NULL;
    struct handoff_finding recorded = *finding;
    if (delivery->state == HANDOFF_STATE_IN_FLIGHT && !handoff_delivery_is_taken(delivery)) {
        recorded.reason = "acknowledged, but the next handoff could not be stored";
        delivery->attempts++;
        note_finding(delivery, &recorded);
        delivery->probe = false;
        handoff_delivery_learn(delivery, HANDOFF_BREAKER_ANSWERED);
        deliver_again_later(delivery);
        return;
    }
    (void)handoff_delivery_extend(delivery, &none); /* where the agent holds it, it repeats that */
    if (!delivery->writing)
        handoff_delivery_advance(delivery);
}

/* Another attempt would be answered alike, but an alternate has another address. */
static void leave_to_alternates(struct handoff_delivery *delivery)
{
    handoff_delivery_report_probe(delivery, HANDOFF_BREAKER_PROBE_FAILED);
    handoff_delivery_learn(delivery, HANDOFF_BREAKER_EXHAUSTED);
    handoff_delivery_give_up(delivery, HANDOFF_REASON_REJECTED);
}

static void await_ack(struct handoff_delivery *delivery)
{
    int64_t wait = delivery->settings->options.ack_timeout_ms;
    handoff_delivery_set_due_in(delivery, wait);
    handoff_delivery_move(delivery, HANDOFF_STATE_AWAITING_ACK);
    handoff_delivery_wake_in(delivery, wait);
}

static enum handoff_breaker_event lesson_of(enum handoff_verdict answer)
{
    switch (answer) {
    case HANDOFF_VERDICT_DEFERRED:
        return HANDOFF_BREAKER_DEFERRED;
    case HANDOFF_VERDICT_REFUSED:
        return HANDOFF_BREAKER_REFUSED;
    default:
        return HANDOFF_BREAKER_ANSWERED;
    }
}

static bool is_answer_of_agent(enum handoff_verdict verdict)
{
    return verdict != HANDOFF_VERDICT_RETRY && verdict != HANDOFF_VERDICT_REJECTED;
}

void handoff_delivery_judged(struct handoff_delivery *delivery,
                             const struct handoff_finding *finding)
{
    note_finding(delivery, finding);
    if (is_answer_of_agent(finding->verdict)) {
        delivery->probe = false;
        handoff_delivery_learn(delivery, lesson_of(finding->verdict));
    }
    switch (finding->verdict) {
    case HANDOFF_VERDICT_ACKNOWLEDGED:
        delivery->reason = HANDOFF_REASON_NONE;
        handoff_delivery_move(delivery, HANDOFF_STATE_ACKNOWLEDGED);
        break;
    case HANDOFF_VERDICT_DEFERRED:
        await_ack(delivery);
        break;
    case HANDOFF_VERDICT_REFUSED:
        /* a decision, not a failure: no alternate is asked */
        delivery->reason = HANDOFF_REASON_REFUSED;
        handoff_delivery_move(delivery, HANDOFF_STATE_PARKED);
        break;
    case HANDOFF_VERDICT_REJECTED:
        leave_to_alternates(delivery);
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
                                            .reason = "accepted, but not acknowledged in time"};
    delivery->attempt_error[0] = '\0';
    handoff_delivery_judged(delivery, &finding);
}

/* ---- a person's decisions ------------------------------------------------------------------- */

void handoff_delivery_replay(struct handoff_delivery *delivery)
{
    delivery->by_hand = false;
    delivery->replays++;
    delivery->failures = 0;
    delivery->alternate = 0;
    delivery->settled_ms = 0;
    delivery->reason = HANDOFF_REASON_NONE;
    handoff_delivery_move(delivery, HANDOFF_STATE_READY);
}

void handoff_delivery_discard(struct handoff_delivery *delivery, const char *words)
{
    delivery->reason = *words ? HANDOFF_REASON_OTHER : HANDOFF_REASON_NONE;
    delivery->words = words;
    handoff_delivery_move(delivery, HANDOFF_STATE_DISCARDED);
}

/* An attempt that is broken off is not recorded, and the circuit learns nothing of it. */
static void break_off_for_good(struct handoff_delivery *delivery)
{
    BASE_CHECK(handoff_state_is_live(delivery->state));
    handoff_delivery_break_off(delivery);
    handoff_delivery_report_probe(delivery, HANDOFF_BREAKER_PROBE_ABANDONED);
}

void handoff_delivery_cancel(struct handoff_delivery *delivery, const char *words)
{
    break_off_for_good(delivery);
    handoff_delivery_discard(delivery, words);
}

void handoff_delivery_park(struct handoff_delivery *delivery, const char *words)
{
    break_off_for_good(delivery);
    delivery->by_hand = true;
    delivery->reason = HANDOFF_REASON_OTHER;
    delivery->words = words;
    handoff_delivery_move(delivery, HANDOFF_STATE_PARKED);
}

void handoff_delivery_settle_late(struct handoff_delivery *delivery)
{
    delivery->reason = HANDOFF_REASON_NONE;
    handoff_delivery_learn(delivery, HANDOFF_BREAKER_ANSWERED);
    handoff_delivery_move(delivery, HANDOFF_STATE_ACKNOWLEDGED);
}

/* ---- going on ------------------------------------------------------------------------------- */

static int64_t until_due(const struct handoff_delivery *delivery)
{
    int64_t wait =
        delivery->due_mono_ms ? delivery->due_mono_ms - handoff_lane_now_ms(delivery->lane) : 0;
    return wait > 0 ? wait : 0;
}

static bool is_winding_down(const struct handoff_delivery *delivery)
{
    return atomic_load_explicit(&delivery->lane->engine->winding_down, memory_order_relaxed);
}

static bool is_offered(const struct handoff_delivery *delivery)
{
    return delivery->state == HANDOFF_STATE_READY && delivery->protocol &&
           delivery->protocol->pulls;
}

/* Accepted just before the shutdown, with a sender that waits: it gets one attempt. */
static bool deserves_an_attempt(const struct handoff_delivery *delivery)
{
    return delivery->waiter && delivery->state == HANDOFF_STATE_READY && delivery->attempts == 0 &&
           delivery->replays == 0 && !is_offered(delivery) && until_due(delivery) == 0 &&
           handoff_delivery_until_deadline(delivery) > 0;
}

void handoff_delivery_wind_down(struct handoff_delivery *delivery)
{
    if (!delivery->writing && !delivery->attempting && handoff_state_is_live(delivery->state))
        handoff_delivery_postpone(delivery);
}

/* The handoff's last step in this process. */
static void continue_winding_down(struct handoff_delivery *delivery)
{
    if (deserves_an_attempt(delivery))
        begin_attempt_or_wait(delivery);
    handoff_delivery_wind_down(delivery);
}

void handoff_delivery_advance(struct handoff_delivery *delivery)
{
    if (!handoff_state_is_live(delivery->state)) {
        handoff_delivery_give_up_claim(delivery);
        handoff_delivery_tell_settled(delivery, NULL); /* it is written, so it may be reported */
        handoff_delivery_leave(delivery);
        return;
    }
    if (delivery->lane->closing || delivery->hand_on)
        return; /* continues at the next start, or when its successor is stored */
    if (delivery->state == HANDOFF_STATE_IN_FLIGHT && !handoff_delivery_is_taken(delivery))
        return; /* its protocol reports the end */
    if (is_winding_down(delivery)) {
        continue_winding_down(delivery);
        return;
    }
    bool expires = handoff_delivery_until_deadline(delivery) <= 0;
    if (!expires && until_due(delivery) > 0)
        handoff_delivery_wake_in(delivery, until_due(delivery));
    else if (delivery->state == HANDOFF_STATE_AWAITING_ACK)
        ack_overdue(delivery);
    else if (handoff_delivery_is_taken(delivery))
        delivery->protocol->time_up(delivery);
    else if (expires)
        expire(delivery);
    else
        begin_attempt_or_wait(delivery);
}

void handoff_delivery_timer_fired(struct base_timer *timer)
{
    struct handoff_delivery *delivery = BASE_CONTAINER_OF(timer, struct handoff_delivery, timer);
    BASE_CHECK_MAGIC(delivery, HANDOFF_DELIVERY_MAGIC);
    if (!delivery->writing)
        handoff_delivery_advance(delivery); /* otherwise written() does */
}
