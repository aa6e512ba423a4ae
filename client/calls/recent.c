/* SPDX-License-Identifier: Apache-2.0 */
/* Recently seen keys, as two sets of digests (recent.h). Any thread: a lock protects both sets. */
#include "client/calls/recent.h"

#include <string.h>

#include "lib/base/memory.h"
#include "lib/base/sha256.h"

enum { SLOTS = 2 * HANDOFF_RECENT_KEYS }; /* at most half full, which keeps probes short */
_Static_assert((SLOTS & (SLOTS - 1)) == 0, "a power of two");

void handoff_recent_init(struct handoff_recent *recent)
{
    *recent = (struct handoff_recent){0};
    pthread_mutex_init(&recent->lock, NULL);
}

void handoff_recent_free(struct handoff_recent *recent)
{
    base_free(recent->newer.keys);
    base_free(recent->older.keys);
    pthread_mutex_destroy(&recent->lock);
}

/* The sizes keep the two texts apart. */
static void make_key(struct base_span space, struct base_span name,
                     uint8_t key[HANDOFF_RECENT_KEY_BYTES])
{
    struct base_sha256 hash;
    uint8_t digest[BASE_SHA256_BYTES];
    uint64_t size = space.size;
    base_sha256_start(&hash);
    base_sha256_add(&hash, &size, sizeof size);
    base_sha256_add(&hash, space.data, space.size);
    base_sha256_add(&hash, name.data, name.size);
    base_sha256_finish(&hash, digest);
    memcpy(key, digest, HANDOFF_RECENT_KEY_BYTES);
    key[0] |= 1; /* never all zero */
}

/* Where the key is, or would be. */
static size_t recent_slot(const struct handoff_recent_set *set,
                          const uint8_t key[HANDOFF_RECENT_KEY_BYTES], bool *found)
{
    uint32_t start;
    memcpy(&start, key + 1, sizeof start);
    size_t slot = start & (SLOTS - 1);
    while (set->keys[slot][0] != 0 && memcmp(set->keys[slot], key, HANDOFF_RECENT_KEY_BYTES) != 0)
        slot = (slot + 1) & (SLOTS - 1);
    *found = set->keys[slot][0] != 0;
    return slot;
}

static bool allocate(struct handoff_recent_set *set)
{
    if (!set->keys)
        set->keys = base_calloc(SLOTS, HANDOFF_RECENT_KEY_BYTES);
    return set->keys != NULL;
}

static void change_places(struct handoff_recent *recent)
{
    struct handoff_recent_set emptied = recent->older;
    memset(emptied.keys, 0, (size_t)SLOTS * HANDOFF_RECENT_KEY_BYTES);
    emptied.count = 0;
    recent->older = recent->newer;
    recent->newer = emptied;
}

static bool add_locked(struct handoff_recent *recent, const uint8_t key[HANDOFF_RECENT_KEY_BYTES])
{
    bool found;
    if (!allocate(&recent->newer) || !allocate(&recent->older))
        return false;
    recent_slot(&recent->older, key, &found);
    if (found)
        return true;
    size_t slot = recent_slot(&recent->newer, key, &found);
    if (found)
        return true;
    memcpy(recent->newer.keys[slot], key, HANDOFF_RECENT_KEY_BYTES);
    if (++recent->newer.count == HANDOFF_RECENT_KEYS)
        change_places(recent);
    return false;
}

bool handoff_recent_add(struct handoff_recent *recent, struct base_span space,
                        struct base_span name)
{
    uint8_t key[HANDOFF_RECENT_KEY_BYTES];
    make_key(space, name, key);
    pthread_mutex_lock(&recent->lock);
    bool known = add_locked(recent, key);
    pthread_mutex_unlock(&recent->lock);
    return known;
}
