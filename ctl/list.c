/* SPDX-License-Identifier: Apache-2.0 */
/* handoffctl handoffs: handoffs by state, agents, task and time. One thread. */
#include <stdio.h>
#include <stdlib.h>
#include <yyjson.h>

#include "ctl/options.h"
#include "ctl/show.h"

struct list_arguments {
    const struct ctl_command *command;
    struct ctl_api api;
    const char *state, *source, *target, *task, *since, *limit, *cursor;
    bool json;
};

static int take_list_arguments(struct list_arguments *arguments, int argc, char *const argv[])
{
    const struct ctl_option options[] = {
        {"--state", &arguments->state, NULL},   {"--source", &arguments->source, NULL},
        {"--target", &arguments->target, NULL}, {"--task", &arguments->task, NULL},
        {"--since", &arguments->since, NULL},   {"--limit", &arguments->limit, NULL},
        {"--cursor", &arguments->cursor, NULL}, {"--json", NULL, &arguments->json}};
    const struct ctl_line line = {.options = options,
                                  .noptions = sizeof(options) / sizeof(options[0]),
                                  .api = &arguments->api};
    return ctl_take_line(arguments->command, &line, 1, argc, argv);
}

static int get_handoffs(const struct list_arguments *arguments, struct ctl_answer *answer)
{
    char *path = ctl_api_path("/v1/handoffs", "", "");
    int code = CTL_FAILED;
    if (ctl_api_add_query(&path, "state", arguments->state) &&
        ctl_api_add_query(&path, "source", arguments->source) &&
        ctl_api_add_query(&path, "target", arguments->target) &&
        ctl_api_add_query(&path, "task", arguments->task) &&
        ctl_api_add_query(&path, "since", arguments->since) &&
        ctl_api_add_query(&path, "limit", arguments->limit) &&
        ctl_api_add_query(&path, "cursor", arguments->cursor))
        code = ctl_api_call(arguments->command, &arguments->api, "GET", path, NULL, NULL, answer);
    free(path);
    return code;
}

static void put_column(yyjson_val *handoff, const char *key, int width)
{
    ctl_put(stdout, ctl_text(handoff, key), width);
    fputs("  ", stdout);
}

static void show_handoffs(yyjson_val *list)
{
    size_t i, count;
    yyjson_val *handoff, *items = yyjson_obj_get(list, "items");
    if (yyjson_arr_size(items) == 0)
        puts("no handoffs");
    else
        printf("%-36s  %-24s  %-12s  %-20s  %-20s  %s\n", "ID", "CREATED", "STATE", "SOURCE",
               "TARGET", "TASK");
    yyjson_arr_foreach(items, i, count, handoff)
    {
        put_column(handoff, "id", 36);
        put_column(handoff, "created_at", 24);
        put_column(handoff, "state", 12);
        put_column(handoff, "source_agent", 20);
        put_column(handoff, "target_agent", 20);
        ctl_put(stdout, ctl_text(handoff, "task_id"), 0);
        putchar('\n');
    }
    ctl_show_next(list);
}

int ctl_list(const struct ctl_command *command, int argc, char *const argv[])
{
    struct list_arguments arguments = {.command = command};
    struct ctl_answer answer = {0};
    int code = take_list_arguments(&arguments, argc, argv);
    if (code == CTL_OK)
        code = get_handoffs(&arguments, &answer);
    if (code == CTL_OK)
        code = ctl_show(&answer, arguments.json, show_handoffs);
    ctl_answer_free(&answer);
    return code;
}
