/* SPDX-License-Identifier: Apache-2.0 */
/* decide.h - how a decision about one handoff ends. On the loop of the request. */
#ifndef EXPORTER_REVIEW_DECIDE_H
#define EXPORTER_REVIEW_DECIDE_H

#include "exporter/review/visit.h"

/* The first answer is that of a decision; visit->decide repeats it. */
void review_finish_decision(struct review_visit *visit);

#endif
