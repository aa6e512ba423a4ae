/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bulk job of the sidecar; see job.h. The job belongs to the sidecar, which keeps its rate, and
 * continues it when this program is interrupted and after a restart; this only polls. One thread.
 */
#include "ctl/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/handoff.h"
#include "ctl/document.h"
#include "ctl/follow.h"
#include "ctl/progress.h"
#include "ctl/show.h"
#include "ctl/text.h"

enum {
    POLL_FIRST_MS = 20,
    POLL_MAX_MS = 250, /* a progress line that moves */
    LOST_MAX = 120,    /* failed polls in a row, half a minute, before we give up */
};

struct job {
    const struct ctl_line *line;
    char id[40];
    yyjson_doc *doc; /* as it was polled last */
    yyjson_val *now; /* its root */
};

/* ---- what it is --------------------------------------------------------------------------------
 */

static bool job_is(yyjson_val *job, enum handoff_run_state state)
{
    return strcmp(ctl_text(job, "state"), handoff_run_state_name(state)) == 0;
}

static bool is_discarding(yyjson_val *job)
{
    return strcmp(ctl_text(job, "action"), handoff_action_name(HANDOFF_ACTION_DISCARD)) == 0;
}

const char *ctl_job_verb(bool discards)
{
    return discards ? handoff_state_name(HANDOFF_STATE_DISCARDED) : "replayed";
}

static const char *verb_of(yyjson_val *job)
{
    return ctl_job_verb(is_discarding(job));
}

void ctl_show_job(const struct ctl_line *line, yyjson_val *job)
{
    (void)line;
    printf("%.0f %s, %.0f skipped", ctl_number(job, "succeeded"), verb_of(job),
           ctl_number(job, "skipped"));
    if (ctl_number(job, "failed") > 0)
        printf(", %.0f failed", ctl_number(job, "failed"));
    if (!job_is(job, HANDOFF_RUN_DONE)) {
        printf(", %.0f still parked; ", ctl_number(job, "total") - ctl_number(job, "done"));
        ctl_put(stdout, ctl_text(job, "state"), 0);
    }
    putchar('\n');
}

/* ---- polling -----------------------------------------------------------------------------------
 */

