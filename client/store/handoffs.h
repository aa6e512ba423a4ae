/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoffs.h - what the store keeps of a handoff beside its envelope: its state, every
 * attempt, the key under which its sender may repeat it, and the circuits of the agents.
 *
 * A handoff is written when it is accepted, and again when it moves in a way that a restart must
 * know of. That an attempt has begun is not written: after a crash the handoff is tried again
 * either way, and the receiver knows the id. So a handoff that is acknowledged at once costs two
 * small writes.
 *
 * Writes are jobs of store.h: what they point to is lent until `done`.
 */
#ifndef HANDOFF_STORE_HANDOFFS_H
#define HANDOFF_STORE_HANDOFFS_H

#include "client/model/handoff_model.h"
#include "client/store/decisions.h"
#include "client/store/store.h"

/* The state of a handoff. Times are wall-clock milliseconds, 0: none. */
struct handoff_standing {
    int state;                  /* enum handoff_state */
    struct base_span target;    /* the agent that has it, or had it last */
    enum handoff_reason reason; /* why it was parked; the store has its name ... */
    struct base_span words;     /* ... or, where it is OTHER, these */
    int64_t due_ms;             /* of the next attempt, or the end of an acknowledgement's time */
    int64_t settled_ms;         /* acknowledged, parked, expired or discarded since then */
    uint32_t attempts;          /* made in all */
    uint32_t failures;          /* of these, in a row and with this target */
    uint32_t alternate;         /* how many of the first target's alternates were used up */
    uint32_t replays;
};

struct handoff_attempt {
    bool passed_over; /* no attempt: the target was not given the handoff, and `error` is why */
    uint32_t number;  /* 1 is the first; of one passed over, how many attempts were made before */
    int64_t at_ms;
    int64_t duration_us;
    struct base_span target;
    enum handoff_attempt_result result;
    int status;              /* HTTP; 0: no answer */
    struct base_span error;  /* what went wrong, or "" */
    struct base_span peer;   /* "127.0.0.1:9001", or "" */
    struct base_span answer; /* how an answer with an error status begins, or "" */
};

/* ---- writing -------------------------------------------------------------------------------- */

/* Envelope, standing and key in one job: accepted means all of it. The same id with the same
   envelope again is fine, and changes nothing. */
struct handoff_store_accept {
    struct handoff_store_put_envelope put; /* with the job; `finished` is false */
    struct handoff_standing standing;
    struct base_span source, asked_target; /* asked_target: as the sender named it */
    enum handoff_pattern pattern;
    int64_t deadline_ms;
    struct base_span excerpt;         /* what a list shows of an envelope; absent: unknown */
    struct base_span summary;         /* likewise, of what its receiver is to do */
    struct base_span idempotency_key; /* absent: none */
    uint8_t request_digest[BASE_SHA256_BYTES];
    /* The envelope was put before, as finished. Then the job fails with conflict if it has a
       handoff already, and with not_found or envelope_removed if retention came first. */
    bool stored;
    const struct handoff_stored_decision *decision; /* that brought it about; NULL: none */
    struct base_uuid publication;                   /* that it delivers (channels.h); nil: none */
    /* It comes after the publication's commit. Then the job fails with envelope_removed if
       retention removed the body first. */
    bool late;

    /* answers */
    int64_t seq;                     /* the number by which the other writes name it */
    struct base_uuid root, previous; /* its oldest ancestor and its newest parent; nil: none */
};

void handoff_store_accept(struct handoff_store *store, struct handoff_store_accept *accept);

/* An attempt, an agent passed over, or a decision, in a chain of those to be recorded. An attempt
   whose number is there already replaces it. */
struct handoff_attempt_record {
    struct handoff_attempt attempt;
    const struct handoff_stored_decision *decision; /* then `attempt` says nothing; NULL: none */
    struct handoff_attempt_record *next;
};

/* What the agent that has it told of its work; absent text: nothing. */
struct handoff_told_progress {
    struct base_span text;
    int64_t at_ms;
};

/* A move, with the attempt that caused it, and those whose own write failed. */
struct handoff_store_move {
    struct handoff_store_job job;
    int64_t seq;
    struct handoff_standing standing;
    const struct handoff_attempt_record *attempts; /* a chain of nattempts, oldest first */
    size_t nattempts;
    struct handoff_told_progress progress; /* absent: it stays as it is */
    bool over;                             /* nothing changes it any more: retention may have it */
    bool of_publication;                   /* it is a delivery of one (channels.h) */
};

void handoff_store_move(struct handoff_store *store, struct handoff_store_move *move);

/* The next request that came with an acknowledgement, and why no handoff was made of it. */
struct handoff_store_refuse_next {
    struct handoff_store_job job;
    int64_t seq; /* of the acknowledged handoff */
    int64_t at_ms;
    struct base_span code, detail;
    struct base_span request; /* without credentials; absent: it is not kept */
};

