/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spine.h - where memories live.
 *
 * A memory is a fact that agents share: text under an id, with what is known about it. The spine
 * keeps them and finds those that matter for a task. Where it keeps them is a driver's business (a
 * folder of client/spine, see the end of this file): the embedded one uses the store, another one
 * may ask a server. So every call has an asynchronous shape:
 *
 *     struct handoff_spine_resolve resolve = {
 *         .call = {.mailbox = &loop->mailbox, .done = resolved},
 *         .arena = &request->arena,
 *         .ids = ids, .id_count = 3,           "memory_ids" of the request
 *         .pins = true,                        "include_pins"
 *         .recent = 20, .query = task_summary, "include_recent"
 *     };
 *     if (handoff_spine_resolve(spine, &resolve) == HANDOFF_SPINE_DONE)
 *         resolved(&resolve.call);             finished already: done is not called by the spine
 *
 * HANDOFF_SPINE_DONE means that the result is there and done will not be called;
 * HANDOFF_SPINE_PENDING that done is called later, on the mailbox's loop. A call is never finished
 * both ways, and done never runs inside the function that began it. The verdict is call.error.
 *
 * Memory: the caller owns the call and what it points to until it is finished. Results lie in the
 * caller's arena. A call is done by one thread; different calls may come from different threads.
 */
#ifndef HANDOFF_SPINE_SPINE_H
#define HANDOFF_SPINE_SPINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/handoff.h"
#include "client/spine/scopes.h"
#include "lib/base/arena.h"
#include "lib/base/mailbox.h"
#include "lib/base/span.h"

struct base_loop;

/* ---- memories ------------------------------------------------------------------------------ */

struct handoff_memory {
    struct base_span id;       /* chosen by the client: 1 to 128 of A-Z a-z 0-9 . _ : - */
    struct base_span content;  /* UTF-8, not empty */
    struct base_span summary;  /* absent (data NULL) where there is none */
    struct base_span metadata; /* the text of a JSON object; absent is {} */
    struct base_span agent;    /* its owner, the agent that put it; absent: nobody */
    struct base_span scope;    /* empty: it is shared */
    struct base_span task_id;  /* of the task it was put for; absent: none */
    const struct base_span *tags;
    size_t tag_count;
    enum handoff_importance importance;
    bool pinned;
    int64_t created_ms, updated_ms; /* wall clock */
    int64_t version;   /* another number whenever the text, or anything else of it, is put anew */
    int64_t copied_ms; /* it is the last known copy of a remote spine's, which had it then; 0: it is
                          as the spine has it now */
};

struct handoff_memory_limits {
    size_t content_bytes, summary_bytes;
    size_t tags, tag_bytes;
    size_t metadata_bytes, metadata_depth; /* {} has depth 1 */
    size_t pins;                           /* pinned memories in the whole spine */
    size_t ids;                            /* in one resolve */
    size_t recent;                         /* largest `recent` */
    size_t page;                           /* largest page of a list */
};

/* 256 KiB, 16 KiB; 32 tags of 64 bytes; 16 KiB of metadata, 8 deep; 256 pins; 1,000 each. */
extern const struct handoff_memory_limits handoff_memory_limits_default;

/* Says what is wrong with a memory: field, what was seen, what is allowed. Every implementation
   calls this before anything else. */
