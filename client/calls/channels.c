/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads channels and publications, and writes them as JSON; see channels.h. Writing is pure;
 * reading runs on a reader thread.
 */
#include "client/calls/channels.h"

#include <stdlib.h>
#include <string.h>

#include "client/calls/call.h"
#include "client/calls/read.h"
#include "lib/base/error.h"
#include "lib/base/json.h"
#include "lib/base/rfc3339.h"

/* ---- writing -------------------------------------------------------------------------------- */

static void show_text(struct base_buffer *out, const char *key, struct base_span text)
{
    base_json_write_name(out, key);
    base_json_write_string(out, text.data ? text : base_span("", 0));
}

static void show_id(struct base_buffer *out, const char *key, const struct base_uuid *id)
{
    char text[BASE_UUID_TEXT];
    base_uuid_format(id, text);
    show_text(out, key, base_span_text(text));
}

static void show_number(struct base_buffer *out, const char *key, int64_t number)
{
    base_json_write_name(out, key);
    base_buffer_number(out, number);
}

/* null where there is none. */
static void show_time(struct base_buffer *out, const char *key, int64_t wall_ms)
{
    char text[BASE_RFC3339_SIZE];
    base_json_write_name(out, key);
    if (wall_ms == 0) {
        base_buffer_text(out, "null");
        return;
    }
    base_rfc3339_format(wall_ms, text);
    base_json_write_string(out, base_span_text(text));
}

static void write_delivery(struct base_buffer *out, const struct handoff_shown_delivery *delivery)
{
    base_buffer_byte(out, '{');
    show_id(out, "handoff_id", &delivery->id);
    show_text(out, "receiver", delivery->receiver);
    show_text(out, "target_agent", delivery->target);
    show_id(out, "envelope_id", &delivery->envelope);
    show_text(out, "state", base_span_text(handoff_state_name(delivery->state)));
    show_text(out, "reason", base_span_text(delivery->reason));
    show_number(out, "attempts", delivery->attempts);
    show_time(out, "settled_at", delivery->settled_ms);
    base_buffer_byte(out, '}');
}

static void write_publication_head(struct base_buffer *out,
                                   const struct handoff_stored_publication *publication)
{
    base_buffer_byte(out, '{');
    show_id(out, "id", &publication->id);
    show_text(out, "channel", publication->channel);
    show_text(out, "source_agent", publication->source);
    show_text(out, "task_id", publication->task_id);
    show_time(out, "published_at", publication->at_ms);
}

void handoff_publication_write(struct base_buffer *out,
                               const struct handoff_stored_publication *publication,
                               const struct handoff_shown_delivery *deliveries, size_t count)
{
    write_publication_head(out, publication);
    base_buffer_text(out, ",\"deliveries\":[");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            base_buffer_byte(out, ',');
        write_delivery(out, &deliveries[i]);
    }
    base_buffer_text(out, "]}");
}

/* ---- a publication --------------------------------------------------------------------------- */

static const char *reason_shown(const struct handoff_standing *standing)
{
    return standing->reason == HANDOFF_REASON_OTHER ? standing->words.data
                                                    : handoff_reason_name(standing->reason);
}

static struct handoff_shown_delivery shown_by_row(const struct handoff_stored *stored)
{
    const struct handoff_standing *standing = &stored->standing;
    return (struct handoff_shown_delivery){.id = stored->id,
                                           .envelope =
                                               stored->projected ? stored->id : stored->previous,
                                           .receiver = stored->asked_target,
                                           .target = standing->target,
                                           .state = (enum handoff_state)standing->state,
                                           .reason = reason_shown(standing),
                                           .attempts = standing->attempts,
                                           .settled_ms = standing->settled_ms};
}

