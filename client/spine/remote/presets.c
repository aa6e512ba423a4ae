/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of presets.h. Constant; any thread. */
#include "client/spine/remote/presets.h"

#include <stddef.h>

#define PUT_MEMBERS                                                                                \
    "\"content\":\"{content}\",\"summary\":\"{summary}\",\"importance\":\"{importance}\","         \
    "\"tags\":\"{tags}\",\"metadata\":\"{metadata}\",\"pinned\":\"{pinned}\","                     \
    "\"scope\":\"{scope}\",\"agent\":\"{agent}\",\"task_id\":\"{task_id}\""

static const struct handoff_remote_preset memory_spine_http = {
    .url = "http://127.0.0.1:8788",
    .table = "{\"operations\":{"
             "\"get\":{\"method\":\"GET\",\"path\":\"/memories/{id}\"},"
             "\"search\":{\"method\":\"POST\",\"path\":\"/memories/search\","
             "\"body\":{\"query\":\"{query}\",\"limit\":\"{limit}\"},\"memories\":\"/memories\"},"
             "\"recent\":{\"method\":\"GET\",\"path\":\"/memories?limit={limit}\","
             "\"memories\":\"/memories\"},"
             "\"pinned\":{\"method\":\"GET\",\"path\":\"/memories?pinned=true&limit={limit}\","
             "\"memories\":\"/memories\"},"
             "\"put\":{\"method\":\"PUT\",\"path\":\"/memories/{id}\",\"body\":{" PUT_MEMBERS "}},"
             "\"delete\":{\"method\":\"DELETE\",\"path\":\"/memories/{id}\"}}}",
};

static const struct handoff_remote_preset memory_spine_mcp = {
    .url = "http://127.0.0.1:8789/mcp",
    .table =
        "{\"operations\":{"
        "\"get\":{\"tool\":\"memory_get\",\"arguments\":{\"id\":\"{id}\"}},"
        "\"search\":{\"tool\":\"memory_search\","
        "\"arguments\":{\"query\":\"{query}\",\"limit\":\"{limit}\"},\"memories\":\"/memories\"},"
        "\"recent\":{\"tool\":\"memory_recent\",\"arguments\":{\"limit\":\"{limit}\"},"
        "\"memories\":\"/memories\"},"
        "\"pinned\":{\"tool\":\"memory_pinned\",\"arguments\":{\"limit\":\"{limit}\"},"
        "\"memories\":\"/memories\"},"
        "\"put\":{\"tool\":\"memory_store\",\"arguments\":{\"id\":\"{id}\"," PUT_MEMBERS "}},"
        "\"delete\":{\"tool\":\"memory_delete\",\"arguments\":{\"id\":\"{id}\"}}}}",
};

const struct handoff_remote_preset *handoff_remote_preset(enum handoff_spine_preset preset,
                                                          enum handoff_spine_kind kind)
{
    if (preset != HANDOFF_SPINE_PRESET_MEMORY_SPINE)
        return NULL;
    return kind == HANDOFF_SPINE_KIND_MCP ? &memory_spine_mcp : &memory_spine_http;
}
