/* SPDX-License-Identifier: Apache-2.0 */
/* random.h - random bytes, injectable: ids and jitter are tested with bytes that are known. */
#ifndef HANDOFF_BASE_RANDOM_H
#define HANDOFF_BASE_RANDOM_H

#include <stddef.h>

struct handoff_random {
    void (*fill)(const struct handoff_random *random, void *bytes, size_t size);
};

/* The kernel's, also in a forked child. Any thread. */
extern const struct handoff_random handoff_random_system;

#endif
