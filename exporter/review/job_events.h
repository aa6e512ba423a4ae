/* SPDX-License-Identifier: Apache-2.0 */
/* job_events.h - how far a bulk job is. On the loop of the request. */
#ifndef EXPORTER_REVIEW_JOB_EVENTS_H
#define EXPORTER_REVIEW_JOB_EVENTS_H

#include <stdbool.h>
#include <stdio.h>
#include <yyjson.h>

#include "client/handoff.h"

bool review_job_is(yyjson_val *job, enum handoff_run_state state);
/* "120 of 300 done, about 9s left: 119 succeeded, 1 skipped, 0 failed.", in ASCII without quotes.
 */
void review_write_job_progress(FILE *out, yyjson_val *job);

#endif