/* One that may have changed since the list was read is read again. */
static enum handoff_code show_delivery(struct handoff_client *client,
                                       const struct handoff_stored *stored,
                                       struct base_arena *arena,
                                       struct handoff_shown_delivery *shown,
                                       struct handoff_error *error)
{
    struct handoff_status status;
    *shown = shown_by_row(stored);
    if (handoff_state_is_over(shown->state))
        return HANDOFF_OK;
    enum handoff_code code = handoff_read_status(client, &stored->id, arena, &status, error);
    if (code != HANDOFF_OK)
        return code;
    shown->target = base_span_text(status.target);
    shown->state = status.state;
    shown->reason = handoff_status_reason(&status);
    shown->attempts = status.attempts;
    shown->settled_ms = status.settled_ms;
    return HANDOFF_OK;
}

static enum handoff_code refuse_publication(const struct base_uuid *id, struct handoff_error *error)
{
    char text[BASE_UUID_TEXT];
    base_uuid_format(id, text);
    return handoff_error_set(error, HANDOFF_ERR_NOT_FOUND, "no publication has this id", "id",
                             text);
}

/* All of them, or those that the caller has a part in. */
static enum handoff_code read_deliveries(struct handoff_client *client,
                                         const struct handoff_stored_publication *publication,
                                         const char *caller, struct base_arena *arena,
                                         struct handoff_stored **list, size_t *count,
                                         struct handoff_error *error)
{
    const struct handoff_store_filter filter = {.states = UINT32_MAX,
                                                .publication = publication->seq,
                                                .party = base_span_text(caller),
                                                .limit = SIZE_MAX >> 1};
    enum handoff_code code = handoff_store_list(client->store, &filter, arena, list, count, error);
    const bool is_party =
        !caller || *count > 0 || base_span_equal(publication->source, base_span_text(caller));
    return code == HANDOFF_OK && !is_party ? refuse_publication(&publication->id, error) : code;
}

static enum handoff_code give_publication(struct handoff_client *client,
                                          const struct handoff_stored_publication *publication,
                                          const struct handoff_stored *list, size_t count,
                                          struct base_arena *arena, struct handoff_text *text,
                                          bool *under_way, struct handoff_error *error)
{
    struct base_buffer out = {0};
    struct handoff_shown_delivery *shown = base_arena_calloc(arena, count + 1, sizeof *shown);
    *under_way = false;
    if (!shown)
        return handoff_error_no_memory(error);
    enum handoff_code code = HANDOFF_OK;
    for (size_t i = 0; i < count && code == HANDOFF_OK; i++) {
        code = show_delivery(client, &list[i], arena, &shown[i], error);
        *under_way |= handoff_state_is_live(shown[i].state);
    }
    if (code != HANDOFF_OK)
        return code;
    handoff_publication_write(&out, publication, shown, count);
    return handoff_client_give(&out, text, error);
}

enum handoff_code handoff_read_publication(struct handoff_client *client, const char *channel,
                                           const struct base_uuid *id, const char *caller,
                                           struct handoff_text *text, bool *under_way,
                                           struct handoff_error *error)
{
    struct base_arena arena;
    struct handoff_stored_publication publication;
    struct handoff_stored *list = NULL;
    size_t count = 0;
    *text = (struct handoff_text){0};
    base_arena_init(&arena, 0);
    enum handoff_code code =
        handoff_store_get_publication(client->store, id, &arena, &publication, error);
    if (code == HANDOFF_OK && channel &&
        !base_span_equal(publication.channel, base_span_text(channel)))
        code = refuse_publication(id, error);
    if (code == HANDOFF_OK)
        code = read_deliveries(client, &publication, caller, &arena, &list, &count, error);
    if (code == HANDOFF_OK)
        code = give_publication(client, &publication, list, count, &arena, text, under_way, error);
    base_arena_free(&arena);
    return code;
}

/* ---- lists ----------------------------------------------------------------------------------- */

enum { PUBLICATIONS_LIMIT = 50 };

