/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An attempt, under any protocol (protocol.h): how it begins, is extended or returned, and ends.
 * What its end means for the handoff is decided in delivery.c. On the lane's thread.
 */
#include <string.h>

#include "client/deliver/backoff.h"
#include "client/deliver/delivery.h"
#include "client/deliver/gaps.h"
#include "client/deliver/hand_on.h"
#include "lib/base/check.h"
#include "lib/base/memory.h"
#include "lib/base/utf8.h"

/* After an attempt could not be made for want of descriptors, memory, threads or ports. Drawn
   between the half and the whole, so that what was delayed together does not come back together. */
enum { SHORTAGE_AGAIN_MS = 1000 };

/* ---- the protocol --------------------------------------------------------------------------- */

void handoff_delivery_clear_protocol(struct handoff_delivery *delivery)
{
    if (delivery->protocol)
        delivery->protocol->clear(delivery);
    delivery->protocol = NULL;
}

/* Since a reload the agent may use a different protocol, or be a different agent. */
static void use_protocol(struct handoff_delivery *delivery, const struct handoff_protocol *protocol)
{
    if (delivery->protocol == protocol)
        return;
    if (delivery->protocol) {
        handoff_delivery_break_off(delivery);
        handoff_delivery_clear_protocol(delivery);
        memset(delivery->space, 0, sizeof delivery->space);
    }
    delivery->protocol = protocol;
}

void handoff_delivery_break_off(struct handoff_delivery *delivery)
{
    if (delivery->protocol)
        delivery->protocol->break_off(delivery);
    handoff_delivery_set_attempting(delivery, false);
}

/* ---- beginning ------------------------------------------------------------------------------ */

static void note_attempt(struct handoff_delivery *delivery)
{
    delivery->attempt_target = delivery->agent->name;
    delivery->attempt_error[0] = delivery->attempt_peer[0] = '\0';
    delivery->attempt_began_ns = handoff_delivery_now_ns(delivery);
    delivery->attempt = (struct handoff_attempt){
        .number = delivery->attempts + 1,
        .at_ms = handoff_delivery_wall_ms(delivery),
        .target = base_span(delivery->agent->name, delivery->agent->name_size),
        .error = base_span("", 0),
        .peer = base_span("", 0),
        .answer = base_span("", 0),
    };
}

/* It is no attempt: nothing of it is counted or recorded, and the agent's circuit learns nothing.
 */
static void wait_for_resources(struct handoff_delivery *delivery, enum handoff_shortage shortage)
{
    handoff_delivery_report_probe(delivery, HANDOFF_BREAKER_PROBE_ABANDONED);
    handoff_settings_release(&delivery->settings);
    handoff_delivery_observe_shortage(delivery, shortage);
}

bool handoff_delivery_is_offered(const struct handoff_delivery *delivery)
{
    const struct handoff_protocol *protocol = delivery->protocol;
    return protocol && protocol->pulls && protocol->is_offered(delivery);
}

bool handoff_delivery_offer(struct handoff_delivery *delivery)
{
    use_protocol(delivery, delivery->settings->protocol);
    if (!delivery->protocol->pulls)
        return false;
    (void)delivery->protocol->begin(delivery);
    return true;
}

void handoff_delivery_attempt(struct handoff_delivery *delivery, bool probe)
{
    delivery->probe = probe;
    note_attempt(delivery);
    if (!delivery->protocol->begin(delivery)) {
        wait_for_resources(delivery, HANDOFF_SHORTAGE_MEMORY);
        handoff_delivery_wake_in(delivery, SHORTAGE_AGAIN_MS);
        return;
    }
    handoff_delivery_set_attempting(delivery, true);
    handoff_delivery_move(delivery, HANDOFF_STATE_IN_FLIGHT);
}

/* An agent that pulls is up, so an open circuit does not stop it. The first lease after the
   cooldown is the probe. */
static void take_probe(struct handoff_delivery *delivery)
{
    int64_t wait_ms;
    struct handoff_breaker after;
    delivery->probe = handoff_agent_admit(delivery->agent, handoff_lane_now_ms(delivery->lane),
                                          &wait_ms, &after) == HANDOFF_ADMIT_PROBE;
    if (delivery->probe)
        handoff_delivery_observe_circuit(delivery, &after);
}

void handoff_delivery_taken(struct handoff_delivery *delivery, int64_t time_ms)
{
    BASE_CHECK(delivery->protocol->pulls);
    take_probe(delivery);
    note_attempt(delivery);
    handoff_delivery_set_due_in(delivery, time_ms);
    handoff_delivery_move(delivery, HANDOFF_STATE_IN_FLIGHT);
    handoff_delivery_wake_in(delivery, time_ms);
    handoff_delivery_load_next(delivery);
}

/* ---- while it is out ------------------------------------------------------------------------ */

bool handoff_delivery_is_taken(const struct handoff_delivery *delivery)
{
    return delivery->state == HANDOFF_STATE_IN_FLIGHT && delivery->protocol->pulls;
}

