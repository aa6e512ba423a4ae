/* SPDX-License-Identifier: Apache-2.0 */
/*
 * retry_after.h - how long an agent asks us to wait, by the value of its Retry-After.
 *
 * RFC 9110 10.2.3 allows whole seconds or a date. An agent that writes something near to it means
 * it too, so seconds are read as far as their digits go: "7.5" and "7 seconds" are 7. What begins
 * with neither a digit nor a date ("-5", "soon") asks for nothing, and so does a date that is past.
 * Longer than an hour is a person's business, not a back-off, and is taken for an hour.
 */
#ifndef HANDOFF_TRANSPORT_RETRY_AFTER_H
#define HANDOFF_TRANSPORT_RETRY_AFTER_H

#include <stdint.h>

enum {
    HANDOFF_RETRY_AFTER_MAX_MS = 3600 * 1000,
    HANDOFF_RETRY_AFTER_SIZE = 40, /* that hold what counts of a value, and the NUL */
};

/* The value without blanks around it, which may have been cut to that size; "": none. `wall_ms` is
   now, for a date. 0: no wait. */
int64_t handoff_retry_after_ms(const char *value, int64_t wall_ms);

#endif
