/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h - W3C Trace Context: which trace a handoff belongs to. */
#ifndef HANDOFF_ENVELOPE_TRACE_H
#define HANDOFF_ENVELOPE_TRACE_H

#include <stdbool.h>

#include "lib/base/random.h"
#include "lib/base/span.h"

enum {
    HANDOFF_TRACEPARENT_SIZE = 56, /* 00-<32 digits>-<16 digits>-<2 digits> and a NUL */
    HANDOFF_TRACESTATE_MAX = 512,  /* every participant must pass on this much */
};

/* Whether it may be passed on: well-formed, not version ff, no id of zeros. */
bool handoff_traceparent_is_valid(struct base_span text);

/* Printable and not too long. */
bool handoff_tracestate_is_valid(struct base_span text);

/* A new trace, marked as sampled. */
void handoff_traceparent_make(const struct base_random *random,
                              char text[HANDOFF_TRACEPARENT_SIZE]);

#endif
