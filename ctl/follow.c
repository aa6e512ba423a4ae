/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows a handoff until it is settled; see follow.h. It polls the status at growing intervals,
 * rather than holding one request open: the wait survives a restart of the sidecar as the handoff
 * does, has no time limit, and can show progress. One thread.
 */
#include "ctl/follow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl/document.h"
#include "ctl/show.h"
#include "ctl/text.h"

enum {
    POLL_FIRST_MS = 10,
    POLL_MAX_MS = 500,
    LOST_MAX = 60, /* failed polls in a row, half a minute, before we give up */
};

struct followed {
    const struct ctl_line *line;
    char *path, *attempts_path; /* of the handoff */
    bool live;
    struct ctl_answer last; /* the last status */
};

static void pause_ms(long ms)
{
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

/* ---- the live line -----------------------------------------------------------------------------
 */

static void put_last_attempt(yyjson_val *attempts)
{
    yyjson_val *last = yyjson_arr_get_last(yyjson_obj_get(attempts, "items"));
    if (!last)
        return;
    if (yyjson_is_num(yyjson_obj_get(last, "attempt")))
        fprintf(stderr, ", attempt %.0f: ", ctl_number(last, "attempt"));
    else
        fputs(", no attempt: ", stderr);
    ctl_put(stderr, ctl_text(last, "result"), 0);
    if (ctl_number(last, "status") > 0)
        fprintf(stderr, " %.0f", ctl_number(last, "status"));
    fprintf(stderr, " after %.1f s", ctl_number(last, "duration_seconds"));
}

static void draw_live_line(const struct followed *followed, yyjson_val *handoff)
{
    struct ctl_answer attempts = {0};
    const struct ctl_call call = {.method = "GET", .path = followed->attempts_path, .quiet = true};
    ctl_line_over(stderr);
    ctl_put(stderr, ctl_text(handoff, "id"), 0);
    fputc(' ', stderr);
    ctl_put_state(stderr, handoff, 0);
    fputs(" at ", stderr);
    ctl_put(stderr, ctl_text(handoff, "target_agent"), 0);
    if (ctl_api_exchange(followed->line, &call, &attempts) == CTL_OK) {
        yyjson_doc *doc = attempts.body ? yyjson_read(attempts.body, attempts.size, 0) : NULL;
        put_last_attempt(yyjson_doc_get_root(doc));
        yyjson_doc_free(doc);
    }
    ctl_answer_free(&attempts);
}

/* ---- waiting -----------------------------------------------------------------------------------
 */

/* A state that a newer daemon has and this program does not know is waited through. */
static bool is_settled(yyjson_val *handoff)
{
    const enum handoff_state state = ctl_state(handoff);
    return state != HANDOFF_STATE_NONE && !handoff_state_is_live(state);
}

/* Polls once. CTL_OK: *settled says whether the wait is over. */
static int poll_once(struct followed *followed, bool quiet, bool *settled)
{
    const struct ctl_call call = {.method = "GET", .path = followed->path, .quiet = quiet};
    struct ctl_answer answer;
    int code = ctl_api_exchange(followed->line, &call, &answer);
    if (code == CTL_OK)
        code = ctl_api_check_answer(followed->line, &answer);
    if (code != CTL_OK) {
        ctl_answer_free(&answer);
        return code;
    }
    ctl_answer_free(&followed->last);
    followed->last = answer;
    yyjson_doc *doc = yyjson_read(answer.body, answer.size, 0);
    *settled = is_settled(yyjson_doc_get_root(doc));
    if (followed->live)
        draw_live_line(followed, yyjson_doc_get_root(doc));
    yyjson_doc_free(doc);
    return CTL_OK;
}

static int wait_for_end(struct followed *followed)
{
    long pause = POLL_FIRST_MS;
    bool settled = false;
    int code = CTL_OK, lost = 0;
    while (!settled && (code == CTL_OK || (code == CTL_UNREACHABLE && lost < LOST_MAX))) {
        pause_ms(pause);
        pause = pause * 2 < POLL_MAX_MS ? pause * 2 : POLL_MAX_MS;
        code = poll_once(followed, lost > 0, &settled);
        lost = code == CTL_OK ? 0 : lost + 1;
    }
    if (followed->live)
        fputc('\n', stderr);
    return code;
}

/* ---- the end -----------------------------------------------------------------------------------
 */

static int exit_code_for(const struct followed *followed, yyjson_val *handoff)
{
    if (ctl_state(handoff) == HANDOFF_STATE_ACKNOWLEDGED)
        return CTL_OK;
    fprintf(stderr, "handoffctl %s: not acknowledged: ", followed->line->command->name);
    ctl_put_state(stderr, handoff, 0);
    fputs(", see handoffctl attempts ", stderr);
    ctl_put(stderr, ctl_text(handoff, "id"), 0);
    fputc('\n', stderr);
    return CTL_FAILED;
}

static int show_outcome(struct followed *followed)
{
    int code = ctl_show(followed->line, &followed->last, ctl_show_handoff_line);
    if (code != CTL_OK)
        return code;
    yyjson_doc *doc = yyjson_read(followed->last.body, followed->last.size, 0);
    code = exit_code_for(followed, yyjson_doc_get_root(doc));
    yyjson_doc_free(doc);
    return code;
}

/* Waits for the end; the caller frees the paths and the last status. */
static int wait_for(struct followed *followed, const char *id)
{
    followed->path = ctl_api_path("/v1/handoffs/", id, "");
    followed->attempts_path = ctl_api_path("/v1/handoffs/", id, "/attempts");
    return followed->path && followed->attempts_path ? wait_for_end(followed) : CTL_FAILED;
}

static void free_followed(struct followed *followed)
{
    ctl_answer_free(&followed->last);
    free(followed->path);
    free(followed->attempts_path);
}

int ctl_follow(const struct ctl_line *line, const char *id)
{
    struct followed followed = {.line = line, .live = ctl_on_terminal(stderr)};
    int code = wait_for(&followed, id);
    if (code == CTL_OK)
        code = show_outcome(&followed);
    free_followed(&followed);
    return code;
}

int ctl_follow_canary(const struct ctl_line *line, const char *id)
{
    struct followed followed = {.line = line, .live = ctl_on_terminal(stderr)};
    int code = wait_for(&followed, id);
    if (code == CTL_OK) {
        yyjson_doc *doc = yyjson_read(followed.last.body, followed.last.size, 0);
        code = exit_code_for(&followed, yyjson_doc_get_root(doc));
        yyjson_doc_free(doc);
    }
    free_followed(&followed);
    return code;
}
