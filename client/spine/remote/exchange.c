/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls and their requests, see exchange.h; and the thread that asks a remote spine. Calls come to
 * it by a queue under a lock, which is held for nothing else than to take them; all else belongs to
 * the thread, or to the loop of a lane. transfer.c makes one request on the thread, lane.c on a
 * loop.
 */
#include "client/spine/remote/exchange.h"

#include <stdio.h>
#include <string.h>

#include "client/spine/remote/exchange_internal.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum {
    EXCHANGE_MAGIC = 0x68747078,
    PROBE_MS = 5000,        /* how often it is asked, while it is left alone, whether it is back */
    IDLE_PROBE_MS = 15000,  /* how long it is left unasked, */
    DOUBT_PROBE_MS = 1000,  /* and after a failure */
    SHORTAGE_PAUSE_MS = 50, /* before a request that we could not make is made again */
    STREAM_END_MS = 20,     /* for a server to end a stream that has given its answer; then its
                               connection is kept */
    PART_MS = 300,          /* for the last request of all */
    READ_ON_LOOP = 64 * 1024, /* bytes of answers: parsing takes up to 10 ns each */
    URL_MAX = 4096,
};

/* ---- calls ----------------------------------------------------------------------------------- */

/* Each may have one, and all share the others: then none waits for the end of another's. */
static bool take_request_place(struct handoff_remote_exchange *exchange)
{
    struct handoff_remote_exchange *home = exchange->home;
    if (exchange->running_count == 0)
        return true;
    if (atomic_fetch_add(&home->shared, 1) + atomic_load(&home->members) <
        exchange->options.connections)
        return true;
    atomic_fetch_sub(&home->shared, 1);
    return false;
}

static void give_place_back(struct handoff_remote_exchange *exchange)
{
    if (exchange->running_count > 0)
        atomic_fetch_sub(&exchange->home->shared, 1);
}

void handoff_remote_note_running(struct handoff_remote_exchange *exchange,
                                 struct handoff_remote_request *request)
{
    exchange->running_count++;
    TAILQ_INSERT_TAIL(&exchange->running, request, place);
}

void handoff_remote_leave_running(struct handoff_remote_exchange *exchange,
                                  struct handoff_remote_request *request)
{
    BASE_CHECK(exchange->running_count > 0);
    exchange->running_count--;
    TAILQ_REMOVE(&exchange->running, request, place);
    give_place_back(exchange);
}

void handoff_remote_begin_requests_of(struct handoff_remote_exchange *exchange,
                                      struct handoff_remote_call *call)
{
    BASE_CHECK(call->count > 0);
    call->exchange = exchange;
    call->open = call->count;
    call->bytes = 0;
    for (size_t i = 0; i < call->count; i++) {
        call->requests[i].call = call;
        if (call->greets)
            STAILQ_INSERT_HEAD(&exchange->waiting, &call->requests[i], entry);
        else
            STAILQ_INSERT_TAIL(&exchange->waiting, &call->requests[i], entry);
    }
}

/* Then it says nothing about the server. */
static bool call_ran_short(const struct handoff_remote_call *call)
{
    for (size_t i = 0; i < call->count; i++) {
        if (call->requests[i].failure && call->requests[i].own != HANDOFF_FAULT_NONE)
            return true;
    }
    return false;
}

/* A server that is left alone is greeted again when it is back: it may be another one. One that has
   never answered is down by its first failure. */
static void note_exchange_health(struct handoff_remote_exchange *exchange, bool failed)
{
    struct handoff_remote_exchange *home = exchange->home;
    const unsigned failures = failed ? atomic_fetch_add(&home->failures, 1) + 1 : 0;
    const bool alone = failures >= HANDOFF_SPINE_DOWN_AFTER;
    if (!failed) {
        atomic_store(&home->failures, 0);
        atomic_store(&home->has_answered, true);
    }
    atomic_store(&home->up, !alone && (!failed || atomic_load(&home->has_answered)));
    atomic_store(&home->open, alone);
    if (failures == HANDOFF_SPINE_DOWN_AFTER)
        exchange->ready = exchange->options.conversation == NULL;
}

