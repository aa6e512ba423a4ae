/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the lists of list.h. The thread that runs the assembly. */
#include "client/assemble/list.h"

#include "client/assemble/segment.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/json.h"

enum {
    RUN_MAX = 512,  /* bytes of a run that is counted again with each entry */
    LEAST_STEP = 4, /* tokens: a step has at least the words agent and action, and what follows */
};

static const struct base_span lefts[HANDOFF_RUN_LEFTS] = {[HANDOFF_RUN_TEXT] = {"\"", 1},
                                                          [HANDOFF_RUN_OBJECT] = {"\"}", 2},
                                                          [HANDOFF_RUN_OPEN] = {"\":[", 3},
                                                          [HANDOFF_RUN_OPEN_STATE] = {"\":{", 3}};

#define RIGHT(text)                                                                                \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }
static const struct base_span rights[HANDOFF_RUN_RIGHTS] = {
    [HANDOFF_RUN_TEXT] = RIGHT("\""),
    [HANDOFF_RUN_OBJECT] = RIGHT("{\""),
    [HANDOFF_RUN_END + HANDOFF_LIST_END_UNRESOLVED] = RIGHT("],\"unresolved"),
    [HANDOFF_RUN_END + HANDOFF_LIST_END_REMAINING] = RIGHT("],\"remaining"),
    [HANDOFF_RUN_END + HANDOFF_LIST_END_STATE] = RIGHT("]" HANDOFF_SEGMENT_STATE_END),
    [HANDOFF_RUN_END + HANDOFF_LIST_END_HISTORY] = RIGHT("],\"constraints"),
    [HANDOFF_RUN_END + HANDOFF_LIST_END_MEMBERS] = RIGHT(HANDOFF_SEGMENT_STATE_END),
};

static struct handoff_list *list_of_trim(struct handoff_trim_list *trim)
{
    return BASE_CONTAINER_OF(trim, struct handoff_list, trim);
}

/* ---- runs ----------------------------------------------------------------------------------- */

static void join_sides(struct base_buffer *out, struct base_span left, struct base_span right,
                       bool comma)
{
    base_buffer_append(out, left.data, left.size);
    if (comma)
        base_buffer_byte(out, ',');
    base_buffer_append(out, right.data, right.size);
}

static uint32_t count_run(struct handoff_counter *counter, struct base_span left,
                          struct base_span right, bool comma)
{
    base_buffer_clear(&counter->scratch);
    join_sides(&counter->scratch, left, right, comma);
    return handoff_cost_of_scratch(counter);
}

static bool needs_comma(int left, int right)
{
    return left < HANDOFF_RUN_OPEN && right < HANDOFF_RUN_END;
}

void handoff_list_prepare(struct handoff_list_runs *runs, struct handoff_counter *counter)
{
    for (int left = 0; left < HANDOFF_RUN_LEFTS; left++) {
        for (int right = 0; right < HANDOFF_RUN_RIGHTS; right++)
            runs->cost[left][right] =
                count_run(counter, lefts[left], rights[right], needs_comma(left, right));
    }
}

static struct handoff_run_side usual_left(int usual)
{
    return (struct handoff_run_side){.text = lefts[usual], .usual = usual};
}

static struct handoff_run_side usual_right(int usual)
{
    return (struct handoff_run_side){.text = rights[usual], .usual = usual};
}

static struct handoff_run_side opening(const struct handoff_list *list)
{
    return usual_left(list->kind == HANDOFF_PART_STATE ? HANDOFF_RUN_OPEN_STATE : HANDOFF_RUN_OPEN);
}

/* The right side of a list without entries. */
static struct handoff_run_side ending(const struct handoff_list *list)
{
    return list->next_key.data ? (struct handoff_run_side){.text = list->next_key, .usual = -1}
                               : usual_right(HANDOFF_RUN_END + (int)list->end);
}

static uint32_t cost_of_run(const struct handoff_list *list, const struct handoff_run_side *left,
                            const struct handoff_run_side *right)
{
    const bool comma = needs_comma(left->usual, right->usual);
    if (left->usual >= 0 && right->usual >= 0)
        return list->runs->cost[left->usual][right->usual];
    if (right->long_bytes)
        return (uint32_t)(left->text.size + comma + right->long_bytes);
    return count_run(list->counter, left->text, right->text, comma);
}

