/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One attempt: a POST to an agent that has a URL, or a lease for an agent that pulls. What came of
 * it is judged in delivery.c.
 */
#include <string.h>

#include "client/deliver/delivery.h"
#include "client/envelope/legacy.h"
#include "lib/base/check.h"
#include "lib/base/decimal.h"
#include "lib/base/memory.h"

enum {
    MEMORY_AGAIN_MS = 1000, /* after an attempt could not begin for want of memory */
    OFFER_LOOK_MS = 30000,  /* how often one that is offered looks whether its agent still pulls */
};

static void answered(struct handoff_post *posted, const struct handoff_answer *answer,
                     const struct handoff_transport_facts *facts);

/* ---- a POST --------------------------------------------------------------------------------- */

static size_t fill_headers(struct handoff_delivery *delivery, int version)
{
    static const char attempt[] = "Handoff-Attempt: ";
    _Static_assert(sizeof attempt + BASE_DECIMAL_SIZE <= sizeof delivery->attempt_header,
                   "any number has room");
    const char **headers = delivery->headers;
    size_t count = 0;
    memcpy(delivery->attempt_header, attempt, sizeof attempt - 1);
    base_decimal(delivery->attempts + 1, delivery->attempt_header + sizeof attempt - 1);
    headers[count++] = version == 1
                           ? "Content-Type: application/vnd.handoff.envelope+json; version=1"
                           : "Content-Type: application/vnd.handoff.envelope+json; version=2.0";
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
    delivery->attempt_began_ns = handoff_delivery_now_ns(delivery);
    delivery->attempt = (struct handoff_attempt){
        .number = delivery->attempts + 1,
        .at_ms = handoff_delivery_wall_ms(delivery),
        .target = base_span(delivery->agent->name, delivery->agent->name_size),
        .error = base_span("", 0),
        .peer = base_span("", 0),
    };
}

/* The envelope in the newest form that the agent reads, and which version that is. The flat form is
   made for the attempt. */
static bool choose_body(struct handoff_delivery *delivery, struct base_span *body, int *version)
{
    struct handoff_envelope envelope;
    struct base_buffer *flat = &delivery->flat;
    *body = delivery->envelope;
    *version = 2;
    if (delivery->settings->options.accepts != HANDOFF_ACCEPTS_1 ||
        delivery->settings->options.emit == HANDOFF_EMIT_DUAL)
        return true;
    *version = 1;
    base_buffer_clear(flat);
    if (handoff_envelope_read(delivery->envelope, &envelope, NULL) != HANDOFF_OK)
        return false;
    handoff_legacy_write(flat, &envelope);
    handoff_envelope_free(&envelope);
    *body = base_buffer_span(flat);
    return !flat->failed;
}

static bool post(struct handoff_delivery *delivery)
{
    const struct handoff_agent_options *options = &delivery->settings->options;
    int64_t left = handoff_delivery_until_deadline(delivery);
    struct base_span body;
    int version;
    if (!choose_body(delivery, &body, &version))
        return false;
    delivery->post = (struct handoff_post){
        .url = options->url,
        .headers = delivery->headers,
        .nheaders = fill_headers(delivery, version),
        .body = body.data,
        .size = body.size,
        .timeout_ms = options->timeout_ms < left ? options->timeout_ms : left,
        .fresh = delivery->unheard,
        .done = answered,
    };
    if (options->ca_file || options->cert_file) {
        delivery->tls =
            (struct handoff_tls){options->ca_file, options->cert_file, options->key_file};
        delivery->post.tls = &delivery->tls;
    }
    return handoff_transport_start(delivery->lane->transport, &delivery->post) == HANDOFF_OK;
}

void handoff_delivery_attempt(struct handoff_delivery *delivery, bool probe)
{
    delivery->probe = probe;
    note_attempt(delivery);
    if (!post(delivery)) {
        handoff_delivery_report_probe(delivery, HANDOFF_LESSON_PROBE_ABANDONED);
        handoff_settings_release(&delivery->settings);
        handoff_delivery_wake_in(delivery, MEMORY_AGAIN_MS);
        return;
    }
    handoff_delivery_set_posting(delivery, true);
    handoff_delivery_move(delivery, HANDOFF_STATE_IN_FLIGHT);
}

static void note_answer(struct handoff_delivery *delivery, const struct handoff_answer *answer,
                        const struct handoff_transport_facts *facts)
{
    struct handoff_attempt *attempt = &delivery->attempt;
    attempt->duration_us = facts->duration_us;
    attempt->status = answer->answered ? answer->status : 0;
    handoff_cut_at_character(delivery->attempt_peer, sizeof delivery->attempt_peer, facts->peer,
                             strlen(facts->peer));
    handoff_cut_at_character(delivery->attempt_error, sizeof delivery->attempt_error, facts->error,
                             strlen(facts->error));
    attempt->peer = base_span_text(delivery->attempt_peer);
}