static void end_probe(struct handoff_remote_exchange *exchange, bool ran_short)
{
    const struct handoff_remote_exchange_options *options = &exchange->options;
    if (!ran_short)
        note_exchange_health(
            exchange, !options->is_probe_answered(options->context, &exchange->probe_request));
    handoff_remote_request_free(&exchange->probe_request);
    exchange->probing = false;
}

static void end_greeting(struct handoff_remote_exchange *exchange);

static bool is_long_reading(const struct handoff_remote_call *call)
{
    size_t size = 0;
    for (size_t i = 0; i < call->count; i++)
        size += call->requests[i].answer.size;
    return size > READ_ON_LOOP;
}

/* Long answers wait for one another to be read, which a handoff does beyond its time no more than
   for the server. That it is late is not the server's fault. */
static void leave_unread(struct handoff_remote_call *call)
{
    for (size_t i = 0; i < call->count; i++) {
        struct handoff_remote_request *request = &call->requests[i];
        base_buffer_clear(&request->answer);
        if (request->failure)
            continue;
        request->failure = "its answer is long, and came too late to be read in time";
        request->own = HANDOFF_FAULT_TIME;
    }
}

/* It may free the call. */
static void give_call(struct handoff_remote_exchange *exchange, struct handoff_remote_call *call)
{
    if (exchange->loop)
        call->mail.deliver(&call->mail);
    else
        base_mailbox_post(call->mailbox, &call->mail);
}

static void end_call(struct handoff_remote_exchange *exchange, struct handoff_remote_call *call)
{
    atomic_store(&exchange->home->asked_ns, handoff_remote_now_ns());
    if (exchange->loop)
        TAILQ_REMOVE(&exchange->calls, call, entry);
    if (exchange->loop && is_long_reading(call)) {
        call->answered = true;
        handoff_remote_send_home(exchange->home, call);
        return;
    }
    if (is_long_reading(call) && handoff_remote_left_ms(call) < 0)
        leave_unread(call);
    const bool ran_short = call_ran_short(call);
    if (call->greets) {
        end_greeting(exchange);
        return;
    }
    if (call->probes) {
        end_probe(exchange, ran_short);
        return;
    }
    const bool again = call->ended(call);
    if (!ran_short) /* before anyone sees the answer */
        note_exchange_health(exchange, call->failed);
    if (!again)
        give_call(exchange, call);
    else if (exchange->loop)
        handoff_remote_lane_take(exchange, call);
    else
        handoff_remote_begin_requests_of(exchange, call);
}

void handoff_remote_end_request(struct handoff_remote_exchange *exchange,
                                struct handoff_remote_request *request)
{
    struct handoff_remote_call *call = request->call;
    BASE_CHECK(call->open > 0);
    if (--call->open == 0)
        end_call(exchange, call);
}

/* As it was before it was sent. */
void handoff_remote_rewind(struct handoff_remote_request *request)
{
    request->call->bytes -= request->answer.size;
    request->status = 0;
    request->streamed = request->whole = false;
    request->stream = (struct handoff_remote_stream){0};
    base_buffer_clear(&request->answer);
}

/* Once more within its time, and not at once. */
static void try_again(struct handoff_remote_exchange *exchange,
                      struct handoff_remote_request *request)
{
    handoff_remote_rewind(request);
    exchange->paused_until_ns = handoff_remote_now_ns() + SHORTAGE_PAUSE_MS * 1000000LL;
    if (request->call->greets)
        STAILQ_INSERT_HEAD(&exchange->waiting, request, entry);
    else
        STAILQ_INSERT_TAIL(&exchange->waiting, request, entry);
    if (exchange->options.on_shortage)
        exchange->options.on_shortage(exchange->options.observer,
                                      handoff_fault_shortage(request->own), "asking the spine");
}

/* ---- greeting -------------------------------------------------------------------------------- */

static void begin_greeting(struct handoff_remote_exchange *exchange)
{
    const struct handoff_remote_exchange_options *options = &exchange->options;
    exchange->greeting_now = true;
    exchange->greeting_request = (struct handoff_remote_request){0};
    exchange->greeting = (struct handoff_remote_call){.requests = &exchange->greeting_request,
                                                      .count = 1,
                                                      .greets = true,
                                                      .deadline_ns = handoff_remote_now_ns() +
                                                                     options->timeout_ms * 1000000};
    (void)options->conversation->greet(options->session, &exchange->greeting_request);
    handoff_remote_begin_requests_of(exchange, &exchange->greeting);
}

