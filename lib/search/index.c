/* SPDX-License-Identifier: Apache-2.0 */
/* The list of segments: what is added, removed and viewed. The threads and locks: index.h. */
#include "lib/search/index.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/memory.h"

/* ---- lists ----------------------------------------------------------------------------------- */

struct search_view *search_view_make(struct search_index *index, size_t count)
{
    struct search_view *view =
        base_calloc(1, sizeof *view + count * sizeof(struct search_segment *));
    if (!view)
        return NULL;
    view->magic = SEARCH_VIEW_MAGIC;
    view->index = index;
    atomic_init(&view->references, 1);
    return view;
}

void search_view_append(struct search_view *view, struct search_segment *segment)
{
    search_segment_hold(segment);
    view->segments[view->count++] = segment;
}

struct search_view *search_view_open(struct search_index *index)
{
    BASE_CHECK_MAGIC(index, SEARCH_INDEX_MAGIC);
    pthread_mutex_lock(&index->view_lock);
    struct search_view *view = index->view;
    atomic_fetch_add_explicit(&view->references, 1, memory_order_relaxed);
    pthread_mutex_unlock(&index->view_lock);
    return view;
}

void search_view_close(struct search_view **view)
{
    struct search_view *closing = view ? *view : NULL;
    if (!closing)
        return;
    BASE_CHECK_MAGIC(closing, SEARCH_VIEW_MAGIC);
    *view = NULL;
    if (atomic_fetch_sub_explicit(&closing->references, 1, memory_order_acq_rel) > 1)
        return;
    for (size_t i = 0; i < closing->count; i++)
        search_segment_close(&closing->segments[i]);
    closing->magic = 0;
    base_free(closing);
}

/* ---- another list instead -------------------------------------------------------------------- */

static bool is_listed_in(const struct search_segment *segment,
                         struct search_segment *const *segments, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (segments[i] == segment)
            return true;
    return false;
}

static bool comes_before(const struct search_segment *segment, const struct search_segment *other)
{
    return other && segment->head.first < other->head.first;
}

static struct search_view *make_changed(const struct search_view *old,
                                        struct search_segment *const *inputs, size_t count,
                                        struct search_segment *segment)
{
    struct search_view *view = search_view_make(old->index, old->count + 1);
    size_t at = 0;
    if (!view)
        return NULL;
    view->number = old->number + 1;
    for (; at < old->count && comes_before(old->segments[at], segment); at++)
        if (!is_listed_in(old->segments[at], inputs, count))
            search_view_append(view, old->segments[at]);
    if (segment)
        search_view_append(view, segment);
    for (; at < old->count; at++)
        if (!is_listed_in(old->segments[at], inputs, count))
            search_view_append(view, old->segments[at]);
    return view;
}

static void remove_logged(const struct search_index *index, struct search_segment *segment)
{
    for (size_t at = 0; at < index->removals.size; at += sizeof(int64_t)) {
        int64_t key;
        memcpy(&key, index->removals.data + at, sizeof key);
        search_segment_remove(segment, key);
    }
}

enum put_outcome { PUT_DONE, PUT_AGAIN, PUT_FAILED };

/* The list may have changed since it was copied. */
static enum put_outcome try_put(struct search_index *index, const struct search_view *old,
                                struct search_view *view, struct search_segment *segment, bool log)
{
    enum put_outcome outcome = PUT_AGAIN;
    pthread_mutex_lock(&index->change_lock);
    if (log && index->removals.failed) {
        outcome = PUT_FAILED;
    } else if (index->view == old) {
        if (log)
            remove_logged(index, segment);
        pthread_mutex_lock(&index->view_lock);
        index->view = view;
        pthread_mutex_unlock(&index->view_lock);
        outcome = PUT_DONE;
    }
    pthread_mutex_unlock(&index->change_lock);
    return outcome;
}

