/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop that makes the requests for its calls: as posts of a transport that is a guest of the
 * loop. So a call that is answered at once costs no more turns of the loop than the requests do.
 *
 * The thread of the loop, except for joining and leaving.
 */
#include <string.h>

#include "client/spine/remote/exchange_internal.h"
#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/container.h"
#include "lib/base/memory.h"

enum {
    LANE_MAGIC = 0x6c616e65,
    LOOK_MS =
        100, /* at what waits: for a place of those for all, for its deadline, after a pause */
};

/* ---- one request ----------------------------------------------------------------------------- */

static void take_answer_body(struct handoff_remote_request *request, struct base_buffer *body)
{
    request->call->bytes += body->size;
    if (request->call->bytes > HANDOFF_REMOTE_ANSWERS_MAX) {
        request->call->bytes -= body->size;
        request->failure = HANDOFF_REMOTE_TOO_LONG_TOGETHER;
        return;
    }
    base_buffer_free(&request->answer);
    request->answer = *body;
    *body = (struct base_buffer){0};
}

static void request_was_answered(struct handoff_post *post, const struct handoff_answer *answer,
                                 const struct handoff_transport_facts *facts)
{
    struct handoff_remote_request *request =
        BASE_CONTAINER_OF(post, struct handoff_remote_request, post);
    struct handoff_remote_exchange *lane = request->call->exchange;
    BASE_CHECK_MAGIC(lane, LANE_MAGIC);
    (void)facts;
    request->own = answer->shortage == HANDOFF_SHORTAGE_NONE ? HANDOFF_FAULT_NONE : answer->fault;
    if (!answer->answered && request->own == HANDOFF_FAULT_NONE)
        request->failure = handoff_remote_failure(answer->fault, lane->options.url);
    request->status = answer->answered ? answer->status : 0;
    if (answer->answered)
        take_answer_body(request, answer->keep);
    handoff_remote_hide_token(lane, &request->answer);
    handoff_remote_end_running(lane, request);
}

static void compose_post(struct handoff_remote_exchange *lane,
                         struct handoff_remote_request *request, int64_t timeout_ms)
{
    size_t headers = 0;
    base_buffer_clear(&request->url);
    base_buffer_text(&request->url, lane->options.url);
    base_buffer_append(&request->url, request->target.data, request->target.size);
    if (lane->authorization)
        request->sent[headers++] = lane->authorization;
    if (request->body.size > 0)
        request->sent[headers++] = "Content-Type: application/json";
    request->variant = (struct handoff_post_variant){.method = request->method,
                                                     .accept = lane->options.accept,
                                                     .answer_max = HANDOFF_REMOTE_ANSWER_MAX};
    request->post = (struct handoff_post){.url = request->url.data,
                                          .variant = &request->variant,
                                          .headers = request->sent,
                                          .nheaders = headers,
                                          .body = request->body.data,
                                          .size = request->body.size,
                                          .timeout_ms = timeout_ms,
                                          .tls = &lane->tls,
                                          .done = request_was_answered};
}

bool handoff_remote_lane_begin(struct handoff_remote_exchange *lane,
                               struct handoff_remote_request *request)
{
    const int64_t timeout_ms = handoff_remote_left_ms(request->call);
    if (timeout_ms <= 0) {
        request->failure = "it did not answer in time";
        return false;
    }
    compose_post(lane, request, timeout_ms);
    if (!request->target.failed && !request->body.failed && !request->url.failed &&
        handoff_transport_start(lane->transport, &request->post) == HANDOFF_OK) {
        request->own = HANDOFF_FAULT_NONE;
        handoff_remote_note_running(lane, request);
        return true;
    }
    request->failure = "there is no memory for the request";
    request->own = HANDOFF_FAULT_MEMORY;
    return false;
}

/* ---- its place in a turn of the loop --------------------------------------------------------- */

static void look_again_later(struct handoff_remote_exchange *lane)
{
    if (!STAILQ_EMPTY(&lane->waiting) && !base_timer_started(&lane->look))
        base_loop_start_timer(lane->loop, &lane->look, LOOK_MS);
}

static void begin_what_waits(struct handoff_remote_exchange *lane)
{
    handoff_remote_begin_waiting(lane);
    look_again_later(lane);
}

void handoff_remote_lane_take(struct handoff_remote_exchange *lane,
                              struct handoff_remote_call *call)
{
    TAILQ_INSERT_TAIL(&lane->calls, call, entry);
    handoff_remote_begin_requests_of(lane, call);
    begin_what_waits(lane);
}

static void look_at_waiting(struct base_timer *timer)
{
    struct handoff_remote_exchange *lane =
        BASE_CONTAINER_OF(timer, struct handoff_remote_exchange, look);
    BASE_CHECK_MAGIC(lane, LANE_MAGIC);
    handoff_remote_end_late(lane);
    begin_what_waits(lane);
}

