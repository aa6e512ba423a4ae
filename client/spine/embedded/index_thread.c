/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread of the search index: checks the files, reads what is missing, and merges. It has a low
 * priority, and nobody waits for it. What fails, for want of memory or room on the disk, is told
 * and tried again a moment later, and less and less often. What takes long gives up when the index
 * is closed.
 */
#include <errno.h>
#include <time.h>

#include "client/spine/embedded/index_internal.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/serving.h"

enum {
    READ_AT_ONCE = 4 * SEARCH_SEAL_DOCUMENTS,
    RECORD_EVERY = SEARCH_SEAL_DOCUMENTS, /* removed memories; the next start goes through them */
    AGAIN_AFTER_S = 1,
    AGAIN_AT_MOST_S = 5 * 60,
};

static bool is_stopping(const struct handoff_memory_index *index)
{
    return atomic_load_explicit(&index->stopping, memory_order_relaxed);
}

bool handoff_index_is_stopping(const struct handoff_memory_index *index,
                               struct handoff_error *error)
{
    if (!is_stopping(index))
        return false;
    handoff_error_set(error, HANDOFF_ERR_CANCELLED, "the search index is being closed", NULL, NULL);
    return true;
}

/* ---- what there is to do ------------------------------------------------------------------------
 */

static void drop_if_damaged(void *context, struct search_segment *segment)
{
    struct handoff_memory_index *index = context;
    if (!is_stopping(index) && !search_segment_check(segment, &index->stopping))
        search_index_drop(index->search, segment);
}

/* *count 0: nothing is missing. */
static enum handoff_code fill_next(struct handoff_memory_index *index, size_t *count,
                                   struct handoff_error *error)
{
    *count = 0;
    if (search_index_is_whole(index->search))
        return HANDOFF_OK;
    enum handoff_code code = handoff_index_fill_file(index, READ_AT_ONCE, count, error);
    return code == HANDOFF_OK ? handoff_index_record(index, error) : code;
}

static bool are_inputs_damaged(const struct search_merge *merge)
{
    struct search_segment_facts facts = {.damaged = false};
    for (size_t i = 0; i < merge->count && !facts.damaged; i++)
        search_segment_read_facts(merge->inputs[i], &facts);
    return facts.damaged;
}

/* A file that turns out to be damaged is dropped in the next round, and is no failure of this one.
 */
static struct search_segment *build_file(struct handoff_memory_index *index,
                                         const struct search_merge *merge,
                                         struct handoff_error *error)
{
    struct base_buffer bytes = {0};
    struct search_segment *segment = NULL;
    if (search_merge_build(merge, &bytes))
        segment = handoff_index_write_file(index, base_buffer_span(&bytes), error);
    else if (are_inputs_damaged(merge))
        handoff_index_thread_wake(index);
    else if (!handoff_index_is_stopping(index, error))
        handoff_error_no_memory(error);
    base_buffer_free(&bytes);
    return segment;
}

static enum handoff_code merge_next(struct handoff_memory_index *index, struct search_merge *merge,
                                    struct handoff_error *error)
{
    merge->stop = &index->stopping;
    enum handoff_code code =
        handoff_index_finish_file(index, merge, build_file(index, merge, error), error);
    search_merge_end(merge);
    return code == HANDOFF_OK ? handoff_index_record(index, error) : code;
}

static enum handoff_code merge_all(struct handoff_memory_index *index, bool all,
                                   struct handoff_error *error)
{
    struct search_merge merge;
    enum handoff_code code = HANDOFF_OK;
    while (code == HANDOFF_OK && !is_stopping(index) &&
           search_merge_plan(index->search, all, &merge))
        code = merge_next(index, &merge, error);
    return code;
}

/* Merges also while much is missing: else there would be thousands of files by its end. */
static enum handoff_code do_all(struct handoff_memory_index *index, bool all,
                                struct handoff_error *error)
{
    size_t count = 1;
    enum handoff_code code = HANDOFF_OK;
    search_index_visit(index->search, drop_if_damaged, index);
    while (code == HANDOFF_OK && count > 0 && !is_stopping(index)) {
        code = fill_next(index, &count, error);
        if (code == HANDOFF_OK)
            code = merge_all(index, all, error);
    }
    if (code == HANDOFF_OK && atomic_load(&index->unrecorded) >= (all ? 1U : RECORD_EVERY))
        code = handoff_index_record(index, error);
    return code;
}

