/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault.h - what keeps a post from its answer, and the words for it.
 *
 * Posts are carried in two ways (transport.h), and who reads the record of an attempt shall find
 * the same words for the same fault whichever it was. So the words stand here alone, and so does
 * what each counts as. Behind a colon may follow what the one who carried it knows beyond that.
 */
#ifndef HANDOFF_TRANSPORT_FAULT_H
#define HANDOFF_TRANSPORT_FAULT_H

#include <stddef.h>
#include <stdint.h>

#include "client/protocol/handoff/verdict.h"

enum handoff_fault {
    HANDOFF_FAULT_NONE,
    HANDOFF_FAULT_MEMORY,
    HANDOFF_FAULT_NAME,       /* it has no address */
    HANDOFF_FAULT_CONNECTION, /* none was made */
    HANDOFF_FAULT_TLS,
    HANDOFF_FAULT_TIME,      /* no answer, or not the whole of it */
    HANDOFF_FAULT_RESET,     /* before a byte of an answer, as the next two */
    HANDOFF_FAULT_CLOSED,    /* in good order */
    HANDOFF_FAULT_OTHER,     /* of the connection */
    HANDOFF_FAULT_BROKE_OFF, /* the answer, in whatever way the connection ended */
    HANDOFF_FAULT_NOT_HTTP,
    HANDOFF_FAULT_GARBLED, /* it began as HTTP */
    HANDOFF_FAULT_HEAD_SIZE,
    HANDOFF_FAULT_BODY_SIZE,
};

struct handoff_failure {
    enum handoff_fault fault;
    int64_t within_ms;  /* the time that was given; 0: it is no matter of time */
    const char *detail; /* lent; NULL: none */
};

/* For a system call that failed on a connection. `begun`: a byte of the answer had come. */
struct handoff_failure handoff_failure_of_errno(int error, bool begun);

/* What it counts as: TIMEOUT, CONNECT or PROTOCOL. */
enum handoff_attempt_result handoff_fault_result(enum handoff_fault fault);

/* Cut to the room. */
void handoff_failure_write(const struct handoff_failure *failure, char *to, size_t room);

#endif
