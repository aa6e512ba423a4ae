/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searching: the best documents of all segments, by MaxScore over windows of documents.
 *
 * In each window, the terms that together could not bring a document among the best so far are set
 * aside: a document must have one of the others to matter. Those are added up for the whole window;
 * then each document that has one is completed with the terms set aside, from the weightiest to the
 * least, until it is complete or can no longer be among the best. What a term is worth at most in a
 * window is known from the heads of its blocks, so most blocks of common terms are not decoded.
 *
 * Worth is counted in whole numbers, as shares of the most that a document could reach: so sums are
 * the same in whatever order they are made, and the same documents always give the same result.
 *
 * On the caller's thread, on whose stack all of it is.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/check.h"
#include "lib/search/boosts.h"
#include "lib/search/index.h"
#include "lib/search/postings.h"

enum {
    WINDOW = 4096,
    FIRST_WINDOW = 256, /* little is known before it, so all of its documents are looked at */
    SMALL = 4,          /* counts up to here have their share in a table */
    WHOLE = 1 << 24,    /* what a document could reach: floats are exact up to here */
    LENGTHS = 256,
    FAR_TOO_MUCH = 1 << 30, /* more than any document has */
};

/* ---- counting ----------------------------------------------------------------------------------
 */

static void count_documents(const struct search_segment *segment, struct search_query *query,
                            uint64_t *lengths)
{
    for (size_t i = 0; i < query->range_count; i++) {
        const uint32_t from = search_segment_lower(segment, query->ranges[i].first);
        const uint32_t to = query->ranges[i].last == INT64_MAX
                                ? segment->head.documents
                                : search_segment_lower(segment, query->ranges[i].last + 1);
        query->documents += to - from;
        *lengths += search_segment_lengths(segment, to) - search_segment_lengths(segment, from);
    }
}

static int64_t count_in_ranges(const struct search_segment *segment,
                               const struct search_query *query, size_t term)
{
    struct search_cursor cursor;
    int64_t count = 0;
    search_cursor_open(&cursor, segment, term);
    for (size_t i = 0; i < query->range_count; i++) {
        const uint32_t from = search_segment_lower(segment, query->ranges[i].first);
        const uint32_t to = query->ranges[i].last == INT64_MAX
                                ? segment->head.documents
                                : search_segment_lower(segment, query->ranges[i].last + 1);
        if (from == 0 && to == segment->head.documents)
            return cursor.count;
        if (from < to) {
            const int64_t before = search_cursor_rank(&cursor, from);
            count += search_cursor_rank(&cursor, to) - before;
        }
    }
    return count;
}

static void find_terms(const struct search_segment *segment, const struct search_query *query,
                       int64_t terms[SEARCH_TERMS_MAX])
{
    uint64_t hashes[SEARCH_TERMS_MAX];
    for (size_t i = 0; i < query->term_count; i++)
        hashes[i] = query->terms[i].hash;
    search_segment_terms(segment, hashes, query->term_count, terms);
}

static void count_segment(const struct search_segment *segment, struct search_query *query,
                          uint64_t *lengths)
{
    int64_t terms[SEARCH_TERMS_MAX];
    count_documents(segment, query, lengths);
    find_terms(segment, query, terms);
    for (size_t i = 0; i < query->term_count; i++)
        if (terms[i] >= 0)
            query->terms[i].documents += count_in_ranges(segment, query, (size_t)terms[i]);
}

/* Before it was looked at, or while it was. */
static void note_damage(const struct search_segment *segment, struct search_query *query)
{
    if (search_segment_is_damaged(segment))
        query->cut = query->damaged = true;
}

void search_view_count(struct search_view *view, struct search_query *query)
{
    uint64_t lengths = 0;
    BASE_CHECK_MAGIC(view, SEARCH_VIEW_MAGIC);
    BASE_CHECK(query->term_count <= SEARCH_TERMS_MAX);
    query->documents = 0;
    query->cut = query->damaged = false;
    for (size_t i = 0; i < query->term_count; i++)
        query->terms[i].documents = 0;
    for (size_t i = view->count; i > 0; i--) {
        struct search_segment *segment = view->segments[i - 1];
        if (search_segment_is_usable(segment, query->deadline_ns))
            count_segment(segment, query, &lengths);
        else
            query->cut = true;
        note_damage(segment, query);
    }
    query->average_length = query->documents > 0 ? (double)lengths / (double)query->documents : 0;
}

