/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists what is parked, and groups it by its cause: the agent it was for, why it was parked, and
 * what went wrong last. On a reader thread (lookup.c).
 */
#include "client/calls/parked.h"

#include <stdlib.h>
#include <string.h>

#include "client/calls/filters.h"
#include "client/calls/read.h"
#include "client/calls/render.h"
#include "lib/base/error.h"
#include "lib/base/json.h"
#include "lib/base/rfc3339.h"

enum { PARKED_LIMIT = 50 };

static size_t limit_of(const struct handoff_parked_query *query)
{
    return query->limit > 0 ? (size_t)query->limit : PARKED_LIMIT;
}

enum handoff_code handoff_read_parked_filter(const struct handoff_parked_query *query,
                                             struct handoff_parked_filter *filter,
                                             struct handoff_error *error)
{
    *filter = (struct handoff_parked_filter){.target = base_span_text(query->target),
                                             .source = base_span_text(query->source),
                                             .task_id = base_span_text(query->task),
                                             .reason = base_span_text(query->reason),
                                             .error = base_span_text(query->error),
                                             .party = base_span_text(query->caller),
                                             .words = base_span_text(query->query)};
    enum handoff_code code = handoff_read_time("since", query->since, &filter->since_ms, error);
    if (code == HANDOFF_OK)
        code = handoff_read_time("until", query->until, &filter->until_ms, error);
    return code == HANDOFF_OK
               ? handoff_read_order(query->order, &filter->newest_first, false, error)
               : code;
}

/* ---- a list -----------------------------------------------------------------------------------
 */

struct parked_page {
    int64_t *seqs;
    size_t count, limit;
};

static bool take_for_page(void *arg, const struct handoff_parked_row *row)
{
    struct parked_page *page = arg;
    page->seqs[page->count++] = row->seq;
    return page->count < page->limit;
}

static enum handoff_code write_parked_page(struct handoff_client *client, struct base_buffer *out,
                                           const struct handoff_parked_filter *filter,
                                           struct parked_page *page, struct base_arena *arena,
                                           struct handoff_error *error)
{
    struct handoff_stored *list = NULL;
    size_t count = 0;
    enum handoff_code code =
        handoff_store_find_parked(client->store, filter, take_for_page, page, error);
    if (code == HANDOFF_OK)
        code = handoff_store_get_numbered(client->store, page->seqs, page->count, arena, &list,
                                          &count, error);
    base_buffer_text(out, "{\"items\":[");
    if (code == HANDOFF_OK)
        code = handoff_read_write_items(client, out, list, count, true, error);
    if (page->count == page->limit)
        base_buffer_printf(out, "],\"next\":\"%lld\"}", (long long)page->seqs[page->count - 1]);
    else
        base_buffer_text(out, "],\"next\":null}");
    return code;
}

static enum handoff_code check_parked_filters(struct handoff_client *client,
                                              const struct handoff_parked_query *query,
                                              struct handoff_error *error)
{
    const struct handoff_filtered filtered = {.target = query->target,
                                              .source = query->source,
                                              .reason = query->reason,
                                              .caller = query->caller};
    return handoff_check_filters(client, &filtered, error);
}

enum handoff_code handoff_read_parked(struct handoff_client *client,
                                      const struct handoff_parked_query *query,
                                      struct handoff_text *text, struct handoff_error *error)
{
    struct parked_page page = {.limit = limit_of(query)};
    struct handoff_parked_filter filter;
    struct base_buffer out = {0};
    struct base_arena arena;
    *text = (struct handoff_text){0};
    enum handoff_code code = handoff_read_parked_filter(query, &filter, error);
    if (code == HANDOFF_OK)
        code = handoff_read_cursor(query->cursor, &filter.beyond, error);
    if (code != HANDOFF_OK)
        return code;
    base_arena_init(&arena, 0);
    page.seqs = base_arena_calloc(&arena, page.limit, sizeof *page.seqs);
    code = page.seqs ? write_parked_page(client, &out, &filter, &page, &arena, error)
                     : handoff_error_no_memory(error);
    if (code == HANDOFF_OK && page.count == 0 && !query->cursor)
        code = check_parked_filters(client, query, error);
    if (code == HANDOFF_OK)
        code = handoff_client_give(&out, text, error);
    base_buffer_free(&out);
    base_arena_free(&arena);
    return code;
}

