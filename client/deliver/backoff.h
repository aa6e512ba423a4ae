/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backoff.h - how long to wait before the next attempt.
 *
 * Exponential with full jitter: the wait is drawn evenly from 0 to min(max, base * 2^(n-1)) after
 * the n-th failure. Full jitter, because a receiver that comes back meets everybody who waited for
 * it, and only draws from the whole interval keep them apart.
 */
#ifndef HANDOFF_DELIVER_BACKOFF_H
#define HANDOFF_DELIVER_BACKOFF_H

#include <stdint.h>

#include "lib/base/random.h"

struct handoff_backoff {
    int64_t base_ms;
    int64_t max_ms;
};

/* The end of the interval after `failures` failures (at least 1). */
int64_t handoff_backoff_ceiling_ms(const struct handoff_backoff *backoff, unsigned failures);

/* A draw from it, both ends included. */
int64_t handoff_backoff_draw_ms(const struct handoff_backoff *backoff, unsigned failures,
                                const struct base_random *random);

#endif
