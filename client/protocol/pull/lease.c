/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pulling: a handoff that is ready is offered in its agent's inbox (inbox.h), and an attempt is a
 * lease to one of the agent's pollers, which ends with the poller's word or when its time is up. On
 * the delivery's lane.
 */
#include "client/protocol/pull/lease.h"

#include <string.h>

#include "client/deliver/delivery.h"
#include "client/protocol/body.h"
#include "client/protocol/pull/inbox.h"
#include "lib/base/check.h"
#include "lib/base/memory.h"

enum {
    OFFER_AGAIN_MS = 1000, /* after a lease found no memory */
    OFFER_LOOK_MS = 30000, /* how often one that is offered looks whether its agent still pulls */
};

/* In the delivery's space; zeroed before the first offer. */
struct lease {
    struct handoff_offer offer;
    uint32_t attempt;              /* of the last lease; 0: there was none */
    bool offered;                  /* in its agent's inbox, or on its way from there to a poller */
    bool goes_back;                /* it is broken off next, and keeps its stream over that */
    struct handoff_stream *stream; /* that has it, and is told when the lease is over; NULL: none */
};
_Static_assert(sizeof(struct lease) <= HANDOFF_PROTOCOL_SPACE &&
                   _Alignof(struct lease) <= _Alignof(int64_t),
               "it fits into a delivery");

static struct lease *lease_of(struct handoff_delivery *delivery)
{
    return (void *)delivery->space;
}

static bool pull_is_spoken(const struct handoff_agent_options *options)
{
    (void)options;
    return true;
}

static void withdraw_offer(struct handoff_delivery *delivery)
{
    struct lease *lease = lease_of(delivery);
    if (lease->offered)
        handoff_inbox_take_back(&delivery->agent->inbox, &lease->offer);
    lease->offered = false;
}

static bool is_in_inbox(const struct handoff_delivery *delivery)
{
    const struct lease *lease = (const void *)delivery->space;
    return lease->offered;
}

static bool is_behind_others(struct handoff_delivery *delivery, unsigned count)
{
    return handoff_inbox_is_behind(&delivery->agent->inbox, &lease_of(delivery)->offer, count);
}

/* The poller that took it from the inbox does not get it. */
static void note_returned(struct handoff_delivery *delivery)
{
    lease_of(delivery)->attempt = delivery->attempts + 1;
}

static bool set_offer_aside(struct handoff_delivery *delivery, struct handoff_offer *to)
{
    struct lease *lease = lease_of(delivery);
    if (!handoff_inbox_replace_offer(&delivery->agent->inbox, &lease->offer, to, true))
        return false;
    lease->offered = false;
    return true;
}

static void take_up_offer(struct handoff_delivery *delivery, struct handoff_offer *from)
{
    struct lease *lease = lease_of(delivery);
    lease->offered =
        handoff_inbox_replace_offer(&delivery->agent->inbox, from, &lease->offer, false);
    if (!lease->offered)
        note_returned(delivery);
}

static void end_in_stream(struct handoff_delivery *delivery)
{
    struct handoff_stream *stream = lease_of(delivery)->stream;
    lease_of(delivery)->stream = NULL;
    if (stream)
        handoff_stream_over(stream, &delivery->id);
}

/* Nobody waits for it any more, or holds it. */
static void break_off(struct handoff_delivery *delivery)
{
    struct lease *lease = lease_of(delivery);
    withdraw_offer(delivery);
    if (lease->goes_back)
        lease->goes_back = false;
    else
        end_in_stream(delivery);
}

/* It is broken off next, and then offered again. Only then its stream has room, which would go to a
   later handoff otherwise. */
static void give_back(struct handoff_delivery *delivery)
{
    lease_of(delivery)->goes_back = true;
}

static size_t chain_size(const struct handoff_delivery *delivery)
{
    size_t size = 0;
    for (size_t i = 0; i < HANDOFF_CHAIN_HEADERS; i++)
        size += delivery->chain_headers[i] ? strlen(delivery->chain_headers[i]) + 1 : 0;
    return size;
}

/* The values, without the names. */
static void copy_chain(const struct handoff_delivery *delivery,
                       struct handoff_poller_request *request, char *to)
{
    for (size_t i = 0; i < HANDOFF_CHAIN_HEADERS; i++) {
        const char *header = delivery->chain_headers[i];
        request->chain[i] = NULL;
        if (!header)
            continue;
        const char *value = strchr(header, ' ') + 1;
        const size_t size = strlen(value) + 1;
        request->chain[i] = memcpy(to, value, size);
        to += size;
    }
}

