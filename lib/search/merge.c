/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merging: which segments, and how. What is in memory is merged so that each is more than
 * NEWEST_RATIO times as large as the next one; so there are few, and each document is merged a few
 * times. What is in files is merged when TIER_FAN neighbours are about as large, up to a size that
 * bounds what a merge needs of memory and how long it takes; and alone, when much of it was
 * removed.
 *
 * What the thread that writes merges and what the other one does are apart: `merging` says whose
 * a segment is.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/memory.h"
#include "lib/search/index.h"
#include "lib/search/postings.h"

enum {
    NEWEST_RATIO = 4,
    TIER_FAN = 8,
    LARGEST = 256 * 1024, /* documents of a merged segment */
    REMOVED_SHARE = 4,    /* a quarter was removed: worth writing it anew */
    REMOVED_LEAST = 1024,
};

/* ---- the documents -----------------------------------------------------------------------------
 */

/* Of the segment that is made: where a document comes from. */
struct origin {
    int64_t key;
    uint32_t input, document;
};

struct merging {
    const struct search_merge *merge;
    struct origin *origins;
    size_t count;
    uint32_t *numbers[SEARCH_MERGE_MAX]; /* of the documents of each input; UINT32_MAX: removed */
    struct search_document *documents;
    struct search_posting *postings; /* room for one list */
    size_t at[SEARCH_MERGE_MAX];     /* the next term of each input */
    struct search_builder builder;
};

static int by_origin_key(const void *a, const void *b)
{
    const struct origin *left = a, *right = b;
    return (left->key > right->key) - (left->key < right->key);
}

static bool make_merging(struct merging *on, const struct search_merge *merge)
{
    size_t documents = 0;
    *on = (struct merging){.merge = merge};
    bool whole = true;
    for (size_t i = 0; i < merge->count; i++) {
        const size_t some = merge->inputs[i]->head.documents;
        documents += some;
        on->numbers[i] = base_malloc((some + 1) * sizeof **on->numbers);
        whole = whole && on->numbers[i];
    }
    on->origins = base_malloc((documents + 1) * sizeof *on->origins);
    on->documents = base_malloc((documents + 1) * sizeof *on->documents);
    on->postings = base_malloc((documents + 1) * sizeof *on->postings);
    return whole && on->origins && on->documents && on->postings;
}

static void free_merging(struct merging *on)
{
    for (size_t i = 0; i < on->merge->count; i++)
        base_free(on->numbers[i]);
    base_free(on->origins);
    base_free(on->documents);
    base_free(on->postings);
}

static void gather_input(struct merging *on, size_t input)
{
    const struct search_segment *segment = on->merge->inputs[input];
    for (uint32_t i = 0; i < segment->head.documents; i++) {
        on->numbers[input][i] = UINT32_MAX;
        if (!search_segment_is_removed(segment, i))
            on->origins[on->count++] = (struct origin){segment->keys[i], (uint32_t)input, i};
    }
}

static void number_documents(struct merging *on)
{
    for (size_t i = 0; i < on->merge->count; i++)
        gather_input(on, i);
    for (size_t i = 1; i < on->count; i++) {
        if (on->origins[i].key > on->origins[i - 1].key)
            continue;
        qsort(on->origins, on->count, sizeof *on->origins, by_origin_key);
        break;
    }
    for (size_t i = 0; i < on->count; i++) {
        const struct origin *origin = &on->origins[i];
        const struct search_segment *segment = on->merge->inputs[origin->input];
        const uint32_t document = origin->document;
        const struct search_facts *facts = &segment->facts[document];
        on->numbers[origin->input][document] = (uint32_t)i;
        on->documents[i] =
            (struct search_document){.key = origin->key,
                                     .changed_ms = (int64_t)facts->seconds * 1000,
                                     .length = search_length_of(segment->lengths[document]),
                                     .level = (uint8_t)facts->level,
                                     .task = facts->task,
                                     .agent = facts->agent,
                                     .sketch = search_segment_sketch(segment, document)};
    }
}

/* ---- the terms ---------------------------------------------------------------------------------
 */

static bool find_least_hash(const struct merging *on, uint64_t *hash)
{
    bool found = false;
    for (size_t i = 0; i < on->merge->count; i++) {
        const struct search_segment *segment = on->merge->inputs[i];
        if (on->at[i] < segment->head.terms && (!found || segment->hashes[on->at[i]] < *hash)) {
            *hash = segment->hashes[on->at[i]];
            found = true;
        }
    }
    return found;
}

static size_t gather_list(struct merging *on, size_t input, size_t count)
{
    const uint32_t *numbers = on->numbers[input];
    struct search_cursor cursor;
    search_cursor_open(&cursor, on->merge->inputs[input], on->at[input]);
    for (; cursor.block < cursor.nblocks; cursor.block++) {
        search_cursor_fill(&cursor);
        for (uint32_t i = 0; i < cursor.filled; i++) {
            const uint32_t document = cursor.documents[i];
            const uint32_t times = search_cursor_count(&cursor, i);
            if (numbers[document] != UINT32_MAX && count < on->count)
                on->postings[count++] = (struct search_posting){
                    numbers[document], times < SEARCH_COUNT_MAX ? times : SEARCH_COUNT_MAX};
        }
        cursor.filled = 0;
    }
    return count;
}

