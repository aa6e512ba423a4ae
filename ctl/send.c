/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoffctl send: hands work to an agent and waits until the handoff is settled.
 *
 * It asks the sidecar to accept the handoff and then polls its status at growing intervals, rather
 * than holding one request open: the wait survives a restart of the sidecar as the handoff does,
 * has no time limit, and can show progress. One thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ctl/request.h"
#include "ctl/show.h"

enum {
    POLL_FIRST_MS = 10,
    POLL_MAX_MS = 500,
    LOST_MAX = 60, /* failed polls in a row, half a minute, before we give up */
};

struct sending {
    const struct ctl_command *command;
    const struct ctl_api *api;
    char *path, *attempts_path; /* of the handoff */
    bool live, json;
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

static void draw_live_line(const struct sending *sending, yyjson_val *handoff)
{
    struct ctl_answer attempts = {0};
    const struct ctl_call call = {.method = "GET", .path = sending->attempts_path, .quiet = true};
    fputs("\r\033[K", stderr);
    ctl_put(stderr, ctl_text(handoff, "id"), 0);
    fputc(' ', stderr);
    ctl_put_state(stderr, handoff, 0);
    fputs(" at ", stderr);
    ctl_put(stderr, ctl_text(handoff, "target_agent"), 0);
    if (ctl_api_exchange(sending->command, sending->api, &call, &attempts) == CTL_OK) {
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
static int poll_once(struct sending *sending, bool quiet, bool *settled)
{
    const struct ctl_call call = {.method = "GET", .path = sending->path, .quiet = quiet};
    struct ctl_answer answer;
    int code = ctl_api_exchange(sending->command, sending->api, &call, &answer);
    if (code == CTL_OK)
        code = ctl_api_check_answer(sending->command, &answer);
    if (code != CTL_OK) {
        ctl_answer_free(&answer);
        return code;
    }
    ctl_answer_free(&sending->last);
    sending->last = answer;
    yyjson_doc *doc = yyjson_read(answer.body, answer.size, 0);
    *settled = is_settled(yyjson_doc_get_root(doc));
    if (sending->live)
        draw_live_line(sending, yyjson_doc_get_root(doc));
    yyjson_doc_free(doc);
    return CTL_OK;
}

static int wait_for_end(struct sending *sending)
{
    long pause = POLL_FIRST_MS;
    bool settled = false;
    int code = CTL_OK, lost = 0;
    while (!settled && (code == CTL_OK || (code == CTL_UNREACHABLE && lost < LOST_MAX))) {
        pause_ms(pause);
        pause = pause * 2 < POLL_MAX_MS ? pause * 2 : POLL_MAX_MS;
        code = poll_once(sending, lost > 0, &settled);
        lost = code == CTL_OK ? 0 : lost + 1;
    }
    if (sending->live)
        fputc('\n', stderr);
    return code;
}

/* ---- the end -----------------------------------------------------------------------------------
 */

static int exit_code_for(const struct sending *sending, yyjson_val *handoff)
{
    if (ctl_state(handoff) == HANDOFF_STATE_ACKNOWLEDGED)
        return CTL_OK;
    fprintf(stderr, "handoffctl %s: not acknowledged: ", sending->command->name);
    ctl_put_state(stderr, handoff, 0);
    fputs(", see handoffctl attempts ", stderr);
    ctl_put(stderr, ctl_text(handoff, "id"), 0);
    fputc('\n', stderr);
    return CTL_FAILED;
}

static int show_outcome(struct sending *sending)
{
    int code = ctl_show(&sending->last, sending->json, ctl_show_handoff_line);
    if (code != CTL_OK)
        return code;
    yyjson_doc *doc = yyjson_read(sending->last.body, sending->last.size, 0);
    code = exit_code_for(sending, yyjson_doc_get_root(doc));
    yyjson_doc_free(doc);
    return code;
}

static int follow_handoff(struct sending *sending, const char *id)
{
    int code = CTL_FAILED;
    sending->path = ctl_api_path("/v1/handoffs/", id, "");
    sending->attempts_path = ctl_api_path("/v1/handoffs/", id, "/attempts");
    if (sending->path && sending->attempts_path)
        code = wait_for_end(sending);
    if (code == CTL_OK)
        code = show_outcome(sending);
    free(sending->path);
    free(sending->attempts_path);
    return code;
}

/* The id of the handoff in the answer: the new one, or an earlier one with this idempotency key
 * that was not acknowledged. NULL: nothing was accepted. */
static const char *handoff_id_of(const struct ctl_answer *answer, yyjson_val *root)
{
    const char *id = answer->status / 100 == 2 ? ctl_text(root, "id")
                                               : ctl_text(yyjson_obj_get(root, "handoff"), "id");
    return *id ? id : NULL;
}

static int follow_or_show(struct sending *sending, const struct ctl_answer *answer, bool async)
{
    yyjson_doc *doc = answer->body ? yyjson_read(answer->body, answer->size, 0) : NULL;
    const char *id = handoff_id_of(answer, yyjson_doc_get_root(doc));
    int code = ctl_api_check_answer(sending->command, answer);
    if (async && code == CTL_OK)
        code = ctl_show(answer, sending->json, ctl_show_handoff_line);
    else if (!async && id)
        code = follow_handoff(sending, id);
    yyjson_doc_free(doc);
    return code;
}

int ctl_send(const struct ctl_command *command, int argc, char *const argv[])
{
    bool async = false, json = false;
    struct ctl_answer answer = {0};
    struct ctl_call call = {.method = "POST", .path = "/v1/handoffs", .prefer = "respond-async"};
    const struct ctl_option options[] = {{"--async", NULL, &async},
                                         {"--json", NULL, &json},
                                         {"--idempotency-key", &call.idempotency_key, NULL}};
    struct ctl_request request = {.options = options, .noptions = 3};
    int code = ctl_request_read(command, &request, argc, argv);
    char *body = code == CTL_OK ? yyjson_mut_write(request.body, 0, NULL) : NULL;
    struct sending sending = {
        .command = command, .api = &request.api, .json = json, .live = isatty(STDERR_FILENO) == 1};
    call.body = body;
    if (code == CTL_OK)
        code = body ? ctl_api_exchange(command, &request.api, &call, &answer) : CTL_FAILED;
    if (code == CTL_OK)
        code = follow_or_show(&sending, &answer, async);
    ctl_answer_free(&answer);
    ctl_answer_free(&sending.last);
    free(body);
    yyjson_mut_doc_free(request.body);
    return code;
}
