/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verdict.h - what an agent's answer means for the handoff that was sent to it.
 *
 *   acknowledged  2xx that names the id (Handoff-Ack, or {"ack": id}); with `ack: status` any 2xx
 *                 but 202
 *   deferred      202: the acknowledgement comes later, on the API
 *   refused       {"nack": id, "retry": false}, or 4xx other than those below: for good
 *   rejected      401, 403, 404, 405, 407, 410 and 3xx, unless a nack names the id: the address or
 *                 the credentials are wrong, which is not about this handoff
 *   retry         everything else: no answer, 408, 425, 429, 5xx, 2xx that names no id or a wrong
 * one
 *
 * A nack that says whether to retry outranks the status it came with: it is the agent's own word. A
 * pure function of the answer, so that each rule is a row of a test.
 */
#ifndef HANDOFF_PROTOCOL_HANDOFF_VERDICT_H
#define HANDOFF_PROTOCOL_HANDOFF_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/handoff.h"
#include "client/protocol/protocol.h"
#include "client/transport/transport.h"

/* The ids by which an answer may name what was sent. */
struct handoff_named {
    const char *handoff;
    const char *publication; /* its envelope's id, where that is another; NULL: it is not */
};

/* All of the finding but what the request observed, which is zero. finding->next is the caller's to
   base_free(), and finding->lacking to base_buffer_free(). */
void handoff_judge(const struct handoff_answer *answer, const struct handoff_named *named,
                   enum handoff_ack_mode mode, struct handoff_finding *finding);

#endif
