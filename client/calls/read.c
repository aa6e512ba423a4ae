/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads handoffs: one, its attempts, lists of handoffs, and the agents that they go to. Whatever
 * reads the store runs on a reader thread (lookup.c); the agents are in memory and listed on any
 * thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/calls/filters.h"
#include "client/calls/read.h"
#include "client/calls/render.h"
#include "client/envelope/read.h"
#include "client/store/parties.h"
#include "lib/base/error.h"

enum { LIST_LIMIT = 50, LIST_LIMIT_MAX = 1000 };

/* The same answer whether the handoff does not exist or the caller may not see it, so ids reveal
   nothing. */
static enum handoff_code no_handoff(const char *id, struct handoff_error *error)
{
    return handoff_error_set(error, HANDOFF_ERR_NOT_FOUND, "no handoff has this id", "id", id);
}

enum handoff_code handoff_read_id(const char *text, struct base_uuid *id,
                                  struct handoff_error *error)
{
    return base_uuid_parse(text, strlen(text), id) ? HANDOFF_OK : no_handoff(text, error);
}

/* The row, if the caller may see it. */
static enum handoff_code get_stored(struct handoff_client *client, const char *id,
                                    const char *caller, struct base_arena *arena,
                                    struct handoff_stored *stored, struct handoff_error *error)
{
    struct base_uuid uuid;
    enum handoff_code code = handoff_read_id(id, &uuid, error);
    if (code == HANDOFF_OK)
        code = handoff_store_get_handoff(client->store, &uuid, arena, stored, error);
    bool is_party = true;
    if (code == HANDOFF_OK && caller)
        code =
            handoff_store_is_party(client->store, &uuid, base_span_text(caller), &is_party, error);
    return code != HANDOFF_OK || is_party ? code : no_handoff(id, error);
}

static void describe_stored(const struct handoff_stored *stored, struct handoff_status *status)
{
    const struct handoff_standing *standing = &stored->standing;
    *status = (struct handoff_status){.label = {.pattern = stored->pattern,
                                                .source = stored->source,
                                                .task_id = stored->task_id,
                                                .created_ms = stored->created_ms},
                                      .envelope = base_span("", 0),
                                      .excerpt = handoff_excerpt_of_row(stored->excerpt),
                                      .state = (enum handoff_state)standing->state,
                                      .target = standing->target.data, /* copies end in a NUL */
                                      .reason = standing->reason,
                                      .words = standing->words.data,
                                      .attempts = standing->attempts,
                                      .settled_ms = standing->settled_ms,
                                      .progress = stored->progress,
                                      .gaps = stored->gaps,
                                      .summary = stored->summary,
                                      .error_said = stored->error,
                                      .replays = standing->replays,
                                      .previous = stored->previous,
                                      .replaced_by = stored->replaced_by};
    base_uuid_format(&stored->id, status->label.id);
}

/* The status in memory, otherwise the row. Memory is read first: a handoff that has just left it is
   written, so a later reader of the row never sees an older status than was reported before. */
static enum handoff_code read_standing(struct handoff_client *client, const struct base_uuid *id,
                                       struct base_arena *arena, struct handoff_status *status,
                                       struct handoff_error *error)
{
    struct handoff_live_view view;
    struct handoff_stored stored;
    bool shown = handoff_live_read_view(handoff_engine_live(client->engine), id, &view);
    enum handoff_code code = handoff_store_get_handoff(client->store, id, arena, &stored, error);
    if (code != HANDOFF_OK)
        return code;
    describe_stored(&stored, status);
    if (shown)
        handoff_status_overlay(status, &view);
    return HANDOFF_OK;
}

/* The envelope, if the row has no excerpt of it. If it is damaged, or retention has removed it, the
   rest is still shown. */
static enum handoff_code add_envelope(struct handoff_client *client, const struct base_uuid *id,
                                      struct base_arena *arena, struct handoff_status *status,
                                      struct handoff_error *error)
{
    struct handoff_stored_envelope envelope;
    if (status->excerpt.data)
        return HANDOFF_OK;
    enum handoff_code code = handoff_store_get_envelope(client->store, id, arena, &envelope, error);
    if (code == HANDOFF_OK)
        status->envelope = envelope.body;
    if (code == HANDOFF_ERR_STORE_CORRUPT || code == HANDOFF_ERR_NOT_FOUND ||
        code == HANDOFF_ERR_ENVELOPE_REMOVED)
        return handoff_error_clear(error);
    return code;
}

enum handoff_code handoff_read_status(struct handoff_client *client, const struct base_uuid *id,
                                      struct base_arena *arena, struct handoff_status *status,
                                      struct handoff_error *error)
{
    enum handoff_code code = read_standing(client, id, arena, status, error);
    return code == HANDOFF_OK ? add_envelope(client, id, arena, status, error) : code;
}