static int by_document(const void *a, const void *b)
{
    const struct search_posting *left = a, *right = b;
    return (left->document > right->document) - (left->document < right->document);
}

static void merge_term(struct merging *on, uint64_t hash)
{
    size_t count = 0;
    for (size_t i = 0; i < on->merge->count; i++) {
        const struct search_segment *segment = on->merge->inputs[i];
        if (on->at[i] < segment->head.terms && segment->hashes[on->at[i]] == hash) {
            count = gather_list(on, i, count);
            on->at[i]++;
        }
    }
    for (size_t i = 1; i < count; i++) {
        if (on->postings[i].document > on->postings[i - 1].document)
            continue;
        qsort(on->postings, count, sizeof *on->postings, by_document);
        break;
    }
    if (count > 0)
        search_builder_term(&on->builder, hash, on->postings, count);
}

/* Found while they were read: what was made of them would look sound. */
static bool is_any_damaged(const struct search_merge *merge)
{
    for (size_t i = 0; i < merge->count; i++)
        if (search_segment_is_damaged(merge->inputs[i]))
            return true;
    return false;
}

static bool merge_is_stopped(const struct search_merge *merge)
{
    return merge->stop && atomic_load_explicit(merge->stop, memory_order_relaxed);
}

bool search_merge_build(const struct search_merge *merge, struct base_buffer *bytes)
{
    struct merging on;
    uint64_t hash = 0;
    if (!make_merging(&on, merge)) {
        free_merging(&on);
        return false;
    }
    number_documents(&on);
    (void)search_builder_begin(&on.builder, on.documents, on.count); /* the end tells */
    on.builder.head.first = merge->first;
    on.builder.head.last = merge->last;
    on.builder.head.words = merge->index->words;
    while (!on.builder.lengths.failed && !merge_is_stopped(merge) && find_least_hash(&on, &hash))
        merge_term(&on, hash);
    bool whole = search_builder_end(&on.builder, bytes);
    free_merging(&on);
    if (is_any_damaged(merge) || merge_is_stopped(merge)) {
        base_buffer_free(bytes);
        whole = false;
    }
    return whole;
}

/* ---- which -------------------------------------------------------------------------------------
 */

static uint32_t kept_documents(const struct search_segment *segment)
{
    const uint32_t removed = atomic_load_explicit(&segment->removed_count, memory_order_relaxed);
    return segment->head.documents - removed;
}

/* What it is to merge a segment, in documents of a usual size: a long one counts as several. */
static uint32_t weight_of(const struct search_segment *segment)
{
    enum { USUAL_BYTES = 512 };
    const uint64_t usual = segment->head.size / USUAL_BYTES;
    const uint32_t kept = kept_documents(segment);
    if (usual <= kept)
        return kept;
    return usual < UINT32_MAX / SEARCH_MERGE_MAX ? (uint32_t)usual : UINT32_MAX / SEARCH_MERGE_MAX;
}

/* Takes the segments [from, to) of the list. */
static void take_inputs(struct search_merge *merge, const struct search_view *view, size_t from,
                        size_t to)
{
    merge->count = 0;
    merge->first = INT64_MAX;
    merge->last = 0;
    for (size_t i = from; i < to; i++) {
        struct search_segment *segment = view->segments[i];
        BASE_CHECK(!segment->merging && merge->count < SEARCH_MERGE_MAX);
        search_segment_hold(segment);
        segment->merging = true;
        merge->inputs[merge->count++] = segment;
        if (segment->head.first < merge->first)
            merge->first = segment->head.first;
        if (segment->head.last > merge->last)
            merge->last = segment->head.last;
    }
}

/* A merge covers all times from its first to its last: while some may be missing, only what has
   none in between is merged. */
static bool may_join(const struct search_view *view, size_t at, bool whole)
{
    return whole || view->segments[at]->head.first == view->segments[at - 1]->head.last + 1;
}

/* The oldest of what is in memory. */
static bool plan_file(const struct search_view *view, bool whole, bool all,
                      struct search_merge *merge)
{
    size_t from = 0;
    uint32_t weight = 0;
    while (from < view->count && view->segments[from]->mapped)
        from++;
    size_t to = from;
    while (to < view->count && !view->segments[to]->merging &&
           !search_segment_is_damaged(view->segments[to]) && to - from < SEARCH_MERGE_MAX &&
           weight < LARGEST && (to == from || may_join(view, to, whole)))
        weight += weight_of(view->segments[to++]);
    if (to == from || (weight < SEARCH_SEAL_DOCUMENTS && !all))
        return false;
    take_inputs(merge, view, from, to);
    return true;
}

static bool may_merge(const struct search_segment *segment, uint32_t most)
{
    return segment->mapped && !segment->merging && !search_segment_is_damaged(segment) &&
           weight_of(segment) < most;
}

