/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quota.h - how many of something there may be at once, counted over all threads. Any thread.
 */
#ifndef BASE_QUOTA_H
#define BASE_QUOTA_H

#include <stdatomic.h>
#include <stdbool.h>

struct base_quota {
    unsigned most; /* 0: any number. Set before it is shared. */
    atomic_uint taken;
};

/* false: as many as may be are taken. Else one is to be given back. */
__attribute__((warn_unused_result)) bool base_quota_take(struct base_quota *quota);
void base_quota_give_back(struct base_quota *quota);
/* More than half are taken; never where there is no limit. */
bool base_quota_is_half_taken(const struct base_quota *quota);

#endif
