/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_internal.h - what the files of the exchange share; all but the queue, `open` and `up` is
   the exchange's thread's. */
#ifndef HANDOFF_SPINE_REMOTE_EXCHANGE_INTERNAL_H
#define HANDOFF_SPINE_REMOTE_EXCHANGE_INTERNAL_H

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "client/spine/remote/exchange.h"

#define HANDOFF_REMOTE_BEARER "Authorization: Bearer "

STAILQ_HEAD(handoff_remote_calls, handoff_remote_call);
STAILQ_HEAD(handoff_remote_waiting, handoff_remote_request);
TAILQ_HEAD(handoff_remote_running, handoff_remote_request);

struct handoff_remote_exchange {
    unsigned magic;
    struct handoff_remote_exchange_options options; /* its texts are copies */
    char *authorization;                            /* the header */
    pthread_t thread;
    CURLM *multi;

    pthread_mutex_t lock;
    pthread_cond_t greeted;            /* the first greeting has ended, in one way or another, */
    bool was_greeted;                  /* under the lock */
    struct handoff_remote_calls queue; /* under the lock */
    bool closing;                      /* under the lock */

    atomic_bool up, open; /* open: it is left alone */

    /* the thread's */
    struct handoff_remote_waiting waiting;
    struct handoff_remote_running running;
    unsigned running_count;
    unsigned failures; /* in a row */
    bool has_answered; /* ever */
    int64_t asked_ns;  /* last */
    int64_t paused_until_ns;
    struct handoff_remote_call probe, greeting;
    struct handoff_remote_request probe_request, greeting_request;
    bool probing, greeting_now;
    bool ready;          /* the server was greeted, or need not be */
    unsigned generation; /* greetings so far */
};

int64_t handoff_remote_now_ns(void);
int64_t handoff_remote_left_ms(const struct handoff_remote_call *call);

/* false: it could not even be begun, as request->failure says. */
bool handoff_remote_transfer_begin(struct handoff_remote_exchange *exchange,
                                   struct handoff_remote_request *request);
/* Takes what came of it; `result` is libcurl's. */
void handoff_remote_transfer_end(struct handoff_remote_exchange *exchange,
                                 struct handoff_remote_request *request, CURLcode result);
/* Forgets one that has not ended, or was not begun. */
void handoff_remote_transfer_abandon(struct handoff_remote_exchange *exchange,
                                     struct handoff_remote_request *request);

#endif
