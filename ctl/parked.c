/* SPDX-License-Identifier: Apache-2.0 */
/* handoffctl parked list and groups: handoffs that could not be delivered, or that expired. One
   thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "client/handoff.h"
#include "ctl/document.h"
#include "ctl/show.h"
#include "ctl/table.h"

/* ---- list --------------------------------------------------------------------------------------
 */

static void put_ended(struct ctl_table *table, yyjson_val *handoff, bool wide)
{
    ctl_table_put(table, ctl_text(handoff, "id"));
    ctl_table_put_age(table, ctl_text(handoff, "settled_at"));
    ctl_table_put(table, ctl_text(handoff, "target_agent"));
    ctl_table_put(table, ctl_text(handoff, "reason"));
    ctl_table_put_number(table, ctl_number(handoff, "attempts"));
    ctl_table_put(table, ctl_text(handoff, "source_agent"));
    ctl_table_put(table, ctl_text(handoff, "summary"));
    ctl_table_put(table, ctl_text(handoff, "error"));
    ctl_table_put(table, ctl_text(handoff, "task_id"));
    if (wide)
        return;
    ctl_table_note(table, "summary", ctl_text(handoff, "summary"), 1);
    ctl_table_note(table, "error", ctl_text(handoff, "error"), 1);
}

/* The sentence and the columns of `list` and of `list --expired`. */
static void show_ended(const struct ctl_line *line, yyjson_val *list, const char *ended)
{
    const struct ctl_column columns[] = {{"ID", 0, 0},
                                         {ended, CTL_RIGHT, 0},
                                         {"TARGET", CTL_SHRINKS, 8},
                                         {"REASON", CTL_SHRINKS, 8},
                                         {"TRIES", CTL_RIGHT, 0},
                                         {"SOURCE", CTL_SHRINKS, 8},
                                         {"SUMMARY", CTL_ON_WIDE, 0},
                                         {"ERROR", CTL_ON_WIDE, 0},
                                         {"TASK", CTL_SHRINKS, 24},
                                         {NULL, 0, 0}};
    size_t i, count;
    yyjson_val *handoff;
    struct ctl_table *table = ctl_table_begin(line, columns);
    yyjson_arr_foreach(yyjson_obj_get(list, "items"), i, count, handoff)
    {
        put_ended(table, handoff, line->format == CTL_WIDE);
    }
    ctl_table_end(table);
    ctl_show_next(list);
}

static bool is_empty_list(yyjson_val *list)
{
    return yyjson_arr_size(yyjson_obj_get(list, "items")) == 0;
}

static void show_parked(const struct ctl_line *line, yyjson_val *list)
{
    if (is_empty_list(list))
        puts("nothing is parked");
    else
        show_ended(line, list, "PARKED");
}

/* A page of a search may have none of what further pages have. */
static void show_expired(const struct ctl_line *line, yyjson_val *list)
{
    if (is_empty_list(list) && yyjson_is_null(yyjson_obj_get(list, "next")))
        puts("nothing has expired");
    else
        show_ended(line, list, "EXPIRED");
}

int ctl_parked_list(const struct ctl_line *line)
{
    static const char *const filters[] = {"target", "source", "task", "since",
                                          "limit",  "cursor", NULL};
    static const char *const of_parked[] = {"reason", "error", "query", "until", NULL};
    const bool expired = ctl_flag(line, "expired");
    struct ctl_answer answer = {0};
    for (size_t i = 0; of_parked[i]; i++) {
        if (expired && ctl_value(line, of_parked[i]))
            return ctl_usage_error(line, "--expired takes no --%s", of_parked[i]);
    }
    char *path = strdup(expired ? "/v1/handoffs" : "/v1/parked");
    int code = CTL_FAILED;
    if (ctl_api_add_query(&path, "state",
                          expired ? handoff_state_name(HANDOFF_STATE_EXPIRED) : NULL) &&
        ctl_api_add_options(&path, line, filters) && ctl_api_add_options(&path, line, of_parked))
        code = ctl_api_call(line, "GET", path, NULL, NULL, &answer);
    if (code == CTL_OK)
        code = ctl_show(line, &answer, expired ? show_expired : show_parked);
    ctl_answer_free(&answer);
    free(path);
    return code;
}

/* ---- groups ------------------------------------------------------------------------------------
 */

static void show_groups(const struct ctl_line *line, yyjson_val *list)
{
    static const struct ctl_column columns[] = {{"COUNT", CTL_RIGHT, 0},
                                                {"TARGET", CTL_SHRINKS, 8},
                                                {"REASON", CTL_SHRINKS, 8},
                                                {"OLDEST", CTL_RIGHT, 0},
                                                {"NEWEST", CTL_RIGHT, 0},
                                                {"FOR EXAMPLE", 0, 0},
                                                {NULL, 0, 0}};
    size_t i, count;
    yyjson_val *group;
    if (is_empty_list(list)) {
        puts("nothing is parked");
        return;
    }
    struct ctl_table *table = ctl_table_begin(line, columns);
    yyjson_arr_foreach(yyjson_obj_get(list, "items"), i, count, group)
    {
        ctl_table_put_number(table, ctl_number(group, "count"));
        ctl_table_put(table, ctl_text(group, "target_agent"));
        ctl_table_put(table, ctl_text(group, "reason"));
        ctl_table_put_age(table, ctl_text(group, "oldest_at"));
        ctl_table_put_age(table, ctl_text(group, "newest_at"));
        ctl_table_put(table, ctl_text(group, "example_id"));
        ctl_table_note(table, "error", ctl_text(group, "error"), 2);
    }
    ctl_table_end(table);
}

int ctl_parked_groups(const struct ctl_line *line)
{
    static const char *const filters[] = {"target", "reason", "error", "source", "task",
                                          "query",  "since",  "until", NULL};
    struct ctl_answer answer = {0};
    char *path = strdup("/v1/parked/groups");
    int code = CTL_FAILED;
    if (ctl_api_add_options(&path, line, filters))
        code = ctl_api_call(line, "GET", path, NULL, NULL, &answer);
    if (code == CTL_OK)
        code = ctl_show(line, &answer, show_groups);
    ctl_answer_free(&answer);
    free(path);
    return code;
}
