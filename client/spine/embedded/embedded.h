/* SPDX-License-Identifier: Apache-2.0 */
/* embedded.h - what the files of the embedded spine share. */
#ifndef HANDOFF_SPINE_EMBEDDED_EMBEDDED_H
#define HANDOFF_SPINE_EMBEDDED_EMBEDDED_H

#include <stdatomic.h>

#include "client/spine/embedded/index.h"
#include "client/spine/embedded/match.h"
#include "client/spine/spine.h"
#include "client/store/sqlite/database.h"
#include "client/store/store.h"
#include "lib/base/buffer.h"
#include "lib/base/clock.h"
#include "lib/base/container.h"

/* Every handoff asks for the pins, and many name ids; but most spines have no pins, and some no
   memories: then nothing is read for it. What is known only ever moves forward: whoever is about to
   put or pin says SOME before the write is submitted, and a reader that saw none can only replace
   UNKNOWN. */
enum handoff_embedded_some {
    HANDOFF_EMBEDDED_UNKNOWN,
    HANDOFF_EMBEDDED_NONE,
    HANDOFF_EMBEDDED_SOME,
};

struct handoff_embedded {
    struct handoff_spine spine;
    struct handoff_store *store;
    const struct base_clock *clock;
    unsigned words; /* flags of words_begin, for memories and queries */
    /* struct handoff_search_boosts; any thread. A search while they change may have some of each.
     */
    _Atomic(uint32_t) importance, recency, task, agent;
    _Atomic(int64_t) half_life_ms;
    int64_t search_timeout_ms;
    struct handoff_memory_index *index;
    _Atomic(int) memories, pins; /* enum handoff_embedded_some; any thread */
    bool has_copies;             /* the table memory_copies, see copies.h; constant */
};

static inline struct handoff_embedded *handoff_embedded_of(struct handoff_spine *spine)
{
    return (struct handoff_embedded *)(void *)spine;
}

/* What a pending call needs; in the call's scratch. */
struct handoff_embedded_scratch {
    struct handoff_embedded *embedded;
    int64_t deadline_ns; /* of a search; the system's monotonic clock */
    union {
        struct handoff_store_job work; /* of a change */
        struct handoff_store_read read;
    };
};

_Static_assert(sizeof(struct handoff_embedded_scratch) <= sizeof(struct handoff_spine_scratch),
               "a call has too little room for a job of the store");
_Static_assert(_Alignof(struct handoff_embedded_scratch) <= _Alignof(struct handoff_spine_scratch),
               "the room in a call is not aligned for a job of the store");

static inline struct handoff_embedded_scratch *
handoff_embedded_scratch(struct handoff_spine_call *call)
{
    return (struct handoff_embedded_scratch *)(void *)call->scratch.bytes;
}

/* The call is the first member of every typed call. */
static inline struct handoff_spine_call *
handoff_embedded_call(struct handoff_embedded_scratch *scratch)
{
    return BASE_CONTAINER_OF(scratch, struct handoff_spine_call, scratch);
}

/* write.c */
void handoff_embedded_prepare_put(struct handoff_spine *, struct handoff_spine_put *,
                                  struct base_arena *);
enum handoff_spine_progress handoff_embedded_put(struct handoff_spine *,
                                                 struct handoff_spine_put *);
enum handoff_spine_progress handoff_embedded_remove(struct handoff_spine *,
                                                    struct handoff_spine_remove *);
enum handoff_spine_progress handoff_embedded_pin(struct handoff_spine *,
                                                 struct handoff_spine_pin *);
enum handoff_spine_progress handoff_embedded_keep_tokens(struct handoff_spine *,
                                                         struct handoff_spine_keep_tokens *);

/* Likewise, for copies.c: the memory as it is, at a new place and with a new version; `old` is the
   row in whose place it comes, or 0. On the writer's thread. */
enum handoff_code handoff_embedded_write_row(const struct handoff_embedded *embedded,
                                             struct handoff_db *db, int64_t old,
                                             struct handoff_memory *memory,
                                             struct handoff_error *error) HANDOFF_MUST_CHECK;
enum handoff_code handoff_embedded_remove_row(const struct handoff_embedded *embedded,
                                              struct handoff_db *db, int64_t seq,
                                              struct handoff_error *error) HANDOFF_MUST_CHECK;

/* read.c: `run` on a reader thread; then the call is done on its mailbox's loop */
enum handoff_spine_progress handoff_embedded_read(struct handoff_spine *spine,
                                                  struct handoff_spine_call *call,
                                                  void (*run)(struct handoff_store_read *read));
static inline struct handoff_embedded_scratch *
handoff_embedded_scratch_of_read(struct handoff_store_read *read)
{
    return BASE_CONTAINER_OF(read, struct handoff_embedded_scratch, read);
}
enum handoff_spine_progress handoff_embedded_list(struct handoff_spine *,
                                                  struct handoff_spine_list *);
enum handoff_spine_progress handoff_embedded_stats(struct handoff_spine *,
                                                   struct handoff_spine_stats *);

/* resolve.c */
enum handoff_spine_progress handoff_embedded_resolve(struct handoff_spine *,
                                                     struct handoff_spine_resolve *);

/* row.c: the columns of a memory, in the order handoff_embedded_read_row expects. */
#define HANDOFF_MEMORY_COLUMNS                                                                     \
    "seq, id, importance, pinned, created_at, updated_at, tags, metadata, summary, content, "      \
    "agent,"                                                                                       \
    " task_id, (SELECT name FROM memory_scopes WHERE number = seq >> 40)"

/* Copies the row into the arena. */
enum handoff_code handoff_embedded_read_row(sqlite3_stmt *row, struct base_arena *arena,
                                            struct handoff_memory *memory,
                                            struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Tags as they are stored, one on each line; in a buffer of the caller's. */
void handoff_embedded_join_tags(const struct handoff_memory *memory, struct base_buffer *buffer);

#endif