/* What waited for the greeting fails as it did. */
static void fail_waiting(struct handoff_remote_exchange *exchange, const char *failure,
                         enum handoff_fault own)
{
    struct handoff_remote_waiting failed = STAILQ_HEAD_INITIALIZER(failed);
    struct handoff_remote_request *request;
    STAILQ_CONCAT(&failed, &exchange->waiting);
    while ((request = STAILQ_FIRST(&failed))) {
        STAILQ_REMOVE_HEAD(&failed, entry);
        request->failure = failure;
        request->own = own;
        handoff_remote_end_request(exchange, request);
    }
}

static void tell_first_greeting(struct handoff_remote_exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    exchange->was_greeted = true;
    pthread_cond_broadcast(&exchange->greeted);
    pthread_mutex_unlock(&exchange->lock);
}

static void end_greeting(struct handoff_remote_exchange *exchange)
{
    const struct handoff_remote_exchange_options *options = &exchange->options;
    struct handoff_remote_request *request = &exchange->greeting_request;
    const enum handoff_remote_greeting how =
        options->conversation->greet(options->session, request);
    if (how == HANDOFF_REMOTE_GREETING_MORE) {
        handoff_remote_begin_requests_of(exchange, &exchange->greeting);
        return;
    }
    exchange->greeting_now = false;
    exchange->ready = how == HANDOFF_REMOTE_GREETING_DONE;
    if (exchange->ready) {
        exchange->generation++;
        options->greeted(options->context);
    } else {
        fail_waiting(exchange, request->failure, request->own);
    }
    handoff_remote_request_free(request);
    tell_first_greeting(exchange);
}

static void greet_if_needed(struct handoff_remote_exchange *exchange)
{
    if (!exchange->ready && !exchange->greeting_now && !STAILQ_EMPTY(&exchange->waiting))
        begin_greeting(exchange);
}

/* The server does not know us: the request is made once more after another greeting. Several
   answers may say so of the same greeting. */
static bool resend_if_forgotten(struct handoff_remote_exchange *exchange,
                                struct handoff_remote_request *request)
{
    const struct handoff_remote_exchange_options *options = &exchange->options;
    if (!options->conversation || request->call->greets || request->resent || request->failure ||
        !options->conversation->is_forgotten(request))
        return false;
    if (request->generation == exchange->generation)
        exchange->ready = false;
    request->resent = true;
    handoff_remote_rewind(request);
    STAILQ_INSERT_TAIL(&exchange->waiting, request, entry);
    return true;
}

/* ---- giving up ------------------------------------------------------------------------------- */

static void end_without_answer(struct handoff_remote_exchange *exchange,
                               struct handoff_remote_request *request)
{
    request->failure = "the sidecar is stopping";
    request->own = HANDOFF_FAULT_TIME;
    if (request->easy)
        handoff_remote_transfer_end(exchange, request, CURLE_OK);
    handoff_remote_end_request(exchange, request);
}

static struct handoff_remote_request *waiting_request_of(struct handoff_remote_exchange *exchange,
                                                         const struct base_mailbox *mailbox)
{
    struct handoff_remote_request *request = STAILQ_FIRST(&exchange->waiting);
    while (request && request->call->mailbox != mailbox)
        request = STAILQ_NEXT(request, entry);
    return request;
}

static struct handoff_remote_request *running_request_of(struct handoff_remote_exchange *exchange,
                                                         const struct base_mailbox *mailbox)
{
    struct handoff_remote_request *request = TAILQ_FIRST(&exchange->running);
    while (request && request->call->mailbox != mailbox)
        request = TAILQ_NEXT(request, place);
    return request;
}

/* A call that makes more requests when some have ended has them ended, too. */
static void give_up_calls(struct handoff_remote_exchange *exchange,
                          const struct base_mailbox *mailbox)
{
    struct handoff_remote_request *request;
    do {
        while ((request = waiting_request_of(exchange, mailbox))) {
            STAILQ_REMOVE(&exchange->waiting, request, handoff_remote_request, entry);
            end_without_answer(exchange, request);
        }
        while ((request = running_request_of(exchange, mailbox)))
            end_without_answer(exchange, request);
    } while (waiting_request_of(exchange, mailbox));
}

