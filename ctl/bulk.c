/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One decision about many parked handoffs; see bulk.h. What the options select is the filter of a
 * bulk job, so the preview, the job and the review page are about the same handoffs. One thread.
 */
#include "ctl/bulk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "ctl/document.h"
#include "ctl/job.h"
#include "ctl/list.h"
#include "ctl/prospect.h"
#include "ctl/show.h"
#include "ctl/text.h"

static const char *const filters[] = {"target", "source", "task", "error",
                                      "query",  "since",  "until"};
enum { FILTERS = sizeof filters / sizeof *filters };

bool ctl_bulk_selects(const struct ctl_line *line, const struct ctl_bulk *bulk)
{
    bool selects = ctl_flag(line, "all") || ctl_value(line, bulk->cause);
    for (size_t i = 0; i < FILTERS; i++)
        selects |= ctl_value(line, filters[i]) != NULL;
    return selects;
}

/* ---- the body ----------------------------------------------------------------------------------
 */

static void put_option(yyjson_mut_doc *doc, yyjson_mut_val *object, const char *key,
                       const char *text)
{
    if (text)
        yyjson_mut_obj_add_str(doc, object, key, text);
}

static void put_filter(const struct ctl_line *line, const struct ctl_bulk *bulk,
                       yyjson_mut_doc *doc)
{
    yyjson_mut_val *filter = yyjson_mut_obj_add_obj(doc, yyjson_mut_doc_get_root(doc), "filter");
    put_option(doc, filter, "reason", ctl_value(line, bulk->cause));
    for (size_t i = 0; i < FILTERS; i++)
        put_option(doc, filter, filters[i], ctl_value(line, filters[i]));
}

/* free() it; NULL: an option is not UTF-8. */
static char *job_body(const struct ctl_line *line, const struct ctl_bulk *bulk, bool dry_run)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    const char *why = ctl_value(line, bulk->why);
    const long limit = ctl_whole(line, "limit", 0);
    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_str(doc, root, "action", handoff_action_name(bulk->action));
    put_filter(line, bulk, doc);
    put_option(doc, root, "to", bulk->to ? ctl_value(line, bulk->to) : NULL);
    put_option(doc, root, "reason", why || !dry_run ? why : "preview");
    yyjson_mut_obj_add_int(doc, root, "rate", ctl_whole(line, "rate", bulk->rate));
    if (limit > 0)
        yyjson_mut_obj_add_int(doc, root, "limit", limit);
    yyjson_mut_obj_add_bool(doc, root, "canary", !dry_run && ctl_flag(line, "canary"));
    yyjson_mut_obj_add_bool(doc, root, "dry_run", dry_run);
    char *body = yyjson_mut_write(doc, 0, NULL);
    yyjson_mut_doc_free(doc);
    return body;
}

static int post_job(const struct ctl_line *line, const struct ctl_bulk *bulk, bool dry_run,
                    struct ctl_answer *answer)
{
    char *body = job_body(line, bulk, dry_run);
    int code = body ? ctl_api_call(line, "POST", "/v1/jobs", NULL, body, answer) : CTL_FAILED;
    free(body);
    return code;
}

/* ---- before ------------------------------------------------------------------------------------
 */

/* "3 of 10 cannot be delivered now: circuit_open (3)", if any cannot. */
static void put_forecast(FILE *out, yyjson_val *forecast)
{
    size_t i, count;
    yyjson_val *one, *obstacles = yyjson_obj_get(forecast, "obstacles");
    if (yyjson_arr_size(obstacles) == 0)
        return;
    fprintf(out, "%.0f of %.0f cannot be delivered now: ",
            ctl_number(forecast, "count") - ctl_number(forecast, "deliverable"),
            ctl_number(forecast, "count"));
    yyjson_arr_foreach(obstacles, i, count, one)
    {
        fputs(i ? ", " : "", out);
        ctl_put(out, ctl_text(one, "code"), 0);
        fprintf(out, " (%.0f)", ctl_number(one, "count"));
    }
    fputc('\n', out);
}

