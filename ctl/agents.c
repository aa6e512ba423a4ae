/* SPDX-License-Identifier: Apache-2.0 */
/* handoffctl agents: the agents, the state of their circuits, and closing a circuit. One thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "ctl/options.h"
#include "ctl/show.h"

static void show_agent(yyjson_val *agent)
{
    bool configured = yyjson_is_true(yyjson_obj_get(agent, "configured"));
    ctl_put(stdout, ctl_text(agent, "name"), 24);
    putchar(' ');
    ctl_put(stdout, configured ? ctl_text(agent, "delivery") : "removed", 9);
    ctl_put(stdout, ctl_text(agent, "circuit"), 10);
    printf("%8.0f  %9.0f  ", ctl_number(agent, "consecutive_failures"),
           ctl_number(agent, "in_flight"));
    if (ctl_number(agent, "retry_after_seconds") > 0)
        printf("%.0f s\n", ctl_number(agent, "retry_after_seconds"));
    else
        puts("-");
}

static void show_agents(yyjson_val *list)
{
    size_t i, count;
    yyjson_val *agent;
    printf("%-24s %-9s%-10s%8s  %9s  %s\n", "AGENT", "DELIVERY", "CIRCUIT", "FAILURES", "IN FLIGHT",
           "RETRY AFTER");
    yyjson_arr_foreach(yyjson_obj_get(list, "items"), i, count, agent)
    {
        show_agent(agent);
    }
}

static int reset_circuit(const struct ctl_command *command, const struct ctl_api *api,
                         const char *name)
{
    struct ctl_answer answer = {0};
    char *path = ctl_api_path("/v1/agents/", name, "/reset");
    int code = CTL_FAILED;
    if (path)
        code = ctl_api_call(command, api, "POST", path, NULL, "{}", &answer);
    ctl_answer_free(&answer);
    free(path);
    return code;
}

static int list_agents(const struct ctl_command *command, const struct ctl_api *api, bool json)
{
    struct ctl_answer answer = {0};
    int code = ctl_api_call(command, api, "GET", "/v1/agents", NULL, NULL, &answer);
    if (code == CTL_OK)
        code = ctl_show(&answer, json, show_agents);
    ctl_answer_free(&answer);
    return code;
}

int ctl_agents(const struct ctl_command *command, int argc, char *const argv[])
{
    struct ctl_api api = {0};
    const char *words[2] = {NULL, NULL};
    bool json = false;
    const struct ctl_option options[] = {{"--json", NULL, &json}};
    const struct ctl_line line = {
        .options = options, .noptions = 1, .words = words, .nwords = 2, .api = &api};
    int code = ctl_take_line(command, &line, 1, argc, argv);
    if (code != CTL_OK)
        return code;
    if (words[0] && strcmp(words[0], "reset") != 0)
        return ctl_usage_error(command, "expected reset AGENT, or no verb");
    if (words[0] && !words[1])
        return ctl_usage_error(command, "missing AGENT");
    return words[0] ? reset_circuit(command, &api, words[1]) : list_agents(command, &api, json);
}
