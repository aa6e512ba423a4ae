/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocator whose n-th call fails, once or from then on. A test runs the same thing with n = 1,
 * 2, 3 ... until it was not reached any more, and so walks through every error path of an
 * allocation.
 */
#ifndef TESTS_SUPPORT_FAILING_MEMORY_H
#define TESTS_SUPPORT_FAILING_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "lib/base/memory.h"

static bool failing_memory_installed;        /* by the test's own thread */
static atomic_long failing_memory_countdown; /* 0: never fails */
static atomic_bool failing_memory_hit;

static inline bool failing_memory_turn(void)
{
    if (atomic_load(&failing_memory_countdown) <= 0 ||
        atomic_fetch_sub(&failing_memory_countdown, 1) != 1)
        return false;
    atomic_store(&failing_memory_hit, true);
    return true;
}

static inline void *failing_memory_resize(void *pointer, size_t size)
{
    return failing_memory_turn() ? NULL : realloc(pointer, size);
}

/* Puts the allocator in place, which must happen before the first thread that allocates. */
static inline void failing_memory_install(void)
{
    static const struct base_allocator failing = {failing_memory_resize, free};
    if (!failing_memory_installed)
        base_allocator_set(&failing);
    failing_memory_installed = true;
}

/* The n-th allocation from now fails; 0 ends it. */
static inline void failing_memory_at(long n)
{
    failing_memory_install();
    atomic_store(&failing_memory_hit, false);
    atomic_store(&failing_memory_countdown, n);
}

#endif