bool handoff_delivery_return(struct handoff_delivery *delivery, uint32_t number)
{
    if (!handoff_delivery_is_taken(delivery) || delivery->attempts + 1 != number)
        return false;
    handoff_delivery_report_probe(delivery, HANDOFF_BREAKER_PROBE_ABANDONED);
    delivery->due_mono_ms = 0;
    base_timers_stop(delivery->lane->timers, &delivery->timer);
    delivery->protocol->give_back(delivery);
    handoff_delivery_move(delivery, HANDOFF_STATE_READY); /* offered again once that is written */
    return true;
}

struct handoff_progress_note *handoff_progress_note_new(struct base_span text, int64_t at_ms)
{
    struct handoff_progress_note *progress = base_malloc(sizeof *progress + text.size + 1);
    if (!progress)
        return NULL;
    *progress = (struct handoff_progress_note){.at_ms = at_ms, .size = text.size};
    memcpy(progress->text, text.data, text.size);
    progress->text[text.size] = '\0';
    return progress;
}

static void note_progress(struct handoff_delivery *delivery,
                          struct handoff_progress_note **progress)
{
    if (delivery->progress != delivery->lent_progress)
        base_free(delivery->progress);
    delivery->progress = *progress;
    delivery->progress_changed = true;
    *progress = NULL;
}

bool handoff_delivery_extend(struct handoff_delivery *delivery,
                             struct handoff_progress_note **progress)
{
    bool held =
        handoff_delivery_is_taken(delivery) || delivery->state == HANDOFF_STATE_AWAITING_ACK;
    if (held && !delivery->settings) /* the handoff was resumed */
        delivery->settings = handoff_agent_settings(delivery->agent);
    if (!held || !delivery->settings)
        return false;
    handoff_delivery_set_due_in(delivery, delivery->settings->options.ack_timeout_ms);
    handoff_delivery_wake_in(delivery, delivery->settings->options.ack_timeout_ms);
    if (*progress)
        note_progress(delivery, progress);
    if (delivery->state == HANDOFF_STATE_AWAITING_ACK || delivery->progress_changed)
        handoff_delivery_write(delivery);
    return true;
}

void handoff_delivery_not_attempted(struct handoff_delivery *delivery,
                                    enum handoff_shortage shortage)
{
    const struct handoff_backoff half = {SHORTAGE_AGAIN_MS / 2, SHORTAGE_AGAIN_MS / 2};
    const int64_t more_ms =
        handoff_backoff_draw_ms(&half, 1, delivery->lane->engine->options.random);
    BASE_CHECK(delivery->state == HANDOFF_STATE_IN_FLIGHT && shortage != HANDOFF_SHORTAGE_NONE);
    handoff_delivery_set_attempting(delivery, false);
    wait_for_resources(delivery, shortage);
    handoff_delivery_set_due_in(delivery, SHORTAGE_AGAIN_MS / 2 + more_ms);
    handoff_delivery_move(delivery, HANDOFF_STATE_READY);
}

/* ---- its end -------------------------------------------------------------------------------- */

/* In the arena, as most attempts have none. Out of memory: it is lost, the attempt is not. */
static void note_answer(struct handoff_delivery *delivery, const char *answer)
{
    const char *kept = answer[0] ? base_arena_strdup(&delivery->arena, answer) : NULL;
    if (kept)
        delivery->attempt.answer = base_span_text(kept);
}

static void note_facts(struct handoff_delivery *delivery, const struct handoff_finding *finding)
{
    const char *peer = finding->peer ? finding->peer : "";
    const char *fault = finding->fault ? finding->fault : "";
    delivery->attempt.duration_us = finding->duration_us;
    delivery->attempt.status = finding->status;
    base_utf8_cut(delivery->attempt_peer, sizeof delivery->attempt_peer, peer, strlen(peer));
    base_utf8_cut(delivery->attempt_error, sizeof delivery->attempt_error, fault, strlen(fault));
    delivery->attempt.peer = base_span_text(delivery->attempt_peer);
    note_answer(delivery, finding->answer);
}

void handoff_delivery_attempt_ended(struct handoff_delivery *delivery,
                                    const struct handoff_finding *finding)
{
    BASE_CHECK(delivery->state == HANDOFF_STATE_IN_FLIGHT);
    note_facts(delivery, finding);
    if (!handoff_delivery_take_gaps(delivery, base_buffer_span(&finding->lacking))) {
        handoff_delivery_not_attempted(delivery, HANDOFF_SHORTAGE_MEMORY);
        return;
    }
    if (finding->next && delivery->lane->engine->options.hand_on) {
        if (!handoff_hand_on_begin(delivery, NULL, finding))
            handoff_delivery_not_attempted(delivery, HANDOFF_SHORTAGE_MEMORY);
        return;
    }
    handoff_delivery_set_attempting(delivery, false);
    delivery->attempts++;
    handoff_delivery_judged(delivery, finding);
}