/* The poller's copy of the envelope, and of what it is told with it. */
static bool copy_envelope(const struct handoff_delivery *delivery,
                          struct handoff_poller_request *request)
{
    struct base_buffer flat = {0};
    struct base_span body;
    const struct handoff_carrier carrier = {delivery->id_text, handoff_delivery_receiver(delivery)};
    bool chosen = handoff_body_choose(&delivery->settings->options, &carrier, delivery->envelope,
                                      &flat, &body, &request->rendering);
    request->envelope = chosen ? base_malloc(body.size + chain_size(delivery)) : NULL;
    if (request->envelope) {
        memcpy(request->envelope, body.data, body.size);
        request->envelope_size = body.size;
        copy_chain(delivery, request, request->envelope + body.size);
    }
    base_buffer_free(&flat);
    return request->envelope != NULL;
}

static bool fill_request(const struct handoff_delivery *delivery,
                         struct handoff_poller_request *request)
{
    if (!copy_envelope(delivery, request))
        return false;
    request->id = delivery->id;
    request->attempt = delivery->attempts + 1;
    int64_t left = handoff_delivery_until_deadline(delivery);
    request->lease_ms = delivery->settings->options.ack_timeout_ms;
    if (request->lease_ms > left)
        request->lease_ms = left;
    return true;
}

bool handoff_pull_lease(struct handoff_delivery *delivery, struct handoff_poller_request *request)
{
    BASE_CHECK_MAGIC(delivery, HANDOFF_DELIVERY_MAGIC);
    if (delivery->protocol != &handoff_protocol_pull || delivery->agent != request->agent)
        return false; /* since then it went to an alternate, or its agent has a URL */
    withdraw_offer(delivery);
    if (delivery->state != HANDOFF_STATE_READY || delivery->writing || delivery->hand_on ||
        !delivery->settings)
        return false;
    if (handoff_inbox_is_gone(request) || handoff_delivery_until_deadline(delivery) <= 0) {
        /* it is offered to the next, or expires */
        note_returned(delivery);
        handoff_delivery_wake_in(delivery, 0);
        return false;
    }
    if (!fill_request(delivery, request)) {
        note_returned(delivery);
        handoff_delivery_wake_in(delivery, OFFER_AGAIN_MS);
        return false;
    }
    if (!handoff_inbox_give(request, &lease_of(delivery)->stream)) {
        base_free(request->envelope);
        request->envelope = NULL;
        note_returned(delivery);
        handoff_delivery_wake_in(delivery, 0);
        return false;
    }
    lease_of(delivery)->attempt = request->attempt;
    handoff_delivery_taken(delivery, request->lease_ms);
    handoff_inbox_tell(request);
    return true;
}

/* The last lease reached nobody, and was no attempt. */
static bool was_returned(const struct handoff_delivery *delivery, const struct lease *lease)
{
    return lease->attempt == delivery->attempts + 1;
}

static bool begin_offer(struct handoff_delivery *delivery)
{
    struct lease *lease = lease_of(delivery);
    handoff_delivery_wake_in(delivery, OFFER_LOOK_MS);
    if (lease->offered) {
        handoff_delivery_waits(delivery);
        return true; /* it keeps its place */
    }
    lease->offered = true;
    lease->offer.lane = delivery->lane;
    lease->offer.id = delivery->id;
    lease->offer.feed = atomic_load_explicit(&delivery->live.feed, memory_order_relaxed);
    lease->offer.seq = delivery->seq;
    lease->offer.again = delivery->attempts > 0;
    lease->offer.returned = was_returned(delivery, lease);
    struct handoff_poller_request *request =
        handoff_inbox_offer(&delivery->agent->inbox, &lease->offer);
    end_in_stream(delivery); /* which gave it back */
    if (!request)
        handoff_delivery_waits(delivery);
    else if (!handoff_pull_lease(delivery, request))
        handoff_inbox_tell(request);
    return true;
}

static void end_lease(struct handoff_delivery *delivery)
{
    const struct handoff_finding finding = {.verdict = HANDOFF_VERDICT_RETRY,
                                            .result = HANDOFF_RESULT_TIMEOUT,
                                            .reason = "the lease expired"};
    handoff_delivery_attempt_ended(delivery, &finding);
}

static void clear_offer(struct handoff_delivery *delivery)
{
    BASE_CHECK(!lease_of(delivery)->offered && !lease_of(delivery)->stream);
}

const struct handoff_protocol handoff_protocol_pull = {
    .kind = HANDOFF_PROTOCOL_PULL,
    .pulls = true,
    .is_spoken = pull_is_spoken,
    .obstacle = handoff_body_obstacle,
    .begin = begin_offer,
    .break_off = break_off,
    .give_back = give_back,
    .time_up = end_lease,
    .is_offered = is_in_inbox,
    .is_behind = is_behind_others,
    .set_aside = set_offer_aside,
    .take_up = take_up_offer,
    .clear = clear_offer,
};
