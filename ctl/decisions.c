/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoffctl decisions: what people decided about handoffs; see decisions.h. An export has the
 * lines as the sidecar wrote them. One thread.
 */
#include "ctl/decisions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "ctl/document.h"
#include "ctl/show.h"
#include "ctl/table.h"
#include "ctl/text.h"

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
    static const char *const filters[] = {"handoff", "task",  "action", "who",   "by",     "target",
                                          "job",     "since", "until",  "limit", "cursor", NULL};
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

/* ---- all of them, as lines --------------------------------------------------------------------
 */

enum { EXPORT_PAGE = 1000, CURSOR_SIZE = 24 };

/* The id of the last line, which is where the next page begins. False: it has none. */
static bool read_last_id(const char *lines, size_t size, char cursor[CURSOR_SIZE])
{
    const char *end = lines + size - 1; /* the last line feed */
    const char *before = memrchr(lines, '\n', (size_t)(end - lines));
    const char *line = before ? before + 1 : lines;
    yyjson_doc *doc = yyjson_read(line, (size_t)(end - line), 0);
    yyjson_val *id = yyjson_obj_get(yyjson_doc_get_root(doc), "id");
    const bool good = yyjson_is_uint(id);
    if (good)
        snprintf(cursor, CURSOR_SIZE, "%llu", (unsigned long long)yyjson_get_uint(id));
    yyjson_doc_free(doc);
    return good;
}

static char *path_of_export(const struct ctl_line *line, const char *cursor)
{
    static const char *const filters[] = {"since", "until", NULL};
    char size[CURSOR_SIZE], *path = ctl_api_path("/v1/decisions?order=oldest", "", "");
    snprintf(size, sizeof size, "%d", EXPORT_PAGE);
    return ctl_api_add_options(&path, line, filters) && ctl_api_add_query(&path, "limit", size) &&
                   ctl_api_add_query(&path, "cursor", *cursor ? cursor : NULL)
               ? path
               : NULL;
}

/* Prints the page behind the cursor and moves the cursor; *over: it was the last one. */
static int export_decisions(const struct ctl_line *line, char cursor[CURSOR_SIZE], bool *over)
{
    struct ctl_answer page = {0};
    char *path = path_of_export(line, cursor);
    int code = ctl_api_call(line, "GET", path, "application/x-ndjson", NULL, &page);
    *over = page.size == 0;
    if (code == CTL_OK && !*over) {
        ctl_put_document(page.body, page.size, true);
        if (!read_last_id(page.body, page.size, cursor)) {
            fputs("handoffctl decisions export: a line is no decision; is --api.url right?\n",
                  stderr);
            code = CTL_FAILED;
        }
    }
    ctl_answer_free(&page);
    free(path);
    return code;
}

int ctl_decisions_export(const struct ctl_line *line)
{
    char cursor[CURSOR_SIZE] = "";
    bool over = false;
    int code = CTL_OK;
    if (ctl_flag(line, "after"))
        snprintf(cursor, sizeof cursor, "%ld", ctl_whole(line, "after", 0));
    while (code == CTL_OK && !over)
        code = export_decisions(line, cursor, &over);
    return code;
}