static enum handoff_code give_page(const struct handoff_stored_publication *list, size_t count,
                                   bool more, struct handoff_text *text,
                                   struct handoff_error *error)
{
    struct base_buffer out = {0};
    base_buffer_text(&out, "{\"items\":[");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            base_buffer_byte(&out, ',');
        write_publication_head(&out, &list[i]);
        base_buffer_byte(&out, '}');
    }
    if (more)
        base_buffer_printf(&out, "],\"next\":\"%lld\"}", (long long)list[count - 1].seq);
    else
        base_buffer_text(&out, "],\"next\":null}");
    return handoff_client_give(&out, text, error);
}

/* One that a reload has removed is known by what was published to it: its first page has something,
   and only the last can be empty. */
static enum handoff_code check_channel_of_page(struct handoff_client *client, const char *name,
                                               bool may_be_removed, struct base_arena *arena,
                                               struct handoff_error *error)
{
    struct handoff_channel channel;
    const enum handoff_code code =
        handoff_channels_find(&client->channels, base_span_text(name), arena, &channel, error);
    return code == HANDOFF_ERR_UNKNOWN_CHANNEL && may_be_removed ? handoff_error_clear(error)
                                                                 : code;
}

enum handoff_code handoff_read_publications(struct handoff_client *client, const char *channel,
                                            const char *caller, const char *cursor, int64_t limit,
                                            struct handoff_text *text, struct handoff_error *error)
{
    struct base_arena arena;
    struct handoff_stored_publication *list;
    size_t count;
    int64_t before = 0;
    const size_t most = limit > 0 ? (size_t)limit : PUBLICATIONS_LIMIT;
    *text = (struct handoff_text){0};
    base_arena_init(&arena, 0);
    enum handoff_code code = handoff_read_cursor(cursor, &before, error);
    if (code == HANDOFF_OK)
        code = handoff_store_list_publications(client->store, base_span_text(channel),
                                               base_span_text(caller), before, most, &arena, &list,
                                               &count, error);
    if (code == HANDOFF_OK)
        code = check_channel_of_page(client, channel, count > 0 || before > 0, &arena, error);
    if (code == HANDOFF_OK)
        code = give_page(list, count, count == most, text, error);
    base_arena_free(&arena);
    return code;
}

/* ---- channels -------------------------------------------------------------------------------- */

/* What waits in the channels that are being shown, sorted by channel and receiver. */
struct backlogs {
    const struct handoff_stored_backlog *at;
    size_t count;
};

/* As SQLite compares them. */
static int compare_shown_names(struct base_span one, struct base_span other)
{
    const size_t common = one.size < other.size ? one.size : other.size;
    const int order = common > 0 ? memcmp(one.data, other.data, common) : 0;
    return order != 0 ? order : (one.size > other.size) - (one.size < other.size);
}

/* Those of one channel. */
static struct backlogs backlogs_of(const struct backlogs *all, const char *channel)
{
    const struct base_span name = base_span_text(channel);
    size_t from = 0, count = all->count;
    while (count > 0) {
        const size_t half = count / 2;
        const bool before = compare_shown_names(all->at[from + half].channel, name) < 0;
        from += before ? half + 1 : 0;
        count = before ? count - half - 1 : half;
    }
    while (from + count < all->count && base_span_equal(all->at[from + count].channel, name))
        count++;
    return (struct backlogs){all->at + from, count};
}

static void show_flag(struct base_buffer *out, const char *key, bool value)
{
    base_json_write_name(out, key);
    base_buffer_text(out, value ? "true" : "false");
}