/* ---- the texts of entries ------------------------------------------------------------------- */

static bool is_plain_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* A text whose lead and trail are the quotes: that is seen without writing it. */
static bool is_plain_text(yyjson_val *value)
{
    const struct base_span text = base_json_span(value);
    return text.size > 0 && is_plain_byte(text.data[0]) && is_plain_byte(text.data[text.size - 1]);
}

static void write_entry(struct base_buffer *out, const struct handoff_list *list,
                        const struct handoff_item *item, bool whole)
{
    yyjson_val *value = item->value;
    if (list->kind == HANDOFF_PART_STATE) {
        base_json_write_string(out, item->name);
        base_buffer_byte(out, ':');
    }
    if (list->kind != HANDOFF_PART_STEPS)
        base_json_write(out, value);
    else if (whole || !handoff_segment_step_has_reason(value))
        handoff_segment_step_write(out, value);
    else
        handoff_segment_step_write_short(out, value);
}

static struct base_span written_text(const struct handoff_list *list,
                                     const struct handoff_list_text *text)
{
    return list->texts->failed ? base_span("\"\"", 2)
                               : base_span(list->texts->data + text->at, text->size);
}

static void write_text(struct handoff_list *list, struct handoff_list_text *text,
                       const struct handoff_item *item, bool whole)
{
    text->at = list->texts->size;
    write_entry(list->texts, list, item, whole);
    text->size = list->texts->size - text->at;
    text->written = true;
    text->joins = !handoff_segment_cut(written_text(list, text), &text->lead, &text->trail);
}

static uint32_t count_middle(struct handoff_list *list, const struct handoff_list_text *text)
{
    const struct base_span all = written_text(list, text);
    return text->joins || list->texts->failed
               ? 0
               : handoff_cost_of_text(
                     list->counter,
                     base_span(all.data + text->lead, all.size - text->lead - text->trail));
}

/* What an item is kept with is one more than its tokens between lead and trail: 0 says that nobody
 * has counted it. */
static void learn_text(struct handoff_list *list, size_t entry)
{
    struct handoff_list_text *text = &list->entries[entry].text;
    struct handoff_item *item = &list->items.at[entry];
    if (text->known)
        return;
    text->known = true;
    if (item->tokens > 0 && list->kind != HANDOFF_PART_STATE && is_plain_text(item->value)) {
        text->lead = text->trail = 1;
        text->middle = item->tokens - 1;
        return;
    }
    write_text(list, text, item, false);
    text->middle = item->tokens > 0 ? item->tokens - 1 : count_middle(list, text);
    item->tokens = text->middle + 1;
}

static void learn_whole_text(struct handoff_list *list, size_t entry)
{
    struct handoff_list_text *whole = &list->entries[entry].whole;
    if (whole->known)
        return;
    whole->known = true;
    write_text(list, whole, &list->items.at[entry], true);
    whole->middle = count_middle(list, whole);
}

/* A side that outlives changes of the buffer it was cut from. */
static struct handoff_run_side unusual_side(struct handoff_list *list, struct base_span text)
{
    char *copy = base_arena_copy(list->counter->scratch.arena, text.data, text.size);
    if (!copy)
        list->counter->failed = true;
    return (struct handoff_run_side){.text = copy ? base_span(copy, text.size) : base_span("", 0),
                                     .usual = -1};
}

static struct handoff_run_side lead_of(struct handoff_list *list,
                                       const struct handoff_list_text *text)
{
    if (!text->written)
        return usual_right(HANDOFF_RUN_TEXT);
    const struct base_span lead = base_span(written_text(list, text).data, text->lead);
    for (int usual = HANDOFF_RUN_TEXT; usual <= HANDOFF_RUN_OBJECT; usual++) {
        if (base_span_equal(lead, rights[usual]))
            return usual_right(usual);
    }
    return unusual_side(list, lead);
}

