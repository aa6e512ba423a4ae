/* SPDX-License-Identifier: Apache-2.0 */
/* handoffctl list: handoffs by state, agents, task and time; see list.h. One thread. */
#include "ctl/list.h"

#include <stdio.h>
#include <stdlib.h>

#include "ctl/document.h"
#include "ctl/show.h"
#include "ctl/table.h"

static const struct ctl_column listed_columns[] = {{"ID", 0, 0},
                                                   {"AGE", CTL_RIGHT, 0},
                                                   {"STATE", 0, 0},
                                                   {"SOURCE", CTL_SHRINKS, 8},
                                                   {"TARGET", CTL_SHRINKS, 8},
                                                   {"ATTEMPTS", CTL_RIGHT | CTL_ON_WIDE, 0},
                                                   {"TOKENS", CTL_RIGHT | CTL_ON_WIDE, 0},
                                                   {"SETTLED", CTL_ON_WIDE, 0},
                                                   {"REASON", CTL_ON_WIDE, 0},
                                                   {"SUMMARY", CTL_ON_WIDE, 0},
                                                   {"TASK", CTL_SHRINKS, 24},
                                                   {NULL, 0, 0}};

static void put_listed(struct ctl_table *table, yyjson_val *handoff)
{
    ctl_table_put(table, ctl_text(handoff, "id"));
    ctl_table_put_age(table, ctl_text(handoff, "created_at"));
    ctl_table_put_in(table, ctl_text(handoff, "state"), ctl_tone_of_state(handoff));
    ctl_table_put(table, ctl_text(handoff, "source_agent"));
    ctl_table_put(table, ctl_text(handoff, "target_agent"));
    ctl_table_put_number(table, ctl_number(handoff, "attempts"));
    ctl_table_put_number(table, ctl_number(handoff, "token_count"));
    ctl_table_put(table, ctl_text(handoff, "settled_at"));
    ctl_table_put(table, ctl_text(handoff, "reason"));
    ctl_table_put(table, ctl_text(handoff, "summary"));
    ctl_table_put(table, ctl_text(handoff, "task_id"));
}

void ctl_show_handoffs(const struct ctl_line *line, yyjson_val *list)
{
    size_t i, count;
    yyjson_val *handoff, *items = yyjson_obj_get(list, "items");
    if (yyjson_arr_size(items) == 0) {
        puts("no handoffs");
    } else {
        struct ctl_table *table = ctl_table_begin(line, listed_columns);
        yyjson_arr_foreach(items, i, count, handoff)
        {
            put_listed(table, handoff);
        }
        ctl_table_end(table);
    }
    ctl_show_next(list);
}

int ctl_list(const struct ctl_line *line)
{
    static const char *const filters[] = {"state", "source", "target", "task",
                                          "since", "limit",  "cursor", NULL};
    struct ctl_answer answer = {0};
    char *path = ctl_api_path("/v1/handoffs", "", "");
    int code = CTL_FAILED;
    if (ctl_api_add_options(&path, line, filters) &&
        ctl_api_add_query(&path, "incomplete", ctl_flag(line, "incomplete") ? "true" : NULL) &&
        ctl_api_add_query(&path, "open", ctl_flag(line, "open") ? "true" : NULL) &&
        ctl_api_add_query(&path, "order", ctl_flag(line, "newest") ? "newest" : NULL))
        code = ctl_api_call(line, "GET", path, NULL, NULL, &answer);
    if (code == CTL_OK)
        code = ctl_show(line, &answer, ctl_show_handoffs);
    ctl_answer_free(&answer);
    free(path);
    return code;
}
