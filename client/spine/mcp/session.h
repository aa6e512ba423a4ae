/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.h - talking to a server by the Model Context Protocol over Streamable HTTP.
 *
 * The protocol has two eras. Up to 2025-11-25 a client initializes a session, whose id it then
 * sends; from 2026-07-28 on each request says all there is to know. Which one a server speaks is
 * found out by asking (server/discover, then initialize). The tools of the server are then compared
 * with those of the table.
 *
 * All of it is on the exchange's thread, but for opening and closing.
 */
#ifndef HANDOFF_SPINE_MCP_SESSION_H
#define HANDOFF_SPINE_MCP_SESSION_H

#include "client/spine/remote/exchange.h"
#include "client/spine/remote/table.h"

extern const struct handoff_remote_conversation handoff_mcp_conversation;

/* NULL: out of memory. The table outlives it. */
void *handoff_mcp_session_open(const struct handoff_remote_table *table);
void handoff_mcp_session_close(void *context);

/* Operations of the table (1 << operation) whose tools the server does not have. */
unsigned handoff_mcp_session_lacks(const void *context);

#endif