static struct handoff_run_side trail_of(const struct handoff_list *list,
                                        const struct handoff_list_text *text)
{
    if (!text->written)
        return usual_left(HANDOFF_RUN_TEXT);
    const struct base_span all = written_text(list, text);
    const struct base_span trail = base_span(all.data + all.size - text->trail, text->trail);
    for (int usual = HANDOFF_RUN_TEXT; usual <= HANDOFF_RUN_OBJECT; usual++) {
        if (base_span_equal(trail, lefts[usual]))
            return usual_left(usual);
    }
    return (struct handoff_run_side){.text = trail, .usual = -1};
}

/* ---- building ------------------------------------------------------------------------------- */

static void clear_list(struct handoff_trim_list *trim)
{
    struct handoff_list *list = list_of_trim(trim);
    const struct handoff_run_side open = opening(list);
    list->front = ending(list);
    list->front_cost = cost_of_run(list, &open, &list->front);
    trim->empty = list->total = list->front_cost;
    list->has_long_run = false;
    for (size_t i = 0; i < trim->count; i++)
        list->entries[i].form = HANDOFF_ENTRY_OMITTED;
}

/* The entry, and the run that it joins. */
static struct handoff_run_side extended_front(struct handoff_list *list,
                                              const struct handoff_list_text *text)
{
    const bool comma = list->front.usual < HANDOFF_RUN_END;
    const size_t size = text->size + comma + list->front.text.size + list->front.long_bytes;
    struct base_buffer joined = {.arena = list->counter->scratch.arena};
    if (size > RUN_MAX)
        return (struct handoff_run_side){.text = base_span("", 0), .usual = -1, .long_bytes = size};
    join_sides(&joined, written_text(list, text), list->front.text, comma);
    if (joined.failed)
        list->counter->failed = true;
    return (struct handoff_run_side){
        .text = joined.failed ? base_span("", 0) : base_buffer_span(&joined), .usual = -1};
}

static int64_t price_entry(struct handoff_trim_list *trim, size_t entry, int64_t room)
{
    struct handoff_list *list = list_of_trim(trim);
    const struct handoff_run_side open = opening(list);
    const struct handoff_list_text *text = &list->entries[entry].text;
    int64_t price = -list->front_cost;
    if ((int64_t)list->items.at[entry].tokens - 1 > room)
        return HANDOFF_PRICE_TOO_HIGH;
    learn_text(list, entry);
    if (list->texts->failed)
        return HANDOFF_PRICE_TOO_HIGH;
    if (text->joins) {
        list->priced_front = extended_front(list, text);
    } else {
        const struct handoff_run_side trail = trail_of(list, text);
        list->priced_front = lead_of(list, text);
        price += (int64_t)text->middle + cost_of_run(list, &trail, &list->front);
    }
    list->priced_front_cost = cost_of_run(list, &open, &list->priced_front);
    list->priced = price + list->priced_front_cost;
    return list->priced;
}

static bool may_be_shorter(const struct handoff_list *list, size_t entry)
{
    return list->kind == HANDOFF_PART_STEPS &&
           handoff_segment_step_has_reason(list->items.at[entry].value);
}

static void keep_priced_entry(struct handoff_trim_list *trim, size_t entry)
{
    struct handoff_list *list = list_of_trim(trim);
    list->entries[entry].is_last = list->front.usual >= HANDOFF_RUN_END;
    list->entries[entry].form =
        may_be_shorter(list, entry) ? HANDOFF_ENTRY_SHORT : HANDOFF_ENTRY_WHOLE;
    list->front = list->priced_front;
    list->front_cost = list->priced_front_cost;
    list->total += list->priced;
    list->has_long_run |= list->front.long_bytes > 0;
}

/* The lead stays the same, since every step begins with its agent. */
static int64_t price_of_reason(struct handoff_trim_list *trim, size_t entry)
{
    struct handoff_list *list = list_of_trim(trim);
    struct handoff_list_entry *step = &list->entries[entry];
    if (step->form != HANDOFF_ENTRY_SHORT)
        return HANDOFF_PRICE_TOO_HIGH;
    learn_whole_text(list, entry);
    if (list->texts->failed)
        return HANDOFF_PRICE_TOO_HIGH;
    BASE_CHECK(step->whole.lead == step->text.lead);
    const struct handoff_run_side right =
        usual_right(step->is_last ? HANDOFF_RUN_END + (int)list->end : HANDOFF_RUN_OBJECT);
    const struct handoff_run_side trail = trail_of(list, &step->text),
                                  whole_trail = trail_of(list, &step->whole);
    list->priced = (int64_t)step->whole.middle - (int64_t)step->text.middle +
                   cost_of_run(list, &whole_trail, &right) - cost_of_run(list, &trail, &right);
    return list->priced;
}