/* ---- what a document is worth
 * -------------------------------------------------------------------- */

/* A term in the segment at hand. */
struct listed {
    struct search_cursor *cursor;
    float weight;               /* in shares */
    uint32_t most;              /* that it is worth in this window, in shares */
    uint32_t block, block_most; /* the same of this block; UINT32_MAX: of none yet */
    uint32_t rest;              /* the same of it and of all before it */
};

struct finding {
    const struct search_query *query;
    const struct search_view *view;
    bool behind;                /* one that might have been among the best was removed since */
    struct search_result *heap; /* the worst first */
    uint32_t segment;           /* of the view, the one at hand */
    size_t count, most;
    double share;                /* of a relevance of 1 */
    struct search_boosts boosts; /* of the segment at hand */
    double needed_share;         /* of a score of 1, at most, in this window */
    bool late;                   /* the deadline came; no other window is begun */
    uint32_t window;             /* documents of the next one */
    uint32_t needed;      /* shares below which no document of this window is among the best */
    float usual[LENGTHS]; /* k1 * (1 - b + b * length / average) */
    float small[SMALL][LENGTHS]; /* worth of such a count in a document of such a length */
    struct listed terms[SEARCH_TERMS_MAX];
    size_t term_count;
    struct search_cursor cursors[SEARCH_TERMS_MAX];
    uint32_t sums[WINDOW];
    uint64_t touched[WINDOW / 64];
    uint16_t candidates[WINDOW]; /* places in the window */
};

static float worth_of_count(const struct finding *on, uint32_t count, uint8_t length)
{
    const float times = (float)count;
    return times * (on->query->k1 + 1) / (times + on->usual[length]);
}

static inline uint32_t worth(const struct finding *on, float weight, uint32_t count, uint8_t length)
{
    const float part =
        count <= SMALL ? on->small[count - 1][length] : worth_of_count(on, count, length);
    return (uint32_t)(weight * part);
}

/* One more: rounding may make a lower count worth more, by as much. */
static uint32_t worth_at_most(const struct finding *on, float weight,
                              const struct search_block *block)
{
    return worth(on, weight, block->max_count ? block->max_count : 1, block->min_length) + 1;
}

/* ---- the best so far
 * ----------------------------------------------------------------------------- */

static bool is_worse(const struct search_result *a, const struct search_result *b)
{
    if (a->score != b->score)
        return a->score < b->score;
    return search_time_of(a->key) < search_time_of(b->key);
}