/* `receiver` NULL: it is none, but something waits for it. */
static void write_receiver(struct base_buffer *out, struct base_span name,
                           const struct handoff_channel_receiver *receiver,
                           const struct handoff_stored_backlog *backlog)
{
    struct base_span before = base_buffer_span(out);
    if (before.size > 0 && before.data[before.size - 1] != '[')
        base_buffer_byte(out, ',');
    base_buffer_byte(out, '{');
    show_text(out, "agent", name);
    show_flag(out, "subscribed", receiver != NULL);
    show_flag(out, "configured", receiver && receiver->configured);
    show_flag(out, "catching_up", receiver && receiver->catching_up);
    show_number(out, "pending", backlog ? backlog->pending : 0);
    show_time(out, "oldest_pending_at", backlog ? backlog->oldest_ms : 0);
    show_number(out, "parked", backlog ? backlog->parked : 0);
    show_number(out, "dropped", receiver ? receiver->dropped : 0);
    base_buffer_byte(out, '}');
}

static int compare_backlog(const void *receiver, const void *backlog)
{
    const struct base_span *name = receiver;
    return compare_shown_names(*name, ((const struct handoff_stored_backlog *)backlog)->receiver);
}

/* Of one channel's. */
static const struct handoff_stored_backlog *find_backlog(const struct backlogs *backlogs,
                                                         struct base_span receiver)
{
    return backlogs->count == 0 ? NULL
                                : bsearch(&receiver, backlogs->at, backlogs->count,
                                          sizeof *backlogs->at, compare_backlog);
}

static bool is_receiver(const struct handoff_channel *channel, struct base_span name)
{
    for (size_t i = 0; i < channel->nreceivers; i++) {
        if (base_span_equal(base_span_text(channel->receivers[i].name), name))
            return true;
    }
    return false;
}

static bool may_see(const char *caller, struct base_span receiver)
{
    return !caller || base_span_equal(base_span_text(caller), receiver);
}

/* Its receivers first; behind them, agents that something waits for though they are none, or not
   any more. */
static void write_channel(struct base_buffer *out, const struct handoff_channel *channel,
                          const struct backlogs *all, const char *caller)
{
    const struct backlogs backlogs = backlogs_of(all, channel->name);
    base_buffer_byte(out, '{');
    show_text(out, "name", base_span_text(channel->name));
    base_buffer_text(out, ",\"receivers\":[");
    for (size_t i = 0; i < channel->nreceivers; i++) {
        const char *name = channel->receivers[i].name;
        if (may_see(caller, base_span_text(name)))
            write_receiver(out, base_span_text(name), &channel->receivers[i],
                           find_backlog(&backlogs, base_span_text(name)));
    }
    for (size_t i = 0; i < backlogs.count; i++) {
        const struct handoff_stored_backlog *backlog = &backlogs.at[i];
        if (!is_receiver(channel, backlog->receiver) && may_see(caller, backlog->receiver))
            write_receiver(out, backlog->receiver, NULL, backlog);
    }
    base_buffer_text(out, "]}");
}

static void write_channels(struct base_buffer *out, const struct handoff_channel *list,
                           size_t count, const struct backlogs *backlogs, const char *caller)
{
    base_buffer_text(out, "{\"items\":[");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            base_buffer_byte(out, ',');
        write_channel(out, &list[i], backlogs, caller);
    }
    base_buffer_text(out, "],\"next\":null}");
}

/* ---- channels that a reload has removed -------------------------------------------------------
 */

/* Of the backlogs of one channel. */
static bool may_see_some(const struct backlogs *backlogs, const char *caller)
{
    bool some = false;
    for (size_t i = 0; i < backlogs->count && !some; i++)
        some = may_see(caller, backlogs->at[i].receiver);
    return some;
}

static int compare_channel_pointers(const void *one, const void *other)
{
    const struct handoff_channel *const *a = one, *const *b = other;
    return strcmp((*a)->name, (*b)->name);
}

static int compare_channel_name(const void *name, const void *channel)
{
    return strcmp(name, (*(const struct handoff_channel *const *)channel)->name);
}

static const struct handoff_channel **
sort_channels(struct base_arena *arena, const struct handoff_channel *list, size_t count)
{
    const struct handoff_channel **sorted = base_arena_calloc(arena, count + 1, sizeof *sorted);
    for (size_t i = 0; sorted && i < count; i++)
        sorted[i] = &list[i];
    if (sorted)
        qsort(sorted, count, sizeof *sorted, compare_channel_pointers);
    return sorted;
}

