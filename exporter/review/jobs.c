/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk jobs: the list of them, and one with its progress and the result of each handoff. The page
 * of a job that runs refreshes itself (job_events.c). On the loop of the request.
 */
#include <inttypes.h>
#include <string.h>

#include "exporter/review/frame.h"
#include "exporter/review/job_events.h"
#include "exporter/status/html.h"

enum { ITEMS = 100, JOBS_SHOWN = 100, DETAIL_MOST = 300 };

static void write_progress(FILE *out, yyjson_val *job)
{
    const int64_t total = review_number(job, "total"), done = review_number(job, "done");
    fprintf(out,
            "<p><progress aria-label=\"Progress\" max=\"%" PRId64 "\" value=\"%" PRId64
            "\"></progress></p>\n<p role=\"status\">",
            total > 0 ? total : 1, total > 0 ? done : 1);
    review_write_job_progress(out, job);
    fputs("</p>\n", out);
}

static void write_what_job_is(FILE *out, yyjson_val *job)
{
    review_write_text(out, review_string(job, "action"));
    if (*review_string(job, "to") != '\0') {
        fputs(" to ", out);
        review_write_text(out, review_string(job, "to"));
    }
    fputs(", by ", out);
    review_write_text(out, *review_string(job, "by") != '\0' ? review_string(job, "by")
                                                             : review_string(job, "who"));
    if (*review_string(job, "reason") != '\0') {
        fputs(": ", out);
        review_write_beginning(out, review_string(job, "reason"), DETAIL_MOST);
    }
}

/* ---- the list ------------------------------------------------------------------------------- */

static void write_job_in_list(FILE *out, yyjson_val *job)
{
    fputs("<li><p><a href=\"/review/jobs/", out);
    exporter_html_url_value(out, review_string(job, "id"));
    fputs("\">", out);
    write_what_job_is(out, job);
    fputs("</a></p>\n<p>", out);
    review_write_text(out, review_string(job, "state"));
    fprintf(out,
            ": %" PRId64 " of %" PRId64 " done, %" PRId64 " skipped, %" PRId64 " failed</p>\n"
            "<p class=\"soft\">begun ",
            review_number(job, "done"), review_number(job, "total"), review_number(job, "skipped"),
            review_number(job, "failed"));
    review_write_time(out, review_string(job, "started_at"));
    fputs("</p></li>\n", out);
}

static void write_jobs_page(struct review_visit *visit)
{
    const struct review_answer *answer = &visit->answers[0];
    size_t i, count;
    yyjson_val *job;
    if (answer->error.code != HANDOFF_OK) {
        review_fail(visit, &answer->error);
        return;
    }
    yyjson_val *items = yyjson_obj_get(answer->root, "items");
    review_begin_page(visit, "Jobs", REVIEW_TAB_JOBS);
    fputs("<section id=\"jobs\" data-refresh=\"5\">\n", visit->out);
    fputs(yyjson_arr_size(items) > 0 ? "<ul class=\"list\">\n"
                                     : "<p class=\"none\">No bulk jobs were begun.</p>\n",
          visit->out);
    yyjson_arr_foreach(items, i, count, job)
    {
        if (i < JOBS_SHOWN)
            write_job_in_list(visit->out, job);
    }
    fputs(yyjson_arr_size(items) > 0 ? "</ul>\n" : "", visit->out);
    if (yyjson_arr_size(items) > JOBS_SHOWN)
        fputs("<p>Older ones: <code>GET /v1/jobs</code>.</p>\n", visit->out);
    fputs("</section>\n", visit->out);
    review_end_page(visit, 200);
}

void review_view_jobs(struct review_visit *visit)
{
    handoff_job_list(visit->loop, review_answered, review_ask(visit));
    review_wait(visit, write_jobs_page);
}

/* ---- one job -------------------------------------------------------------------------------- */

static void write_job_item(FILE *out, yyjson_val *item)
{
    fputs("<li><p><strong>", out);
    review_write_text(out, review_string(item, "result"));
    fputs("</strong> ", out);
    review_write_handoff_link(out, review_string(item, "handoff_id"), "");
    fputs("</p>\n", out);
    if (*review_string(item, "code") != '\0') {
        fputs("<p><code>", out);
        review_write_text(out, review_string(item, "code"));
        fputs("</code> ", out);
        review_write_beginning(out, review_string(item, "detail"), DETAIL_MOST);
        fputs("</p>\n", out);
    }
    fputs("</li>\n", out);
}

static void write_result_link(FILE *out, const char *id, const char *result, const char *words)
{
    bool first = true;
    fputs("<a href=\"/review/jobs/", out);
    exporter_html_url_value(out, id);
    review_write_parameter(out, &first, "result", result);
    fprintf(out, "\">%s</a> ", words);
}

