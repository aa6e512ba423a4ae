/* SPDX-License-Identifier: Apache-2.0 */
/* The two clocks of the system, and one that tests move by hand. Any thread. */
#include "lib/base/clock.h"

#include <time.h>

static int64_t system_monotonic_ns(const struct base_clock *clock)
{
    struct timespec now;
    (void)clock;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t system_wall_ms(const struct base_clock *clock)
{
    struct timespec now;
    (void)clock;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

const struct base_clock base_clock_system = {system_monotonic_ns, system_wall_ms};

/* The const is the interface's; a manual clock is never a constant object. */
static struct base_manual_clock *manual_of(const struct base_clock *clock)
{
    return (struct base_manual_clock *)(uintptr_t)clock;
}

static int64_t manual_monotonic_ns(const struct base_clock *clock)
{
    return atomic_load(&manual_of(clock)->monotonic_ns);
}

static int64_t manual_wall_ms(const struct base_clock *clock)
{
    return atomic_load(&manual_of(clock)->wall_ms);
}

void base_manual_clock_init(struct base_manual_clock *manual, int64_t wall_ms)
{
    manual->clock = (struct base_clock){manual_monotonic_ns, manual_wall_ms};
    atomic_init(&manual->monotonic_ns, 0);
    atomic_init(&manual->wall_ms, wall_ms);
}

void base_manual_clock_advance(struct base_manual_clock *manual, int64_t ms)
{
    atomic_fetch_add(&manual->monotonic_ns, ms * 1000000);
    atomic_fetch_add(&manual->wall_ms, ms);
}
