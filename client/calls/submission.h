/* SPDX-License-Identifier: Apache-2.0 */
/* submission.h - an assembled envelope, as delivery takes it. */
#ifndef HANDOFF_CALLS_SUBMISSION_H
#define HANDOFF_CALLS_SUBMISSION_H

#include "client/client.h"

/* Lent by the assembly, which succeeded. Without a key: that is the caller's to add. */
void handoff_submission_of(struct handoff_assembly *assembly,
                           struct handoff_submission *submission);

#endif