static void write_job_items(struct review_visit *visit, yyjson_val *list)
{
    const char *id = review_id(visit), *next = review_string(list, "next");
    bool first = true;
    size_t i, count;
    yyjson_val *item;
    fputs("<h2>Results</h2>\n<nav aria-label=\"Results\"><p>", visit->out);
    write_result_link(visit->out, id, NULL, "all");
    for (int fate = 0; fate < HANDOFF_FATE_COUNT; fate++)
        write_result_link(visit->out, id, handoff_fate_name((enum handoff_fate)fate),
                          handoff_fate_name((enum handoff_fate)fate));
    fputs("</p></nav>\n", visit->out);
    yyjson_val *items = yyjson_obj_get(list, "items");
    fputs(yyjson_arr_size(items) > 0 ? "<ul class=\"list\">\n" : "<p class=\"none\">None.</p>\n",
          visit->out);
    yyjson_arr_foreach(items, i, count, item)
    {
        write_job_item(visit->out, item);
    }
    fputs(yyjson_arr_size(items) > 0 ? "</ul>\n" : "", visit->out);
    if (*next == '\0')
        return;
    fputs("<nav class=\"paging\" aria-label=\"Pages of the list\"><p><a href=\"/review/jobs/",
          visit->out);
    exporter_html_url_value(visit->out, id);
    review_write_parameter(visit->out, &first, "result", review_value(visit, "result"));
    review_write_parameter(visit->out, &first, "cursor", next);
    fputs("\">Next page</a></p></nav>\n", visit->out);
}

static void write_job_button(struct review_visit *visit, const char *action, const char *words)
{
    char path[128];
    snprintf(path, sizeof path, "/review/jobs/%.36s/%s", review_id(visit), action);
    review_write_form(visit, path);
    fprintf(visit->out, "<p><button>%s</button></p></form>\n", words);
}

static void write_canary(struct review_visit *visit, yyjson_val *job)
{
    const char *canary = review_string(job, "canary_id");
    if (*canary == '\0')
        return;
    fputs("<p>It began with ", visit->out);
    review_write_handoff_link(visit->out, canary, "");
    fputs(review_job_is(job, HANDOFF_RUN_WAITING)
              ? ". See what became of it, then continue or stop.</p>\n"
              : ".</p>\n",
          visit->out);
}

static void write_job_controls(struct review_visit *visit, yyjson_val *job)
{
    fputs("<div class=\"buttons\">\n", visit->out);
    if (review_job_is(job, HANDOFF_RUN_WAITING))
        write_job_button(visit, "continue", "Continue with the rest");
    if (review_job_is(job, HANDOFF_RUN_WAITING) || review_job_is(job, HANDOFF_RUN_RUNNING))
        write_job_button(visit, "stop", "Stop");
    fputs("</div>\n", visit->out);
}

static void write_job_page(struct review_visit *visit)
{
    const struct review_answer *job = &visit->answers[0], *items = &visit->answers[1];
    if (job->error.code != HANDOFF_OK || items->error.code != HANDOFF_OK) {
        review_fail(visit, job->error.code != HANDOFF_OK ? &job->error : &items->error);
        return;
    }
    review_begin_page(visit, "Job", REVIEW_TAB_JOBS);
    fputs("<section id=\"job\"", visit->out);
    if (review_job_is(job->root, HANDOFF_RUN_RUNNING))
        fprintf(visit->out, " data-refresh=\"5\" data-events=\"/review/jobs/%.36s/events\"",
                review_string(job->root, "id"));
    fputs(">\n<p>", visit->out);
    write_what_job_is(visit->out, job->root);
    fputs(".</p>\n<p>State: <strong>", visit->out);
    review_write_text(visit->out, review_string(job->root, "state"));
    fputs("</strong></p>\n", visit->out);
    write_progress(visit->out, job->root);
    write_canary(visit, job->root);
    write_job_controls(visit, job->root);
    write_job_items(visit, items->root);
    fputs("</section>\n", visit->out);
    review_end_page(visit, 200);
}

void review_view_job(struct review_visit *visit)
{
    struct handoff_call_input input;
    struct handoff_error error;
    if (review_read_input(visit, &handoff_calls[HANDOFF_CALL_list_job_items], &input, &error) !=
        HANDOFF_OK) {
        review_fail(visit, &error);
        return;
    }
    input.job_items.limit = ITEMS;
    handoff_job_get(visit->loop, input.id, review_answered, review_ask(visit));
    handoff_job_items(visit->loop, input.id, &input.job_items, review_answered, review_ask(visit));
    review_wait(visit, write_job_page);
}

static void show_turned_job(struct review_visit *visit)
{
    char path[96];
    if (visit->answers[0].error.code != HANDOFF_OK) {
        review_fail(visit, &visit->answers[0].error);
        return;
    }
    snprintf(path, sizeof path, "/review/jobs/%.36s", review_string(visit->answers[0].root, "id"));
    review_redirect(visit, path, NULL);
}

void review_view_continue_job(struct review_visit *visit)
{
    handoff_job_continue(visit->loop, review_id(visit), review_answered, review_ask(visit));
    review_wait(visit, show_turned_job);
}

void review_view_stop_job(struct review_visit *visit)
{
    handoff_job_stop(visit->loop, review_id(visit), review_answered, review_ask(visit));
    review_wait(visit, show_turned_job);
}
