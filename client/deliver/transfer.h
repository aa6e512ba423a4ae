/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.h - what carries a post that is under way: an exchange (plain.c), or curl (transport.c).
 */
#ifndef HANDOFF_DELIVER_TRANSFER_H
#define HANDOFF_DELIVER_TRANSFER_H

#include <stdint.h>

enum { HANDOFF_RETRY_AFTER_MAX_S = 3600 }; /* longer is a person's business, not a back-off */

/* Embedded, first, in either. */
struct handoff_transfer {
    void (*cancel)(struct handoff_transfer *transfer); /* breaks it off and frees it */
};

static inline int64_t handoff_retry_after_ms(int64_t seconds)
{
    if (seconds <= 0)
        return 0;
    return 1000 * (seconds < HANDOFF_RETRY_AFTER_MAX_S ? seconds : HANDOFF_RETRY_AFTER_MAX_S);
}

#endif
