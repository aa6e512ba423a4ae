/* SPDX-License-Identifier: Apache-2.0 */
/* The time of day, for creation times of series and for exemplars. Any thread. */
#ifndef METRIC_WALL_CLOCK_H
#define METRIC_WALL_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Milliseconds since the epoch. */
static inline int64_t metric_wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

#endif