size_t handoff_list_count_short(const struct handoff_list *list)
{
    size_t count = 0;
    for (size_t i = 0; i < list->items.count; i++)
        count += list->entries[i].form == HANDOFF_ENTRY_SHORT;
    return count;
}

static void keep_entry_reason(struct handoff_trim_list *trim, size_t entry)
{
    struct handoff_list *list = list_of_trim(trim);
    list->entries[entry].form = HANDOFF_ENTRY_WHOLE;
    list->total += list->priced;
}

/* Where a long run was priced by its bytes: what the whole list costs less than that. */
static int64_t settle_list(struct handoff_trim_list *trim)
{
    struct handoff_list *list = list_of_trim(trim);
    if (!list->has_long_run)
        return 0;
    base_buffer_clear(&list->counter->scratch);
    handoff_list_write(&list->counter->scratch, list);
    const int64_t exact = handoff_cost_of_scratch(list->counter);
    return list->counter->failed ? 0 : exact - list->total;
}

/* ---- age ------------------------------------------------------------------------------------ */

enum { AGE_HOP_SHIFT = 44 }; /* milliseconds have 41 bits */

handoff_age handoff_age_of(const struct handoff_hop *from, const struct handoff_hop *own)
{
    const uint64_t time_mask = (UINT64_C(1) << AGE_HOP_SHIFT) - 1;
    if (from == own)
        return HANDOFF_AGE_OWN;
    return (uint64_t)from->hop << AGE_HOP_SHIFT | ((uint64_t)from->at_ms & time_mask);
}

static handoff_age age_of_entry(const struct handoff_trim_list *trim, size_t entry)
{
    const struct handoff_list *list = (const struct handoff_list *)trim;
    return handoff_age_of(list->items.at[entry].from, list->own);
}

bool handoff_list_init(struct handoff_list *list, enum handoff_part kind, enum handoff_list_end end,
                       struct base_arena *arena)
{
    const bool steps = kind == HANDOFF_PART_STEPS;
    list->kind = kind;
    list->end = end;
    list->entries = base_arena_calloc(arena, list->items.count + 1, sizeof(*list->entries));
    list->trim = (struct handoff_trim_list){.count = list->items.count,
                                            .least = steps ? LEAST_STEP : 1,
                                            .age = age_of_entry,
                                            .clear = clear_list,
                                            .price = price_entry,
                                            .keep = keep_priced_entry,
                                            .settle = settle_list,
                                            .price_reason = steps ? price_of_reason : NULL,
                                            .keep_reason = steps ? keep_entry_reason : NULL};
    return list->entries != NULL;
}

/* ---- writing -------------------------------------------------------------------------------- */

static void write_kept_entry(struct base_buffer *out, const struct handoff_list *list, size_t entry)
{
    const struct handoff_list_entry *kept = &list->entries[entry];
    const struct handoff_list_text *text =
        kept->form == HANDOFF_ENTRY_WHOLE && kept->whole.known ? &kept->whole : &kept->text;
    if (text->written)
        base_buffer_append(out, list->texts->data + text->at, text->size);
    else
        base_json_write(out, list->items.at[entry].value);
}

void handoff_list_write(struct base_buffer *out, const struct handoff_list *list)
{
    const struct handoff_run_side open = opening(list), end = ending(list);
    bool some = false;
    base_buffer_append(out, open.text.data, open.text.size);
    for (size_t i = 0; i < list->trim.count; i++) {
        if (list->entries[i].form == HANDOFF_ENTRY_OMITTED)
            continue;
        if (some)
            base_buffer_byte(out, ',');
        write_kept_entry(out, list, i);
        some = true;
    }
    if (some && list->next_key.data)
        base_buffer_byte(out, ',');
    base_buffer_append(out, end.text.data, end.text.size);
}