static void show_forecast(const struct ctl_line *line, yyjson_val *forecast)
{
    if (yyjson_arr_size(yyjson_obj_get(forecast, "items")) > 0)
        ctl_show_handoffs(line, forecast);
    put_forecast(stdout, forecast);
}

/* Of those that are shown, which have what in the way. */
static int show_obstacles(const struct ctl_line *line, const struct ctl_bulk *bulk,
                          yyjson_val *forecast)
{
    size_t i, count;
    yyjson_val *handoff;
    int code = CTL_OK;
    if (yyjson_arr_size(yyjson_obj_get(forecast, "obstacles")) == 0)
        return CTL_OK;
    yyjson_arr_foreach(yyjson_obj_get(forecast, "items"), i, count, handoff)
    {
        if (code == CTL_OK)
            code = ctl_put_obstacles(line, stdout, ctl_text(handoff, "id"),
                                     bulk->to ? ctl_value(line, bulk->to) : NULL);
    }
    return code;
}

static int show_preview(const struct ctl_line *line, const struct ctl_bulk *bulk,
                        const struct ctl_answer *answer, yyjson_val *forecast)
{
    const bool reads = line->format == CTL_TABLE || line->format == CTL_WIDE;
    const size_t shown = yyjson_arr_size(yyjson_obj_get(forecast, "items"));
    int code = ctl_show(line, answer, show_forecast);
    if (code == CTL_OK && reads)
        code = show_obstacles(line, bulk, forecast);
    if ((double)shown < ctl_number(forecast, "count"))
        fprintf(stderr,
                "handoffctl %s: the first %zu of %.0f are shown; handoffctl parked list has all\n",
                line->command->name, shown, ctl_number(forecast, "count"));
    if (reads)
        printf("%.0f would be %s\n", ctl_number(forecast, "count"),
               ctl_job_verb(bulk->action == HANDOFF_ACTION_DISCARD));
    return code;
}

/* With --dry-run all of it; otherwise only a warning, before anything is decided. */
static int preview(const struct ctl_line *line, const struct ctl_bulk *bulk)
{
    struct ctl_answer answer = {0};
    int code = post_job(line, bulk, true, &answer);
    yyjson_doc *doc = code == CTL_OK ? yyjson_read(answer.body, answer.size, 0) : NULL;
    if (doc && ctl_flag(line, "dry-run"))
        code = show_preview(line, bulk, &answer, yyjson_doc_get_root(doc));
    else
        put_forecast(stderr, yyjson_doc_get_root(doc));
    yyjson_doc_free(doc);
    ctl_answer_free(&answer);
    return code;
}

/* ---- the job -----------------------------------------------------------------------------------
 */

static void say_that_it_continues(const struct ctl_line *line, const char *id)
{
    if (!ctl_on_terminal(stderr))
        return;
    fprintf(stderr, "handoffctl %s: job ", line->command->name);
    ctl_put(stderr, id, 0);
    fputs("; it continues if this is interrupted\n", stderr);
}

static int run_job(const struct ctl_line *line, const struct ctl_bulk *bulk)
{
    struct ctl_answer answer = {0};
    int code = post_job(line, bulk, false, &answer);
    yyjson_doc *doc = code == CTL_OK ? yyjson_read(answer.body, answer.size, 0) : NULL;
    const char *id = ctl_text(yyjson_doc_get_root(doc), "id");
    if (*id) {
        say_that_it_continues(line, id);
        code = ctl_job_follow_through(line, id);
    } else if (code == CTL_OK) {
        code = CTL_FAILED;
    }
    yyjson_doc_free(doc);
    ctl_answer_free(&answer);
    return code;
}

int ctl_bulk(const struct ctl_line *line, const struct ctl_bulk *bulk)
{
    int code = preview(line, bulk);
    return code == CTL_OK && !ctl_flag(line, "dry-run") ? run_job(line, bulk) : code;
}
