/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.h - a post in progress: an exchange (plain.c) or a transfer of curl (transport.c). */
#ifndef HANDOFF_TRANSPORT_TRANSFER_H
#define HANDOFF_TRANSPORT_TRANSFER_H

/* The first member of either. */
struct handoff_transfer {
    void (*cancel)(struct handoff_transfer *transfer); /* cancels and frees it */
};

#endif