void handoff_remote_exchange_give_up(struct handoff_remote_exchange *exchange,
                                     struct base_mailbox *mailbox)
{
    struct handoff_remote_call *call = base_calloc(1, sizeof *call);
    if (!call)
        return;
    call->gives_up = true;
    call->mailbox = mailbox;
    handoff_remote_send_home(exchange, call);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void take_call(struct handoff_remote_exchange *exchange, struct handoff_remote_call *call)
{
    if (call->gives_up) {
        give_up_calls(exchange, call->mailbox);
        base_free(call);
    } else if (call->answered) {
        end_call(exchange, call);
    } else {
        handoff_remote_begin_requests_of(exchange, call);
    }
}

static bool take_calls(struct handoff_remote_exchange *exchange)
{
    struct handoff_remote_calls taken = TAILQ_HEAD_INITIALIZER(taken);
    struct handoff_remote_call *call;
    pthread_mutex_lock(&exchange->lock);
    TAILQ_CONCAT(&taken, &exchange->queue, entry);
    const bool closing = exchange->closing;
    pthread_mutex_unlock(&exchange->lock);
    while ((call = TAILQ_FIRST(&taken))) {
        TAILQ_REMOVE(&taken, call, entry);
        take_call(exchange, call);
    }
    return !closing;
}

static const char *failure_of_shortage(enum handoff_fault own)
{
    switch (own) {
    case HANDOFF_FAULT_DESCRIPTORS:
        return "the sidecar is out of file descriptors";
    case HANDOFF_FAULT_PORTS:
        return "the sidecar is out of local ports";
    default:
        return "the sidecar is out of memory";
    }
}

/* What waits beyond its time ends here: its place in the order is no reason to wait longer. */
void handoff_remote_end_late(struct handoff_remote_exchange *exchange)
{
    struct handoff_remote_waiting late = STAILQ_HEAD_INITIALIZER(late);
    struct handoff_remote_waiting rest = STAILQ_HEAD_INITIALIZER(rest);
    struct handoff_remote_request *request;
    while ((request = STAILQ_FIRST(&exchange->waiting))) {
        STAILQ_REMOVE_HEAD(&exchange->waiting, entry);
        if (handoff_remote_left_ms(request->call) <= 0)
            STAILQ_INSERT_TAIL(&late, request, entry);
        else
            STAILQ_INSERT_TAIL(&rest, request, entry);
    }
    STAILQ_CONCAT(&exchange->waiting, &rest);
    while ((request = STAILQ_FIRST(&late))) {
        STAILQ_REMOVE_HEAD(&late, entry);
        request->failure = request->own != HANDOFF_FAULT_NONE ? failure_of_shortage(request->own)
                                                              : "it did not answer in time";
        handoff_remote_end_request(exchange, request);
    }
}

/* Until the server was greeted, only the greeting, which is in front. */
static bool has_waiting(const struct handoff_remote_exchange *exchange)
{
    const struct handoff_remote_request *request = STAILQ_FIRST(&exchange->waiting);
    return request && (exchange->ready || request->call->greets);
}

static struct handoff_remote_request *next_waiting(struct handoff_remote_exchange *exchange)
{
    struct handoff_remote_request *request = STAILQ_FIRST(&exchange->waiting);
    STAILQ_REMOVE_HEAD(&exchange->waiting, entry);
    return request;
}

static bool begin_remote_request(struct handoff_remote_exchange *exchange,
                                 struct handoff_remote_request *request)
{
    const struct handoff_remote_exchange_options *options = &exchange->options;
    request->generation = exchange->generation;
    if (options->conversation)
        options->conversation->frame(options->session, request);
    return exchange->loop ? handoff_remote_lane_begin(exchange, request)
                          : handoff_remote_transfer_begin(exchange, request);
}

/* A lane reports it at the end of its loop's turn: a call is not answered while it is being made.
 */
static void refuse_to_begin(struct handoff_remote_exchange *exchange,
                            struct handoff_remote_request *request)
{
    give_place_back(exchange);
    if (exchange->loop)
        STAILQ_INSERT_TAIL(&exchange->failed, request, entry);
    else
        handoff_remote_end_request(exchange, request);
}

void handoff_remote_begin_waiting(struct handoff_remote_exchange *exchange)
{
    struct handoff_remote_request *request;
    if (STAILQ_EMPTY(&exchange->waiting) || handoff_remote_now_ns() < exchange->paused_until_ns)
        return;
    greet_if_needed(exchange);
    while (has_waiting(exchange) && take_request_place(exchange)) {
        request = next_waiting(exchange);
        if (!begin_remote_request(exchange, request))
            refuse_to_begin(exchange, request);
    }
}

static int64_t probe_pause_ms(const struct handoff_remote_exchange *exchange)
{
    if (!atomic_load(&exchange->up))
        return PROBE_MS;
    return exchange->failures > 0 ? DOUBT_PROBE_MS : IDLE_PROBE_MS;
}

static void probe_if_due(struct handoff_remote_exchange *exchange)
{
    const struct handoff_remote_exchange_options *options = &exchange->options;
    const int64_t now_ns = handoff_remote_now_ns();
    const int64_t asked_ns = atomic_load(&exchange->asked_ns);
    if (exchange->probing || now_ns - asked_ns < probe_pause_ms(exchange) * 1000000)
        return;
    exchange->probe_request = (struct handoff_remote_request){0};
    options->make_probe(options->context, &exchange->probe_request);
    exchange->probe =
        (struct handoff_remote_call){.requests = &exchange->probe_request,
                                     .count = 1,
                                     .probes = true,
                                     .deadline_ns = now_ns + options->timeout_ms * 1000000};
    exchange->probing = true;
    handoff_remote_begin_requests_of(exchange, &exchange->probe);
}

static void end_transfer(struct handoff_remote_exchange *exchange,
                         struct handoff_remote_request *request, CURLcode result)
{
    handoff_remote_transfer_end(exchange, request, result);
    if (request->own != HANDOFF_FAULT_NONE && !request->failure)
        try_again(exchange, request);
    else if (!resend_if_forgotten(exchange, request))
        handoff_remote_end_request(exchange, request);
}

void handoff_remote_end_running(struct handoff_remote_exchange *exchange,
                                struct handoff_remote_request *request)
{
    handoff_remote_leave_running(exchange, request);
    if (request->own != HANDOFF_FAULT_NONE && !request->failure)
        try_again(exchange, request);
    else
        handoff_remote_end_request(exchange, request);
}

static void end_finished(struct handoff_remote_exchange *exchange)
{
    struct handoff_remote_request *request;
    struct CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(exchange->multi, &left))) {
        const CURLcode result = message->data.result; /* gone with the handle */
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)(void *)&request);
        if (message->msg == CURLMSG_DONE)
            end_transfer(exchange, request, result);
    }
}

