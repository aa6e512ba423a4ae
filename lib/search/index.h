/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index.h - the list of segments that is searched.
 *
 * A list never changes: another takes its place, and the old one lives until its last view is
 * closed. Whoever changes it holds change_lock, and whoever takes it view_lock, for an instant:
 * neither is held for the disk or while something is built, and for memory only to note what is
 * removed while a merge is on its way.
 */
#ifndef SEARCH_INDEX_H
#define SEARCH_INDEX_H

#include <pthread.h>

#include "lib/search/segment.h"

enum {
    SEARCH_INDEX_MAGIC = 0x73696478u,
    SEARCH_VIEW_MAGIC = 0x73766965u,
    SEARCH_REMOVALS_KEPT = 1024,
};

struct search_view {
    unsigned magic;
    atomic_uint references;
    struct search_index *index;
    uint64_t number; /* each list's is greater than that of the one before */
    size_t count;
    struct search_segment *segments[]; /* by the times they cover */
};

/* What was removed last, each with the number of the list of that time. */
struct search_removals {
    struct {
        int64_t key;
        uint64_t number;
    } ring[SEARCH_REMOVALS_KEPT];
    uint64_t count;
};

struct search_index {
    unsigned magic;
    uint32_t words;
    pthread_mutex_t change_lock; /* whoever replaces the view, or removes */
    pthread_mutex_t view_lock;   /* inside change_lock */
    struct search_view *view;    /* view_lock; it changes with both */
    /* The greatest time of what may be missing; 0: nothing is. Changes with change_lock. */
    _Atomic(int64_t) lost_until;
    /* The number of the last of `removed`. Likewise. */
    _Atomic(uint64_t) removed_at;

    /* change_lock: */
    bool logging;                /* a merge is on its way, */
    struct base_buffer removals; /* and these keys were removed since */
    struct search_removals removed;
};

/* With room for `count` segments, empty. NULL: no memory. */
struct search_view *search_view_make(struct search_index *index, size_t count);
/* Of a document that is removed: whether it may have been removed after another list took the place
   of this one. Then the view may lack what was added in its place. */
bool search_view_is_behind(const struct search_view *view, int64_t key);
/* Holds the segment. */
void search_view_append(struct search_view *view, struct search_segment *segment);

/* Makes the list in which `segment` stands for `count` inputs, or beside all others if there are
   none, and which is the same otherwise; NULL: nothing does. The segment then belongs to the index.
   False: no memory. `log`: what was removed meanwhile is removed from it first. */
bool search_index_put(struct search_index *index, struct search_segment *const *inputs,
                      size_t count, struct search_segment *segment, bool log);

/* merge.c: merges what the thread that writes added last, so that there are few of them. */
bool search_merge_newest(struct search_index *index);

#endif
