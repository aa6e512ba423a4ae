/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plain.h - POSTs over plain HTTP/1.1: kept connections, and exchanges of a request for an answer.
 *
 * Behind transport.h, which says what a post is. One loop's, as everything it lends.
 */
#ifndef HANDOFF_TRANSPORT_PLAIN_H
#define HANDOFF_TRANSPORT_PLAIN_H

#include "client/transport/curl_loop.h"
#include "client/transport/origin.h"
#include "client/transport/transport.h"

struct handoff_plain;

/* All are lent for its life; curl makes the connections. NULL: no memory. */
struct handoff_plain *handoff_plain_new(struct handoff_curl *curl, struct base_poller *poller,
                                        struct base_timers *timers, const struct base_clock *clock);
/* Nothing may be under way. */
void handoff_plain_free(struct handoff_plain **plain);

/* NULL: the URL is none of plain HTTP. */
struct handoff_origin *handoff_plain_origin(struct handoff_plain *plain, const char *url);

/* As handoff_transport_start; takes the use of the origin over. */
enum handoff_code handoff_plain_start(struct handoff_plain *plain, struct handoff_origin *origin,
                                      struct handoff_post *post) HANDOFF_MUST_CHECK;

/* Tells what has ended. Called after the poller and the timers ran. */
void handoff_plain_settle(struct handoff_plain *plain);

#endif