/* Streams that the server leaves open though it has answered. Whether there are any left. */
static bool end_answered(struct handoff_remote_exchange *exchange)
{
    struct handoff_remote_request *request, *next;
    const int64_t until_ns = handoff_remote_now_ns() - STREAM_END_MS * 1000000LL;
    bool left = false;
    for (request = TAILQ_FIRST(&exchange->running); request; request = next) {
        next = TAILQ_NEXT(request, place); /* no other one leaves */
        if (request->whole && request->whole_ns <= until_ns)
            end_transfer(exchange, request, CURLE_OK);
        else
            left = left || request->whole;
    }
    return left;
}

static void abandon_own_requests(struct handoff_remote_exchange *exchange)
{
    if (exchange->probing)
        handoff_remote_transfer_abandon(exchange, &exchange->probe_request);
    if (exchange->greeting_now)
        handoff_remote_transfer_abandon(exchange, &exchange->greeting_request);
}

/* Politeness, so it gets little time. */
static void part_from_server(struct handoff_remote_exchange *exchange)
{
    const struct handoff_remote_exchange_options *options = &exchange->options;
    const int64_t deadline_ns = handoff_remote_now_ns() + PART_MS * 1000000LL;
    struct handoff_remote_request request = {0};
    struct handoff_remote_call call = {.exchange = exchange, .deadline_ns = deadline_ns};
    int running = 1;
    request.call = &call;
    if (exchange->ready && options->conversation &&
        options->conversation->part(options->session, &request) &&
        handoff_remote_transfer_begin(exchange, &request)) {
        while (running > 0 && handoff_remote_now_ns() < deadline_ns) {
            curl_multi_perform(exchange->multi, &running);
            curl_multi_poll(exchange->multi, NULL, 0, running ? STREAM_END_MS : 0, NULL);
        }
    }
    handoff_remote_transfer_abandon(exchange, &request);
}

