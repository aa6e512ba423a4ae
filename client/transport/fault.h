/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault.h - the faults that can deprive a post of its answer, and their words.
 *
 * Posts are sent in two ways (transport.h), and the record of an attempt must have the same words
 * for the same fault in both. So the words are defined only here, and so is the result that each
 * counts as. A detail of the cause may follow after a colon. Pure, any thread.
 */
#ifndef HANDOFF_TRANSPORT_FAULT_H
#define HANDOFF_TRANSPORT_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/handoff.h"

enum handoff_fault {
    HANDOFF_FAULT_NONE,
    HANDOFF_FAULT_DESCRIPTORS, /* these four are ours: handoff_fault_shortage */
    HANDOFF_FAULT_MEMORY,
    HANDOFF_FAULT_THREADS,
    HANDOFF_FAULT_PORTS,
    HANDOFF_FAULT_NAME,       /* the host name has no address */
    HANDOFF_FAULT_CONNECTION, /* connecting failed */
    HANDOFF_FAULT_TLS,
    HANDOFF_FAULT_TIME,      /* no complete answer in time */
    HANDOFF_FAULT_RESET,     /* before the first byte of an answer, like the next two */
    HANDOFF_FAULT_CLOSED,    /* by an orderly close */
    HANDOFF_FAULT_OTHER,     /* any other failure of the connection */
    HANDOFF_FAULT_BROKE_OFF, /* the answer is incomplete, however the connection ended */
    HANDOFF_FAULT_NOT_HTTP,
    HANDOFF_FAULT_GARBLED, /* it began as HTTP, then broke its rules */
    HANDOFF_FAULT_HEAD_SIZE,
    HANDOFF_FAULT_BODY_SIZE,
};

struct handoff_failure {
    enum handoff_fault fault;
    int64_t within_ms;  /* the time-out that expired; 0: none did */
    const char *detail; /* lent; NULL: none */
};

/* For a failed system call on a connection. `begun`: a byte of the answer had arrived. */
struct handoff_failure handoff_failure_of_errno(int error, bool begun);

/* What we lacked, or NONE: then it is a fault of the agent or of the way to it. */
enum handoff_shortage handoff_fault_shortage(enum handoff_fault fault);

/* The result it counts as where it is not ours: TIMEOUT, CONNECT or PROTOCOL. */
enum handoff_attempt_result handoff_fault_result(enum handoff_fault fault);

/* Truncated to the room. */
void handoff_failure_write(const struct handoff_failure *failure, char *to, size_t room);

#endif
