/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for what another thread does: the only place of the unit tests that pauses. */
#ifndef TESTS_SUPPORT_WAIT_H
#define TESTS_SUPPORT_WAIT_H

#include <time.h>

#include "tests/support/unit.h"

enum {
    WAIT_MOST_S = 120, /* a test that passes never waits so long, also under a sanitizer */
    WAIT_PAUSE_NS = 200000,
};

static inline time_t wait_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static inline void wait_more(time_t began, const char *what)
{
    const struct timespec pause = {.tv_nsec = WAIT_PAUSE_NS};
    if (wait_seconds() - began > WAIT_MOST_S)
        fail_msg("not within %d s: %s", WAIT_MOST_S, what);
    nanosleep(&pause, NULL);
}

/* Until the condition holds; fails with `what` if it never does. */
#define WAIT_UNTIL(condition, what)                                                                \
    for (const time_t wait_began = wait_seconds(); !(condition);)                                  \
    wait_more(wait_began, what)

#endif