enum handoff_code handoff_memory_validate(const struct handoff_memory *memory,
                                          const struct handoff_memory_limits *limits,
                                          struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Of its texts. */
size_t handoff_memory_bytes(const struct handoff_memory *memory);

/* The id alone; field names it in the error ("id", "memory_ids[3]"). */
enum handoff_code handoff_memory_validate_id(struct base_span id, const char *field,
                                             struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Whose memories: each call that finds or changes one has the scopes that its caller sees (and
 * thus the shared memories). What it does not see is not there: not_found, or missing. */

/* ---- calls --------------------------------------------------------------------------------- */

enum handoff_spine_progress {
    HANDOFF_SPINE_DONE,    /* finished: look at call.error; done is not called */
    HANDOFF_SPINE_PENDING, /* done will be called on the mailbox's loop */
};

/* Room in every call for what the driver needs while the call is pending, so that it allocates
   nothing for it. What lies in it at the beginning is undefined. A driver asserts that it fits. */
enum { HANDOFF_SPINE_SCRATCH_SIZE = 512 };

struct handoff_spine_scratch {
    _Alignas(int64_t) unsigned char bytes[HANDOFF_SPINE_SCRATCH_SIZE];
};

/* The head of every call. */
struct handoff_spine_call {
    struct base_mailbox *mailbox;
    void (*done)(struct handoff_spine_call *call);
    struct handoff_error error;
    bool asked; /* result: the spine had something to do for it; else it was answered before */
    bool cut;   /* result: a search's time was over, and it gives what it had found by then */

    struct handoff_spine_scratch scratch; /* the driver's */
};

/* What a finished call tells of the spine; the one definition of a spine that failed. */
enum handoff_spine_health {
    HANDOFF_SPINE_UNTRIED,  /* nothing: it was not asked, or what went wrong is ours: no memory, or
                               the process ends */
    HANDOFF_SPINE_ANSWERED, /* also with a refusal, which is the caller's mistake */
    HANDOFF_SPINE_FAILED,
};

enum handoff_spine_health handoff_spine_health(const struct handoff_spine_call *call);

/* Whether there is no answer, since the spine failed or is left alone after it did. A resolve may
   then still have found what the sidecar has itself: its own memories, and last known copies. */
bool handoff_spine_is_lost(const struct handoff_spine_call *call);

/* What happened to a call that failed, in a few words; in the call. */
const char *handoff_spine_why(const struct handoff_spine_call *call);

struct handoff_spine;

/* ---- finding ------------------------------------------------------------------------------- */

/* Why a memory was found; a memory found for several reasons comes once. */
enum handoff_memory_origin {
    HANDOFF_ORIGIN_ASKED = 1,  /* its id was asked for */
    HANDOFF_ORIGIN_PINNED = 2, /* it is pinned, and pins were asked for */
    HANDOFF_ORIGIN_RECENT = 4, /* among the `recent` best */
    HANDOFF_ORIGIN_TASK = 8,   /* ... and put for the task that asks */
};

/* Ways to write a memory into an envelope; token counts are kept for each. */
enum handoff_memory_rendering {
    HANDOFF_RENDERING_FULL,
    HANDOFF_RENDERING_SUMMARY,
    HANDOFF_RENDERING_ID,
    HANDOFF_RENDERINGS,
};

struct handoff_found_memory {
    struct handoff_memory memory;
    unsigned origin;  /* HANDOFF_ORIGIN_... */
    double relevance; /* to the query: share of that of the best one given back; 0 without words */
    double score;     /* with its importance, age, task and agent; likewise a share */
    const struct base_span *words; /* of the query that it has, the weightiest first */
    size_t word_count;
    uint32_t similar; /* others that are nearly the same text, in whose place it is */
    const struct base_span *snippet; /* where wanted: the part of its content that has most of the
                                        words, in pieces of which every second one is a word */
    size_t snippet_count;
    int64_t tokens[HANDOFF_RENDERINGS]; /* as kept for `encoding`; -1 where none is kept */
};

struct handoff_spine_resolve {
    struct handoff_spine_call call;
    struct base_arena *arena;

    struct handoff_scopes scopes; /* `all`: only where nothing but ids is asked for */
    const struct base_span *ids;  /* a repeated id counts once */
    size_t id_count;
    bool pins;                      /* all pinned memories */
    size_t recent;                  /* up to so many of the most relevant, found or not otherwise */
    size_t skip;                    /* the first of these were given before, and are left out */
    struct base_span task;          /* those that were put for it count for more */
    struct base_span query;         /* any text; absent or without words: the newest are the best,
                                       those of the task first */
    struct base_span intent;        /* its words count half; absent: none */
    const struct base_span *agents; /* whose memories count for more */
    size_t agent_count;
    struct base_span encoding; /* whose kept token counts are wanted; absent: none */
    bool snippets;             /* wanted of the recent ones */

    /* results, in the arena */
    struct handoff_found_memory *found; /* best score first, then the newest */
    size_t found_count;
    struct base_span *missing; /* ids that are not there, in the order they were asked for */
    size_t missing_count;
    bool more_pins;  /* there are more pinned ones than were found */
    bool incomplete; /* not all were looked at for the recent ones: it was cut, they kept changing,
                        or there is no whole index yet */
};

enum handoff_spine_progress handoff_spine_resolve(struct handoff_spine *spine,
                                                  struct handoff_spine_resolve *resolve);

/* What counts besides the words, from the next search on; NULL: the defaults. Any thread. */
extern const struct handoff_search_boosts handoff_search_boosts_default;
void handoff_spine_weigh(struct handoff_spine *spine, const struct handoff_search_boosts *boosts);

struct handoff_spine_list {
    struct handoff_spine_call call;
    struct base_arena *arena;

    struct handoff_scopes scopes;
    size_t limit;            /* 1 to limits.page */
    struct base_span cursor; /* `next` of the page before; absent: the first page */
    bool pinned_only;

    /* results, in the arena: the one that was put last comes first; fewer than `limit` where they
       are long, and then `next` says that there are more */
    struct handoff_memory *memories;
    size_t count;
    struct base_span next; /* absent: this was the last page */
};

/* A memory that is put anew while somebody pages moves to the front; no other is skipped or
 * repeated. */
enum handoff_spine_progress handoff_spine_list(struct handoff_spine *spine,
                                               struct handoff_spine_list *list);

/* Whether searches look at all memories: not while an index of them is made. Any thread; reads
   memory only. */
bool handoff_spine_is_complete(struct handoff_spine *spine);

/* A loop whose calls need no other thread from now on, if the driver can do that; until it leaves,
   before it is freed. Calls that are under way then end as mail. Not from within a turn. */
void handoff_spine_join(struct handoff_spine *spine, struct base_loop *loop);
void handoff_spine_leave(struct handoff_spine *spine, struct base_loop *loop);

/* So many calls that failed in a row, and none answered since, mean that it is down. */
enum { HANDOFF_SPINE_DOWN_AFTER = 5 };

/* Whether it is not down; a remote one that has never answered is down by its first failure.
   `failures` is how many calls failed in a row. Any thread. */
bool handoff_spine_is_up(struct handoff_spine *spine, unsigned failures);
/* What it lacks, and what is done instead, or NULL; constant. Any thread. */
const char *handoff_spine_lacks(struct handoff_spine *spine);
const char *handoff_spine_instead(struct handoff_spine *spine);
/* What its last known copies take; 0 without any. Any thread. */
int64_t handoff_spine_copies_bytes(struct handoff_spine *spine);

/* ---- changing ------------------------------------------------------------------------------ */

enum handoff_pin_change {
    HANDOFF_PIN_KEEP, /* as it was; a new memory is not pinned */
    HANDOFF_PIN_YES,
    HANDOFF_PIN_NO,
};

enum {
    HANDOFF_MEMORY_AGENT_MAX = 128, /* bytes of an owner's name */
    HANDOFF_MEMORY_TASK_MAX = 256,  /* bytes of a task's id */
};

/* Whether it may be changed: only by its owner, or by an operator. The caller is the agent that
   asks; absent: it is unknown, or an operator, and may change every memory. A change by another
   agent is forbidden. So is a change outside the scopes in which the caller may store
   (handoff_scopes_may_store); a memory that it does not see is not_found. */

struct handoff_spine_put {
    struct handoff_spine_call call;
    /* created_ms, updated_ms, pinned, version, agent, scope, task_id are results */
    struct handoff_memory memory;
    enum handoff_pin_change pin;
    struct handoff_scopes scopes;
    struct base_span caller;
    struct base_span agent;    /* the owner from now on; absent: as it was, or the caller */
    struct base_span scope;    /* absent: as it was, or the caller's only one, or shared */
    struct base_span task_id;  /* absent: as it was, or none */
    int64_t created_ms;        /* when it was made, from an operator; 0: as it was, or now */
    struct base_span encoding; /* of the counts */
    int64_t tokens[HANDOFF_RENDERINGS];   /* to keep with it; 0: not counted */
    const void *prepared;                 /* NULL, or of handoff_spine_prepare_put */
    bool created;                         /* result: it was not there before */
    char owner[HANDOFF_MEMORY_AGENT_MAX]; /* the driver's, for the texts of memory.agent, */
    char scope_name[HANDOFF_SCOPE_MAX];   /* of memory.scope, */
    char task[HANDOFF_MEMORY_TASK_MAX];   /* and of memory.task_id */
};

/* Computes what the put would compute where others wait for it: before it, of the same texts, on
   any thread. What it makes is in the arena; without memory for that the put does it. */
void handoff_spine_prepare_put(struct handoff_spine *spine, struct handoff_spine_put *put,
                               struct base_arena *arena);

/* Makes a memory or replaces it; created_ms of a replaced one stays unless it is given, and its
   scope stays.
   id_taken if the id is that of a memory in another scope, seen or not. */
enum handoff_spine_progress handoff_spine_put(struct handoff_spine *spine,
                                              struct handoff_spine_put *put);

struct handoff_spine_remove {
    struct handoff_spine_call call;
    struct base_span id;
    struct handoff_scopes scopes;
    struct base_span caller;
};

/* not_found if it is not there. */
enum handoff_spine_progress handoff_spine_remove(struct handoff_spine *spine,
                                                 struct handoff_spine_remove *remove);

struct handoff_spine_pin {
    struct handoff_spine_call call;
    struct base_span id;
    struct handoff_scopes scopes;
    struct base_span caller;
    bool pinned;
};

/* not_found, or too_many_pins. Pinning a pinned one is fine. */
enum handoff_spine_progress handoff_spine_pin(struct handoff_spine *spine,
                                              struct handoff_spine_pin *pin);

/* ---- token counts -------------------------------------------------------------------------- */

struct handoff_token_count {
    struct base_span id;
    int64_t version; /* of the memory that was counted: a count of an older text is dropped */
    enum handoff_memory_rendering rendering;
    int64_t tokens;
};

struct handoff_spine_keep_tokens {
    struct handoff_spine_call call;
    struct base_span encoding; /* "o200k_base" */
    const struct handoff_token_count *counts;
    size_t count;
};

/* Keeps counts, so that the same text is not counted again. A put or a change of the pin forgets
 * them. */
enum handoff_spine_progress handoff_spine_keep_tokens(struct handoff_spine *spine,
                                                      struct handoff_spine_keep_tokens *keep);

/* ---- numbers ------------------------------------------------------------------------------- */

struct handoff_spine_stats {
    struct handoff_spine_call call;
    int64_t memories, pinned; /* results */
};

enum handoff_spine_progress handoff_spine_stats(struct handoff_spine *spine,
                                                struct handoff_spine_stats *stats);

/* ---- drivers ------------------------------------------------------------------------------- */

/* What a spine can do; each is the function of the driver with this name. */
enum handoff_spine_ability {
    HANDOFF_SPINE_CAN_RESOLVE = 1 << 0,
    HANDOFF_SPINE_CAN_LIST = 1 << 1,
    HANDOFF_SPINE_CAN_PUT = 1 << 2,
    HANDOFF_SPINE_CAN_REMOVE = 1 << 3,
    HANDOFF_SPINE_CAN_PIN = 1 << 4,
    HANDOFF_SPINE_CAN_KEEP_TOKENS = 1 << 5,
    HANDOFF_SPINE_CAN_STATS = 1 << 6,
};

/*
 * A kind of spine. To add one: write client/spine/NAME with such a table, a function that makes the
 * spine (handoff_spine_init) and a header that declares it, and call that function in
 * client/spines.c.
 *
 * A function is called with a call that was checked: its inputs are within the limits, its error is
 * clear, and its results are empty. It either finishes the call and returns DONE, or returns
 * PENDING and has done called on the mailbox's loop later. A function that answered without looking
 * anything up sets call.asked to false.
 */
struct handoff_spine_driver {
    const char *kind; /* "embedded" */
    unsigned can;     /* HANDOFF_SPINE_CAN_...; a call for anything else is rejected before */
    enum handoff_spine_progress (*resolve)(struct handoff_spine *, struct handoff_spine_resolve *);
    enum handoff_spine_progress (*list)(struct handoff_spine *, struct handoff_spine_list *);
    enum handoff_spine_progress (*put)(struct handoff_spine *, struct handoff_spine_put *);
    /* Sets put->prepared; on any thread. NULL: there is nothing to prepare. */
    void (*prepare_put)(struct handoff_spine *, struct handoff_spine_put *, struct base_arena *);
    enum handoff_spine_progress (*remove)(struct handoff_spine *, struct handoff_spine_remove *);
    enum handoff_spine_progress (*pin)(struct handoff_spine *, struct handoff_spine_pin *);
    enum handoff_spine_progress (*keep_tokens)(struct handoff_spine *,
                                               struct handoff_spine_keep_tokens *);
    enum handoff_spine_progress (*stats)(struct handoff_spine *, struct handoff_spine_stats *);
    /* From the next search on; on any thread. NULL: it does not rank by them. */
    void (*weigh)(struct handoff_spine *, const struct handoff_search_boosts *);
    /* Likewise. NULL: it always is. */
    bool (*is_complete)(struct handoff_spine *);
    /* Whether it answered when it was asked last, by a call or by the driver itself. NULL: the
       driver asks nothing itself, and calls alone tell. */
    bool (*is_up)(struct handoff_spine *);
    /* Its operations that a spine may have and this one has not: "search, pinned"; NULL: none.
       NULL, too, for the function: it has all. */
    const char *(*lacks)(struct handoff_spine *);
    /* What is done where it lacks something. NULL: such calls are rejected. */
    const char *(*instead)(struct handoff_spine *);
    /* Both NULL: it is the same to it which loop asks. */
    void (*join)(struct handoff_spine *, struct base_loop *);
    void (*leave)(struct handoff_spine *, struct base_loop *);
    int64_t (*copies_bytes)(struct handoff_spine *); /* NULL: it keeps no copies */
    void (*close)(struct handoff_spine *);           /* frees it */
};

/* The first member of each driver's own struct. */
struct handoff_spine {
    unsigned magic;
    const struct handoff_spine_driver *driver;
    struct handoff_memory_limits limits;
};

/* For drivers. A limit of 0 is the default. */
void handoff_spine_init(struct handoff_spine *spine, const struct handoff_spine_driver *driver,
                        struct handoff_memory_limits limits);

/* No call may be pending. Takes NULL and pointers to NULL. */
void handoff_spine_close(struct handoff_spine **spine);

#endif