void handoff_read_hop(struct handoff_client *client, const struct base_uuid *id,
                      struct base_arena *arena, struct handoff_status *status)
{
    struct handoff_stored_envelope stored;
    struct handoff_envelope envelope;
    struct handoff_error error;
    if (status->reason != HANDOFF_REASON_HOP_LIMIT ||
        handoff_store_get_envelope(client->store, id, arena, &stored, &error) != HANDOFF_OK ||
        handoff_envelope_read_in(arena, stored.body, &envelope, &error) != HANDOFF_OK)
        return;
    status->hop = envelope.hop_count;
    status->hop_max = envelope.hop_max;
}

enum handoff_code handoff_read_handoff(struct handoff_client *client, const char *id,
                                       const char *caller, struct handoff_text *text,
                                       struct handoff_error *error)
{
    struct base_arena arena;
    struct handoff_stored stored;
    struct handoff_status status;
    struct base_buffer out = {0};
    *text = (struct handoff_text){0};
    base_arena_init(&arena, 0);
    enum handoff_code code = get_stored(client, id, caller, &arena, &stored, error);
    if (code == HANDOFF_OK)
        code = handoff_read_status(client, &stored.id, &arena, &status, error);
    if (code == HANDOFF_OK) {
        handoff_object_write(&out, &status);
        code = handoff_client_give(&out, text, error);
    }
    base_arena_free(&arena);
    return code;
}

enum handoff_code handoff_read_view(struct handoff_client *client, const struct base_uuid *id,
                                    const struct handoff_live_view *view, struct handoff_text *text,
                                    struct handoff_error *error)
{
    struct base_arena arena;
    struct handoff_status status;
    struct base_buffer out = {0};
    *text = (struct handoff_text){0};
    base_arena_init(&arena, 0);
    enum handoff_code code = handoff_read_status(client, id, &arena, &status, error);
    if (code == HANDOFF_OK) {
        if (view->state != 0)
            handoff_status_overlay(&status, view);
        handoff_object_write(&out, &status);
        code = handoff_client_give(&out, text, error);
    }
    base_arena_free(&arena);
    return code;
}

enum handoff_code handoff_read_attempts(struct handoff_client *client, const char *id,
                                        const char *caller, struct handoff_text *text,
                                        struct handoff_error *error)
{
    struct base_arena arena;
    struct handoff_stored stored;
    struct handoff_attempt *attempts = NULL;
    struct base_buffer out = {0};
    size_t count = 0;
    *text = (struct handoff_text){0};
    base_arena_init(&arena, 0);
    enum handoff_code code = get_stored(client, id, caller, &arena, &stored, error);
    if (code == HANDOFF_OK)
        code = handoff_store_attempts(client->store, stored.seq, &arena, &attempts, &count, error);
    if (code == HANDOFF_OK) {
        base_buffer_text(&out, "{\"items\":[");
        for (size_t i = 0; i < count; i++) {
            base_buffer_text(&out, i ? "," : "");
            handoff_object_write_attempt(&out, &attempts[i]);
        }
        base_buffer_text(&out, "],\"next\":null}");
        code = handoff_client_give(&out, text, error);
    }
    base_arena_free(&arena);
    return code;
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* A cursor is the number of the last handoff that was shown. */
enum handoff_code handoff_read_cursor(const char *cursor, int64_t *after,
                                      struct handoff_error *error)
{
    char *end;
    *after = 0;
    if (!cursor)
        return HANDOFF_OK;
    errno = 0;
    *after = strtoll(cursor, &end, 10);
    if (*cursor >= '0' && *cursor <= '9' && *end == '\0' && errno == 0)
        return HANDOFF_OK;
    return handoff_error_set(error, HANDOFF_ERR_INVALID_CURSOR,
                             "the cursor is not from this list; start again without one", "cursor",
                             cursor);
}

enum handoff_code handoff_read_order(const char *text, bool *newest_first, bool usually_newest,
                                     struct handoff_error *error)
{
    *newest_first = text ? strcmp(text, "newest") == 0 : usually_newest;
    if (!text || *newest_first || strcmp(text, "oldest") == 0)
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_INVALID, "unknown order", "order", text);
    handoff_error_allow(error, "newest or oldest");
    return HANDOFF_ERR_INVALID;
}

/* Writes the comma between two items of a list. */
static void separate(struct base_buffer *out)
{
    struct base_span before = base_buffer_span(out);
    if (before.size > 0 && before.data[before.size - 1] != '[')
        base_buffer_byte(out, ',');
}

/* A row of a list. A handoff that may have changed since the list was read is read again, and left
   out if only parked ones were requested and it is no longer parked. */
static enum handoff_code write_item(struct handoff_client *client, struct base_buffer *out,
                                    const struct handoff_stored *stored, bool parked,
                                    struct handoff_error *error)
{
    struct base_arena arena;
    struct handoff_status status;
    enum handoff_code code = HANDOFF_OK;
    base_arena_init(&arena, 0);
    describe_stored(stored, &status);
    if (!handoff_state_is_over(status.state))
        code = read_standing(client, &stored->id, &arena, &status, error);
    bool wanted = code == HANDOFF_OK && (!parked || status.state == HANDOFF_STATE_PARKED);
    if (wanted)
        code = add_envelope(client, &stored->id, &arena, &status, error);
    if (wanted && code == HANDOFF_OK) {
        separate(out);
        handoff_object_write_listed(out, &status);
    }
    base_arena_free(&arena);
    return code;
}

