/* SPDX-License-Identifier: Apache-2.0 */
/*
 * room.h - how many connections a listener may have, over all of its servers. Any thread.
 *
 * Beyond that number there are a few spare places: a new client is let in first, and then another
 * one gives way to it (crowd.h).
 */
#ifndef EXPORTER_HTTP_ROOM_H
#define EXPORTER_HTTP_ROOM_H

#include <stdatomic.h>
#include <stdbool.h>

#include "lib/base/quota.h"

enum {
    EXPORTER_ROOM_SPARE = 16,
    EXPORTER_ROOM_FOR_OTHERS = 4, /* one place in so many is not for polls */
};

struct exporter_room {
    struct base_quota places; /* the spare ones too; taken until a connection is closed */
    struct base_quota polls;  /* requests that wait for what may never come (polls.h) */
    unsigned most;            /* connections */
    atomic_uint held;         /* connections that were not told to go */
    unsigned servers;         /* that share it. Counted before the loops start. */
    bool is_short;            /* only because the process may have no more descriptors */
};

static inline void exporter_room_init(struct exporter_room *room, unsigned most, bool is_short)
{
    *room = (struct exporter_room){
        .places.most = most + EXPORTER_ROOM_SPARE,
        .polls.most = most > EXPORTER_ROOM_FOR_OTHERS ? most - most / EXPORTER_ROOM_FOR_OTHERS : 1,
        .most = most,
        .is_short = is_short};
}

static inline bool exporter_room_is_crowded(const struct exporter_room *room)
{
    return atomic_load_explicit(&room->held, memory_order_relaxed) > room->most;
}

#endif