enum { LOOK_MS = 100 }; /* at the deadlines of what waits */

static void *run_exchange(void *argument)
{
    struct handoff_remote_exchange *exchange = argument;
    int running;
    while (take_calls(exchange)) {
        handoff_remote_end_late(exchange);
        probe_if_due(exchange);
        handoff_remote_begin_waiting(exchange);
        curl_multi_perform(exchange->multi, &running);
        end_finished(exchange);
        const bool ending = end_answered(exchange);
        handoff_remote_begin_waiting(exchange);
        const bool idle = exchange->running_count == 0 && STAILQ_EMPTY(&exchange->waiting);
        curl_multi_poll(exchange->multi, NULL, 0,
                        idle     ? PROBE_MS / 5
                        : ending ? STREAM_END_MS
                                 : LOOK_MS,
                        NULL);
    }
    abandon_own_requests(exchange);
    part_from_server(exchange);
    return NULL;
}

void handoff_remote_send_home(struct handoff_remote_exchange *home,
                              struct handoff_remote_call *call)
{
    pthread_mutex_lock(&home->lock);
    TAILQ_INSERT_TAIL(&home->queue, call, entry);
    pthread_mutex_unlock(&home->lock);
    curl_multi_wakeup(home->multi);
}

bool handoff_remote_exchange_submit(struct handoff_remote_exchange *exchange,
                                    struct handoff_remote_call *call)
{
    BASE_CHECK_MAGIC(exchange, EXCHANGE_MAGIC);
    if (atomic_load(&exchange->open))
        return false;
    struct handoff_remote_exchange *lane = handoff_remote_lane_of(exchange, call->mailbox);
    call->deadline_ns = handoff_remote_now_ns() + exchange->options.timeout_ms * 1000000;
    call->probes = call->greets = call->failed = call->answered = call->gives_up = false;
    if (lane)
        handoff_remote_lane_take(lane, call);
    else
        handoff_remote_send_home(exchange, call);
    return true;
}

bool handoff_remote_exchange_is_up(const struct handoff_remote_exchange *exchange)
{
    return atomic_load(&exchange->up);
}

/* ---- opening and closing --------------------------------------------------------------------- */

/* In its place. */
static bool copy_option(const char **text)
{
    const char *from = *text;
    *text = from ? base_strdup(from) : NULL;
    return *text || !from;
}

static bool copy_authorization(struct handoff_remote_exchange *exchange, const char *token)
{
    if (!token)
        return true;
    exchange->authorization = base_malloc(sizeof HANDOFF_REMOTE_BEARER + strlen(token));
    if (exchange->authorization)
        sprintf(exchange->authorization, HANDOFF_REMOTE_BEARER "%s", token);
    return exchange->authorization != NULL;
}

/* Paths begin with one. */
static void cut_slashes(char *url)
{
    for (size_t size = url ? strlen(url) : 0; size > 0 && url[size - 1] == '/'; size--)
        url[size - 1] = '\0';
}

/* All are NULL or copied, also on failure. */
static bool copy_exchange_options(struct handoff_remote_exchange *exchange,
                                  const struct handoff_remote_exchange_options *options)
{
    struct handoff_remote_exchange_options *own = &exchange->options;
    const char **const texts[] = {&own->url, &own->ca_file, &own->cert_file, &own->key_file};
    bool copied = true;
    *own = *options;
    own->bearer_token = NULL; /* it is in the header */
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        copied = copy_option(texts[i]) && copied;
    if (!options->conversation)
        cut_slashes((char *)(uintptr_t)own->url);
    return copied && copy_authorization(exchange, options->bearer_token);
}

static bool fill_exchange(struct handoff_remote_exchange *exchange,
                          const struct handoff_remote_exchange_options *options)
{
    exchange->ready = options->conversation == NULL;
    atomic_init(&exchange->asked_ns,
                handoff_remote_now_ns() - (int64_t)IDLE_PROBE_MS * 1000000); /* asks at once */
    exchange->multi = curl_multi_init();
    return copy_exchange_options(exchange, options) && exchange->multi &&
           curl_multi_setopt(exchange->multi, CURLMOPT_MAXCONNECTS, (long)options->connections) ==
               CURLM_OK;
}