/* Puts a result into a heap whose worst has left. */
static void sink(struct search_result *heap, size_t count, struct search_result result)
{
    size_t at = 0, child;
    while ((child = 2 * at + 1) < count) {
        child += child + 1 < count && is_worse(&heap[child + 1], &heap[child]);
        if (!is_worse(&heap[child], &result))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = result;
}

static void rise(struct search_result *heap, size_t at)
{
    while (at > 0 && is_worse(&heap[at], &heap[(at - 1) / 2])) {
        const struct search_result moved = heap[at];
        heap[at] = heap[(at - 1) / 2];
        heap[(at - 1) / 2] = moved;
        at = (at - 1) / 2;
    }
}

/* Two less: what the product of floats may have lost. */
static void set_needed(struct finding *on)
{
    if (on->count < on->most)
        return;
    const double needed = (double)on->heap[0].score * on->needed_share;
    on->needed = needed > 2 ? (uint32_t)needed - 1 : 0;
}

static struct search_result result_of_document(const struct finding *on,
                                               const struct search_segment *segment,
                                               uint32_t document, uint32_t sum)
{
    const float relevance = (float)((double)sum / on->share);
    return (struct search_result){.relevance = relevance,
                                  .score =
                                      relevance * search_boost_of(on->query, segment, document),
                                  .segment = on->segment,
                                  .document = document,
                                  .sum = sum};
}

/* What is elsewhere in memory is only read of one that is taken. */
static void take_document(struct finding *on, const struct search_segment *segment,
                          uint32_t document, uint32_t sum)
{
    struct search_result result = result_of_document(on, segment, document, sum);
    if (on->count == on->most && result.score < on->heap[0].score)
        return;
    result.key = segment->keys[document];
    if (search_segment_is_removed(segment, document)) {
        on->behind = on->behind || search_view_is_behind(on->view, result.key);
        return;
    }
    if (on->count < on->most) {
        on->heap[on->count] = result;
        rise(on->heap, on->count++);
    } else if (is_worse(&on->heap[0], &result)) {
        sink(on->heap, on->count, result);
    }
    set_needed(on);
}

/* ---- a window
 * ------------------------------------------------------------------------------------ */

/* What a term is worth at most in the window [base, end). */
static uint32_t bound_in_window(const struct finding *on, const struct listed *term, uint32_t base,
                                uint32_t end)
{
    struct search_cursor *cursor = term->cursor;
    uint32_t most = 0;
    if (!search_cursor_reach(cursor, base))
        return 0;
    if (cursor->filled > 0 && cursor->documents[cursor->at] >= end)
        return 0;
    for (uint32_t i = cursor->block; i < cursor->nblocks; i++) {
        const struct search_block *block = cursor->blocks ? &cursor->blocks[i] : &cursor->only;
        const uint32_t bound = worth_at_most(on, term->weight, block);
        most = bound > most ? bound : most;
        if (block->last >= end - 1)
            break;
    }
    return most;
}

/* The first term that is not set aside. Those with the least worth come first. */
static size_t split_terms(struct finding *on, uint32_t base, uint32_t end)
{
    uint32_t rest = 0;
    size_t first = 0;
    for (size_t i = 0; i < on->term_count; i++) {
        struct listed term = on->terms[i];
        size_t at = i;
        term.most = bound_in_window(on, &term, base, end);
        for (; at > 0 && on->terms[at - 1].most > term.most; at--)
            on->terms[at] = on->terms[at - 1];
        on->terms[at] = term;
    }
    for (size_t i = 0; i < on->term_count; i++) {
        rest += on->terms[i].most;
        on->terms[i].rest = rest;
        if (rest < on->needed || on->terms[i].most == 0)
            first = i + 1;
    }
    return first;
}

static void add_up(struct finding *on, const struct listed *term, uint32_t base, uint32_t end)
{
    struct search_cursor *cursor = term->cursor;
    const uint8_t *lengths = cursor->segment->lengths;
    bool more = search_cursor_seek(cursor, base);
    while (more) {
        uint32_t i = cursor->at;
        for (; i < cursor->filled && cursor->documents[i] - base < end - base; i++) {
            const uint32_t document = cursor->documents[i], slot = document - base;
            on->sums[slot] +=
                worth(on, term->weight, search_cursor_count(cursor, i), lengths[document]);
            on->touched[slot / 64] |= UINT64_C(1) << (slot % 64);
        }
        cursor->at = i;
        if (i < cursor->filled)
            return;
        cursor->filled = 0;
        more = ++cursor->block < cursor->nblocks;
        if (more)
            search_cursor_fill(cursor);
    }
}

static uint32_t bound_in_block(const struct finding *on, struct listed *term)
{
    if (term->block != term->cursor->block) {
        term->block = term->cursor->block;
        term->block_most = worth_at_most(on, term->weight, search_cursor_block(term->cursor));
    }
    return term->block_most;
}

/* With the terms set aside. 0: it has less than it needs to be among the best. */
static uint32_t complete(struct finding *on, size_t aside, uint32_t document, uint32_t sum,
                         uint32_t needed)
{
    while (aside > 0) {
        struct listed *term = &on->terms[--aside];
        const uint32_t rest = aside > 0 ? on->terms[aside - 1].rest : 0;
        if (sum + term->rest < needed)
            return 0;
        if (term->most == 0 || !search_cursor_reach(term->cursor, document))
            continue;
        if (sum + rest + bound_in_block(on, term) < needed)
            return 0;
        if (search_cursor_seek(term->cursor, document) &&
            search_cursor_at(term->cursor) == document) {
            const struct search_cursor *cursor = term->cursor;
            sum += worth(on, term->weight, search_cursor_count(cursor, cursor->at),
                         cursor->segment->lengths[document]);
        }
    }
    return sum >= needed ? sum : 0;
}

/* The window's, where the document has its greatest boost; most have less, and need more. */
static uint32_t needed_of_document(const struct finding *on, uint32_t document)
{
    const float needed = (float)on->needed * search_boosts_needs(&on->boosts, document);
    return needed < (float)FAR_TOO_MUCH ? (uint32_t)(needed * (1 - 1e-6F)) : (uint32_t)FAR_TOO_MUCH;
}

/* Those of a window that may be among the best. Their facts are waited for together. */
static size_t list_candidates(struct finding *on, const struct search_segment *segment,
                              uint32_t rest, uint32_t base)
{
    size_t count = 0;
    for (uint32_t i = 0; i < WINDOW / 64; i++) {
        for (uint64_t bits = on->touched[i]; bits; bits &= bits - 1) {
            const uint32_t slot = i * 64 + (uint32_t)__builtin_ctzll(bits);
            if (on->sums[slot] + rest >= on->needed) {
                __builtin_prefetch(&segment->facts[base + slot]);
                on->candidates[count++] = (uint16_t)slot;
            } else {
                on->sums[slot] = 0;
            }
        }
        on->touched[i] = 0;
    }
    return count;
}

static void take_window(struct finding *on, const struct search_segment *segment, size_t aside,
                        uint32_t base)
{
    const uint32_t rest = aside > 0 ? on->terms[aside - 1].rest : 0;
    const size_t count = list_candidates(on, segment, rest, base);
    for (size_t i = 0; i < count; i++) {
        const uint32_t slot = on->candidates[i];
        uint32_t sum = on->sums[slot];
        on->sums[slot] = 0;
        if (sum + rest < on->needed)
            continue;
        const uint32_t needed = needed_of_document(on, base + slot);
        if (sum + rest < needed)
            continue;
        if (aside > 0)
            sum = complete(on, aside, base + slot, sum, needed);
        if (sum > 0 && sum >= needed)
            take_document(on, segment, base + slot, sum);
    }
}

static bool is_past(int64_t deadline_ns)
{
    struct timespec now;
    if (deadline_ns == 0)
        return false;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec > deadline_ns;
}

/* The documents [from, to). False: the deadline came before their end. */
static bool find_between(struct finding *on, const struct search_segment *segment, uint32_t from,
                         uint32_t to)
{
    for (uint32_t base = from, end; base < to; base = end) {
        if (on->late)
            return false;
        end = to - base < on->window ? to : base + on->window;
        on->window = 2 * on->window < WINDOW ? 2 * on->window : WINDOW;
        on->needed_share =
            on->share * (1 - 1e-6) / (double)search_boosts_most(&on->boosts, base, end);
        set_needed(on);
        const size_t aside = split_terms(on, base, end);
        for (size_t i = aside; i < on->term_count; i++)
            add_up(on, &on->terms[i], base, end);
        if (aside < on->term_count)
            take_window(on, segment, aside, base);
        on->late = is_past(on->query->deadline_ns);
    }
    return true;
}

/* ---- a segment, and all of them
 * -------------------------------------------------------------------
 */

static void list_terms(struct finding *on, const struct search_segment *segment, bool common)
{
    int64_t terms[SEARCH_TERMS_MAX];
    on->term_count = 0;
    find_terms(segment, on->query, terms);
    for (size_t i = 0; i < on->query->term_count; i++) {
        const struct search_wanted *wanted = &on->query->terms[i];
        if (terms[i] < 0 || wanted->weight <= 0 || wanted->common != common)
            continue;
        struct search_cursor *cursor = &on->cursors[on->term_count];
        search_cursor_open(cursor, segment, (size_t)terms[i]);
        on->terms[on->term_count++] =
            (struct listed){.cursor = cursor,
                            .block = UINT32_MAX,
                            .weight = (float)((double)wanted->weight * on->share)};
    }
}

static bool find_in_segment(struct finding *on, const struct search_segment *segment)
{
    const struct search_query *query = on->query;
    list_terms(on, segment, false);
    if (on->term_count > 0)
        search_boosts_begin(&on->boosts, query, segment);
    for (size_t i = 0; on->term_count > 0 && i < query->range_count; i++) {
        const uint32_t from = search_segment_lower(segment, query->ranges[i].first);
        const uint32_t to = query->ranges[i].last == INT64_MAX
                                ? segment->head.documents
                                : search_segment_lower(segment, query->ranges[i].last + 1);
        if (!find_between(on, segment, from, to))
            return false;
    }
    return true;
}

/* False: nothing has a weight. */
static bool begin_finding(struct finding *on, const struct search_query *query)
{
    double weights = 0;
    for (size_t i = 0; i < query->term_count; i++)
        weights += query->terms[i].weight > 0 ? (double)query->terms[i].weight : 0;
    if (weights <= 0)
        return false;
    on->query = query;
    on->share = (double)WHOLE / (weights * ((double)query->k1 + 1));
    const float average = query->average_length > 0 ? (float)query->average_length : 1;
    for (int i = 0; i < LENGTHS; i++) {
        const float length = (float)search_length_of((uint8_t)i);
        on->usual[i] = query->k1 * (1 - query->b + query->b * length / average);
        for (uint32_t count = 1; count <= SMALL; count++)
            on->small[count - 1][i] = worth_of_count(on, count, (uint8_t)i);
    }
    return true;
}

/* What is left is sorted, the best first. */
static void sort_heap(struct finding *on)
{
    for (size_t left = on->count; left > 1; left--) {
        const struct search_result worst = on->heap[0];
        sink(on->heap, left - 1, on->heap[left - 1]);
        on->heap[left - 1] = worst;
    }
}

/* ---- common terms
 * --------------------------------------------------------------------------------- */

static int by_place_in_view(const void *left, const void *right)
{
    const struct search_result *l = left, *r = right;
    if (l->segment != r->segment)
        return l->segment < r->segment ? -1 : 1;
    return (l->document > r->document) - (l->document < r->document);
}

/* Of one segment, in its order. */
static void add_common_in_segment(struct finding *on, const struct search_segment *segment,
                                  struct search_result *results, size_t count)
{
    list_terms(on, segment, true);
    for (size_t term = 0; term < on->term_count; term++) {
        struct search_cursor *cursor = on->terms[term].cursor;
        for (size_t i = 0; i < count; i++) {
            const uint32_t document = results[i].document;
            if (!search_cursor_seek(cursor, document))
                break;
            if (search_cursor_at(cursor) == document)
                results[i].sum +=
                    worth(on, on->terms[term].weight, search_cursor_count(cursor, cursor->at),
                          segment->lengths[document]);
        }
    }
    for (size_t i = 0; i < count; i++) {
        results[i].relevance = (float)((double)results[i].sum / on->share);
        results[i].score =
            results[i].relevance * search_boost_of(on->query, segment, results[i].document);
    }
}

static bool has_common(const struct search_query *query)
{
    for (size_t i = 0; i < query->term_count; i++)
        if (query->terms[i].common && query->terms[i].weight > 0)
            return true;
    return false;
}

static int best_score_first(const void *left, const void *right)
{
    return is_worse(left, right) - is_worse(right, left);
}

/* The first ones of those that were found by the others, in whose order they are. */
static void complete_best(struct finding *on)
{
    const size_t completed = on->query->completed;
    const size_t count = completed > 0 && completed < on->count ? completed : on->count;
    if (count == 0 || !has_common(on->query))
        return;
    qsort(on->heap, count, sizeof *on->heap, by_place_in_view);
    for (size_t from = 0, to; from < count; from = to) {
        const uint32_t segment = on->heap[from].segment;
        for (to = from; to < count && on->heap[to].segment == segment; to++)
            ;
        add_common_in_segment(on, on->view->segments[segment], on->heap + from, to - from);
    }
    qsort(on->heap, count, sizeof *on->heap, best_score_first);
}

size_t search_view_find(struct search_view *view, struct search_query *query,
                        struct search_result *results, size_t most)
{
    struct finding on;
    BASE_CHECK_MAGIC(view, SEARCH_VIEW_MAGIC);
    query->cut = query->damaged = query->behind = false;
    on.view = view;
    on.behind = false;
    on.heap = results;
    on.count = 0;
    on.most = most;
    on.needed = 0;
    on.late = false;
    on.window = FIRST_WINDOW;
    if (most == 0 || !begin_finding(&on, query))
        return 0;
    memset(on.sums, 0, sizeof on.sums);
    memset(on.touched, 0, sizeof on.touched);
    for (size_t i = view->count; i > 0; i--) {
        struct search_segment *segment = view->segments[i - 1];
        on.segment = (uint32_t)(i - 1);
        if (!search_segment_is_usable(segment, query->deadline_ns) ||
            !find_in_segment(&on, segment))
            query->cut = true;
        note_damage(segment, query);
    }
    sort_heap(&on);
    complete_best(&on);
    query->behind = on.behind;
    for (size_t i = 0; i < on.count; i++)
        results[i].sketch =
            search_segment_sketch(view->segments[results[i].segment], results[i].document);
    return on.count;
}
