/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pushing: an attempt is one POST, and its answer is the finding (verdict.h). The headers name the
 * handoff, so that an agent recognizes one that it was sent before, and its chain. On the
 * delivery's lane.
 */
#include "client/protocol/push/push.h"

#include <string.h>

#include "client/deliver/delivery.h"
#include "client/protocol/body.h"
#include "client/protocol/push/verdict.h"
#include "client/transport/transport.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/decimal.h"
#include "lib/base/hide.h"
#include "lib/base/memory.h"

#define ID_HEADER      "Handoff-Id: "
#define KEY_HEADER     "Idempotency-Key: "
#define ATTEMPT_HEADER "Handoff-Attempt: "

/* In the delivery's space; zeroed before the first attempt. */
struct push {
    struct handoff_post post;
    struct handoff_tls tls;
    struct base_buffer flat; /* the body for an agent that is sent another form */
    const char *headers[HANDOFF_TRANSPORT_HEADERS_MAX];
    char id_header[sizeof ID_HEADER - 1 + BASE_UUID_TEXT];
    char key_header[sizeof KEY_HEADER - 1 + BASE_UUID_TEXT];
    char attempt_header[sizeof ATTEMPT_HEADER - 1 + BASE_DECIMAL_SIZE];
    bool unheard; /* the last one timed out: its connection may have been dead */
};
_Static_assert(sizeof(struct push) <= HANDOFF_PROTOCOL_SPACE &&
                   _Alignof(struct push) <= _Alignof(int64_t),
               "it fits into a delivery");
_Static_assert(sizeof((struct handoff_transport_facts *)0)->peer == HANDOFF_PEER_SIZE,
               "an address is recorded whole");

static struct push *push_of(struct handoff_delivery *delivery)
{
    return (void *)delivery->space;
}

static bool push_is_spoken(const struct handoff_agent_options *options)
{
    return options->url != NULL;
}

static size_t fill_headers(const struct handoff_delivery *delivery, struct push *push,
                           enum handoff_rendering rendering)
{
    const char **headers = push->headers;
    size_t count = 0;
    memcpy(push->id_header, ID_HEADER, sizeof ID_HEADER - 1);
    memcpy(push->id_header + sizeof ID_HEADER - 1, delivery->id_text, BASE_UUID_TEXT);
    memcpy(push->key_header, KEY_HEADER, sizeof KEY_HEADER - 1);
    memcpy(push->key_header + sizeof KEY_HEADER - 1, delivery->id_text, BASE_UUID_TEXT);
    memcpy(push->attempt_header, ATTEMPT_HEADER, sizeof ATTEMPT_HEADER - 1);
    base_decimal(delivery->attempt.number, push->attempt_header + sizeof ATTEMPT_HEADER - 1);
    headers[count++] = handoff_body_type(rendering);
    headers[count++] = push->id_header;
    headers[count++] = push->key_header;
    headers[count++] = push->attempt_header;
    for (size_t i = 0; i < HANDOFF_CHAIN_HEADERS; i++) {
        if (delivery->chain_headers[i])
            headers[count++] = delivery->chain_headers[i];
    }
    if (delivery->traceparent)
        headers[count++] = delivery->traceparent;
    if (delivery->tracestate)
        headers[count++] = delivery->tracestate;
    if (delivery->settings->authorization)
        headers[count++] = delivery->settings->authorization;
    return count;
}

/* Its answer as it may be kept: an agent that repeats the token it was sent does not get it into
   the record of the attempt. `copy` is the caller's to free. false: out of memory. */
static bool hide_token_of_agent(const struct handoff_delivery *delivery,
                                struct handoff_answer *answer, char **copy)
{
    const char *authorization = delivery->settings->authorization;
    *copy = NULL;
    if (!authorization || !answer->body_size)
        return true;
    const char *token = strrchr(authorization, ' ') + 1;
    if (!base_has_credential(answer->body, answer->body_size, token))
        return true;
    if (!(*copy = base_malloc(answer->body_size)))
        return false;
    memcpy(*copy, answer->body, answer->body_size);
    base_hide_credential(*copy, answer->body_size, token);
    answer->body = *copy;
    return true;
}