void handoff_store_refuse_next(struct handoff_store *store,
                               struct handoff_store_refuse_next *refuse);

struct handoff_stored_circuit {
    struct base_span agent;
    uint32_t consecutive_failures;
    int64_t open_until_ms; /* 0: closed */
};

struct handoff_store_circuit {
    struct handoff_store_job job;
    struct handoff_stored_circuit circuit;
};

void handoff_store_put_circuit(struct handoff_store *store, struct handoff_store_circuit *circuit);

/* ---- reading: waits for the disk --------------------------------------------------------------
 */

struct handoff_stored {
    int64_t seq;
    struct base_uuid id;
    struct base_span task_id, source, asked_target;
    enum handoff_pattern pattern;
    int64_t created_ms, deadline_ms;
    struct base_span excerpt; /* absent: an older version accepted it */
    struct handoff_standing standing;
    struct base_uuid root, previous; /* its oldest ancestor and its newest parent; nil: none */
    struct base_uuid replaced_by;    /* by an edit; nil: it was not */
    bool of_publication;             /* it is a delivery of `previous` (channels.h) */
    bool projected;                  /* with an envelope other than that of `previous` */
    struct base_span channel;        /* of that publication; absent: none */
    struct handoff_told_progress progress; /* the newest */
    struct base_span summary; /* the beginning of what its receiver is to do; absent: unknown */
    struct base_span error;   /* of its last attempt, or "" */
    struct base_span gaps;    /* memories that its receiver lacked (gaps.h); absent: none */
};

/* All texts are copied into the arena. not_found, or a failure of the store. */
enum handoff_code handoff_store_get_handoff(struct handoff_store *store, const struct base_uuid *id,
                                            struct base_arena *arena, struct handoff_stored *stored,
                                            struct handoff_error *error) HANDOFF_MUST_CHECK;

/* A handoff with its envelope, to be taken up again. */
struct handoff_stored_whole {
    struct base_uuid id;
    struct base_arena *arena; /* that texts are copied into */
    struct handoff_stored stored;
    struct handoff_stored_envelope envelope;
    struct handoff_error error;          /* as handoff_store_get_handoff; nothing else is set */
    struct handoff_error envelope_error; /* as handoff_store_get_envelope */
};

/* Each by itself; together they take less time than one by one. */
void handoff_store_get_whole(struct handoff_store *store, struct handoff_stored_whole *const *list,
                             size_t count);

/* A page of handoffs in the order of their acceptance. */
struct handoff_store_filter {
    uint32_t states;          /* bit 1 << state for each one wanted */
    struct base_span target;  /* absent: any */
    struct base_span reason;  /* absent: any */
    struct base_span task_id; /* absent: any */
    struct base_span party;   /* only those it is a party to (parties.h); absent: any */
    int64_t publication;      /* its number: only its deliveries (channels.h); 0: any */
    int64_t after_seq;        /* only those behind it; 0: from the first */
    size_t limit;
};

/* *list is an array in the arena; fewer than `limit` entries are the last page. */
enum handoff_code handoff_store_list(struct handoff_store *store,
                                     const struct handoff_store_filter *filter,
                                     struct base_arena *arena, struct handoff_stored **list,
                                     size_t *count, struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Attempts, and among them the agents that were passed over, in their order. */
enum handoff_code handoff_store_attempts(struct handoff_store *store, int64_t seq,
                                         struct base_arena *arena, struct handoff_attempt **list,
                                         size_t *count,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Which handoff was accepted under this key, and for which request. not_found: none. */
enum handoff_code handoff_store_find_key(struct handoff_store *store, struct base_span source,
                                         struct base_span key, struct base_uuid *id,
                                         uint8_t request_digest[BASE_SHA256_BYTES],
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

/* The refused requests of a task, oldest first; `party`: only of handoffs that it is a party to,
   and without the requests that another agent sent. */
struct handoff_stored_refusal {
    struct base_uuid id; /* of the acknowledged handoff */
    int64_t at_ms;
    struct base_span code, detail;
    struct base_span request; /* empty: it is not kept, or not the party's */
};

enum handoff_code handoff_store_refused_next(struct handoff_store *store, struct base_span task_id,
                                             struct base_span party, struct base_arena *arena,
                                             struct handoff_stored_refusal **list, size_t *count,
                                             struct handoff_error *error) HANDOFF_MUST_CHECK;

enum handoff_code handoff_store_circuits(struct handoff_store *store, struct base_arena *arena,
                                         struct handoff_stored_circuit **list, size_t *count,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Calls `visit` for each parked handoff: whom for, and since when. */
enum handoff_code
handoff_store_visit_parked(struct handoff_store *store,
                           void (*visit)(void *arg, struct base_span target, int64_t settled_ms),
                           void *arg, struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
