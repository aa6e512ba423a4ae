/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configured channels, see channels.h. Any thread: the lock is held while a channel is copied.
 */
#include "client/channels/channels.h"

#include <string.h>

#include "lib/base/memory.h"
#include "lib/base/nearest.h"

struct handoff_channel_set {
    struct base_arena arena; /* holds all that follows */
    struct handoff_channel_options *items;
    size_t count;
};

static bool copy_channel(struct base_arena *arena, const struct handoff_channel_options *from,
                         struct handoff_channel_options *to)
{
    const char **receivers = base_arena_calloc(arena, from->nreceivers + 1, sizeof *receivers);
    *to = *from;
    to->name = base_arena_strdup(arena, from->name);
    to->receivers = receivers;
    for (size_t i = 0; receivers && i < from->nreceivers; i++) {
        receivers[i] = base_arena_strdup(arena, from->receivers[i]);
        if (!receivers[i])
            return false;
    }
    return receivers && to->name;
}

static enum handoff_code copy_channels(struct base_arena *arena,
                                       const struct handoff_channel_options *from, size_t count,
                                       struct handoff_channel_options **list,
                                       struct handoff_error *error)
{
    *list = base_arena_calloc(arena, count + 1, sizeof **list);
    bool fine = *list != NULL;
    for (size_t i = 0; fine && i < count; i++)
        fine = copy_channel(arena, &from[i], &(*list)[i]);
    return fine ? HANDOFF_OK : handoff_error_no_memory(error);
}

/* ---- sets ------------------------------------------------------------------------------------ */

enum handoff_code handoff_channel_set_new(struct handoff_channel_set **set,
                                          const struct handoff_channel_options *options,
                                          size_t count, struct handoff_error *error)
{
    struct handoff_channel_set *made = base_calloc(1, sizeof *made);
    if (!made)
        return handoff_error_no_memory(error);
    made->count = count;
    enum handoff_code code = copy_channels(&made->arena, options, count, &made->items, error);
    if (code == HANDOFF_OK)
        *set = made;
    else
        handoff_channel_set_free(&made);
    return code;
}

void handoff_channel_set_free(struct handoff_channel_set **set)
{
    if (!*set)
        return;
    base_arena_free(&(*set)->arena);
    base_free(*set);
    *set = NULL;
}

void handoff_channels_init(struct handoff_channels *channels)
{
    pthread_rwlock_init(&channels->lock, NULL);
    channels->set = NULL;
    handoff_feeds_init(&channels->feeds);
}

void handoff_channels_free(struct handoff_channels *channels)
{
    handoff_channel_set_free(&channels->set);
    handoff_feeds_free(&channels->feeds);
    pthread_rwlock_destroy(&channels->lock);
}

static void subscribe_feeds(struct handoff_feeds *feeds, const struct handoff_channel_set *set)
{
    handoff_feeds_unsubscribe_all(feeds);
    for (size_t i = 0; set && i < set->count; i++) {
        for (size_t j = 0; j < set->items[i].nreceivers; j++)
            handoff_feeds_subscribe(feeds, set->items[i].name, set->items[i].receivers[j]);
    }
}

void handoff_channels_put_in_force(struct handoff_channels *channels,
                                   struct handoff_channel_set **set)
{
    subscribe_feeds(&channels->feeds, *set);
    pthread_rwlock_wrlock(&channels->lock);
    struct handoff_channel_set *old = channels->set;
    channels->set = *set;
    pthread_rwlock_unlock(&channels->lock);
    *set = NULL;
    handoff_channel_set_free(&old);
}

/* ---- looking up ------------------------------------------------------------------------------ */

static enum handoff_code refuse_channel(const struct handoff_channel_set *set,
                                        struct base_span name, struct handoff_error *error)
{
    const enum handoff_code code = HANDOFF_ERR_UNKNOWN_CHANNEL;
    struct base_nearest nearest = base_nearest_begin(name.data, name.size);
    for (size_t i = 0; set && i < set->count; i++)
        base_nearest_offer(&nearest, set->items[i].name, strlen(set->items[i].name));
    handoff_error_set(error, code, handoff_code_meaning(code), "channel", NULL);
    handoff_error_seen(error, "%.*s", (int)(name.size < 128 ? name.size : 128), name.data);
    if (nearest.best)
        handoff_error_allow(error, "%.*s (the nearest name)", (int)nearest.best_length,
                            nearest.best);
    return code;
}

static const struct handoff_channel_options *find_channel(const struct handoff_channel_set *set,
                                                          struct base_span name)
{
    for (size_t i = 0; set && i < set->count; i++) {
        if (base_span_equal(base_span_text(set->items[i].name), name))
            return &set->items[i];
    }
    return NULL;
}

enum handoff_code handoff_channels_find(struct handoff_channels *channels, struct base_span name,
                                        struct base_arena *arena,
                                        struct handoff_channel_options *channel,
                                        struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    pthread_rwlock_rdlock(&channels->lock);
    const struct handoff_channel_options *found = find_channel(channels->set, name);
    if (!found)
        code = refuse_channel(channels->set, name, error);
    else if (!copy_channel(arena, found, channel))
        code = handoff_error_no_memory(error);
    pthread_rwlock_unlock(&channels->lock);
    return code;
}

enum handoff_code handoff_channels_copy(struct handoff_channels *channels, struct base_arena *arena,
                                        struct handoff_channel_options **list, size_t *count,
                                        struct handoff_error *error)
{
    pthread_rwlock_rdlock(&channels->lock);
    const struct handoff_channel_set *set = channels->set;
    *count = set ? set->count : 0;
    enum handoff_code code = copy_channels(arena, set ? set->items : NULL, *count, list, error);
    pthread_rwlock_unlock(&channels->lock);
    return code;
}
