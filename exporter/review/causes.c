/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is parked, grouped by its cause: the agent, the reason and the last error. A group leads to
 * its list, where it can be decided about as a whole. On the loop of the request.
 */
#include <inttypes.h>
#include <string.h>

#include "exporter/review/filters.h"
#include "exporter/review/frame.h"

enum { CAUSES = 50, CAUSE_MOST = 300 };

static void write_cause_link(FILE *out, yyjson_val *cause)
{
    bool first = true;
    fputs("<a href=\"/review", out);
    review_write_parameter(out, &first, "target", review_string(cause, "target_agent"));
    review_write_parameter(out, &first, "reason", review_string(cause, "reason"));
    review_write_parameter(out, &first, "error", review_string(cause, "error"));
    fputs("\">", out);
}

/* No filter finds those without an error only. The list of a group without one may have more
 * members than the group, so its link does not pass for the group's. */
static void write_cause_count(FILE *out, yyjson_val *cause)
{
    const bool has_error = *review_string(cause, "error") != '\0';
    if (has_error)
        write_cause_link(out, cause);
    fprintf(out, "%" PRId64 " parked%s", review_number(cause, "count"), has_error ? "</a>" : "");
}

static void write_cause_error(FILE *out, yyjson_val *cause)
{
    const char *error = review_string(cause, "error");
    if (*error != '\0') {
        review_write_beginning(out, error, CAUSE_MOST);
        return;
    }
    fputs("No attempt failed. ", out);
    write_cause_link(out, cause);
    fputs("All of this agent and reason</a>, also those whose attempts failed.", out);
}

static void write_cause_item(FILE *out, yyjson_val *cause)
{
    fputs("<li><p><strong>", out);
    write_cause_count(out, cause);
    fputs("</strong> for ", out);
    review_write_text(out, review_string(cause, "target_agent"));
    fputs(": ", out);
    review_write_beginning(out, review_string(cause, "reason"), CAUSE_MOST);
    fputs("</p>\n<p>", out);
    write_cause_error(out, cause);
    fputs("</p>\n<p class=\"soft\">", out);
    review_write_time(out, review_string(cause, "oldest_at"));
    fputs(" to ", out);
    review_write_time(out, review_string(cause, "newest_at"));
    fputs(", such as ", out);
    review_write_handoff_link(out, review_string(cause, "example_id"), "");
    fputs("</p></li>\n", out);
}

static void write_causes_page(struct review_visit *visit)
{
    const struct review_answer *answer = &visit->answers[0];
    const struct handoff_call *call = &handoff_calls[HANDOFF_CALL_group_parked];
    size_t i, count;
    yyjson_val *cause;
    if (answer->error.code != HANDOFF_OK) {
        review_fail(visit, &answer->error);
        return;
    }
    review_begin_page(visit, "Causes", REVIEW_TAB_CAUSES);
    review_write_filters(visit, call, "/review/causes");
    fputs("<section id=\"causes\" data-refresh=\"10\">\n", visit->out);
    yyjson_val *items = yyjson_obj_get(answer->root, "items");
    if (yyjson_arr_size(items) == 0)
        fputs("<p class=\"none\">Nothing is parked, or nothing that the filter finds.</p>\n",
              visit->out);
    else
        fprintf(visit->out, "<p>%" PRId64 " handoffs, by cause.</p>\n<ul class=\"list\">\n",
                review_number(answer->root, "total"));
    yyjson_arr_foreach(items, i, count, cause)
    {
        write_cause_item(visit->out, cause);
    }
    fputs(yyjson_arr_size(items) > 0 ? "</ul>\n" : "", visit->out);
    review_write_paging(visit, call, "/review/causes", answer->root);
    fputs("</section>\n", visit->out);
    review_end_page(visit, 200);
}

void review_view_causes(struct review_visit *visit)
{
    struct handoff_call_input input;
    struct handoff_error error;
    if (review_read_input(visit, &handoff_calls[HANDOFF_CALL_group_parked], &input, &error) !=
        HANDOFF_OK) {
        review_fail(visit, &error);
        return;
    }
    input.parked.limit = CAUSES;
    handoff_parked_groups(visit->loop, &input.parked, review_answered, review_ask(visit));
    review_wait(visit, write_causes_page);
}
