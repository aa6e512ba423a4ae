/* SPDX-License-Identifier: Apache-2.0 */
/* job.h - a bulk job of the sidecar, as a command follows it. One thread. */
#ifndef CTL_JOB_H
#define CTL_JOB_H

#include <stdbool.h>
#include <yyjson.h>

#include "ctl/api.h"

/* "replayed" or "discarded" */
const char *ctl_job_verb(bool discards);
/* "3 replayed, 1 skipped"; also how many failed, and the state of a job that is not done. */
void ctl_show_job(const struct ctl_line *line, yyjson_val *job);

/* Follows a job until it ends, or waits after its canary; a terminal shows
 * its progress. A sidecar that restarts is waited for. Then shows the job, and names on stderr what
 * was skipped or failed, which gives CTL_FAILED. Returns the exit code. */
int ctl_job_follow(const struct ctl_line *line, const char *id);
/* The same, and decides about the others when it waits: they follow if the canary is acknowledged,
 * and are left parked otherwise. A discard has no acknowledgement: its others keep waiting. */
int ctl_job_follow_through(const struct ctl_line *line, const char *id);

/* Names on stderr what was skipped or failed, with the reason. Returns the exit code. */
int ctl_job_report_left(const struct ctl_line *line, yyjson_val *job);

#endif
