/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channels and their subscriptions, see channels.h. Any thread: the lock is held while a
 * channel is copied.
 */
#include "client/channels/channels.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/memory.h"
#include "lib/base/nearest.h"

struct handoff_channel_set {
    struct base_arena arena; /* holds all that follows */
    struct handoff_channel_options *items;
    const struct handoff_channel_options **by_name; /* the same, sorted: 10,000 are looked up in it
                                                       under the lock to make one list */
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

static int compare_channel_names(const void *one, const void *other)
{
    const struct handoff_channel_options *const *a = one, *const *b = other;
    return strcmp((*a)->name, (*b)->name);
}

/* false: out of memory. */
static bool sort_by_name(struct handoff_channel_set *set)
{
    set->by_name = base_arena_calloc(&set->arena, set->count + 1, sizeof(void *));
    for (size_t i = 0; set->by_name && i < set->count; i++)
        set->by_name[i] = &set->items[i];
    if (set->by_name)
        qsort(set->by_name, set->count, sizeof(void *), compare_channel_names);
    return set->by_name != NULL;
}

enum handoff_code handoff_channel_set_new(struct handoff_channel_set **set,
                                          const struct handoff_channel_options *options,
                                          size_t count, struct handoff_error *error)
{
    struct handoff_channel_set *made = base_calloc(1, sizeof *made);
    if (!made)
        return handoff_error_no_memory(error);
    made->count = count;
    enum handoff_code code = copy_channels(&made->arena, options, count, &made->items, error);
    if (code == HANDOFF_OK && !sort_by_name(made))
        code = handoff_error_no_memory(error);
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
    handoff_subscribed_init(&channels->subscribed);
    TAILQ_INIT(&channels->tickets);
    handoff_feeds_init(&channels->feeds);
}

void handoff_channels_free(struct handoff_channels *channels)
{
    handoff_channel_set_free(&channels->set);
    handoff_subscribed_free(&channels->subscribed);
    handoff_feeds_free(&channels->feeds);
    pthread_rwlock_destroy(&channels->lock);
}

/* ---- subscriptions ----------------------------------------------------------------------------
 */

/* Under the lock, as all of this part that is static. */
static bool is_subscriber(const struct handoff_subscription *subscription)
{
    return subscription->state == HANDOFF_SUBSCRIPTION_CURRENT ||
           subscription->state == HANDOFF_SUBSCRIPTION_CATCHING_UP;
}

static int compare_channel_with(const void *name, const void *item)
{
    const struct base_span *wanted = name;
    const struct handoff_channel_options *const *found = item;
    const struct base_span has = base_span_text((*found)->name);
    const size_t common = wanted->size < has.size ? wanted->size : has.size;
    const int order = common > 0 ? memcmp(wanted->data, has.data, common) : 0;
    return order != 0 ? order : (wanted->size > has.size) - (wanted->size < has.size);
}

static const struct handoff_channel_options *find_channel(const struct handoff_channel_set *set,
                                                          struct base_span name)
{
    if (!set || set->count == 0)
        return NULL;
    const struct handoff_channel_options *const *found =
        bsearch(&name, set->by_name, set->count, sizeof(void *), compare_channel_with);
    return found ? *found : NULL;
}

static bool is_configured_receiver(const struct handoff_channel_options *channel,
                                   struct base_span receiver)
{
    for (size_t i = 0; channel && i < channel->nreceivers; i++) {
        if (base_span_equal(base_span_text(channel->receivers[i]), receiver))
            return true;
    }
    return false;
}

static enum handoff_code refuse_change(enum handoff_code code, const char *message,
                                       struct base_span receiver, struct handoff_error *error)
{
    handoff_error_set(error, code, message, "agent", NULL);
    handoff_error_seen(error, "%.*s", (int)(receiver.size < 128 ? receiver.size : 128),
                       receiver.data);
    return code;
}

static enum handoff_code check_share(const struct handoff_channels *channels,
                                     struct base_span receiver, struct handoff_error *error)
{
    if (channels->subscribed.count >= HANDOFF_SUBSCRIPTIONS_MAX)
        return refuse_change(HANDOFF_ERR_CONFLICT,
                             "there are 10,000 subscriptions; remove those that are not needed",
                             receiver, error);
    if (handoff_subscribed_count(&channels->subscribed, receiver) >=
        HANDOFF_SUBSCRIPTIONS_OF_AGENT_MAX)
        return refuse_change(HANDOFF_ERR_CONFLICT,
                             "the agent has 1,000 subscriptions; remove those that are not needed",
                             receiver, error);
    return HANDOFF_OK;
}

/* `made` is taken over where it is needed; else it is left to the caller. */
static enum handoff_code take_change(struct handoff_channels *channels,
                                     struct handoff_new_subscription *made,
                                     struct base_span channel, struct base_span receiver,
                                     enum handoff_subscription_state *was,
                                     struct handoff_error *error)
{
    struct handoff_subscription *found =
        handoff_subscribed_find(&channels->subscribed, channel, receiver);
    if (found && found->changing)
        return refuse_change(HANDOFF_ERR_CONFLICT,
                             "another change of this subscription is being stored; retry", receiver,
                             error);
    enum handoff_code code = found ? HANDOFF_OK : check_share(channels, receiver, error);
    if (code != HANDOFF_OK)
        return code;
    if (!found)
        found = handoff_subscribed_add(&channels->subscribed, made);
    found->changing = true;
    *was = found->state;
    return HANDOFF_OK;
}

enum handoff_code handoff_channels_begin_change(struct handoff_channels *channels,
                                                struct base_span channel, struct base_span receiver,
                                                bool *configured,
                                                enum handoff_subscription_state *was,
                                                struct handoff_error *error)
{
    struct handoff_new_subscription made;
    if (!handoff_subscribed_make(&made, channel, receiver))
        return handoff_error_no_memory(error);
    pthread_rwlock_wrlock(&channels->lock);
    *configured = is_configured_receiver(find_channel(channels->set, channel), receiver);
    enum handoff_code code = take_change(channels, &made, channel, receiver, was, error);
    pthread_rwlock_unlock(&channels->lock);
    handoff_new_subscription_free(&made);
    return code;
}

int64_t handoff_channels_time_of_change(struct handoff_channels *channels, int64_t now_ms)
{
    pthread_rwlock_wrlock(&channels->lock);
    const int64_t last_ms = channels->last_change_ms;
    const int64_t time_ms = now_ms > last_ms ? now_ms : last_ms + 1;
    channels->last_change_ms = time_ms;
    pthread_rwlock_unlock(&channels->lock);
    return time_ms;
}

/* Whoever is in none of the two receives nothing. */
static bool receives(struct handoff_channels *channels, struct base_span channel,
                     struct base_span receiver)
{
    const struct handoff_subscription *found =
        handoff_subscribed_find(&channels->subscribed, channel, receiver);
    if (found && found->state != HANDOFF_SUBSCRIPTION_NONE)
        return is_subscriber(found);
    return is_configured_receiver(find_channel(channels->set, channel), receiver);
}

/* The feed of one receiver, after its subscription has changed. */
static void update_feed(struct handoff_channels *channels, struct base_span channel,
                        struct base_span receiver)
{
    pthread_rwlock_rdlock(&channels->lock);
    const bool subscribed = receives(channels, channel, receiver);
    pthread_rwlock_unlock(&channels->lock);
    handoff_feeds_subscribe(&channels->feeds, channel, receiver, subscribed);
}

/* The change is over; an entry without a state is left to the caller to free. */
static void stop_changing(struct handoff_channels *channels, struct handoff_subscription *found,
                          struct handoff_new_subscription *removed)
{
    found->changing = false;
    *removed = (struct handoff_new_subscription){0};
    if (found->state == HANDOFF_SUBSCRIPTION_NONE)
        handoff_subscribed_remove(&channels->subscribed, found, removed);
}

uint64_t handoff_channels_end_change(struct handoff_channels *channels, struct base_span channel,
                                     struct base_span receiver, enum handoff_subscription_state to,
                                     int64_t at_ms)
{
    struct handoff_new_subscription removed;
    pthread_rwlock_wrlock(&channels->lock);
    struct handoff_subscription *found =
        handoff_subscribed_find(&channels->subscribed, channel, receiver);
    BASE_CHECK(found && found->changing);
    const uint64_t number = ++channels->last_change;
    found->included = false;
    found->behind = 0;
    found->dropped = (struct handoff_dropped){
        .at_ms = at_ms, .count = found->coming.at_ms == at_ms ? found->coming.count : 0};
    found->state = to;
    found->number = number;
    stop_changing(channels, found, &removed);
    pthread_rwlock_unlock(&channels->lock);
    handoff_new_subscription_free(&removed);
    update_feed(channels, channel, receiver);
    return number;
}

void handoff_channels_give_up_change(struct handoff_channels *channels, struct base_span channel,
                                     struct base_span receiver)
{
    struct handoff_new_subscription removed;
    pthread_rwlock_wrlock(&channels->lock);
    struct handoff_subscription *found =
        handoff_subscribed_find(&channels->subscribed, channel, receiver);
    BASE_CHECK(found && found->changing);
    stop_changing(channels, found, &removed);
    pthread_rwlock_unlock(&channels->lock);
    handoff_new_subscription_free(&removed);
}

void handoff_channels_note_behind(struct handoff_channels *channels, struct base_span channel,
                                  int64_t seq)
{
    struct handoff_subscription *subscription;
    pthread_rwlock_wrlock(&channels->lock);
    struct handoff_subscribed_channel *found =
        handoff_subscribed_find_channel(&channels->subscribed, channel);
    if (found) {
        TAILQ_FOREACH (subscription, &found->subscriptions, entry) {
            if (subscription->state == HANDOFF_SUBSCRIPTION_CATCHING_UP &&
                (subscription->behind == 0 || seq < subscription->behind))
                subscription->behind = seq;
        }
    }
    pthread_rwlock_unlock(&channels->lock);
}

int64_t handoff_channels_behind(struct handoff_channels *channels, struct base_span channel,
                                struct base_span receiver)
{
    pthread_rwlock_rdlock(&channels->lock);
    const struct handoff_subscription *found =
        handoff_subscribed_find(&channels->subscribed, channel, receiver);
    const int64_t seq = found ? found->behind : 0;
    pthread_rwlock_unlock(&channels->lock);
    return seq;
}

/* The store's writer may report a count before the loop knows that the change is on disk. */
void handoff_channels_note_dropped(struct handoff_channels *channels, struct base_span channel,
                                   struct base_span receiver, int64_t at_ms, int64_t count)
{
    pthread_rwlock_wrlock(&channels->lock);
    struct handoff_subscription *found =
        handoff_subscribed_find(&channels->subscribed, channel, receiver);
    if (found && found->dropped.at_ms == at_ms)
        found->dropped.count = count;
    else if (found && found->changing)
        found->coming = (struct handoff_dropped){.at_ms = at_ms, .count = count};
    pthread_rwlock_unlock(&channels->lock);
}

int64_t handoff_channels_dropped(struct handoff_channels *channels, struct base_span channel,
                                 struct base_span receiver)
{
    pthread_rwlock_rdlock(&channels->lock);
    const struct handoff_subscription *found =
        handoff_subscribed_find(&channels->subscribed, channel, receiver);
    const int64_t count = found ? found->dropped.count : 0;
    pthread_rwlock_unlock(&channels->lock);
    return count;
}

bool handoff_channels_sweep(struct handoff_channels *channels, struct base_span channel,
                            struct base_span receiver, uint64_t number, enum handoff_sweep sweep)
{
    pthread_rwlock_wrlock(&channels->lock);
    struct handoff_subscription *found =
        handoff_subscribed_find(&channels->subscribed, channel, receiver);
    const bool is_same = found && found->number == number; /* a change in progress may fail */
    if (is_same && sweep == HANDOFF_SWEEP_INCLUDE)
        found->included = true;
    if (is_same && sweep == HANDOFF_SWEEP_DONE)
        found->state = HANDOFF_SUBSCRIPTION_CURRENT;
    pthread_rwlock_unlock(&channels->lock);
    return is_same;
}

/* ---- the configuration ------------------------------------------------------------------------
 */

/* A lock is taken for each: nobody changes a feed while it is wrong for an instant but a scrape. */
static void subscribe_feeds(struct handoff_channels *channels)
{
    struct base_arena arena;
    struct handoff_channel *list = NULL;
    struct handoff_error error;
    size_t count = 0;
    base_arena_init(&arena, 0);
    handoff_feeds_unsubscribe_all(&channels->feeds);
    if (handoff_channels_copy(channels, &arena, &list, &count, &error) != HANDOFF_OK)
        count = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < list[i].nreceivers; j++)
            handoff_feeds_subscribe(&channels->feeds, base_span_text(list[i].name),
                                    base_span_text(list[i].receivers[j].name), true);
    }
    base_arena_free(&arena);
}

