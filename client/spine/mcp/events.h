/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events.h - the events of an answer that comes as text/event-stream, as the HTML standard has it:
 * lines end with LF, CR or CRLF, an empty line ends an event, comments and other fields are
 * skipped. Pure; any thread.
 */
#ifndef HANDOFF_SPINE_MCP_EVENTS_H
#define HANDOFF_SPINE_MCP_EVENTS_H

#include "client/spine/remote/exchange.h"
#include "lib/base/buffer.h"

/* Puts the data of the next whole event of type message into `data`, which is emptied first. false:
   there is none yet. `at` says how far the bytes were looked at, so that each is looked at once,
   however they come. */
bool handoff_mcp_next_event(struct base_span bytes, struct handoff_remote_stream *at,
                            struct base_buffer *data);

#endif
