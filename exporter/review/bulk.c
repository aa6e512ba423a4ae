/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions about many: a form below a list, a preview of what the job would be about and of what
 * is in the way, and the job itself. The preview is a dry run of the same call. It sets the end of
 * the filter to its own time, so that what is parked after it is not decided about unseen.
 *
 * On the loop of the request.
 */
#include "exporter/review/bulk.h"

#include <inttypes.h>
#include <string.h>

#include "exporter/http/problem.h"
#include "exporter/review/filters.h"
#include "exporter/review/frame.h"
#include "exporter/review/list.h"
#include "lib/base/clock.h"
#include "lib/base/rfc3339.h"

static const struct handoff_call *const begin_call = &handoff_calls[HANDOFF_CALL_begin_job];

void review_write_bulk_form(struct review_visit *visit)
{
    fputs("<section aria-labelledby=\"bulk-head\"><h2 id=\"bulk-head\">Decide about all of "
          "them</h2>\n",
          visit->out);
    fputs(review_has_filters(visit, &handoff_calls[HANDOFF_CALL_list_parked])
              ? "<p>All that the filter finds, on every page.</p>\n"
              : "<p>All that is parked, on every page: no filter is set.</p>\n",
          visit->out);
    review_write_form(visit, "/review/jobs");
    review_write_hidden_filters(visit);
    fputs("<div class=\"fields\"><p class=\"field\"><label for=\"bulk-action\">Action</label>"
          "<select id=\"bulk-action\" name=\"action\"><option value=\"replay\">replay</option>"
          "<option value=\"discard\">discard</option></select></p>\n",
          visit->out);
    review_write_agents(visit, "bulk-to", "to", "Replay to", NULL, "each to its own agent");
    fputs("</div>\n<p><button name=\"phase\" value=\"preview\">Preview</button></p></form>"
          "</section>\n",
          visit->out);
}

/* ---- the preview ---------------------------------------------------------------------------- */

static void write_obstacle_counts(FILE *out, yyjson_val *obstacles)
{
    size_t i, count;
    yyjson_val *one;
    if (yyjson_arr_size(obstacles) == 0)
        return;
    fputs("<p>In the way of the others:</p>\n<ul>\n", out);
    yyjson_arr_foreach(obstacles, i, count, one)
    {
        fprintf(out, "<li>%" PRId64 ": <code>", review_number(one, "count"));
        review_write_text(out, review_string(one, "code"));
        fputs("</code></li>\n", out);
    }
    fputs("</ul>\n", out);
}

static void write_forecast_verdict(struct review_visit *visit, yyjson_val *forecast, bool delivers)
{
    const int64_t count = review_number(forecast, "count");
    const int64_t deliverable = review_number(forecast, "deliverable");
    fprintf(visit->out,
            "<section class=\"verdict %s\" role=\"status\"><p><strong>%" PRId64
            " handoffs</strong>",
            delivers && deliverable < count ? "attention" : "ok", count);
    if (delivers)
        fprintf(visit->out, ", of which %" PRId64 " would be delivered now", deliverable);
    fputs(".</p>\n", visit->out);
    write_obstacle_counts(visit->out, yyjson_obj_get(forecast, "obstacles"));
    fputs("</section>\n", visit->out);
}

static void write_begin_form(struct review_visit *visit, bool discards)
{
    FILE *out = visit->out;
    review_write_form(visit, "/review/jobs");
    review_write_hidden_filters(visit);
    review_write_hidden(out, "action", review_value(visit, "action"));
    review_write_hidden(out, "to", review_value(visit, "to"));
    fputs("<div class=\"fields\">\n", out);
    review_write_why(visit, "job", discards);
    review_write_input(out, "rate", "rate", "At most so many a second",
                       review_value(visit, "rate") != NULL ? review_value(visit, "rate") : "10",
                       "type=\"number\" min=\"1\" max=\"1000\"");
    review_write_input(out, "limit", "limit", "At most so many in all",
                       review_value(visit, "limit"), "type=\"number\" min=\"1\"");
    fprintf(out,
            "</div>\n<p><input type=\"checkbox\" id=\"canary\" name=\"canary\" value=\"true\"%s> "
            "<label for=\"canary\">Begin with one, and wait for my word after it</label></p>\n"
            "<p><button name=\"phase\" value=\"begin\"%s>%s</button> "
            "<a href=\"/review\">Leave it</a></p></form>\n",
            discards ? "" : " checked", discards ? " class=\"danger\"" : "",
            discards ? "Discard" : "Replay");
}

