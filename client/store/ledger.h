/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger.h - what each request of a chain supplied, as the store keeps it.
 *
 * An envelope is written for one receiver's budget; what its request supplied is kept beside it in
 * full: its contribution, a text that client/ledger writes and reads. It is stored in the commit
 * that stores the envelope (handoff_store_put_envelope), together with the envelope's parents. The
 * ledger of an envelope is what its ancestors and itself contributed.
 *
 * A contribution outlives its envelope: it stays until its envelope is gone and no child of it is
 * left, so whatever retention removes, an envelope that is there has all of its ancestors.
 *
 * Reads wait for the disk, except handoff_store_may_know_task.
 */
#ifndef HANDOFF_STORE_LEDGER_H
#define HANDOFF_STORE_LEDGER_H

#include "client/store/store.h"

/* All texts are in the arena of the call. */
struct handoff_contribution {
    struct base_uuid id; /* of its envelope */
    int64_t hop;         /* 0: an older version stored it, and the body or inheritance says */
    int64_t created_ms;
    struct base_span task_id, source;
    struct base_span target; /* who has it, or had it last; for an older version's envelope that was
                                never handed off, source and target are absent */
    struct base_span text;   /* absent: an older version stored the envelope, and one of the two
                                below stands for it and for all of its ancestors */
    struct base_span body;   /* the envelope's, checked against its digest; or, where it is gone, */
    struct base_span inheritance; /* what it left behind (client/envelope/inheritance.h); absent, as
                                     `body` is: it left nothing */
    uint8_t digest[BASE_SHA256_BYTES]; /* of the envelope */
    bool envelope_is_gone;             /* retention removed its row */
    bool replaced;                     /* an edit took its place (client/ledger/contribution.h) */
    struct base_uuid replaced_by;      /* its envelope */
    struct base_uuid *parents;         /* the newest first */
    size_t nparents;
};

/* The ancestors of these envelopes and themselves, oldest first (by hop, time, id), each once.
   not_found: one of `ids` is not there; the detail names `previous_id`. */
enum handoff_code handoff_store_get_ledger(struct handoff_store *store, const struct base_uuid *ids,
                                           size_t nids, struct base_arena *arena,
                                           struct handoff_contribution **list, size_t *count,
                                           struct handoff_error *error) HANDOFF_MUST_CHECK;

/* An envelope of a store that is being checked, and its ledger; both of one state of the store. */
struct handoff_kept_ledger {
    struct handoff_stored_envelope envelope;
    enum handoff_code found; /* envelope_removed, store_corrupt: it has no body, or a damaged one,
                                or one of its chain is damaged; then nothing below is set */
    bool has_contribution;   /* false: an older version stored it, or it is lost */
    bool is_as_written; /* nothing in the chain was replaced, and all of it has contributions: so
                           the same ledger is folded from it as when the envelope was made */
    struct handoff_contribution *list; /* as handoff_store_get_ledger */
    size_t count;
};

/* Gives each envelope, of one task or, where that is absent, of all, one after the other, until one
   is answered with an error. The path is that of handoff_store_check. The arena is reset for each.
   A store from before there were ledgers has none. Blocks the calling thread, and may run beside
   the daemon. */
enum handoff_code handoff_store_visit_ledgers(
    const char *path, struct base_span task_id,
    enum handoff_code (*visit)(void *context, const struct handoff_kept_ledger *kept,
                               struct base_arena *arena, struct handoff_error *error),
    void *context, struct handoff_error *error) HANDOFF_MUST_CHECK;

/* What a request of an agent continues when it names a task and no previous envelope. */
struct handoff_continued {
    struct base_uuid *ids; /* newest first: all envelopes that the agent was addressed in or took
                              over, and that no handoff continues; where there is none, the newest
                              that it was addressed in; empty: it was addressed in none */
    size_t nids;
    bool is_known; /* an envelope names the task */
    bool is_party; /* parties.h; an envelope that was only assembled for the agent counts too */
    bool began_it; /* the agent is the source of the task's first envelope. False also where an
                      older version assembled that one for nobody: then its body says */
    struct base_uuid first; /* the task's first envelope, if it is known; where an edit replaced
                               that, the edit's */
};

/* An absent agent is a party to every task, and was addressed in none. */
enum handoff_code handoff_store_find_continued(struct handoff_store *store,
                                               struct base_span task_id, struct base_span agent,
                                               struct base_arena *arena,
                                               struct handoff_continued *continued,
                                               struct handoff_error *error) HANDOFF_MUST_CHECK;

/* False: no envelope that was stored names this task. True: one may. So a handoff that begins a new
   task is spared a read. Any thread; takes a lock for an instant, and reads memory only. */
bool handoff_store_may_know_task(struct handoff_store *store, struct base_span task_id);

#endif
