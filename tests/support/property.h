/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers for property tests: reproducible from one seed, which is printed. Set HANDOFF_SEED to run
 * a failing case again.
 */
#ifndef TESTS_SUPPORT_PROPERTY_H
#define TESTS_SUPPORT_PROPERTY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct property {
    uint64_t state;
};

static inline struct property property_begin(const char *name)
{
    const char *given = getenv("HANDOFF_SEED");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t seed =
        given ? strtoull(given, NULL, 10) : (uint64_t)now.tv_sec * 1000003u + (uint64_t)now.tv_nsec;
    printf("%s: HANDOFF_SEED=%llu\n", name, (unsigned long long)seed);
    return (struct property){seed};
}

/* splitmix64 */
static inline uint64_t property_next(struct property *property)
{
    uint64_t z = (property->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* 0 .. bound - 1 */
static inline uint32_t property_below(struct property *property, uint32_t bound)
{
    return (uint32_t)(property_next(property) % bound);
}

static inline bool property_chance(struct property *property, uint32_t percent)
{
    return property_below(property, 100) < percent;
}

#endif
