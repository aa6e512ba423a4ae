/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes a list of gaps, see gaps.h: what is kept, what is flagged and what was found are sorted
 * by id together, so that a thousand of each take no longer than sorting them. Pure; any thread.
 */
#include "client/model/gaps.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/arena.h"
#include "lib/base/json.h"
#include "lib/base/rfc3339.h"

/* ---- ids ------------------------------------------------------------------------------------- */

static bool is_gap_id_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || (byte != '\0' && strchr("._:-", byte));
}

bool handoff_gap_is_id(struct base_span text)
{
    if (base_span_equal(text, base_span_text("*pinned")) ||
        base_span_equal(text, base_span_text("*recent")))
        return true;
    if (text.size == 0 || text.size > HANDOFF_GAP_ID_MAX)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        if (!is_gap_id_byte(text.data[i]))
            return false;
    }
    return true;
}

void handoff_gaps_read_ids(yyjson_val *array, struct base_buffer *ids)
{
    size_t i, n, taken = 0;
    yyjson_val *entry;
    yyjson_arr_foreach(array, i, n, entry)
    {
        yyjson_val *named = yyjson_is_obj(entry) ? yyjson_obj_get(entry, "id") : entry;
        const struct base_span id = base_json_span(named);
        if (!handoff_gap_is_id(id) || taken == HANDOFF_GAPS_MAX)
            continue;
        base_buffer_append(ids, id.data, id.size);
        base_buffer_byte(ids, '\n');
        taken++;
    }
}

/* ---- changing -------------------------------------------------------------------------------- */

enum gap_source { GAP_KEPT, GAP_LACKING, GAP_FOUND };

struct gap {
    struct base_span id, agent, at;
    struct base_span recovered_at; /* absent: not yet */
    enum gap_source source;
    size_t place; /* in which it came */
};

struct gap_list {
    struct base_arena arena;
    yyjson_doc *doc; /* of what is kept; in the arena */
    struct gap *at;
    size_t count;
    char now[BASE_RFC3339_SIZE];
};

static size_t count_gap_ids(struct base_span text)
{
    size_t lines = 0;
    for (size_t i = 0; i < text.size; i++)
        lines += text.data[i] == '\n';
    return lines;
}

static void add_kept_gap(struct gap_list *list, yyjson_val *kept)
{
    list->at[list->count] = (struct gap){
        .id = base_json_span(yyjson_obj_get(kept, "id")),
        .agent = base_json_span(yyjson_obj_get(kept, "agent")),
        .at = base_json_span(yyjson_obj_get(kept, "at")),
        .recovered_at = base_json_span(yyjson_obj_get(kept, "recovered_at")),
        .place = list->count,
    };
    list->count++;
}

static void add_gap_ids(struct gap_list *list, struct base_span ids, enum gap_source source,
                        struct base_span agent)
{
    const struct base_span now = base_span_text(list->now);
    for (size_t at = 0; at < ids.size;) {
        const char *end = memchr(ids.data + at, '\n', ids.size - at);
        const size_t size = (size_t)(end - (ids.data + at)); /* each line ends */
        list->at[list->count] = (struct gap){
            .id = base_span(ids.data + at, size),
            .agent = agent,
            .at = now,
            .recovered_at = source == GAP_FOUND ? now : base_span(NULL, 0),
            .source = source,
            .place = list->count,
        };
        list->count++;
        at += size + 1;
    }
}

static enum handoff_code read_gaps(struct gap_list *list, const struct handoff_gaps_change *change,
                                   struct handoff_error *error)
{
    const size_t more = count_gap_ids(change->lacking) + count_gap_ids(change->found);
    yyjson_val *kept = NULL;
    if (change->kept.size > 0) {
        enum handoff_code code =
            base_json_read_in(&list->arena, change->kept, "gaps", &list->doc, error);
        if (code != HANDOFF_OK)
            return code == HANDOFF_ERR_OUT_OF_MEMORY
                       ? code
                       : handoff_error_set(error, HANDOFF_ERR_STORE_CORRUPT,
                                           "the gaps of the handoff are damaged", NULL, NULL);
        kept = yyjson_doc_get_root(list->doc);
    }
    list->at = base_arena_calloc(&list->arena, yyjson_arr_size(kept) + more + 1, sizeof *list->at);
    if (!list->at)
        return handoff_error_no_memory(error);
    size_t i, n;
    yyjson_val *gap;
    yyjson_arr_foreach(kept, i, n, gap)
    {
        add_kept_gap(list, gap);
    }
    base_rfc3339_format(change->at_ms, list->now);
    add_gap_ids(list, change->lacking, GAP_LACKING, change->agent);
    add_gap_ids(list, change->found, GAP_FOUND, change->agent);
    return HANDOFF_OK;
}

