/* SPDX-License-Identifier: Apache-2.0 */
/* Exponential backoff with full jitter, see backoff.h. Pure; any thread. */
#include "client/deliver/backoff.h"

#include "lib/base/check.h"

int64_t handoff_backoff_ceiling_ms(const struct handoff_backoff *backoff, unsigned failures)
{
    BASE_CHECK(failures > 0 && backoff->base_ms >= 0 && backoff->max_ms >= 0);
    int64_t ceiling = backoff->base_ms;
    /* stops at the cap, so no number of failures can overflow it */
    for (unsigned n = 1; n < failures && ceiling > 0 && ceiling < backoff->max_ms; n++)
        ceiling = ceiling > INT64_MAX / 2 ? INT64_MAX : ceiling * 2;
    return ceiling < backoff->max_ms ? ceiling : backoff->max_ms;
}

int64_t handoff_backoff_draw_ms(const struct handoff_backoff *backoff, unsigned failures,
                                const struct base_random *random)
{
    uint64_t values = (uint64_t)handoff_backoff_ceiling_ms(backoff, failures) + 1;
    uint64_t bits;
    random->fill(random, &bits, sizeof bits);
    return (int64_t)(bits % values); /* 2^64 dwarfs any wait, so the remainder is even enough */
}
