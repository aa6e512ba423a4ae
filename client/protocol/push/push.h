/* SPDX-License-Identifier: Apache-2.0 */
/* push.h - an agent that has a URL: an attempt is a POST of the envelope. */
#ifndef HANDOFF_PROTOCOL_HANDOFF_PUSH_H
#define HANDOFF_PROTOCOL_HANDOFF_PUSH_H

#include "client/protocol/protocol.h"

extern const struct handoff_protocol handoff_protocol_push;

#endif
