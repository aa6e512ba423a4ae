/* SPDX-License-Identifier: Apache-2.0 */
/*
 * curl_loop.h - libcurl's multi interface inside somebody else's loop.
 *
 * Of a job only what is the same for all is done here: its sockets are watched, its time-outs fire,
 * its end is told. Belongs to one loop, as everything it lends.
 */
#ifndef HANDOFF_TRANSPORT_CURL_LOOP_H
#define HANDOFF_TRANSPORT_CURL_LOOP_H

#include <curl/curl.h>
#include <stdbool.h>

#include "client/handoff.h"
#include "client/transport/fault.h"
#include "lib/base/clock.h"
#include "lib/base/poller.h"
#include "lib/base/timers.h"

struct handoff_curl;

/* Embedded in the owner of an easy handle. */
struct handoff_curl_job {
    void (*ended)(struct handoff_curl_job *job, CURLcode code);
    CURL *easy;
    char error[CURL_ERROR_SIZE];
};

/* The poller, the timers and the clock are lent for its life. */
enum handoff_code handoff_curl_new(struct handoff_curl **curl, struct base_poller *poller,
                                   struct base_timers *timers, const struct base_clock *clock,
                                   struct handoff_error *error) HANDOFF_MUST_CHECK;
/* No job may be under way. */
void handoff_curl_free(struct handoff_curl **curl);

/* Sets what holds for every job, on a new handle or on one that was reset. A setting can only fail
   for want of memory or of a feature in this build of curl; either way the handle is not to be
   used. */
bool handoff_curl_prepare(struct handoff_curl *curl, struct handoff_curl_job *job);

/* false: no memory, and nothing started. */
bool handoff_curl_start(struct handoff_curl *curl, struct handoff_curl_job *job);
/* Has to be called for each that was started, also from or after `ended`. */
void handoff_curl_stop(struct handoff_curl *curl, struct handoff_curl_job *job);

/* Tells which jobs have ended. Called after the poller and the timers ran. */
void handoff_curl_settle(struct handoff_curl *curl);

/* curl_failure.c: what it failed of; the detail is lent by the job. A time-out is one of the two
   that were given: until there is a connection, and for the whole. */
struct handoff_failure handoff_curl_failure(const struct handoff_curl_job *job, CURLcode code,
                                            int64_t connect_ms, int64_t answer_ms);
/* Whether it failed of nothing but the missing close_notify, by which TLS tells an end from a cut.
 */
bool handoff_curl_ended_without_notify(const struct handoff_curl_job *job, CURLcode code);

#endif
