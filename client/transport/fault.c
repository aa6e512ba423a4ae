/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words and the result of each fault; fault.h says why they are in one place. Pure, any
 * thread.
 */
#include "client/transport/fault.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/transport/http_answer.h"
#include "client/transport/own_fault.h"
#include "lib/base/check.h"

#define TEXT(number)      #number
#define TEXT_OF(constant) TEXT(constant)
#define BODY_MAX          65536
_Static_assert(HANDOFF_HTTP_BODY_MAX == BODY_MAX, "the text has the number");

static const struct fault_row {
    const char *words;
    const char *words_in_time; /* where a time-out follows */
    enum handoff_attempt_result result;
    enum handoff_shortage shortage;
} faults[] = {
    [HANDOFF_FAULT_NONE] = {"", NULL, HANDOFF_RESULT_ACK, HANDOFF_SHORTAGE_NONE},
    [HANDOFF_FAULT_DESCRIPTORS] = {"out of file descriptors", NULL, HANDOFF_RESULT_CONNECT,
                                   HANDOFF_SHORTAGE_DESCRIPTORS},
    [HANDOFF_FAULT_MEMORY] = {"out of memory", NULL, HANDOFF_RESULT_CONNECT,
                              HANDOFF_SHORTAGE_MEMORY},
    [HANDOFF_FAULT_THREADS] = {"no thread to look up the name", NULL, HANDOFF_RESULT_CONNECT,
                               HANDOFF_SHORTAGE_THREADS},
    [HANDOFF_FAULT_PORTS] = {"out of local ports", NULL, HANDOFF_RESULT_CONNECT,
                             HANDOFF_SHORTAGE_PORTS},
    [HANDOFF_FAULT_NAME] = {"name resolution failed", "name resolution timed out after",
                            HANDOFF_RESULT_CONNECT, HANDOFF_SHORTAGE_NONE},
    [HANDOFF_FAULT_CONNECTION] = {"connect failed", "connect timed out after",
                                  HANDOFF_RESULT_CONNECT, HANDOFF_SHORTAGE_NONE},
    [HANDOFF_FAULT_TLS] = {"TLS handshake failed", NULL, HANDOFF_RESULT_CONNECT,
                           HANDOFF_SHORTAGE_NONE},
    [HANDOFF_FAULT_TIME] = {"no answer", "no answer within", HANDOFF_RESULT_TIMEOUT,
                            HANDOFF_SHORTAGE_NONE},
    [HANDOFF_FAULT_RESET] = {"connection reset by the agent", NULL, HANDOFF_RESULT_PROTOCOL,
                             HANDOFF_SHORTAGE_NONE},
    [HANDOFF_FAULT_CLOSED] = {"the agent closed the connection without answering", NULL,
                              HANDOFF_RESULT_PROTOCOL, HANDOFF_SHORTAGE_NONE},
    [HANDOFF_FAULT_OTHER] = {"the connection failed", NULL, HANDOFF_RESULT_PROTOCOL,
                             HANDOFF_SHORTAGE_NONE},
    [HANDOFF_FAULT_BROKE_OFF] = {"the connection ended in the middle of the answer", NULL,
                                 HANDOFF_RESULT_PROTOCOL, HANDOFF_SHORTAGE_NONE},
    [HANDOFF_FAULT_NOT_HTTP] = {"the answer is not HTTP/1.1", NULL, HANDOFF_RESULT_PROTOCOL,
                                HANDOFF_SHORTAGE_NONE},
    [HANDOFF_FAULT_GARBLED] = {"the answer is malformed", NULL, HANDOFF_RESULT_PROTOCOL,
                               HANDOFF_SHORTAGE_NONE},
    [HANDOFF_FAULT_HEAD_SIZE] = {"the answer's headers are too large", NULL,
                                 HANDOFF_RESULT_PROTOCOL, HANDOFF_SHORTAGE_NONE},
    [HANDOFF_FAULT_BODY_SIZE] = {"the answer is longer than " TEXT_OF(BODY_MAX) " bytes", NULL,
                                 HANDOFF_RESULT_PROTOCOL, HANDOFF_SHORTAGE_NONE},
};

static const struct fault_row *fault_row(enum handoff_fault fault)
{
    BASE_CHECK((size_t)fault < sizeof faults / sizeof *faults && faults[fault].words);
    return &faults[fault];
}

enum handoff_shortage handoff_fault_shortage(enum handoff_fault fault)
{
    return fault_row(fault)->shortage;
}

enum handoff_attempt_result handoff_fault_result(enum handoff_fault fault)
{
    return fault_row(fault)->result;
}

struct handoff_failure handoff_failure_of_errno(int error, bool begun)
{
    const enum handoff_fault own = handoff_own_fault_of_errno(error);
    if (own != HANDOFF_FAULT_NONE)
        return (struct handoff_failure){.fault = own};
    if (begun)
        return (struct handoff_failure){.fault = HANDOFF_FAULT_BROKE_OFF};
    if (error == ECONNRESET || error == EPIPE)
        return (struct handoff_failure){.fault = HANDOFF_FAULT_RESET};
    return (struct handoff_failure){.fault = HANDOFF_FAULT_OTHER, .detail = strerror(error)};
}

void handoff_failure_write(const struct handoff_failure *failure, char *to, size_t room)
{
    const struct fault_row *row = fault_row(failure->fault);
    BASE_CHECK(failure->within_ms <= 0 || row->words_in_time);
    if (failure->within_ms > 0)
        snprintf(to, room, "%s %lld ms", row->words_in_time, (long long)failure->within_ms);
    else
        snprintf(to, room, "%s%s%s", row->words, failure->detail ? ": " : "",
                 failure->detail ? failure->detail : "");
}