static void pause_for(long ms)
{
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static int take_job(struct job *job, const struct ctl_answer *answer)
{
    yyjson_doc *doc = answer->body ? yyjson_read(answer->body, answer->size, 0) : NULL;
    if (!doc)
        return CTL_FAILED;
    yyjson_doc_free(job->doc);
    job->doc = doc;
    job->now = yyjson_doc_get_root(doc);
    return CTL_OK;
}

static int call_job(struct job *job, const char *method, const char *verb, bool quiet)
{
    struct ctl_answer answer = {0};
    char *path = ctl_api_path("/v1/jobs/", job->id, verb);
    const struct ctl_call call = {.method = method, .path = path, .quiet = quiet};
    int code = path ? ctl_api_exchange(job->line, &call, &answer) : CTL_FAILED;
    if (code == CTL_OK)
        code = ctl_api_check_answer(job->line, &answer);
    if (code == CTL_OK)
        code = take_job(job, &answer);
    ctl_answer_free(&answer);
    free(path);
    return code;
}

static void draw_progress(const struct ctl_progress *progress, yyjson_val *job)
{
    ctl_progress_draw(progress, (size_t)ctl_number(job, "done"), (size_t)ctl_number(job, "total"));
}

/* Until it no longer runs. */
static int wait_for_run(struct job *job)
{
    long pause = POLL_FIRST_MS;
    int code = CTL_OK, lost = 0;
    const struct ctl_progress progress =
        ctl_progress_begin(verb_of(job->now), (size_t)ctl_number(job->now, "done"),
                           (size_t)ctl_number(job->now, "total"));
    while (job_is(job->now, HANDOFF_RUN_RUNNING) &&
           (code == CTL_OK || (code == CTL_UNREACHABLE && lost < LOST_MAX))) {
        pause_for(pause);
        pause = pause * 2 < POLL_MAX_MS ? pause * 2 : POLL_MAX_MS;
        code = call_job(job, "GET", "", lost > 0);
        lost = code == CTL_OK ? 0 : lost + 1;
        draw_progress(&progress, job->now);
    }
    ctl_progress_end();
    return code;
}

/* ---- what is left ------------------------------------------------------------------------------
 */

static void report_item(const struct ctl_line *line, yyjson_val *item)
{
    const char *why = ctl_text(item, "detail");
    fprintf(stderr, "handoffctl %s: ", line->command->name);
    ctl_put(stderr, ctl_text(item, "result"), 0);
    fputc(' ', stderr);
    ctl_put(stderr, ctl_text(item, "handoff_id"), 0);
    fputs(": ", stderr);
    ctl_put(stderr, *why ? why : ctl_text(item, "code"), 0);
    fputc('\n', stderr);
}

/* Leaves in *cursor, which is freed, where the next page begins; NULL: it was the last. */
static void report_page(const struct ctl_line *line, yyjson_val *page, char **cursor)
{
    size_t i, count;
    yyjson_val *item;
    const char *next = ctl_text(page, "next");
    yyjson_arr_foreach(yyjson_obj_get(page, "items"), i, count, item)
    {
        report_item(line, item);
    }
    free(*cursor);
    *cursor = *next ? strdup(next) : NULL;
}

static int report_fate(const struct ctl_line *line, yyjson_val *job, enum handoff_fate fate)
{
    char *cursor = NULL;
    int code;
    do {
        struct ctl_answer answer = {0};
        char *path = ctl_api_path("/v1/jobs/", ctl_text(job, "id"), "/items?limit=1000");
        ctl_api_add_query(&path, "result", handoff_fate_name(fate));
        ctl_api_add_query(&path, "cursor", cursor);
        code = ctl_api_call(line, "GET", path, NULL, NULL, &answer);
        yyjson_doc *page = code == CTL_OK ? yyjson_read(answer.body, answer.size, 0) : NULL;
        report_page(line, yyjson_doc_get_root(page), &cursor);
        yyjson_doc_free(page);
        ctl_answer_free(&answer);
        free(path);
    } while (cursor);
    return code;
}

int ctl_job_report_left(const struct ctl_line *line, yyjson_val *job)
{
    int code = CTL_OK;
    if (ctl_number(job, "skipped") + ctl_number(job, "failed") <= 0)
        return CTL_OK;
    if (ctl_number(job, "skipped") > 0)
        code = report_fate(line, job, HANDOFF_FATE_SKIPPED);
    if (code == CTL_OK && ctl_number(job, "failed") > 0)
        code = report_fate(line, job, HANDOFF_FATE_FAILED);
    return code == CTL_OK ? CTL_FAILED : code;
}

/* ---- the canary --------------------------------------------------------------------------------
 */

/* The others follow the one that its agent has acknowledged. */
static int judge_canary(struct job *job)
{
    const int acknowledged = ctl_follow_canary(job->line, ctl_text(job->now, "canary_id"));
    int code = call_job(job, acknowledged == CTL_OK ? "POST" : "DELETE",
                        acknowledged == CTL_OK ? "/continue" : "", false);
    if (acknowledged != CTL_OK)
        fprintf(stderr, "handoffctl %s: the canary failed; the others are still parked\n",
                job->line->command->name);
    return code == CTL_OK ? acknowledged : code;
}

/* ---- to its end --------------------------------------------------------------------------------
 */

/* What is printed at the end: the job, and what it left. */
static int show_end(struct job *job, int code)
{
    yyjson_mut_doc *shown = yyjson_doc_mut_copy(job->doc, NULL);
    const int printed = ctl_show_built(job->line, shown, ctl_show_job);
    const int left = ctl_job_report_left(job->line, job->now);
    yyjson_mut_doc_free(shown);
    if (job_is(job->now, HANDOFF_RUN_WAITING))
        fprintf(stderr, "handoffctl %s: it waits after its canary: handoffctl jobs continue %s\n",
                job->line->command->name, job->id);
    if (code != CTL_OK || printed != CTL_OK)
        return code != CTL_OK ? code : printed;
    return left == CTL_OK && job_is(job->now, HANDOFF_RUN_STOPPED) ? CTL_FAILED : left;
}

static int follow_run(struct job *job, bool judges)
{
    int code = wait_for_run(job);
    if (code != CTL_OK || !judges || !job_is(job->now, HANDOFF_RUN_WAITING) ||
        is_discarding(job->now))
        return code;
    code = judge_canary(job);
    return code == CTL_OK ? wait_for_run(job) : code;
}

static int follow_job(const struct ctl_line *line, const char *id, bool judges)
{
    struct job job = {.line = line};
    snprintf(job.id, sizeof job.id, "%s", id);
    int code = call_job(&job, "GET", "", false);
    if (code == CTL_OK)
        code = follow_run(&job, judges);
    if (code == CTL_UNREACHABLE)
        fprintf(stderr,
                "handoffctl %s: the job continues with the sidecar: handoffctl jobs watch %s\n",
                line->command->name, job.id);
    else if (job.doc)
        code = show_end(&job, code);
    yyjson_doc_free(job.doc);
    return code;
}

int ctl_job_follow(const struct ctl_line *line, const char *id)
{
    return follow_job(line, id, false);
}

int ctl_job_follow_through(const struct ctl_line *line, const char *id)
{
    return follow_job(line, id, true);
}
