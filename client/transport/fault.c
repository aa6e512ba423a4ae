/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transport/fault.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/transport/http_answer.h"

#define TEXT(number)      #number
#define TEXT_OF(constant) TEXT(constant)
#define BODY_MAX          65536
_Static_assert(HANDOFF_HTTP_BODY_MAX == BODY_MAX, "the words say so");

static const struct {
    enum handoff_attempt_result result;
    const char *words;
} faults[] = {
    [HANDOFF_FAULT_NONE] = {HANDOFF_RESULT_ACK, ""},
    [HANDOFF_FAULT_MEMORY] = {HANDOFF_RESULT_CONNECT, "out of memory"},
    [HANDOFF_FAULT_NAME] = {HANDOFF_RESULT_CONNECT, "the agent's name was not found"},
    [HANDOFF_FAULT_CONNECTION] = {HANDOFF_RESULT_CONNECT, "no connection"},
    [HANDOFF_FAULT_TLS] = {HANDOFF_RESULT_CONNECT, "no TLS"},
    [HANDOFF_FAULT_TIME] = {HANDOFF_RESULT_TIMEOUT, "no answer"},
    [HANDOFF_FAULT_RESET] = {HANDOFF_RESULT_PROTOCOL, "the agent reset the connection"},
    [HANDOFF_FAULT_CLOSED] = {HANDOFF_RESULT_PROTOCOL, "the agent closed without an answer"},
    [HANDOFF_FAULT_OTHER] = {HANDOFF_RESULT_PROTOCOL, "the connection failed"},
    [HANDOFF_FAULT_BROKE_OFF] = {HANDOFF_RESULT_PROTOCOL, "the agent broke off its answer"},
    [HANDOFF_FAULT_NOT_HTTP] = {HANDOFF_RESULT_PROTOCOL, "the answer is not HTTP/1.1"},
    [HANDOFF_FAULT_GARBLED] = {HANDOFF_RESULT_PROTOCOL, "the answer is garbled"},
    [HANDOFF_FAULT_HEAD_SIZE] = {HANDOFF_RESULT_PROTOCOL, "the answer's head is too long"},
    [HANDOFF_FAULT_BODY_SIZE] = {HANDOFF_RESULT_PROTOCOL,
                                 "the answer is longer than " TEXT_OF(BODY_MAX) " bytes"},
};

enum handoff_attempt_result handoff_fault_result(enum handoff_fault fault)
{
    return faults[fault].result;
}

struct handoff_failure handoff_failure_of_errno(int error, bool begun)
{
    if (begun)
        return (struct handoff_failure){.fault = HANDOFF_FAULT_BROKE_OFF};
    if (error == ECONNRESET || error == EPIPE)
        return (struct handoff_failure){.fault = HANDOFF_FAULT_RESET};
    return (struct handoff_failure){.fault = HANDOFF_FAULT_OTHER, .detail = strerror(error)};
}

void handoff_failure_write(const struct handoff_failure *failure, char *to, size_t room)
{
    const char *words = faults[failure->fault].words;
    if (failure->within_ms > 0)
        snprintf(to, room, "%s within %lld ms", words, (long long)failure->within_ms);
    else
        snprintf(to, room, "%s%s%s", words, failure->detail ? ": " : "",
                 failure->detail ? failure->detail : "");
}
