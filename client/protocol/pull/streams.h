/* SPDX-License-Identifier: Apache-2.0 */
/*
 * streams.h - what those who follow an inbox were given.
 *
 * A follower (client/calls/follow.c) asks for one handoff after the other, and holds a limited
 * number of leases: beyond that it waits until one of them is over. The handoffs that it was given
 * are kept with the inbox, in their order, until none of them is leased any more and nobody
 * follows. So a client whose connection broke can say which of them it has: what came after that
 * never reached it, and is offered again at once, while what it has stays leased to it. The record
 * is then its again, with what counts against its limit.
 *
 * A lease is over on the lane of its handoff, and a follower is on another one: everything here is
 * under the lock of the inbox. Any thread.
 */
#ifndef HANDOFF_PROTOCOL_PULL_STREAMS_H
#define HANDOFF_PROTOCOL_PULL_STREAMS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "client/handoff.h"
#include "lib/base/uuid.h"

struct handoff_inbox;
struct handoff_poller_request;
struct handoff_stream;

enum { HANDOFF_STREAM_EVENTS = 2 * HANDOFF_FOLLOW_LEASES_MAX }; /* that a record keeps */

enum handoff_stream_state {
    HANDOFF_STREAM_OVER,
    HANDOFF_STREAM_LEASED,
    HANDOFF_STREAM_RETURNING, /* leased, and on its way back */
};

struct handoff_stream_event {
    struct base_uuid id;
    uint32_t attempt;
    enum handoff_stream_state state;
};

/* Embedded in a follower. Under the lock of the inbox. */
struct handoff_stream_holder {
    struct handoff_stream *stream; /* NULL: it has none yet, or another follower took it over */
    struct handoff_poller_request *waiting; /* its request, in the inbox or for room; NULL: none */
};

struct handoff_stream {
    LIST_ENTRY(handoff_stream) entry;
    struct handoff_inbox *inbox;
    struct base_uuid id;                  /* stands for the event before the first */
    struct handoff_stream_holder *holder; /* NULL: its connection has ended */
    unsigned most, leased;                /* leases */
    unsigned returning;                   /* of these, on their way back */
    size_t count;
    struct handoff_stream_event events[HANDOFF_STREAM_EVENTS]; /* oldest first */
};

LIST_HEAD(handoff_stream_list, handoff_stream);

/* What a client never got. */
struct handoff_stream_lost {
    size_t count;
    struct handoff_stream_event events[HANDOFF_STREAM_EVENTS];
};

/* The holder begins to follow: by the record in which `last` is an event, or, where no record has
   it (or NULL was given), by the new one. What came after `last` is in `lost` and has to be
   returned. The record that is not needed is freed. */
void handoff_stream_open(struct handoff_inbox *inbox, struct handoff_stream_holder *holder,
                         struct handoff_stream *made, const struct base_uuid *last,
                         struct handoff_stream_lost *lost);
/* It follows no more. So many of the events that it was given last never reached the client, and
   have to be returned: those that are still leased are in `lost`. */
void handoff_stream_close(struct handoff_inbox *inbox, struct handoff_stream_holder *holder,
                          unsigned unsent, struct handoff_stream_lost *lost);
/* Nobody has taken over what it follows by. */
bool handoff_stream_is_held(struct handoff_inbox *inbox,
                            const struct handoff_stream_holder *holder);
/* The lease that the stream was given is over. The stream may be gone after the call. */
void handoff_stream_over(struct handoff_stream *stream, const struct base_uuid *id);

/* ---- for the inbox, which has its lock ------------------------------------------------------- */

/* What comes back is older than what the inbox has: it is waited for. */
static inline bool handoff_stream_is_full(const struct handoff_stream *stream)
{
    return stream->leased >= stream->most || stream->returning > 0;
}

/* There is room: it is not full. */
void handoff_stream_add(struct handoff_stream *stream, const struct base_uuid *id,
                        uint32_t attempt);

#endif