static void write_preview(struct review_visit *visit)
{
    const struct review_answer *answer = &visit->answers[0];
    const char *to = review_value(visit, "to");
    const bool discards =
        strcmp(review_value(visit, "action"), handoff_action_name(HANDOFF_ACTION_DISCARD)) == 0;
    if (answer->error.code != HANDOFF_OK) {
        review_fail(visit, &answer->error);
        return;
    }
    review_begin_page(visit, discards ? "Discard many" : "Replay many", REVIEW_TAB_PARKED);
    if (to != NULL) {
        fputs("<p>To the agent ", visit->out);
        review_write_text(visit->out, to);
        fputs(".</p>\n", visit->out);
    }
    write_forecast_verdict(visit, answer->root, !discards);
    fputs("<p>Only what was parked before ", visit->out);
    review_write_time(visit->out, review_value(visit, "filter.until"));
    fputs(".</p>\n", visit->out);
    if (review_number(answer->root, "count") > 0) {
        write_begin_form(visit, discards);
        review_write_handoffs(visit->out, yyjson_obj_get(answer->root, "items"),
                              "The first of them");
    }
    review_end_page(visit, 200);
}

/* ---- beginning ------------------------------------------------------------------------------ */

static void show_begun_job(struct review_visit *visit)
{
    const struct review_answer *answer = &visit->answers[0];
    char path[96];
    if (answer->error.code != HANDOFF_OK) {
        review_fail(visit, &answer->error);
        return;
    }
    snprintf(path, sizeof path, "/review/jobs/%.36s", review_string(answer->root, "id"));
    review_redirect(visit, path, NULL);
}

static enum handoff_code end_filter_now(struct review_visit *visit, struct handoff_error *error)
{
    char now[BASE_RFC3339_SIZE];
    if (review_value(visit, "filter.until") != NULL)
        return HANDOFF_OK;
    base_rfc3339_format(base_wall_ms(&base_clock_system), now);
    const char *until = base_arena_strdup(&visit->arena, now);
    if (until != NULL && review_put_value(visit, "filter.until", until))
        return HANDOFF_OK;
    *error = (struct handoff_error){.code = HANDOFF_ERR_OUT_OF_MEMORY,
                                    .message = "out of memory (form)"};
    return HANDOFF_ERR_OUT_OF_MEMORY;
}

void review_view_begin_job(struct review_visit *visit)
{
    struct handoff_call_input input;
    struct handoff_error error;
    const char *phase = review_value(visit, "phase");
    const bool begins = phase != NULL && strcmp(phase, "begin") == 0;
    if ((!begins && end_filter_now(visit, &error) != HANDOFF_OK) ||
        review_read_input(visit, begin_call, &input, &error) != HANDOFF_OK) {
        review_fail(visit, &error);
        return;
    }
    struct handoff_job_query query = {.action = input.job.action,
                                      .filter = input.job.filter,
                                      .to = input.job.to,
                                      .author = review_author(visit, input.job.reason),
                                      .limit = input.job.limit,
                                      .rate = input.job.rate,
                                      .canary = input.job.canary,
                                      .dry_run = !begins};
    if (!begins && query.author.reason == NULL)
        query.author.reason = "preview"; /* nothing is decided by it */
    handoff_job_begin(visit->loop, &query, review_answered, review_ask(visit));
    review_wait(visit, begins ? show_begun_job : write_preview);
}