static struct handoff_remote_exchange *lane_of_guest(struct base_guest *guest)
{
    struct handoff_remote_exchange *lane =
        BASE_CONTAINER_OF(guest, struct handoff_remote_exchange, guest);
    BASE_CHECK_MAGIC(lane, LANE_MAGIC);
    return lane;
}

static int64_t lane_of_spine_wait_ms(struct base_guest *guest)
{
    return STAILQ_EMPTY(&lane_of_guest(guest)->failed) ? -1 : 0;
}

static void settle_lane_of_spine(struct base_guest *guest)
{
    struct handoff_remote_exchange *lane = lane_of_guest(guest);
    struct handoff_remote_request *request;
    handoff_transport_settle(lane->transport);
    while ((request = STAILQ_FIRST(&lane->failed))) {
        STAILQ_REMOVE_HEAD(&lane->failed, entry);
        handoff_remote_end_request(lane, request);
    }
    begin_what_waits(lane);
}

static void finish_lane_of_spine(struct base_guest *guest)
{
    (void)guest;
}

/* ---- joining and leaving --------------------------------------------------------------------- */

struct handoff_remote_exchange *handoff_remote_lane_of(struct handoff_remote_exchange *home,
                                                       const struct base_mailbox *mailbox)
{
    struct handoff_remote_exchange *lane;
    pthread_mutex_lock(&home->lock);
    LIST_FOREACH (lane, &home->lanes, entry) {
        if (&lane->loop->mailbox == mailbox)
            break;
    }
    pthread_mutex_unlock(&home->lock);
    return lane;
}

static void fill_lane(struct handoff_remote_exchange *lane, struct handoff_remote_exchange *home,
                      struct base_loop *loop)
{
    lane->magic = LANE_MAGIC;
    lane->home = home;
    lane->options = home->options;
    lane->authorization = home->authorization;
    lane->tls = (struct handoff_tls){.ca_file = home->options.ca_file,
                                     .cert_file = home->options.cert_file,
                                     .key_file = home->options.key_file};
    lane->ready = true;
    lane->loop = loop;
    lane->guest = (struct base_guest){.wait_ms = lane_of_spine_wait_ms,
                                      .settle = settle_lane_of_spine,
                                      .finish = finish_lane_of_spine};
    lane->look.fire = look_at_waiting;
    STAILQ_INIT(&lane->waiting);
    STAILQ_INIT(&lane->failed);
    TAILQ_INIT(&lane->running);
    TAILQ_INIT(&lane->calls);
}

void handoff_remote_exchange_join(struct handoff_remote_exchange *exchange, struct base_loop *loop)
{
    const unsigned members = atomic_load(&exchange->members);
    if (exchange->options.conversation || exchange->options.connections <= members)
        return;
    struct handoff_remote_exchange *lane = base_calloc(1, sizeof *lane);
    if (!lane)
        return;
    fill_lane(lane, exchange, loop);
    if (handoff_transport_new(&lane->transport, &loop->poller, &loop->timers, loop->clock,
                              &lane->quota, NULL) != HANDOFF_OK) {
        base_free(lane);
        return;
    }
    base_loop_invite(loop, &lane->guest);
    atomic_fetch_add(&exchange->members, 1);
    pthread_mutex_lock(&exchange->lock);
    LIST_INSERT_HEAD(&exchange->lanes, lane, entry);
    pthread_mutex_unlock(&exchange->lock);
}

/* What was answered already is asked for again: all answers are read together. */
static void break_off_call(struct handoff_remote_exchange *lane, struct handoff_remote_call *call)
{
    for (size_t i = 0; i < call->count; i++) {
        struct handoff_remote_request *request = &call->requests[i];
        if (request->post.transfer) {
            handoff_transport_cancel(lane->transport, &request->post);
            handoff_remote_leave_running(lane, request);
        }
        handoff_remote_rewind(request);
        request->failure = NULL;
    }
}

static void free_lane_of_spine(struct handoff_remote_exchange *lane)
{
    BASE_CHECK(TAILQ_EMPTY(&lane->running) && lane->running_count == 0);
    base_loop_dismiss(lane->loop, &lane->guest);
    base_timers_stop(&lane->loop->timers, &lane->look);
    handoff_transport_free(&lane->transport);
    lane->magic = 0;
    base_free(lane);
}

void handoff_remote_exchange_leave(struct handoff_remote_exchange *exchange, struct base_loop *loop)
{
    struct handoff_remote_exchange *lane = handoff_remote_lane_of(exchange, &loop->mailbox);
    struct handoff_remote_call *call;
    if (!lane)
        return;
    pthread_mutex_lock(&exchange->lock);
    LIST_REMOVE(lane, entry);
    pthread_mutex_unlock(&exchange->lock);
    while ((call = TAILQ_FIRST(&lane->calls))) {
        TAILQ_REMOVE(&lane->calls, call, entry);
        break_off_call(lane, call);
        handoff_remote_send_home(exchange, call);
    }
    free_lane_of_spine(lane);
    atomic_fetch_sub(&exchange->members, 1);
}
