/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recent.h - which keys were seen lately, in bounded memory.
 *
 * Two sets of digests, each of HANDOFF_RECENT_KEYS at most: the newer one is filled, then the older
 * one is emptied and they change places. So at least the last HANDOFF_RECENT_KEYS keys are known,
 * and at most twice as many; nothing is allocated before the first key, and 2 MiB in all. A digest
 * represents a key: SHA-256 cut to 16 bytes, so that no one can construct a collision.
 *
 * Any thread.
 */
#ifndef HANDOFF_CALLS_RECENT_H
#define HANDOFF_CALLS_RECENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/span.h"

enum { HANDOFF_RECENT_KEYS = 32768, HANDOFF_RECENT_KEY_BYTES = 16 };

struct handoff_recent_set {
    uint8_t (*keys)[HANDOFF_RECENT_KEY_BYTES]; /* a hash table; all zero: free */
    unsigned count;
};

struct handoff_recent {
    pthread_mutex_t lock;
    struct handoff_recent_set newer, older;
};

void handoff_recent_init(struct handoff_recent *recent);
void handoff_recent_free(struct handoff_recent *recent);

/* Remembers the key that the two texts make. True: it was known. Without memory nothing is known:
 * what is told twice is then counted twice. */
bool handoff_recent_add(struct handoff_recent *recent, struct base_span space,
                        struct base_span name);

#endif