/* The first TIER_FAN neighbours or more that are smaller than this. */
static bool plan_tier(const struct search_view *view, bool whole, uint32_t most,
                      struct search_merge *merge)
{
    for (size_t from = 0; from < view->count; from++) {
        uint32_t weight = 0;
        size_t to = from;
        while (to < view->count && to - from < SEARCH_MERGE_MAX &&
               may_merge(view->segments[to], most) &&
               weight + weight_of(view->segments[to]) <= LARGEST &&
               (to == from || may_join(view, to, whole)))
            weight += weight_of(view->segments[to++]);
        if (to - from < TIER_FAN)
            continue;
        take_inputs(merge, view, from, to);
        return true;
    }
    return false;
}

static bool plan_thinned(const struct search_view *view, struct search_merge *merge)
{
    for (size_t i = 0; i < view->count; i++) {
        const struct search_segment *segment = view->segments[i];
        const uint32_t removed = segment->head.documents - kept_documents(segment);
        if (may_merge(segment, UINT32_MAX) && removed >= REMOVED_LEAST &&
            removed >= segment->head.documents / REMOVED_SHARE) {
            take_inputs(merge, view, i, i + 1);
            return true;
        }
    }
    return false;
}

static void begin_log(struct search_index *index)
{
    BASE_CHECK(!index->logging);
    base_buffer_clear(&index->removals);
    index->logging = true;
}

bool search_merge_plan(struct search_index *index, bool all, struct search_merge *merge)
{
    *merge = (struct search_merge){.index = index};
    BASE_CHECK_MAGIC(index, SEARCH_INDEX_MAGIC);
    pthread_mutex_lock(&index->change_lock);
    const struct search_view *view = index->view;
    const bool whole = search_index_is_whole(index);
    bool found = plan_file(view, whole, all, merge);
    for (uint32_t most = 2 * SEARCH_SEAL_DOCUMENTS; !found && most < LARGEST; most *= TIER_FAN)
        found = plan_tier(view, whole, most, merge);
    found = found || plan_thinned(view, merge);
    if (found)
        begin_log(index);
    pthread_mutex_unlock(&index->change_lock);
    return found;
}

void search_merge_begin(struct search_index *index, struct search_merge *merge)
{
    *merge = (struct search_merge){.index = index};
    pthread_mutex_lock(&index->change_lock);
    begin_log(index);
    pthread_mutex_unlock(&index->change_lock);
}

bool search_merge_finish(struct search_merge *merge, struct search_segment *segment)
{
    return search_index_put(merge->index, merge->inputs, merge->count, segment, true);
}

static void release_inputs(struct search_merge *merge)
{
    for (size_t i = 0; i < merge->count; i++)
        search_segment_close(&merge->inputs[i]);
    merge->count = 0;
}

void search_merge_end(struct search_merge *merge)
{
    struct search_index *index = merge->index;
    pthread_mutex_lock(&index->change_lock);
    for (size_t i = 0; i < merge->count; i++)
        merge->inputs[i]->merging = false;
    index->logging = false;
    pthread_mutex_unlock(&index->change_lock);
    release_inputs(merge);
}

/* ---- of the thread that writes
 * ------------------------------------------------------------------- */

static bool plan_newest(struct search_index *index, struct search_merge *merge)
{
    pthread_mutex_lock(&index->change_lock);
    const struct search_view *view = index->view;
    const int64_t lost_until = atomic_load(&index->lost_until);
    size_t from = view->count;
    uint64_t weight = 0;
    while (from > 0) {
        const struct search_segment *next = view->segments[from - 1];
        if (next->mapped || next->merging || next->head.first <= lost_until ||
            view->count - from == SEARCH_MERGE_MAX || weight_of(next) >= SEARCH_SEAL_DOCUMENTS ||
            (weight > 0 && weight_of(next) > NEWEST_RATIO * weight))
            break;
        weight += weight_of(next);
        from--;
    }
    const bool found = view->count - from >= 2;
    if (found)
        take_inputs(merge, view, from, view->count);
    pthread_mutex_unlock(&index->change_lock);
    return found;
}

/* What is removed meanwhile is removed by this thread. */
bool search_merge_newest(struct search_index *index)
{
    struct search_merge merge = {.index = index};
    struct base_buffer bytes = {0};
    if (!plan_newest(index, &merge))
        return true;
    struct search_segment *segment =
        search_merge_build(&merge, &bytes) ? search_segment_in_memory(bytes.data) : NULL;
    if (!segment)
        base_buffer_free(&bytes);
    const bool done = segment && search_index_put(index, merge.inputs, merge.count, segment, false);
    if (!done) {
        search_segment_close(&segment);
        pthread_mutex_lock(&index->change_lock);
        for (size_t i = 0; i < merge.count; i++)
            merge.inputs[i]->merging = false;
        pthread_mutex_unlock(&index->change_lock);
    }
    release_inputs(&merge);
    return done;
}
