/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is parked, and beside it what has expired, as lists: a row says what the handoff was about,
 * between whom, and what went wrong. On the loop of the request.
 */
#include "exporter/review/list.h"

#include <inttypes.h>
#include <string.h>

#include "exporter/http/problem.h"
#include "exporter/review/bulk.h"
#include "exporter/review/filters.h"
#include "exporter/review/frame.h"

enum { ROWS = 50, SUMMARY_MOST = 160, ERROR_MOST = 240 };

/* ---- rows ----------------------------------------------------------------------------------- */

static void write_cell(FILE *out, const char *label)
{
    fprintf(out, "<td role=\"cell\" data-label=\"%s\"><span>", label);
}

static void write_why_stopped(FILE *out, yyjson_val *handoff)
{
    write_cell(out, "Why");
    review_write_beginning(out, review_string(handoff, "reason"), ERROR_MOST);
    if (*review_string(handoff, "error") != '\0') {
        fputs("<small>", out);
        review_write_beginning(out, review_string(handoff, "error"), ERROR_MOST);
        fputs("</small>", out);
    }
    fputs("</span></td>\n", out);
}

static void write_agents_cell(FILE *out, yyjson_val *handoff)
{
    write_cell(out, "Agents");
    review_write_text(out, review_string(handoff, "source_agent"));
    fputs(" <span aria-label=\"to\">\u2192</span> ", out);
    review_write_text(out, review_string(handoff, "target_agent"));
    fputs("</span></td>\n", out);
}

static void write_task_cell(FILE *out, yyjson_val *handoff)
{
    write_cell(out, "Task");
    review_write_beginning(out, review_string(handoff, "task_id"), 64);
    fputs("</span></td>\n", out);
}

static void write_row(FILE *out, yyjson_val *handoff)
{
    fputs("<tr role=\"row\"><th role=\"rowheader\" scope=\"row\">", out);
    review_write_handoff_link(out, review_string(handoff, "id"), review_string(handoff, "summary"));
    fputs("</th>\n", out);
    write_agents_cell(out, handoff);
    write_why_stopped(out, handoff);
    write_task_cell(out, handoff);
    write_cell(out, "Since");
    review_write_time(out, review_string(handoff, "settled_at"));
    const int64_t attempts = review_number(handoff, "attempts");
    const int64_t replays = review_number(handoff, "replays");
    fprintf(out, "<small>%" PRId64 " attempt%s, %" PRId64 " replay%s</small></span></td></tr>\n",
            attempts, attempts == 1 ? "" : "s", replays, replays == 1 ? "" : "s");
}

void review_write_handoffs(FILE *out, yyjson_val *items, const char *caption)
{
    size_t i, count;
    yyjson_val *handoff;
    fprintf(out,
            "<table class=\"list\" role=\"table\"><caption>%s</caption>\n"
            "<thead role=\"rowgroup\"><tr role=\"row\">",
            caption);
    static const char *const heads[] = {"What it is about", "Agents", "Why", "Task", "Since"};
    for (i = 0; i < sizeof heads / sizeof *heads; i++)
        fprintf(out, "<th role=\"columnheader\" scope=\"col\">%s</th>", heads[i]);
    fputs("</tr></thead>\n<tbody role=\"rowgroup\">\n", out);
    yyjson_arr_foreach(items, i, count, handoff)
    {
        write_row(out, handoff);
    }
    fputs("</tbody></table>\n", out);
}

/* ---- the lists ------------------------------------------------------------------------------ */

/* What a list is: one is shown as the other. */
struct list_view {
    const struct handoff_call *call;
    const char *path, *title, *caption, *none;
    enum review_tab tab;
};

static void write_list(struct review_visit *visit, const struct list_view *view)
{
    const struct review_answer *answer = &visit->answers[0];
    FILE *out = visit->out;
    review_begin_page(visit, view->title, view->tab);
    if (answer->error.code != HANDOFF_OK)
        review_write_error(out, &answer->error);
    review_write_filters(visit, view->call, view->path);
    yyjson_val *items = yyjson_obj_get(answer->root, "items");
    fputs("<section id=\"list\" data-refresh=\"10\">\n", out);
    if (yyjson_arr_size(items) > 0)
        review_write_handoffs(out, items, view->caption);
    else if (answer->error.code == HANDOFF_OK)
        fprintf(out, "<p class=\"none\">%s</p>\n", view->none);
    review_write_paging(visit, view->call, view->path, answer->root);
    fputs("</section>\n", out);
    if (view->tab == REVIEW_TAB_PARKED && yyjson_arr_size(items) > 0)
        review_write_bulk_form(visit);
    const struct exporter_problem problem = {.code = answer->error.code};
    review_end_page(visit,
                    answer->error.code == HANDOFF_OK ? 200 : exporter_problem_status(&problem));
}

static void write_parked(struct review_visit *visit)
{
    static const struct list_view view = {
        .call = &handoff_calls[HANDOFF_CALL_list_parked],
        .path = "/review",
        .title = "Parked",
        .caption = "Handoffs that wait for a decision",
        .none = "Nothing is parked, or nothing that the filter finds.",
        .tab = REVIEW_TAB_PARKED,
    };
    write_list(visit, &view);
}

static void write_expired(struct review_visit *visit)
{
    static const struct list_view view = {
        .call = &handoff_calls[HANDOFF_CALL_list_handoffs],
        .path = "/review/expired",
        .title = "Expired",
        .caption = "Handoffs whose deadline passed; an edit with a later deadline revives the work",
        .none = "Nothing has expired, or nothing that the filter finds.",
        .tab = REVIEW_TAB_EXPIRED,
    };
    write_list(visit, &view);
}

void review_view_list(struct review_visit *visit)
{
    struct handoff_call_input input;
    struct handoff_error error;
    if (review_read_input(visit, &handoff_calls[HANDOFF_CALL_list_parked], &input, &error) !=
        HANDOFF_OK) {
        review_fail(visit, &error);
        return;
    }
    input.parked.limit = ROWS;
    handoff_parked(visit->loop, &input.parked, review_answered, review_ask(visit));
    review_wait(visit, write_parked);
}

void review_view_expired(struct review_visit *visit)
{
    struct handoff_call_input input;
    struct handoff_error error;
    if (review_read_input(visit, &handoff_calls[HANDOFF_CALL_list_handoffs], &input, &error) !=
        HANDOFF_OK) {
        review_fail(visit, &error);
        return;
    }
    input.find.limit = ROWS;
    input.find.state = handoff_state_name(HANDOFF_STATE_EXPIRED);
    handoff_find(visit->loop, &input.find, review_answered, review_ask(visit));
    review_wait(visit, write_expired);
}
