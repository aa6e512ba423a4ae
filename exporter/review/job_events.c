/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress of a bulk job as server-sent events, for the page's script. Each answer is one
 * event: it comes when the job is no longer as the last event said, or after a few seconds. The
 * browser then asks again, with the last event's id. So nothing is sent piece by piece, and an end
 * of the process waits for no page.
 *
 * On the loop of the request.
 */
#include "exporter/review/job_events.h"

#include <inttypes.h>
#include <string.h>

#include "exporter/review/frame.h"
#include "lib/base/clock.h"
#include "lib/base/units.h"

enum {
    LOOK_MS = 200,     /* a bar that moves */
    LONGEST_MS = 5000, /* far below what a proxy cuts */
    AGAIN_MS = 50,     /* before the browser asks again */
    EVENT_ID_SIZE = 48,
};

bool review_job_is(yyjson_val *job, enum handoff_run_state state)
{
    return strcmp(review_string(job, "state"), handoff_run_state_name(state)) == 0;
}

/* How long the rest takes at its rate. */
static void write_time_left(FILE *out, yyjson_val *job)
{
    struct base_printed left;
    const int64_t rest = review_number(job, "total") - review_number(job, "done");
    const int64_t rate = review_number(job, "rate");
    if (review_job_is(job, HANDOFF_RUN_RUNNING) && rate > 0 && rest > 0)
        fprintf(out, ", about %s left", base_age_print(&left, rest * 1000 / rate));
}

void review_write_job_progress(FILE *out, yyjson_val *job)
{
    fprintf(out, "%" PRId64 " of %" PRId64 " done", review_number(job, "done"),
            review_number(job, "total"));
    write_time_left(out, job);
    fprintf(out, ": %" PRId64 " succeeded, %" PRId64 " skipped, %" PRId64 " failed.",
            review_number(job, "succeeded"), review_number(job, "skipped"),
            review_number(job, "failed"));
}

/* ---- the event -------------------------------------------------------------------------------
 */

static void name_event(char id[EVENT_ID_SIZE], yyjson_val *job)
{
    snprintf(id, EVENT_ID_SIZE, "%s-%" PRId64, review_string(job, "state"),
             review_number(job, "done"));
}

static void send_event(struct review_visit *visit, yyjson_val *job, const char *id)
{
    FILE *out = visit->out;
    fprintf(out, "retry: %d\nid: %s\ndata: {\"state\":\"%s\",\"done\":%" PRId64 ",\"text\":\"",
            AGAIN_MS, id, review_string(job, "state"), review_number(job, "done"));
    review_write_job_progress(out, job);
    fputs("\"}\n\n", out);
    review_respond_written(visit, 200, "text/event-stream");
}

static void look_at_job(struct review_visit *visit);

static void tell_news(struct review_visit *visit)
{
    const struct review_answer *answer = &visit->answers[0];
    const char *last = exporter_request_header(visit->request, "Last-Event-ID");
    char id[EVENT_ID_SIZE];
    if (answer->error.code != HANDOFF_OK) {
        review_fail(visit, &answer->error);
        return;
    }
    name_event(id, answer->root);
    if (last != NULL && strcmp(last, id) == 0 && review_job_is(answer->root, HANDOFF_RUN_RUNNING) &&
        base_monotonic_ms(&base_clock_system) < visit->look_until_ms)
        review_pause(visit, LOOK_MS, look_at_job);
    else
        send_event(visit, answer->root, id);
}

static void look_at_job(struct review_visit *visit)
{
    review_forget_answers(visit);
    handoff_job_get(visit->loop, review_id(visit), review_answered, review_ask(visit));
    review_wait(visit, tell_news);
}

void review_view_job_events(struct review_visit *visit)
{
    visit->look_until_ms = base_monotonic_ms(&base_clock_system) + LONGEST_MS;
    look_at_job(visit);
}