void handoff_channels_put_in_force(struct handoff_channels *channels,
                                   struct handoff_channel_set **set)
{
    pthread_rwlock_wrlock(&channels->lock);
    struct handoff_channel_set *old = channels->set;
    channels->set = *set;
    pthread_rwlock_unlock(&channels->lock);
    *set = NULL;
    handoff_channel_set_free(&old);
    subscribe_feeds(channels);
}

/* ---- looking up ------------------------------------------------------------------------------ */

/* Of one that is in the table, or NULL. */
static size_t count_subscribers(const struct handoff_subscribed_channel *channel)
{
    const struct handoff_subscription *subscription;
    size_t count = 0;
    if (!channel)
        return 0;
    TAILQ_FOREACH (subscription, &channel->subscriptions, entry) {
        count += is_subscriber(subscription);
    }
    return count;
}

static enum handoff_code refuse_channel(const struct handoff_channels *channels,
                                        struct base_span name, struct handoff_error *error)
{
    const enum handoff_code code = HANDOFF_ERR_UNKNOWN_CHANNEL;
    const struct handoff_channel_set *set = channels->set;
    const struct handoff_subscribed_channel *subscribed;
    struct base_nearest nearest = base_nearest_begin(name.data, name.size);
    for (size_t i = 0; set && i < set->count; i++)
        base_nearest_offer(&nearest, set->items[i].name, strlen(set->items[i].name));
    TAILQ_FOREACH (subscribed, &channels->subscribed.channels, entry) {
        if (count_subscribers(subscribed) > 0)
            base_nearest_offer(&nearest, subscribed->name, strlen(subscribed->name));
    }
    handoff_error_set(error, code, handoff_code_meaning(code), "channel", NULL);
    handoff_error_seen(error, "%.*s", (int)(name.size < 128 ? name.size : 128), name.data);
    if (nearest.best)
        handoff_error_allow(error, "%.*s (the nearest name)", (int)nearest.best_length,
                            nearest.best);
    return code;
}

