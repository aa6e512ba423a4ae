/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jobs.h - bulk jobs: one decision about many parked handoffs, carried out over time.
 *
 * A job and the handoffs that it is about are written in one commit before the first is touched.
 * What became of each is written with the decision itself (decisions.h), or, where none was made,
 * by a job of the store that follows. So a process that is killed goes on where it was: what is
 * open was not decided, and nothing is decided twice.
 */
#ifndef HANDOFF_STORE_JOBS_H
#define HANDOFF_STORE_JOBS_H

#include "client/model/handoff_model.h"
#include "client/store/store.h"

struct handoff_stored_job {
    struct base_uuid id;
    enum handoff_action action; /* REPLAY, REDIRECT or DISCARD */
    enum handoff_run_state state;
    struct base_span to; /* of a redirect: the agent; else "" */
    struct base_span who, by, reason;
    uint32_t rate;              /* a second */
    bool canary;                /* it waits after its first handoff, until it is told to go on */
    bool had_canary;            /* it was begun like that */
    int64_t began_ms, ended_ms; /* wall clock; ended_ms 0: it has not */
    /* of its handoffs, as the store counts them; not read by a put */
    int64_t of[HANDOFF_FATE_COUNT];
    struct base_uuid first; /* the one that is its canary, where it has one */
};

/* ---- writing ----------------------------------------------------------------------------------
 */

struct handoff_store_put_job {
    struct handoff_store_job job;
    struct handoff_stored_job row;
    const struct base_uuid *handoffs;
    size_t count;
};

void handoff_store_put_job(struct handoff_store *store, struct handoff_store_put_job *put);

/* conflict: it is not in the state `from`, and stays as it is. */
struct handoff_store_turn_job {
    struct handoff_store_job job;
    struct base_uuid id;
    enum handoff_run_state from, to;
    int64_t ended_ms;
    bool goes_on; /* behind its canary */
};

void handoff_store_turn_job(struct handoff_store *store, struct handoff_store_turn_job *turn);

/* A handoff about which nothing was decided. */
struct handoff_store_leave_out {
    struct handoff_store_job job;
    struct base_uuid id, handoff; /* of the job; of the handoff */
    enum handoff_fate fate;
    struct base_span code, detail;
};

void handoff_store_leave_out(struct handoff_store *store, struct handoff_store_leave_out *leave);

/* ---- reading: waits for the disk --------------------------------------------------------------
 */

/* All, the newest first, or one; what `visit` gets is lent for the call. */
enum handoff_code
handoff_store_visit_jobs(struct handoff_store *store, const struct base_uuid *id,
                         void (*visit)(void *arg, const struct handoff_stored_job *row), void *arg,
                         struct handoff_error *error) HANDOFF_MUST_CHECK;

struct handoff_stored_job_item {
    struct base_uuid handoff;
    enum handoff_fate fate;
    struct base_span code, detail;
};

struct handoff_job_item_filter {
    struct base_uuid id;    /* of the job */
    uint32_t fates;         /* bit 1 << fate for each one wanted */
    struct base_uuid after; /* only those behind it; nil: from the first */
    size_t limit;
};

enum handoff_code
handoff_store_visit_job_items(struct handoff_store *store,
                              const struct handoff_job_item_filter *filter,
                              void (*visit)(void *arg, const struct handoff_stored_job_item *row),
                              void *arg, struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
