/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange_internal.h - what the files of the exchange share.
 *
 * Requests run in a struct handoff_remote_exchange: in that of the thread, which is home to all, or
 * in a lane, which is another one for a loop. What is known of the server is at home. Each of them
 * may always run one request; the other places are for all.
 */
#ifndef HANDOFF_SPINE_REMOTE_EXCHANGE_INTERNAL_H
#define HANDOFF_SPINE_REMOTE_EXCHANGE_INTERNAL_H

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "client/spine/remote/exchange.h"

#define HANDOFF_REMOTE_BEARER            "Authorization: Bearer "

#define HANDOFF_REMOTE_TOO_LONG_TOGETHER "its answers are too long together"

enum {
    HANDOFF_REMOTE_ANSWER_MAX = 8 * 1024 * 1024, /* bytes: a thousand memories of 8 KiB */
    /* of all requests of a call: a thousand of 64 KiB */
    HANDOFF_REMOTE_ANSWERS_MAX = 8 * HANDOFF_REMOTE_ANSWER_MAX,
};

TAILQ_HEAD(handoff_remote_calls, handoff_remote_call);
STAILQ_HEAD(handoff_remote_waiting, handoff_remote_request);
TAILQ_HEAD(handoff_remote_running, handoff_remote_request);
LIST_HEAD(handoff_remote_lanes, handoff_remote_exchange);

struct handoff_remote_exchange {
    unsigned magic;
    struct handoff_remote_exchange *home; /* itself, or the one of a lane */
    struct handoff_remote_exchange_options
        options;         /* texts are copies, a lane's are lent by home */
    char *authorization; /* the header; likewise */

    /* its thread's, or its loop's */
    struct handoff_remote_waiting waiting;
    struct handoff_remote_running running;
    int64_t paused_until_ns;
    unsigned running_count;
    unsigned generation; /* greetings so far */
    bool ready;          /* the server was greeted, or need not be */

    /* of home, any thread's: */
    atomic_bool up, open;        /* open: it is left alone */
    atomic_bool has_answered;    /* ever */
    atomic_uint failures;        /* in a row */
    atomic_uint members, shared; /* the thread and the lanes; the places for all that are taken */
    _Atomic(int64_t) asked_ns;   /* last */
    pthread_mutex_t lock;
    pthread_cond_t greeted;            /* the first greeting has ended, in one way or another */
    struct handoff_remote_calls queue; /* under the lock, like the next three */
    struct handoff_remote_lanes lanes;
    bool was_greeted, closing;

    /* of home, its thread's: */
    bool probing, greeting_now;
    pthread_t thread;
    CURLM *multi;
    struct handoff_remote_call probe, greeting;
    struct handoff_remote_request probe_request, greeting_request;

    /* of a lane, its loop's: */
    struct base_loop *loop; /* NULL: it is home */
    struct base_guest guest;
    struct base_quota quota;
    struct handoff_transport *transport;
    struct handoff_tls tls;
    struct base_timer look;               /* at what waits */
    struct handoff_remote_calls calls;    /* under way */
    struct handoff_remote_waiting failed; /* could not be begun */
    LIST_ENTRY(handoff_remote_exchange) entry;
};

int64_t handoff_remote_now_ns(void);
int64_t handoff_remote_left_ms(const struct handoff_remote_call *call);

/* The places of exchange.c, which both kinds run in. */
void handoff_remote_begin_requests_of(struct handoff_remote_exchange *exchange,
                                      struct handoff_remote_call *call);
void handoff_remote_begin_waiting(struct handoff_remote_exchange *exchange);
void handoff_remote_end_late(struct handoff_remote_exchange *exchange);
void handoff_remote_end_request(struct handoff_remote_exchange *exchange,
                                struct handoff_remote_request *request);
void handoff_remote_rewind(struct handoff_remote_request *request);
/* Takes it from those that run; then it is made again, or has ended. */
void handoff_remote_end_running(struct handoff_remote_exchange *exchange,
                                struct handoff_remote_request *request);
void handoff_remote_leave_running(struct handoff_remote_exchange *exchange,
                                  struct handoff_remote_request *request);
void handoff_remote_note_running(struct handoff_remote_exchange *exchange,
                                 struct handoff_remote_request *request);
/* For the thread, with the deadline that the call has. Any thread. */
void handoff_remote_send_home(struct handoff_remote_exchange *home,
                              struct handoff_remote_call *call);
/* Why there is no answer, in words; constant. */
const char *handoff_remote_failure(enum handoff_fault fault, const char *url);
/* A server that repeats the credentials it was sent does not get them into errors or memories. */
void handoff_remote_hide_token(const struct handoff_remote_exchange *exchange,
                               struct base_buffer *answer);

/* The lane of a loop, or NULL. */
struct handoff_remote_exchange *handoff_remote_lane_of(struct handoff_remote_exchange *home,
                                                       const struct base_mailbox *mailbox);
void handoff_remote_lane_take(struct handoff_remote_exchange *lane,
                              struct handoff_remote_call *call);
/* false: it could not even be begun, as request->failure says. */
bool handoff_remote_lane_begin(struct handoff_remote_exchange *lane,
                               struct handoff_remote_request *request);

/* The same, with libcurl on the thread. */
bool handoff_remote_transfer_begin(struct handoff_remote_exchange *exchange,
                                   struct handoff_remote_request *request);
/* Takes what came of it; `result` is libcurl's. */
void handoff_remote_transfer_end(struct handoff_remote_exchange *exchange,
                                 struct handoff_remote_request *request, CURLcode result);
/* Forgets one that has not ended, or was not begun. */
void handoff_remote_transfer_abandon(struct handoff_remote_exchange *exchange,
                                     struct handoff_remote_request *request);

#endif
