/* SPDX-License-Identifier: Apache-2.0 */
/* mcp_spine.h - memories behind the tools of a Model Context Protocol server (docs/spines.md), as a
   kind of remote spine. */
#ifndef HANDOFF_SPINE_MCP_MCP_SPINE_H
#define HANDOFF_SPINE_MCP_MCP_SPINE_H

#include "client/spine/remote/wire.h"

extern const struct handoff_remote_wire handoff_mcp_wire;

#endif
