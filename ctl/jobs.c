/* SPDX-License-Identifier: Apache-2.0 */
/* handoffctl jobs: bulk jobs, what became of their handoffs, and deciding how they go on. One
   thread. */
#include <stdio.h>
#include <stdlib.h>
#include <yyjson.h>

#include "client/handoff.h"
#include "ctl/document.h"
#include "ctl/job.h"
#include "ctl/show.h"
#include "ctl/table.h"

/* ---- the list ----------------------------------------------------------------------------------
 */

static void put_job(struct ctl_table *table, yyjson_val *job)
{
    const char *by = ctl_text(job, "by");
    ctl_table_put(table, ctl_text(job, "id"));
    ctl_table_put_age(table, ctl_text(job, "started_at"));
    ctl_table_put(table, ctl_text(job, "action"));
    ctl_table_put(table, ctl_text(job, "to"));
    ctl_table_put(table, ctl_text(job, "state"));
    ctl_table_put_number(table, ctl_number(job, "done"));
    ctl_table_put_number(table, ctl_number(job, "total"));
    ctl_table_put_number(table, ctl_number(job, "skipped"));
    ctl_table_put_number(table, ctl_number(job, "failed"));
    ctl_table_put_number(table, ctl_number(job, "rate"));
    ctl_table_put(table, *by ? by : ctl_text(job, "who"));
    ctl_table_put(table, ctl_text(job, "reason"));
}

static void show_jobs(const struct ctl_line *line, yyjson_val *list)
{
    static const struct ctl_column columns[] = {{"ID", 0, 0},
                                                {"AGE", CTL_RIGHT, 0},
                                                {"ACTION", 0, 0},
                                                {"TO", CTL_ON_WIDE, 0},
                                                {"STATE", 0, 0},
                                                {"DONE", CTL_RIGHT, 0},
                                                {"OF", CTL_RIGHT, 0},
                                                {"SKIPPED", CTL_ON_WIDE | CTL_RIGHT, 0},
                                                {"FAILED", CTL_ON_WIDE | CTL_RIGHT, 0},
                                                {"RATE", CTL_ON_WIDE | CTL_RIGHT, 0},
                                                {"BY", CTL_SHRINKS, 8},
                                                {"REASON", CTL_SHRINKS, 8},
                                                {NULL, 0, 0}};
    size_t i, count;
    yyjson_val *job, *items = yyjson_obj_get(list, "items");
    if (yyjson_arr_size(items) == 0) {
        puts("no jobs");
        return;
    }
    struct ctl_table *table = ctl_table_begin(line, columns);
    yyjson_arr_foreach(items, i, count, job)
    {
        put_job(table, job);
    }
    ctl_table_end(table);
}

int ctl_jobs_list(const struct ctl_line *line)
{
    struct ctl_answer answer = {0};
    int code = ctl_api_call(line, "GET", "/v1/jobs", NULL, NULL, &answer);
    if (code == CTL_OK)
        code = ctl_show(line, &answer, show_jobs);
    ctl_answer_free(&answer);
    return code;
}

/* ---- one ---------------------------------------------------------------------------------------
 */

/* Calls the job, and shows it as it is then; *doc is the answer. */
static int call_for_job(const struct ctl_line *line, const char *method, const char *verb,
                        yyjson_doc **doc)
{
    struct ctl_answer answer = {0};
    char *path = ctl_api_path("/v1/jobs/", ctl_operand(line, 0), verb);
    int code = ctl_api_call(line, method, path, NULL, NULL, &answer);
    *doc = code == CTL_OK ? yyjson_read(answer.body, answer.size, 0) : NULL;
    if (code == CTL_OK)
        code = ctl_show(line, &answer, ctl_show_job);
    ctl_answer_free(&answer);
    free(path);
    return code;
}

int ctl_jobs_show(const struct ctl_line *line)
{
    yyjson_doc *doc;
    int code = call_for_job(line, "GET", "", &doc);
    if (code == CTL_OK)
        code = ctl_job_report_left(line, yyjson_doc_get_root(doc));
    yyjson_doc_free(doc);
    return code;
}

int ctl_jobs_watch(const struct ctl_line *line)
{
    return ctl_job_follow(line, ctl_operand(line, 0));
}

int ctl_jobs_continue(const struct ctl_line *line)
{
    struct ctl_answer answer = {0};
    char *path = ctl_api_path("/v1/jobs/", ctl_operand(line, 0), "/continue");
    int code = ctl_api_call(line, "POST", path, NULL, NULL, &answer);
    ctl_answer_free(&answer);
    free(path);
    return code == CTL_OK ? ctl_job_follow(line, ctl_operand(line, 0)) : code;
}

int ctl_jobs_stop(const struct ctl_line *line)
{
    yyjson_doc *doc;
    const int code = call_for_job(line, "DELETE", "", &doc);
    yyjson_doc_free(doc);
    return code;
}