/* ---- the thread ---------------------------------------------------------------------------------
 */

/* Each time twice as long. */
static void wait_a_moment(struct handoff_memory_index *index)
{
    struct timespec until;
    const int wait_s = index->wait_s > 0 ? index->wait_s : AGAIN_AFTER_S;
    index->wait_s = 2 * wait_s < AGAIN_AT_MOST_S ? 2 * wait_s : AGAIN_AT_MOST_S;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += wait_s;
    while (!is_stopping(index) && !index->hurry &&
           pthread_cond_timedwait(&index->changed, &index->lock, &until) != ETIMEDOUT)
        ;
}

static enum handoff_code work(struct handoff_memory_index *index, bool all,
                              struct handoff_error *error)
{
    handoff_error_clear(error);
    const enum handoff_code code = do_all(index, all, error);
    if (code != HANDOFF_OK && !is_stopping(index))
        handoff_store_tell_failure(index->store, code, "updating the search index of the memories");
    return code;
}

static void *index_main(void *argument)
{
    struct handoff_memory_index *index = argument;
    struct handoff_error error;
    base_thread_gives_way();
    pthread_mutex_lock(&index->lock);
    while (!is_stopping(index)) {
        index->idle = !index->wanted;
        if (index->idle) {
            pthread_cond_broadcast(&index->changed);
            pthread_cond_wait(&index->changed, &index->lock);
            continue;
        }
        const bool all = index->all;
        index->wanted = index->all = index->hurry = false;
        pthread_mutex_unlock(&index->lock);
        const enum handoff_code code = work(index, all, &error);
        pthread_mutex_lock(&index->lock);
        index->failure = error;
        if (code == HANDOFF_OK) {
            index->wait_s = 0;
        } else {
            index->wanted = true;
            index->all = index->all || all;
            wait_a_moment(index);
        }
    }
    pthread_mutex_unlock(&index->lock);
    return NULL;
}

enum handoff_code handoff_index_thread_start(struct handoff_memory_index *index,
                                             struct handoff_error *error)
{
    index->wanted = true; /* the files are to be checked */
    if (pthread_create(&index->thread, NULL, index_main, index) == 0)
        return HANDOFF_OK;
    return handoff_error_set(error, HANDOFF_ERR_OUT_OF_MEMORY,
                             "cannot start the search index's thread; raise the process limit",
                             NULL, NULL);
}

void handoff_index_thread_wake(struct handoff_memory_index *index)
{
    pthread_mutex_lock(&index->lock);
    index->wanted = true;
    pthread_mutex_unlock(&index->lock);
    pthread_cond_broadcast(&index->changed);
}

void handoff_index_thread_stop(struct handoff_memory_index *index)
{
    pthread_mutex_lock(&index->lock);
    atomic_store(&index->stopping, true);
    pthread_mutex_unlock(&index->lock);
    pthread_cond_broadcast(&index->changed);
    pthread_join(index->thread, NULL);
}

/* ---- waiting for it
 * ------------------------------------------------------------------------------ */

static void wait_for_progress(struct handoff_memory_index *index)
{
    enum { TENTH_NS = 100000000, SECOND_NS = 1000000000 };
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += TENTH_NS;
    if (until.tv_nsec >= SECOND_NS) {
        until.tv_nsec -= SECOND_NS;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&index->changed, &index->lock, &until);
}

enum handoff_code handoff_memory_index_settle(struct handoff_memory_index *index,
                                              void (*progress)(void *context, int64_t done),
                                              void *context, struct handoff_error *error)
{
    BASE_CHECK_MAGIC(index, HANDOFF_INDEX_MAGIC);
    pthread_mutex_lock(&index->lock);
    index->wanted = index->all = index->hurry = true;
    index->idle = false;
    handoff_error_clear(&index->failure);
    pthread_cond_broadcast(&index->changed);
    while (!index->idle && index->failure.code == HANDOFF_OK) {
        wait_for_progress(index);
        pthread_mutex_unlock(&index->lock);
        if (progress)
            progress(context, atomic_load(&index->indexed));
        pthread_mutex_lock(&index->lock);
    }
    const struct handoff_error failure = index->failure;
    pthread_mutex_unlock(&index->lock);
    if (error)
        *error = failure;
    return failure.code;
}