static bool add_to_channel(struct base_arena *arena, struct handoff_channel *channel,
                           const char *name, bool configured,
                           const struct handoff_subscription *subscription)
{
    const bool catching_up = subscription && !subscription->included &&
                             subscription->state == HANDOFF_SUBSCRIPTION_CATCHING_UP;
    const char *copy = base_arena_strdup(arena, name);
    channel->receivers[channel->nreceivers++] = (struct handoff_channel_receiver){
        .name = copy,
        .configured = configured,
        .catching_up = catching_up,
        .dropped = subscription ? subscription->dropped.count : 0};
    return copy != NULL;
}

static bool fill_configured(struct handoff_channels *channels, struct base_arena *arena,
                            const struct handoff_channel_options *options,
                            struct handoff_channel *channel)
{
    for (size_t i = 0; options && i < options->nreceivers; i++) {
        const char *name = options->receivers[i];
        const struct handoff_subscription *found = handoff_subscribed_find(
            &channels->subscribed, base_span_text(options->name), base_span_text(name));
        if (found && found->state == HANDOFF_SUBSCRIPTION_LEFT)
            continue;
        if (!add_to_channel(arena, channel, name, true, found))
            return false;
    }
    return true;
}

static bool fill_subscribed(struct base_arena *arena, const struct handoff_channel_options *options,
                            const struct handoff_subscribed_channel *subscribed,
                            struct handoff_channel *channel)
{
    const struct handoff_subscription *subscription;
    if (!subscribed)
        return true;
    TAILQ_FOREACH (subscription, &subscribed->subscriptions, entry) {
        if (!is_subscriber(subscription) ||
            is_configured_receiver(options, base_span_text(subscription->receiver)))
            continue;
        if (!add_to_channel(arena, channel, subscription->receiver, false, subscription))
            return false;
    }
    return true;
}

