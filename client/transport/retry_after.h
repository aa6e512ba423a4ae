/* SPDX-License-Identifier: Apache-2.0 */
/*
 * retry_after.h - how long an agent asks us to wait in its Retry-After.
 *
 * RFC 9110 10.2.3 allows whole seconds or a date. Near misses are accepted: seconds are read up to
 * the last digit, so "7.5" and "7 seconds" are 7. A value that begins with neither a digit nor a
 * date ("-5", "soon") means no wait, and so does a date in the past. More than an hour calls for an
 * operator, not a back-off, and is capped at an hour. Pure, any thread.
 */
#ifndef HANDOFF_TRANSPORT_RETRY_AFTER_H
#define HANDOFF_TRANSPORT_RETRY_AFTER_H

#include <stdint.h>

enum {
    HANDOFF_RETRY_AFTER_SIZE = 40, /* enough for any valid value and the NUL */
};

/* The value without surrounding blanks, possibly truncated to that size; "": none. `wall_ms` is the
 * current time, for a date. 0: no wait. */
int64_t handoff_retry_after_ms(const char *value, int64_t wall_ms);

#endif
