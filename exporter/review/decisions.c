/* SPDX-License-Identifier: Apache-2.0 */
/* What was decided: who, when, what and why, newest first. On the loop of the request. */
#include "exporter/review/decisions.h"

#include <string.h>

#include "exporter/review/filters.h"
#include "exporter/review/frame.h"
#include "exporter/status/html.h"

enum { DECISIONS = 50, WHY_MOST = 500 };

static void write_who(FILE *out, yyjson_val *decision)
{
    review_write_text(out, *review_string(decision, "by") != '\0' ? review_string(decision, "by")
                                                                  : review_string(decision, "who"));
    if (*review_string(decision, "by") != '\0') {
        fputs(" (", out);
        review_write_text(out, review_string(decision, "who"));
        fputs(")", out);
    }
}

static void write_edited_fields(FILE *out, yyjson_val *decision)
{
    size_t i, count;
    yyjson_val *name;
    yyjson_arr_foreach(yyjson_obj_get(decision, "fields"), i, count, name)
    {
        fputs(i == 0 ? "; edited " : ", ", out);
        review_write_text(out, yyjson_get_str(name));
    }
}

static void write_consequences(FILE *out, yyjson_val *decision)
{
    if (*review_string(decision, "to") != '\0') {
        fputs(" to ", out);
        review_write_text(out, review_string(decision, "to"));
    }
    write_edited_fields(out, decision);
    if (*review_string(decision, "replacement_id") != '\0') {
        fputs("; replaced by ", out);
        review_write_handoff_link(out, review_string(decision, "replacement_id"), "");
    }
    if (*review_string(decision, "job_id") != '\0') {
        fputs("; <a href=\"/review/jobs/", out);
        exporter_html_url_value(out, review_string(decision, "job_id"));
        fputs("\">bulk job</a>", out);
    }
}

static void write_decision(FILE *out, yyjson_val *decision)
{
    fputs("<li><p><strong>", out);
    review_write_text(out, review_string(decision, "action"));
    fputs("</strong> by ", out);
    write_who(out, decision);
    fputs(": ", out);
    review_write_handoff_link(out, review_string(decision, "handoff_id"), "");
    write_consequences(out, decision);
    fputs("</p>\n", out);
    if (*review_string(decision, "reason") != '\0') {
        fputs("<p>", out);
        review_write_beginning(out, review_string(decision, "reason"), WHY_MOST);
        fputs("</p>\n", out);
    }
    fputs("<p class=\"soft\">", out);
    review_write_time(out, review_string(decision, "at"));
    fputs(", was with ", out);
    review_write_text(out, review_string(decision, "target_agent"));
    fputs(": ", out);
    review_write_beginning(out, review_string(decision, "cause"), WHY_MOST);
    fputs("</p></li>\n", out);
}

void review_write_decisions(FILE *out, yyjson_val *items)
{
    size_t i, count;
    yyjson_val *decision;
    if (yyjson_arr_size(items) == 0) {
        fputs("<p class=\"none\">Nothing was decided.</p>\n", out);
        return;
    }
    fputs("<ul class=\"list\">\n", out);
    yyjson_arr_foreach(items, i, count, decision)
    {
        write_decision(out, decision);
    }
    fputs("</ul>\n", out);
}

static void write_decisions_page(struct review_visit *visit)
{
    const struct review_answer *answer = &visit->answers[0];
    const struct handoff_call *call = &handoff_calls[HANDOFF_CALL_list_decisions];
    if (answer->error.code != HANDOFF_OK) {
        review_fail(visit, &answer->error);
        return;
    }
    review_begin_page(visit, "Decisions", REVIEW_TAB_DECISIONS);
    review_write_filters(visit, call, "/review/decisions");
    fputs("<section id=\"decisions\" data-refresh=\"10\">\n", visit->out);
    review_write_decisions(visit->out, yyjson_obj_get(answer->root, "items"));
    review_write_paging(visit, call, "/review/decisions", answer->root);
    fputs("</section>\n", visit->out);
    review_end_page(visit, 200);
}

void review_view_decisions(struct review_visit *visit)
{
    struct handoff_call_input input;
    struct handoff_error error;
    if (review_read_input(visit, &handoff_calls[HANDOFF_CALL_list_decisions], &input, &error) !=
        HANDOFF_OK) {
        review_fail(visit, &error);
        return;
    }
    input.decisions.limit = DECISIONS;
    handoff_decisions(visit->loop, &input.decisions, review_answered, review_ask(visit));
    review_wait(visit, write_decisions_page);
}