/* ---- groups -----------------------------------------------------------------------------------
 */

/* One parked handoff, or all that share its cause. */
struct cause {
    struct base_span target, reason, error;
    int64_t seq; /* of one of them: the oldest */
    int64_t oldest_ms, newest_ms;
    size_t count;
};

struct causes {
    struct base_arena *arena;
    struct cause *list; /* in the arena */
    size_t count, capacity;
    bool no_memory;
};

static bool grow_causes(struct causes *causes)
{
    if (causes->count < causes->capacity)
        return true;
    const size_t capacity = causes->capacity ? causes->capacity * 2 : 256;
    struct cause *larger = base_arena_calloc(causes->arena, capacity, sizeof *larger);
    if (!larger)
        return false;
    if (causes->count)
        memcpy(larger, causes->list, causes->count * sizeof *larger);
    causes->list = larger;
    causes->capacity = capacity;
    return true;
}

/* Neighbours mostly share their texts, and thus a copy. */
static bool keep_cause_text(struct causes *causes, struct base_span text, struct base_span before,
                            struct base_span *to)
{
    if (before.data && base_span_equal(text, before)) {
        *to = before;
        return true;
    }
    *to =
        base_span(base_arena_copy(causes->arena, text.data ? text.data : "", text.size), text.size);
    return to->data != NULL;
}

static bool take_cause(void *arg, const struct handoff_parked_row *row)
{
    static const struct cause none;
    struct causes *causes = arg;
    causes->no_memory = !grow_causes(causes);
    if (causes->no_memory)
        return false;
    const struct cause *before = causes->count ? &causes->list[causes->count - 1] : &none;
    struct cause *cause = &causes->list[causes->count];
    *cause = (struct cause){
        .seq = row->seq, .oldest_ms = row->parked_ms, .newest_ms = row->parked_ms, .count = 1};
    causes->no_memory = !keep_cause_text(causes, row->target, before->target, &cause->target) ||
                        !keep_cause_text(causes, row->reason, before->reason, &cause->reason) ||
                        !keep_cause_text(causes, row->error, before->error, &cause->error);
    causes->count++;
    return !causes->no_memory;
}