/* What the configuration, which may be NULL, and the subscriptions come to. */
static bool merge_channel(struct handoff_channels *channels, struct base_arena *arena,
                          const struct handoff_channel_options *options, struct base_span name,
                          struct handoff_channel *channel)
{
    const struct handoff_subscribed_channel *subscribed =
        handoff_subscribed_find_channel(&channels->subscribed, name);
    const size_t room = count_subscribers(subscribed) + (options ? options->nreceivers : 0) + 1;
    *channel = (struct handoff_channel){
        .name = base_arena_copy(arena, name.data, name.size),
        .token_budget = options ? options->token_budget : 0,
        .keeps = options && options->retention_ms > 0,
        .receivers = base_arena_calloc(arena, room, sizeof *channel->receivers)};
    return channel->name && channel->receivers &&
           fill_configured(channels, arena, options, channel) &&
           fill_subscribed(arena, options, subscribed, channel);
}

enum handoff_code handoff_channels_find(struct handoff_channels *channels, struct base_span name,
                                        struct base_arena *arena, struct handoff_channel *channel,
                                        struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    pthread_rwlock_rdlock(&channels->lock);
    const struct handoff_channel_options *found = find_channel(channels->set, name);
    if (!found &&
        count_subscribers(handoff_subscribed_find_channel(&channels->subscribed, name)) == 0)
        code = refuse_channel(channels, name, error);
    else if (!merge_channel(channels, arena, found, name, channel))
        code = handoff_error_no_memory(error);
    pthread_rwlock_unlock(&channels->lock);
    return code;
}

