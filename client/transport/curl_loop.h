/* SPDX-License-Identifier: Apache-2.0 */
/*
 * curl_loop.h - libcurl's multi interface inside an existing event loop.
 *
 * Does what all jobs share: watches their sockets, fires their time-outs and reports their end.
 * Curl neither resolves names nor connects: it is given connections (dial.h).
 * Belongs to one loop, and runs on its thread.
 */
#ifndef HANDOFF_TRANSPORT_CURL_LOOP_H
#define HANDOFF_TRANSPORT_CURL_LOOP_H

#include <curl/curl.h>
#include <stdbool.h>

#include "client/handoff.h"
#include "client/transport/fault.h"
#include "client/transport/resolver.h"
#include "lib/base/clock.h"
#include "lib/base/poller.h"
#include "lib/base/quota.h"
#include "lib/base/timers.h"

struct handoff_curl;

/* Embedded in the owner of an easy handle. */
struct handoff_curl_job {
    void (*ended)(struct handoff_curl_job *job, CURLcode code);
    CURL *easy;
    char error[CURL_ERROR_SIZE];
    /* A connection for it, dialled by the owner, which curl takes over, with its place in the
       quota, when it wants one; fd -1: there is none. Where curl wants one then, `wants_connection`
       is called from within curl: the owner stops the job later, dials, and starts it again. */
    int fd;
    struct handoff_address address; /* that fd is connected to */
    void (*wants_connection)(struct handoff_curl_job *job);
    struct handoff_curl *curl; /* set by prepare */
};

/* The poller, the timers, the clock and the quota must outlive it. */
enum handoff_code handoff_curl_new(struct handoff_curl **curl, struct base_poller *poller,
                                   struct base_timers *timers, const struct base_clock *clock,
                                   struct base_quota *quota,
                                   struct handoff_error *error) HANDOFF_MUST_CHECK;
/* No job may be in progress. */
void handoff_curl_free(struct handoff_curl **curl);

/* Applies the settings of every job, to a new handle or one that was reset. A setting fails only
 * for lack of memory or of a feature in this build of curl; either way the handle must not be used.
 */
bool handoff_curl_prepare(struct handoff_curl *curl, struct handoff_curl_job *job);

/* false: out of memory, nothing was started. */
bool handoff_curl_start(struct handoff_curl *curl, struct handoff_curl_job *job);
/* Must be called for each job that was started, also from or after `ended`. */
void handoff_curl_stop(struct handoff_curl *curl, struct handoff_curl_job *job);

/* Calls `ended` of the jobs that have ended. Called after the poller and the timers ran. */
void handoff_curl_settle(struct handoff_curl *curl);

/* In curl_failure.c: why it failed; the detail is lent by the job. The two times are those given to
 * connect, and for the whole transfer. */
struct handoff_failure handoff_curl_failure(const struct handoff_curl_job *job, CURLcode code,
                                            int64_t connect_ms, int64_t answer_ms);
/* Whether it failed only because close_notify is missing, by which TLS distinguishes a complete
 * transfer from a truncated one. */
bool handoff_curl_ended_without_notify(const struct handoff_curl_job *job, CURLcode code);

#endif
