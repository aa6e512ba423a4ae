/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plain.h - POSTs over plain HTTP/1.1: kept connections, and exchanges of a request for an answer.
 *
 * Behind transport.h, which says what a post is. Belongs to one loop, and runs on its thread.
 */
#ifndef HANDOFF_TRANSPORT_PLAIN_H
#define HANDOFF_TRANSPORT_PLAIN_H

#include "client/transport/curl_loop.h"
#include "client/transport/origin.h"
#include "client/transport/transport.h"

struct handoff_plain;

/* All of them must outlive it; curl makes the connections. NULL: out of memory. */
struct handoff_plain *handoff_plain_new(struct handoff_curl *curl, struct base_poller *poller,
                                        struct base_timers *timers, const struct base_clock *clock);
/* Nothing may be in progress. */
void handoff_plain_free(struct handoff_plain **plain);

/* NULL: not a plain HTTP URL. */
struct handoff_origin *handoff_plain_origin(struct handoff_plain *plain, const char *url);

/* As handoff_transport_start; takes over the use of the origin. */
enum handoff_code handoff_plain_start(struct handoff_plain *plain, struct handoff_origin *origin,
                                      struct handoff_post *post) HANDOFF_MUST_CHECK;

/* Calls `done` of the posts that have ended. Called after the poller and the timers ran. */
void handoff_plain_settle(struct handoff_plain *plain);

#endif
