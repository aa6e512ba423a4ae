/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.h - what carries a post that is under way: an exchange (plain.c), or curl (transport.c).
 */
#ifndef HANDOFF_TRANSPORT_TRANSFER_H
#define HANDOFF_TRANSPORT_TRANSFER_H

/* Embedded, first, in either. */
struct handoff_transfer {
    void (*cancel)(struct handoff_transfer *transfer); /* breaks it off and frees it */
};

#endif
