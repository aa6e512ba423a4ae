/* SPDX-License-Identifier: Apache-2.0 */
/* random.h - random bytes, injectable: ids and jitter are tested with bytes that are known. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stddef.h>

struct base_random {
    void (*fill)(const struct base_random *random, void *bytes, size_t size);
};

/* The kernel's, also in a forked child. Any thread. */
extern const struct base_random base_random_system;

#endif
