/* SPDX-License-Identifier: Apache-2.0 */
/* handoffctl agents: the agents, the state of their circuits, and closing a circuit. One thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "ctl/document.h"
#include "ctl/show.h"
#include "ctl/table.h"

static enum ctl_tone tone_of_circuit(const char *circuit)
{
    return strcmp(circuit, handoff_circuit_name(HANDOFF_CIRCUIT_CLOSED)) == 0 ? CTL_GOOD : CTL_BAD;
}

static void put_agent(struct ctl_table *table, yyjson_val *agent)
{
    const bool configured = yyjson_is_true(yyjson_obj_get(agent, "configured"));
    const double retry = ctl_number(agent, "retry_after_seconds");
    const char *circuit = ctl_text(agent, "circuit");
    char after[32] = "-";
    if (retry > 0)
        snprintf(after, sizeof after, "%.0f s", retry);
    ctl_table_put(table, ctl_text(agent, "name"));
    ctl_table_put(table, configured ? ctl_text(agent, "delivery") : "removed");
    ctl_table_put_in(table, circuit, tone_of_circuit(circuit));
    ctl_table_put_number(table, ctl_number(agent, "consecutive_failures"));
    ctl_table_put_number(table, ctl_number(agent, "in_flight"));
    ctl_table_put(table, after);
}

static void show_agents(const struct ctl_line *line, yyjson_val *list)
{
    static const struct ctl_column columns[] = {{"AGENT", CTL_SHRINKS, 16},
                                                {"DELIVERY", 0, 0},
                                                {"CIRCUIT", 0, 0},
                                                {"FAILURES", CTL_RIGHT, 0},
                                                {"IN FLIGHT", CTL_RIGHT, 0},
                                                {"RETRY AFTER", 0, 0},
                                                {NULL, 0, 0}};
    size_t i, count;
    yyjson_val *agent;
    struct ctl_table *table = ctl_table_begin(line, columns);
    yyjson_arr_foreach(yyjson_obj_get(list, "items"), i, count, agent)
    {
        put_agent(table, agent);
    }
    ctl_table_end(table);
}

int ctl_agents(const struct ctl_line *line)
{
    struct ctl_answer answer = {0};
    int code = ctl_api_call(line, "GET", "/v1/agents", NULL, NULL, &answer);
    if (code == CTL_OK)
        code = ctl_show(line, &answer, show_agents);
    ctl_answer_free(&answer);
    return code;
}

int ctl_agents_reset(const struct ctl_line *line)
{
    struct ctl_answer answer = {0};
    char *path = ctl_api_path("/v1/agents/", ctl_operand(line, 0), "/reset");
    int code = ctl_api_call(line, "POST", path, NULL, "{}", &answer);
    ctl_answer_free(&answer);
    free(path);
    return code;
}