enum handoff_code handoff_read_write_items(struct handoff_client *client, struct base_buffer *out,
                                           const struct handoff_stored *list, size_t count,
                                           bool parked, struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    for (size_t i = 0; i < count && code == HANDOFF_OK; i++)
        code = write_item(client, out, &list[i], parked, error);
    return code;
}

static enum handoff_code check_limit(int64_t *limit, struct handoff_error *error)
{
    if (*limit == 0)
        *limit = LIST_LIMIT;
    if (*limit >= 1 && *limit <= LIST_LIMIT_MAX)
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_INVALID, "limit is out of range", "limit", NULL);
    handoff_error_seen(error, "%lld", (long long)*limit);
    handoff_error_allow(error, "1 to %d", LIST_LIMIT_MAX);
    return HANDOFF_ERR_INVALID;
}

/* Left out where there are none, which is usual. */
static enum handoff_code write_refusals(struct handoff_client *client, struct base_buffer *out,
                                        struct base_span task_id, struct base_span party,
                                        struct handoff_error *error)
{
    struct base_arena arena;
    struct handoff_stored_refusal *list = NULL;
    size_t count = 0;
    base_arena_init(&arena, 0);
    enum handoff_code code =
        handoff_store_refused_next(client->store, task_id, party, &arena, &list, &count, error);
    if (code == HANDOFF_OK && count > 0)
        handoff_object_write_refusals(out, list, count);
    base_arena_free(&arena);
    return code;
}

static enum handoff_code write_task(struct handoff_client *client, struct base_buffer *out,
                                    struct base_span task_id, struct base_span party,
                                    struct handoff_error *error)
{
    struct handoff_stored_task task;
    enum handoff_code code = handoff_store_get_task(client->store, task_id, party, &task, error);
    if (code != HANDOFF_OK)
        return code;
    base_buffer_text(out, ",\"task\":");
    handoff_object_write_task(out, task_id, &task);
    return write_refusals(client, out, task_id, party, error);
}

enum handoff_code handoff_read_list(struct handoff_client *client,
                                    const struct handoff_list_query *query,
                                    struct handoff_text *text, struct handoff_error *error)
{
    int64_t limit = query->limit;
    struct handoff_store_filter filter = {
        .states = UINT32_MAX,
        .target = base_span_text(query->target),
        .reason = base_span_text(query->reason),
        .task_id = base_span_text(query->task_id),
        .party = base_span_text(query->caller),
    };
    const struct handoff_filtered filtered = {.target = query->target, .reason = query->reason};
    struct base_arena arena;
    struct handoff_stored *list = NULL;
    struct base_buffer out = {0};
    size_t count = 0;
    *text = (struct handoff_text){0};
    enum handoff_code code = check_limit(&limit, error);
    if (code == HANDOFF_OK)
        code = handoff_read_cursor(query->cursor, &filter.after_seq, error);
    if (code != HANDOFF_OK)
        return code;
    filter.limit = (size_t)limit;
    base_arena_init(&arena, 0);
    code = handoff_store_list(client->store, &filter, &arena, &list, &count, error);
    if (code == HANDOFF_OK && count == 0 && !query->cursor)
        code = handoff_check_filters(client, &filtered, error);
    base_buffer_text(&out, "{\"items\":[");
    if (code == HANDOFF_OK)
        code = handoff_read_write_items(client, &out, list, count, false, error);
    if (code == HANDOFF_OK && count == filter.limit)
        base_buffer_printf(&out, "],\"next\":\"%lld\"", (long long)list[count - 1].seq);
    else
        base_buffer_text(&out, "],\"next\":null");
    if (code == HANDOFF_OK && query->task_id)
        code = write_task(client, &out, filter.task_id, filter.party, error);
    base_buffer_byte(&out, '}');
    if (code == HANDOFF_OK)
        code = handoff_client_give(&out, text, error);
    base_buffer_free(&out);
    base_arena_free(&arena);
    return code;
}

/* ---- agents ---------------------------------------------------------------------------------- */

struct agent_list {
    struct base_buffer out;
    int64_t now_ms;
};

static void list_agent(struct handoff_agent *agent, void *arg)
{
    struct agent_list *list = arg;
    separate(&list->out);
    handoff_object_write_agent(&list->out, agent, list->now_ms);
}

enum handoff_code handoff_list_agents(struct handoff_client *client, struct handoff_text *text,
                                      struct handoff_error *error)
{
    struct agent_list list = {.now_ms = base_monotonic_ns(&base_clock_system) / 1000000};
    base_buffer_text(&list.out, "{\"items\":[");
    handoff_agents_each(client->agents, list_agent, &list);
    base_buffer_text(&list.out, "],\"next\":null}");
    return handoff_client_give(&list.out, text, error);
}