static bool copy_all(struct handoff_channels *channels, struct base_arena *arena,
                     struct handoff_channel **list, size_t *count)
{
    const struct handoff_subscribed_channel *subscribed;
    const struct handoff_channel_set *set = channels->set;
    const size_t configured = set ? set->count : 0;
    *count = 0;
    *list = base_arena_calloc(arena, configured + channels->subscribed.count + 1, sizeof **list);
    bool fine = *list != NULL;
    for (size_t i = 0; fine && i < configured; i++)
        fine = merge_channel(channels, arena, &set->items[i], base_span_text(set->items[i].name),
                             &(*list)[(*count)++]);
    TAILQ_FOREACH (subscribed, &channels->subscribed.channels, entry) {
        const struct base_span name = base_span_text(subscribed->name);
        if (fine && count_subscribers(subscribed) > 0 && !find_channel(set, name))
            fine = merge_channel(channels, arena, NULL, name, &(*list)[(*count)++]);
    }
    return fine;
}

enum handoff_code handoff_channels_copy(struct handoff_channels *channels, struct base_arena *arena,
                                        struct handoff_channel **list, size_t *count,
                                        struct handoff_error *error)
{
    pthread_rwlock_rdlock(&channels->lock);
    const bool fine = copy_all(channels, arena, list, count);
    pthread_rwlock_unlock(&channels->lock);
    return fine ? HANDOFF_OK : handoff_error_no_memory(error);
}

bool handoff_channels_shelf_limits(struct handoff_channels *channels, struct base_span name,
                                   struct handoff_store_shelf_limits *limits)
{
    pthread_rwlock_rdlock(&channels->lock);
    const struct handoff_channel_options *found = find_channel(channels->set, name);
    if (found)
        *limits = (struct handoff_store_shelf_limits){.age_ms = found->retention_ms,
                                                      .bytes = found->retention_bytes};
    const bool known = channels->set != NULL;
    pthread_rwlock_unlock(&channels->lock);
    return known;
}

/* ---- publications in progress -----------------------------------------------------------------
 */

void handoff_channels_enter(struct handoff_channels *channels,
                            struct handoff_channel_ticket *ticket, const char *channel)
{
    ticket->channel = channel;
    pthread_rwlock_wrlock(&channels->lock);
    ticket->number = ++channels->last_ticket;
    TAILQ_INSERT_TAIL(&channels->tickets, ticket, entry);
    pthread_rwlock_unlock(&channels->lock);
}

void handoff_channels_leave(struct handoff_channels *channels,
                            struct handoff_channel_ticket *ticket)
{
    if (ticket->number == 0)
        return;
    pthread_rwlock_wrlock(&channels->lock);
    TAILQ_REMOVE(&channels->tickets, ticket, entry);
    pthread_rwlock_unlock(&channels->lock);
    ticket->number = 0;
}

uint64_t handoff_channels_last_ticket(struct handoff_channels *channels)
{
    pthread_rwlock_rdlock(&channels->lock);
    const uint64_t number = channels->last_ticket;
    pthread_rwlock_unlock(&channels->lock);
    return number;
}

bool handoff_channels_have_left(struct handoff_channels *channels, struct base_span channel,
                                uint64_t number)
{
    const struct handoff_channel_ticket *ticket;
    bool all = true;
    pthread_rwlock_rdlock(&channels->lock);
    TAILQ_FOREACH (ticket, &channels->tickets, entry) {
        if (ticket->number > number)
            break;
        all = all && !base_span_equal(base_span_text(ticket->channel), channel);
    }
    pthread_rwlock_unlock(&channels->lock);
    return all;
}