bool search_index_put(struct search_index *index, struct search_segment *const *inputs,
                      size_t count, struct search_segment *segment, bool log)
{
    enum put_outcome outcome = PUT_AGAIN;
    while (outcome == PUT_AGAIN) {
        struct search_view *old = search_view_open(index);
        struct search_view *view = make_changed(old, inputs, count, segment);
        outcome = view ? try_put(index, old, view, segment, log) : PUT_FAILED;
        if (outcome == PUT_DONE)
            view = old; /* the index's own hold on it */
        search_view_close(&view);
        search_view_close(&old);
    }
    if (outcome == PUT_DONE)
        search_segment_close(&segment); /* the list holds it */
    return outcome == PUT_DONE;
}

/* ---- the index ------------------------------------------------------------------------------- */

struct search_index *search_index_open(uint32_t words)
{
    struct search_index *index = base_calloc(1, sizeof *index);
    if (!index)
        return NULL;
    index->view = search_view_make(index, 0);
    if (!index->view) {
        base_free(index);
        return NULL;
    }
    index->magic = SEARCH_INDEX_MAGIC;
    index->words = words;
    pthread_mutex_init(&index->change_lock, NULL);
    pthread_mutex_init(&index->view_lock, NULL);
    return index;
}

void search_index_close(struct search_index **index)
{
    struct search_index *closing = index ? *index : NULL;
    if (!closing)
        return;
    BASE_CHECK_MAGIC(closing, SEARCH_INDEX_MAGIC);
    *index = NULL;
    BASE_CHECK(atomic_load(&closing->view->references) == 1);
    search_view_close(&closing->view);
    base_buffer_free(&closing->removals);
    pthread_mutex_destroy(&closing->change_lock);
    pthread_mutex_destroy(&closing->view_lock);
    closing->magic = 0;
    base_free(closing);
}

void search_index_visit(struct search_index *index,
                        void (*visit)(void *context, struct search_segment *segment), void *context)
{
    struct search_view *view = search_view_open(index);
    for (size_t i = 0; i < view->count; i++)
        visit(context, view->segments[i]);
    search_view_close(&view);
}

bool search_index_attach(struct search_index *index, struct search_segment *segment)
{
    return search_index_put(index, NULL, 0, segment, false);
}

/* Lost before it is gone: no merge covers its times in between. */
void search_index_drop(struct search_index *index, struct search_segment *segment)
{
    search_index_lose(index, segment->head.last);
    (void)search_index_put(index, &segment, 1, NULL, false);
}

/* ---- what is missing ------------------------------------------------------------------------- */

void search_index_lose(struct search_index *index, int64_t last)
{
    BASE_CHECK_MAGIC(index, SEARCH_INDEX_MAGIC);
    pthread_mutex_lock(&index->change_lock);
    if (last > atomic_load(&index->lost_until))
        atomic_store(&index->lost_until, last);
    pthread_mutex_unlock(&index->change_lock);
}

void search_index_recover(struct search_index *index, int64_t last)
{
    BASE_CHECK_MAGIC(index, SEARCH_INDEX_MAGIC);
    pthread_mutex_lock(&index->change_lock);
    if (last >= atomic_load(&index->lost_until))
        atomic_store(&index->lost_until, 0);
    pthread_mutex_unlock(&index->change_lock);
}

bool search_index_is_whole(struct search_index *index)
{
    BASE_CHECK_MAGIC(index, SEARCH_INDEX_MAGIC);
    return atomic_load(&index->lost_until) == 0;
}