static int compare_texts(struct base_span a, struct base_span b)
{
    if (a.data == b.data && a.size == b.size)
        return 0;
    const int order = memcmp(a.data, b.data, a.size < b.size ? a.size : b.size);
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

static int by_cause(const void *first, const void *second)
{
    const struct cause *a = first, *b = second;
    int order = compare_texts(a->target, b->target);
    if (order == 0)
        order = compare_texts(a->reason, b->reason);
    if (order == 0)
        order = compare_texts(a->error, b->error);
    return order ? order : (a->seq > b->seq) - (a->seq < b->seq);
}

static int by_count(const void *first, const void *second)
{
    const struct cause *a = first, *b = second;
    return a->count != b->count ? (a->count < b->count) - (a->count > b->count)
                                : by_cause(first, second);
}

static bool share_cause(const struct cause *a, const struct cause *b)
{
    return compare_texts(a->target, b->target) == 0 && compare_texts(a->reason, b->reason) == 0 &&
           compare_texts(a->error, b->error) == 0;
}

/* Those that share their cause become one, and the greatest come first. */
static void join_causes(struct causes *causes)
{
    size_t groups = 0;
    if (causes->count == 0)
        return;
    qsort(causes->list, causes->count, sizeof *causes->list, by_cause);
    for (size_t i = 1; i < causes->count; i++) {
        struct cause *group = &causes->list[groups];
        const struct cause *next = &causes->list[i];
        if (!share_cause(group, next)) {
            causes->list[++groups] = *next;
            continue;
        }
        group->count++;
        if (next->oldest_ms < group->oldest_ms)
            group->oldest_ms = next->oldest_ms;
        if (next->newest_ms > group->newest_ms)
            group->newest_ms = next->newest_ms;
    }
    causes->count = groups + 1;
    qsort(causes->list, causes->count, sizeof *causes->list, by_count);
}

static void write_cause_text(struct base_buffer *out, const char *key, struct base_span text)
{
    base_json_write_key(out, base_span_text(key));
    base_json_write_string(out, text);
}

static void write_cause_time(struct base_buffer *out, const char *key, int64_t wall_ms)
{
    char at[BASE_RFC3339_SIZE];
    base_rfc3339_format(wall_ms, at);
    write_cause_text(out, key, base_span_text(at));
}

/* Retention does not remove what is parked; but it may be decided about meanwhile. */
static enum handoff_code write_cause(struct handoff_client *client, struct base_buffer *out,
                                     const struct cause *cause, struct handoff_error *error)
{
    struct handoff_stored *example = NULL;
    struct base_arena arena;
    char id[BASE_UUID_TEXT] = "";
    size_t count = 0;
    base_arena_init(&arena, 0);
    enum handoff_code code =
        handoff_store_get_numbered(client->store, &cause->seq, 1, &arena, &example, &count, error);
    if (count > 0)
        base_uuid_format(&example->id, id);
    base_arena_free(&arena);
    base_buffer_byte(out, '{');
    write_cause_text(out, "target_agent", cause->target);
    write_cause_text(out, "reason", cause->reason);
    write_cause_text(out, "error", cause->error);
    base_buffer_printf(out, ",\"count\":%zu", cause->count);
    write_cause_time(out, "oldest_at", cause->oldest_ms);
    write_cause_time(out, "newest_at", cause->newest_ms);
    write_cause_text(out, "example_id", base_span_text(id));
    base_buffer_byte(out, '}');
    return code;
}

/* A cursor is the number of groups that were shown. */
static enum handoff_code write_causes(struct handoff_client *client, struct base_buffer *out,
                                      const struct causes *causes, size_t total, size_t from,
                                      size_t limit, struct handoff_error *error)
{
    const size_t left = from < causes->count ? causes->count - from : 0;
    const size_t shown = left < limit ? left : limit;
    enum handoff_code code = HANDOFF_OK;
    base_buffer_text(out, "{\"items\":[");
    for (size_t i = from; i < from + shown && code == HANDOFF_OK; i++) {
        base_buffer_text(out, i > from ? "," : "");
        code = write_cause(client, out, &causes->list[i], error);
    }
    if (left > shown)
        base_buffer_printf(out, "],\"next\":\"%zu\"", from + shown);
    else
        base_buffer_text(out, "],\"next\":null");
    base_buffer_printf(out, ",\"total\":%zu}", total);
    return code;
}

enum handoff_code handoff_read_parked_groups(struct handoff_client *client,
                                             const struct handoff_parked_query *query,
                                             struct handoff_text *text, struct handoff_error *error)
{
    struct handoff_parked_filter filter;
    struct base_buffer out = {0};
    struct base_arena arena;
    struct causes causes = {.arena = &arena};
    int64_t from = 0;
    *text = (struct handoff_text){0};
    enum handoff_code code = handoff_read_parked_filter(query, &filter, error);
    if (code == HANDOFF_OK)
        code = handoff_read_cursor(query->cursor, &from, error);
    if (code != HANDOFF_OK)
        return code;
    base_arena_init(&arena, 0);
    code = handoff_store_find_parked(client->store, &filter, take_cause, &causes, error);
    if (code == HANDOFF_OK && causes.no_memory)
        code = handoff_error_no_memory(error);
    const size_t total = causes.count;
    if (code == HANDOFF_OK && total == 0)
        code = check_parked_filters(client, query, error);
    join_causes(&causes);
    if (code == HANDOFF_OK)
        code = write_causes(client, &out, &causes, total, (size_t)from, limit_of(query), error);
    if (code == HANDOFF_OK)
        code = handoff_client_give(&out, text, error);
    base_buffer_free(&out);
    base_arena_free(&arena);
    return code;
}