static void answered(struct handoff_post *posted, const struct handoff_answer *answer,
                     const struct handoff_transport_facts *facts)
{
    struct handoff_delivery *delivery =
        (void *)((char *)posted - offsetof(struct handoff_delivery, post));
    BASE_CHECK_MAGIC(delivery, HANDOFF_DELIVERY_MAGIC);
    struct handoff_finding finding;
    handoff_delivery_set_posting(delivery, false);
    delivery->unheard = !answer->answered && answer->failure == HANDOFF_RESULT_TIMEOUT;
    handoff_judge(answer, delivery->id_text, delivery->settings->options.ack, &finding);
    note_answer(delivery, answer, facts);
    delivery->attempts++;
    handoff_delivery_judged(delivery, &finding);
}

/* ---- a lease -------------------------------------------------------------------------------- */

static bool fill_lease(struct handoff_delivery *delivery, struct handoff_poller_request *request)
{
    struct base_span body;
    if (!choose_body(delivery, &body, &request->version))
        return false;
    request->envelope = base_malloc(body.size);
    if (!request->envelope)
        return false;
    memcpy(request->envelope, body.data, body.size);
    request->envelope_size = body.size;
    request->id = delivery->id;
    request->attempt = delivery->attempts + 1;
    int64_t left = handoff_delivery_until_deadline(delivery);
    request->lease_ms = delivery->settings->options.ack_timeout_ms;
    if (request->lease_ms > left)
        request->lease_ms = left;
    return true;
}

/* Whoever pulls is there, so the circuit keeps no lease back. The first one after the cooldown is
   the probe. */
static void take_probe(struct handoff_delivery *delivery)
{
    int64_t wait_ms;
    struct handoff_breaker after;
    delivery->probe = handoff_agent_admit(delivery->agent, handoff_lane_now_ms(delivery->lane),
                                          &wait_ms, &after) == HANDOFF_ADMIT_PROBE;
    if (delivery->probe)
        handoff_delivery_observe_circuit(delivery, &after);
}

bool handoff_delivery_lease(struct handoff_delivery *delivery,
                            struct handoff_poller_request *request)
{
    BASE_CHECK_MAGIC(delivery, HANDOFF_DELIVERY_MAGIC);
    if (delivery->agent != request->agent)
        return false; /* an alternate has it by now */
    handoff_delivery_take_back_offer(delivery);
    if (delivery->state != HANDOFF_STATE_READY || delivery->writing || !delivery->settings)
        return false;
    if (handoff_inbox_is_gone(request) || handoff_delivery_until_deadline(delivery) <= 0) {
        /* it is offered to the next, or expires */
        handoff_delivery_wake_in(delivery, 0);
        return false;
    }
    if (!fill_lease(delivery, request)) { /* no memory: it is offered again */
        handoff_delivery_wake_in(delivery, MEMORY_AGAIN_MS);
        return false;
    }
    take_probe(delivery);
    note_attempt(delivery);
    delivery->leased = true;
    handoff_delivery_set_due_in(delivery, request->lease_ms);
    handoff_delivery_move(delivery, HANDOFF_STATE_IN_FLIGHT);
    handoff_delivery_wake_in(delivery, request->lease_ms);
    handoff_inbox_tell(request);
    return true;
}

bool handoff_delivery_return(struct handoff_delivery *delivery, uint32_t number)
{
    if (!delivery->leased || delivery->state != HANDOFF_STATE_IN_FLIGHT ||
        delivery->attempts + 1 != number)
        return false;
    handoff_delivery_report_probe(delivery, HANDOFF_LESSON_PROBE_ABANDONED);
    delivery->leased = false;
    delivery->due_mono_ms = 0;
    base_timers_stop(delivery->lane->timers, &delivery->timer);
    handoff_delivery_move(delivery, HANDOFF_STATE_READY); /* it is offered again when written */
    return true;
}

bool handoff_delivery_extend(struct handoff_delivery *delivery)
{
    bool held = delivery->leased || delivery->state == HANDOFF_STATE_AWAITING_ACK;
    if (held && !delivery->settings) /* it was resumed */
        delivery->settings = handoff_agent_settings(delivery->agent);
    if (!held || !delivery->settings)
        return false;
    handoff_delivery_set_due_in(delivery, delivery->settings->options.ack_timeout_ms);
    handoff_delivery_wake_in(delivery, delivery->settings->options.ack_timeout_ms);
    if (delivery->state == HANDOFF_STATE_AWAITING_ACK)
        handoff_delivery_write(delivery);
    return true;
}

void handoff_delivery_offer(struct handoff_delivery *delivery)
{
    handoff_delivery_wake_in(delivery, OFFER_LOOK_MS);
    if (delivery->offered)
        return; /* it keeps its place */
    delivery->offered = true;
    struct handoff_poller_request *request =
        handoff_inbox_offer(&delivery->agent->inbox, &delivery->offer);
    if (request && !handoff_delivery_lease(delivery, request))
        handoff_inbox_tell(request);
}