static void free_text(const char *text)
{
    base_free((void *)(uintptr_t)text);
}

static void free_remote_exchange(struct handoff_remote_exchange *exchange)
{
    curl_multi_cleanup(exchange->multi);
    free_text(exchange->options.url);
    free_text(exchange->options.ca_file);
    free_text(exchange->options.cert_file);
    free_text(exchange->options.key_file);
    base_free(exchange->authorization);
    pthread_cond_destroy(&exchange->greeted);
    pthread_mutex_destroy(&exchange->lock);
    exchange->magic = 0;
    base_free(exchange);
}

/* Its end is certain: the greeting has a deadline. */
static void await_first_greeting(struct handoff_remote_exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    while (!exchange->was_greeted)
        pthread_cond_wait(&exchange->greeted, &exchange->lock);
    pthread_mutex_unlock(&exchange->lock);
}

/* What curl would take for an option, or for another place. */
static enum handoff_code check_url(const char *url, struct handoff_error *error)
{
    CURLU *parsed = curl_url();
    char *part = NULL;
    const bool taken =
        parsed && strlen(url) < URL_MAX && curl_url_set(parsed, CURLUPART_URL, url, 0) == CURLUE_OK;
    const bool is_http =
        taken && (strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0);
    const bool has_more =
        is_http && (curl_url_get(parsed, CURLUPART_QUERY, &part, 0) == CURLUE_OK ||
                    curl_url_get(parsed, CURLUPART_FRAGMENT, &part, 0) == CURLUE_OK ||
                    curl_url_get(parsed, CURLUPART_USER, &part, 0) == CURLUE_OK);
    curl_free(part);
    curl_url_cleanup(parsed);
    if (is_http && !has_more)
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_INVALID, "this is not the base URL of a server", "url",
                      NULL); /* which may have a password in it, so it is not shown */
    handoff_error_allow(error, "http://HOST[:PORT][/PATH] or https://..., without credentials, "
                               "query and fragment");
    return HANDOFF_ERR_INVALID;
}

enum handoff_code
handoff_remote_exchange_open(struct handoff_remote_exchange **exchange,
                             const struct handoff_remote_exchange_options *options,
                             struct handoff_error *error)
{
    *exchange = NULL;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return handoff_error_no_memory(error);
    enum handoff_code code = check_url(options->url, error);
    if (code != HANDOFF_OK)
        return code;
    struct handoff_remote_exchange *made = base_calloc(1, sizeof *made);
    if (!made)
        return handoff_error_no_memory(error);
    made->magic = EXCHANGE_MAGIC;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->greeted, NULL);
    made->home = made;
    atomic_init(&made->failures, 0);
    atomic_init(&made->has_answered, false);
    atomic_init(&made->members, 1);
    atomic_init(&made->shared, 0);
    TAILQ_INIT(&made->queue);
    LIST_INIT(&made->lanes);
    STAILQ_INIT(&made->waiting);
    TAILQ_INIT(&made->running);
    atomic_init(&made->up, true);
    atomic_init(&made->open, false);
    if (!fill_exchange(made, options) ||
        pthread_create(&made->thread, NULL, run_exchange, made) != 0) {
        free_remote_exchange(made);
        return handoff_error_no_memory(error);
    }
    if (options->conversation)
        await_first_greeting(made);
    *exchange = made;
    return HANDOFF_OK;
}

void handoff_remote_exchange_close(struct handoff_remote_exchange **exchange)
{
    struct handoff_remote_exchange *dying = *exchange;
    *exchange = NULL;
    if (!dying)
        return;
    BASE_CHECK_MAGIC(dying, EXCHANGE_MAGIC);
    pthread_mutex_lock(&dying->lock);
    BASE_CHECK(LIST_EMPTY(&dying->lanes));
    dying->closing = true;
    pthread_mutex_unlock(&dying->lock);
    curl_multi_wakeup(dying->multi);
    pthread_join(dying->thread, NULL);
    free_remote_exchange(dying);
}
