/* SPDX-License-Identifier: Apache-2.0 */
/* handoffctl decisions: what people decided about handoffs; see decisions.h. One thread. */
#include "ctl/decisions.h"

#include <stdio.h>
#include <stdlib.h>
#include <yyjson.h>

#include "ctl/document.h"
#include "ctl/show.h"
#include "ctl/table.h"

/* "alice", else whose token it was */
static const char *who_decided(yyjson_val *decision)
{
    const char *by = ctl_text(decision, "by");
    return *by ? by : ctl_text(decision, "who");
}

void ctl_show_decisions(const struct ctl_line *line, yyjson_val *list)
{
    static const struct ctl_column columns[] = {{"AGE", CTL_RIGHT, 0},
                                                {"ACTION", 0, 0},
                                                {"HANDOFF", 0, 0},
                                                {"BY", CTL_SHRINKS, 8},
                                                {"WHO", CTL_ON_WIDE, 0},
                                                {"TARGET", CTL_ON_WIDE, 0},
                                                {"TO", CTL_ON_WIDE, 0},
                                                {"TASK", CTL_ON_WIDE, 0},
                                                {"REPLACED BY", CTL_ON_WIDE, 0},
                                                {"JOB", CTL_ON_WIDE, 0},
                                                {"REASON", CTL_SHRINKS, 12},
                                                {NULL, 0, 0}};
    size_t i, count;
    yyjson_val *one, *items = yyjson_obj_get(list, "items");
    if (yyjson_arr_size(items) == 0) {
        puts("no decisions");
        return;
    }
    struct ctl_table *table = ctl_table_begin(line, columns);
    yyjson_arr_foreach(items, i, count, one)
    {
        ctl_table_put_age(table, ctl_text(one, "at"));
        ctl_table_put(table, ctl_text(one, "action"));
        ctl_table_put(table, ctl_text(one, "handoff_id"));
        ctl_table_put(table, who_decided(one));
        ctl_table_put(table, ctl_text(one, "who"));
        ctl_table_put(table, ctl_text(one, "target_agent"));
        ctl_table_put(table, ctl_text(one, "to"));
        ctl_table_put(table, ctl_text(one, "task_id"));
        ctl_table_put(table, ctl_text(one, "replacement_id"));
        ctl_table_put(table, ctl_text(one, "job_id"));
        ctl_table_put(table, ctl_text(one, "reason"));
    }
    ctl_table_end(table);
    ctl_show_next(list);
}

int ctl_decisions(const struct ctl_line *line)
{
    static const char *const filters[] = {"handoff", "task",  "action", "who",    "target",
                                          "job",     "since", "limit",  "cursor", NULL};
    struct ctl_answer answer = {0};
    char *path = ctl_api_path("/v1/decisions", "", "");
    int code = CTL_FAILED;
    if (ctl_api_add_options(&path, line, filters))
        code = ctl_api_call(line, "GET", path, NULL, NULL, &answer);
    if (code == CTL_OK)
        code = ctl_show(line, &answer, ctl_show_decisions);
    ctl_answer_free(&answer);
    free(path);
    return code;
}