/* ---- adding ---------------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
    const struct search_document *left = a, *right = b;
    return (left->key > right->key) - (left->key < right->key);
}

static struct search_range span_of(const struct search_document *documents, size_t count)
{
    struct search_range span = {INT64_MAX, 0};
    for (size_t i = 0; i < count; i++) {
        const int64_t time = search_time_of(documents[i].key);
        span.first = time < span.first ? time : span.first;
        span.last = time > span.last ? time : span.last;
    }
    return span;
}

static struct search_segment *make_newest(const struct search_index *index,
                                          struct search_document *documents, size_t count)
{
    struct base_buffer bytes = {0};
    const struct search_range span = span_of(documents, count);
    qsort(documents, count, sizeof *documents, by_key);
    struct search_segment *segment = NULL;
    if (search_segment_build(documents, count, span.first, span.last, index->words, &bytes))
        segment = search_segment_in_memory(bytes.data);
    if (!segment)
        base_buffer_free(&bytes);
    return segment;
}

static bool add_newest_segment(struct search_index *index, const struct search_document *documents,
                               size_t count)
{
    struct search_document *sorted = base_malloc(count * sizeof *sorted);
    if (!sorted)
        return false;
    memcpy(sorted, documents, count * sizeof *sorted);
    struct search_segment *segment = make_newest(index, sorted, count);
    base_free(sorted);
    if (segment && search_index_put(index, NULL, 0, segment, false))
        return true;
    search_segment_close(&segment);
    return false;
}

/* ---- removing -------------------------------------------------------------------------------- */

static void remove_key(const struct search_view *view, int64_t key)
{
    const int64_t time = search_time_of(key);
    for (size_t i = view->count; i > 0; i--) {
        struct search_segment *segment = view->segments[i - 1];
        if (time >= segment->head.first && time <= segment->head.last &&
            search_segment_remove(segment, key))
            return;
    }
}

static void note_removal(struct search_index *index, int64_t key)
{
    struct search_removals *removed = &index->removed;
    const size_t slot = removed->count++ % SEARCH_REMOVALS_KEPT;
    removed->ring[slot].key = key;
    removed->ring[slot].number = index->view->number;
}

/* Noted first: who sees a document as removed sees the note. */
static void note_removals(struct search_index *index, const int64_t *keys, size_t count)
{
    for (size_t i = 0; i < count; i++)
        note_removal(index, keys[i]);
    atomic_store(&index->removed_at, index->view->number);
}

static bool is_removed_since(const struct search_removals *removed, int64_t key, uint64_t number)
{
    const uint64_t kept =
        removed->count < SEARCH_REMOVALS_KEPT ? removed->count : SEARCH_REMOVALS_KEPT;
    for (uint64_t i = 1; i <= kept; i++) {
        const size_t slot = (removed->count - i) % SEARCH_REMOVALS_KEPT;
        if (removed->ring[slot].number <= number)
            return false;
        if (removed->ring[slot].key == key)
            return true;
    }
    return kept == SEARCH_REMOVALS_KEPT; /* older ones are forgotten */
}

bool search_view_is_behind(const struct search_view *view, int64_t key)
{
    struct search_index *index = view->index;
    atomic_thread_fence(memory_order_acquire); /* after its bit was read */
    if (atomic_load(&index->removed_at) <= view->number)
        return false;
    pthread_mutex_lock(&index->change_lock);
    const bool behind = is_removed_since(&index->removed, key, view->number);
    pthread_mutex_unlock(&index->change_lock);
    return behind;
}

void search_index_remove(struct search_index *index, const int64_t *keys, size_t count)
{
    if (count == 0)
        return;
    pthread_mutex_lock(&index->change_lock);
    note_removals(index, keys, count);
    for (size_t i = 0; i < count; i++)
        remove_key(index->view, keys[i]);
    if (index->logging)
        base_buffer_append(&index->removals, keys, count * sizeof *keys);
    pthread_mutex_unlock(&index->change_lock);
}

/* ---- changing -------------------------------------------------------------------------------- */

bool search_index_change(struct search_index *index, const struct search_document *documents,
                         size_t count, const int64_t *removed, size_t removed_count)
{
    BASE_CHECK_MAGIC(index, SEARCH_INDEX_MAGIC);
    const bool added = count == 0 || add_newest_segment(index, documents, count);
    if (!added)
        search_index_lose(index, span_of(documents, count).last);
    search_index_remove(index, removed, removed_count);
    if (added && count > 0)
        search_merge_newest(index); /* without memory for it, there is one more for now */
    return added;
}

bool search_index_add(struct search_index *index, const struct search_document *documents,
                      size_t count)
{
    return search_index_change(index, documents, count, NULL, 0);
}