/* Appends those that are not in the list, as long as something of theirs waits or is parked. It has
   room for as many as there are backlogs. false: out of memory. */
static bool add_removed_channels(struct base_arena *arena, struct handoff_channel *list,
                                 size_t *count, const struct backlogs *all, const char *caller)
{
    const size_t known = *count;
    const struct handoff_channel **sorted = sort_channels(arena, list, known);
    for (size_t i = 0; sorted && i < all->count;) {
        const struct base_span span = all->at[i].channel;
        const char *name = base_arena_copy(arena, span.data, span.size);
        if (!name)
            return false;
        const struct backlogs own = backlogs_of(all, name);
        if (may_see_some(&own, caller) &&
            !bsearch(name, sorted, known, sizeof *sorted, compare_channel_name))
            list[(*count)++] = (struct handoff_channel){.name = name};
        i += own.count;
    }
    return sorted != NULL;
}

/* ---- one, or all ------------------------------------------------------------------------------
 */

/* What is there to be shown, and what waits. */
struct shown_channels {
    struct handoff_channel *list;
    size_t count;
    struct backlogs backlogs;
};

static enum handoff_code find_channel_to_show(struct handoff_client *client, const char *name,
                                              const char *caller, struct base_arena *arena,
                                              struct shown_channels *shown,
                                              struct handoff_error *error)
{
    shown->count = 1;
    shown->list = base_arena_calloc(arena, 1, sizeof *shown->list);
    if (!shown->list)
        return handoff_error_no_memory(error);
    const enum handoff_code code =
        handoff_channels_find(&client->channels, base_span_text(name), arena, shown->list, error);
    if (code != HANDOFF_ERR_UNKNOWN_CHANNEL || !may_see_some(&shown->backlogs, caller))
        return code;
    *shown->list = (struct handoff_channel){.name = name};
    return handoff_error_clear(error);
}

static enum handoff_code find_channels_to_show(struct handoff_client *client, const char *caller,
                                               struct base_arena *arena,
                                               struct shown_channels *shown,
                                               struct handoff_error *error)
{
    struct handoff_channel *known;
    enum handoff_code code =
        handoff_channels_copy(&client->channels, arena, &known, &shown->count, error);
    if (code != HANDOFF_OK)
        return code;
    shown->list =
        base_arena_calloc(arena, shown->count + shown->backlogs.count + 1, sizeof *shown->list);
    if (!shown->list)
        return handoff_error_no_memory(error);
    memcpy(shown->list, known, shown->count * sizeof *known);
    return add_removed_channels(arena, shown->list, &shown->count, &shown->backlogs, caller)
               ? HANDOFF_OK
               : handoff_error_no_memory(error);
}

enum handoff_code handoff_read_channels(struct handoff_client *client, const char *name,
                                        const char *caller, struct handoff_text *text,
                                        struct handoff_error *error)
{
    struct base_arena arena;
    struct base_buffer out = {0};
    struct shown_channels shown = {0};
    struct handoff_stored_backlog *at;
    *text = (struct handoff_text){0};
    base_arena_init(&arena, 0);
    enum handoff_code code = handoff_store_channel_backlog(
        client->store, base_span_text(name), &arena, &at, &shown.backlogs.count, error);
    shown.backlogs.at = at;
    if (code == HANDOFF_OK)
        code = name ? find_channel_to_show(client, name, caller, &arena, &shown, error)
                    : find_channels_to_show(client, caller, &arena, &shown, error);
    if (code == HANDOFF_OK) {
        if (name)
            write_channel(&out, shown.list, &shown.backlogs, caller);
        else
            write_channels(&out, shown.list, shown.count, &shown.backlogs, caller);
        code = handoff_client_give(&out, text, error);
    }
    base_arena_free(&arena);
    return code;
}