static int compare_gap_places(const void *left, const void *right)
{
    const struct gap *a = left, *b = right;
    return (a->place > b->place) - (a->place < b->place);
}

static int compare_gaps(const void *left, const void *right)
{
    const struct gap *a = left, *b = right;
    const size_t shorter = a->id.size < b->id.size ? a->id.size : b->id.size;
    const int order = shorter ? memcmp(a->id.data, b->id.data, shorter) : 0;
    if (order != 0)
        return order;
    if (a->id.size != b->id.size)
        return a->id.size < b->id.size ? -1 : 1;
    return compare_gap_places(left, right);
}

/* What comes behind an entry with the same id changes it. */
static void change_gap(struct gap *gap, const struct gap *next, struct handoff_gaps_change *change)
{
    if (next->source == GAP_FOUND && !gap->recovered_at.data) {
        gap->recovered_at = next->at;
        change->recovered++;
    } else if (next->source == GAP_LACKING && gap->recovered_at.data) {
        gap->recovered_at = base_span(NULL, 0);
        gap->at = next->at;
        gap->agent = next->agent;
        change->flagged++;
    }
}

/* Leaves each id once. */
static void merge_gaps(struct gap_list *list, struct handoff_gaps_change *change)
{
    size_t left = 0;
    qsort(list->at, list->count, sizeof *list->at, compare_gaps);
    for (size_t i = 0; i < list->count; i++) {
        if (left > 0 && base_span_equal(list->at[left - 1].id, list->at[i].id)) {
            change_gap(&list->at[left - 1], &list->at[i], change);
            continue;
        }
        change->flagged += list->at[i].source == GAP_LACKING;
        change->recovered += list->at[i].source == GAP_FOUND;
        list->at[left++] = list->at[i];
    }
    list->count = left;
    qsort(list->at, left, sizeof *list->at, compare_gap_places);
}

static void write_gap(struct base_buffer *out, const struct gap *gap)
{
    base_buffer_byte(out, '{');
    base_json_write_name(out, "id");
    base_json_write_string(out, gap->id);
    base_json_write_name(out, "agent");
    base_json_write_string(out, gap->agent.data ? gap->agent : base_span("", 0));
    base_json_write_name(out, "at");
    base_json_write_string(out, gap->at.data ? gap->at : base_span("", 0));
    base_json_write_name(out, "recovered_at");
    if (gap->recovered_at.data)
        base_json_write_string(out, gap->recovered_at);
    else
        base_buffer_text(out, "null");
    base_buffer_byte(out, '}');
}

static enum handoff_code write_gaps(const struct gap_list *list, struct base_buffer *out,
                                    struct handoff_error *error)
{
    if (list->count > HANDOFF_GAPS_MAX) {
        handoff_error_set(error, HANDOFF_ERR_INVALID, "too many memories are missing", "missing",
                          NULL);
        handoff_error_seen(error, "%zu, with those flagged before", list->count);
        handoff_error_allow(error, "up to %d for each handoff", HANDOFF_GAPS_MAX);
        return HANDOFF_ERR_INVALID;
    }
    base_buffer_byte(out, '[');
    for (size_t i = 0; i < list->count; i++) {
        base_buffer_text(out, i > 0 ? "," : "");
        write_gap(out, &list->at[i]);
    }
    base_buffer_byte(out, ']');
    return out->failed ? handoff_error_no_memory(error) : HANDOFF_OK;
}

enum handoff_code handoff_gaps_change(struct handoff_gaps_change *change, struct base_buffer *out,
                                      struct handoff_error *error)
{
    struct gap_list list = {0};
    change->flagged = change->recovered = 0;
    base_arena_init(&list.arena, 0);
    enum handoff_code code = read_gaps(&list, change, error);
    if (code == HANDOFF_OK) {
        merge_gaps(&list, change);
        code = write_gaps(&list, out, error);
    }
    base_arena_free(&list.arena);
    return code;
}
