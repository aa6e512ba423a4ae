/* SPDX-License-Identifier: Apache-2.0 */
/* job_run.h - a run of a bulk job, between the calls about jobs and what carries them out. */
#ifndef HANDOFF_CALLS_JOB_RUN_H
#define HANDOFF_CALLS_JOB_RUN_H

#include "client/calls/jobs.h"
#include "client/client.h"
#include "client/store/jobs.h"

/* Carries out what is open of the job, on the loop's thread. false: out of memory. */
bool handoff_job_run_begin(struct handoff_loop *loop, const struct handoff_stored_job *job);
/* Asks its run to stop soon. false: it has none. Any thread. */
bool handoff_job_run_stop(struct handoff_client *client, const struct base_uuid *id);

#endif