static void on_post_done(struct handoff_post *post, const struct handoff_answer *answer,
                         const struct handoff_transport_facts *facts)
{
    struct push *push = BASE_CONTAINER_OF(post, struct push, post);
    struct handoff_delivery *delivery = BASE_CONTAINER_OF(push, struct handoff_delivery, space);
    BASE_CHECK_MAGIC(delivery, HANDOFF_DELIVERY_MAGIC);
    struct handoff_finding finding;
    char publication[BASE_UUID_TEXT];
    struct handoff_named named = {.handoff = delivery->id_text};
    if (handoff_delivery_is_of_publication(delivery)) {
        base_uuid_format(&delivery->publication, publication);
        named.publication = publication;
    }
    if (answer->shortage != HANDOFF_SHORTAGE_NONE) {
        handoff_delivery_not_attempted(delivery, answer->shortage);
        return;
    }
    push->unheard = !answer->answered && answer->failure == HANDOFF_RESULT_TIMEOUT;
    struct handoff_answer clean = *answer;
    char *copy;
    if (!hide_token_of_agent(delivery, &clean, &copy)) {
        handoff_delivery_not_attempted(delivery, HANDOFF_SHORTAGE_MEMORY);
        return;
    }
    handoff_judge(&clean, &named, delivery->settings->options.ack, &finding);
    base_free(copy);
    if (finding.shortage != HANDOFF_SHORTAGE_NONE) {
        handoff_delivery_not_attempted(delivery, finding.shortage);
        return;
    }
    finding.status = answer->answered ? answer->status : 0;
    finding.duration_us = facts->duration_us;
    finding.peer = facts->peer;
    finding.fault = facts->error;
    handoff_delivery_attempt_ended(delivery, &finding);
    base_free(finding.next);
    base_buffer_free(&finding.lacking);
}

static bool begin_push(struct handoff_delivery *delivery)
{
    const struct handoff_agent_options *options = &delivery->settings->options;
    struct push *push = push_of(delivery);
    int64_t left = handoff_delivery_until_deadline(delivery);
    struct base_span body;
    enum handoff_rendering rendering;
    const struct handoff_carrier carrier = {delivery->id_text, handoff_delivery_receiver(delivery)};
    if (!handoff_body_choose(options, &carrier, delivery->envelope, &push->flat, &body, &rendering))
        return false;
    push->post = (struct handoff_post){
        .url = options->url,
        .headers = push->headers,
        .nheaders = fill_headers(delivery, push, rendering),
        .body = body.data,
        .size = body.size,
        .timeout_ms = options->timeout_ms < left ? options->timeout_ms : left,
        .fresh = push->unheard,
        .done = on_post_done,
    };
    if (options->ca_file || options->cert_file) {
        push->tls = (struct handoff_tls){options->ca_file, options->cert_file, options->key_file};
        push->post.tls = &push->tls;
    }
    return handoff_transport_start(delivery->lane->protocols.transport, &push->post) == HANDOFF_OK;
}

static void break_off_push(struct handoff_delivery *delivery)
{
    handoff_transport_cancel(delivery->lane->protocols.transport, &push_of(delivery)->post);
}

static void clear_push(struct handoff_delivery *delivery)
{
    struct push *push = push_of(delivery);
    BASE_CHECK(!push->post.transfer);
    base_buffer_free(&push->flat);
}

const struct handoff_protocol handoff_protocol_push = {
    .kind = HANDOFF_PROTOCOL_PUSH,
    .retry_after_max_ms = HANDOFF_RETRY_AFTER_MAX_MS,
    .is_spoken = push_is_spoken,
    .obstacle = handoff_body_obstacle,
    .begin = begin_push,
    .break_off = break_off_push,
    .clear = clear_push,
};
