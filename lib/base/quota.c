/* SPDX-License-Identifier: Apache-2.0 */
/* A bounded count, see quota.h. Any thread. */
#include "lib/base/quota.h"

#include "lib/base/check.h"

bool base_quota_take(struct base_quota *quota)
{
    const unsigned before = atomic_fetch_add_explicit(&quota->taken, 1, memory_order_relaxed);
    if (quota->most == 0 || before < quota->most)
        return true;
    base_quota_give_back(quota);
    return false;
}

void base_quota_give_back(struct base_quota *quota)
{
    const unsigned before = atomic_fetch_sub_explicit(&quota->taken, 1, memory_order_relaxed);
    BASE_CHECK(before > 0);
}

bool base_quota_is_half_taken(const struct base_quota *quota)
{
    return quota->most > 0 &&
           atomic_load_explicit(&quota->taken, memory_order_relaxed) > quota->most / 2;
}
