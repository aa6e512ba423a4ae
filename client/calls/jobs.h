/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jobs.h - bulk jobs: one decision about many parked handoffs (store/jobs.h).
 *
 * A job is rows of the store; what runs is a run of it, on one loop. A run has a few decisions on
 * their way at a time, and begins as many a second as the job's rate says. It ends when all are
 * decided, when it is stopped, after its canary, or with its loop; in the last case the job stays
 * "running" in the store, and the next process takes it up where it was.
 */
#ifndef HANDOFF_CALLS_JOBS_H
#define HANDOFF_CALLS_JOBS_H

#include <pthread.h>
#include <sys/queue.h>

#include "client/handoff.h"

struct handoff_job_run;

struct handoff_job_runs {
    pthread_mutex_t lock;
    TAILQ_HEAD(handoff_job_run_list, handoff_job_run) list;
};

void handoff_job_runs_init(struct handoff_job_runs *runs);
/* All loops are closed. */
void handoff_job_runs_free(struct handoff_job_runs *runs);
/* Takes up what earlier processes left running, on a loop that does not run yet. */
enum handoff_code handoff_job_runs_resume(struct handoff_loop *loop,
                                          struct handoff_error *error) HANDOFF_MUST_CHECK;
/* The loop ends, and with it the runs on it. On its thread. */
void handoff_job_runs_end(struct handoff_loop *loop);

#endif
