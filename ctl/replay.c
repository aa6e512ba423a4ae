/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoffctl parked replay: those that are named, or all of an agent. The sidecar runs a replay of
 * many: it keeps the rate, and continues when this command is interrupted. Which ones it skipped is
 * known from what is parked before and after. One thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <yyjson.h>

#include "client/handoff.h"
#include "ctl/document.h"
#include "ctl/follow.h"
#include "ctl/handoff_id.h"
#include "ctl/list.h"
#include "ctl/selection.h"
#include "ctl/show.h"
#include "ctl/text.h"

enum {
    RATE = 10,     /* default replays per second */
    POLL_MS = 100, /* how often a replay of many is polled */
};

/* ---- replay ------------------------------------------------------------------------------------
 */

static void add_optional_text(yyjson_mut_doc *doc, const char *key, const char *text)
{
    if (text)
        yyjson_mut_obj_add_str(doc, yyjson_mut_doc_get_root(doc), key, text);
}

/* Frees the document; free() the text. NULL: a name is not UTF-8 */
static char *write_body(yyjson_mut_doc *doc)
{
    char *body = yyjson_mut_write(doc, 0, NULL);
    yyjson_mut_doc_free(doc);
    return body;
}

static yyjson_mut_doc *new_body(void)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_doc_set_root(doc, yyjson_mut_obj(doc));
    return doc;
}

static int post_json(const struct ctl_line *line, const char *path, const char *body,
                     struct ctl_answer *answer)
{
    return body ? ctl_api_call(line, "POST", path, NULL, body, answer) : CTL_FAILED;
}

/* Adds the content of the file unchanged. CTL_FAILED: it cannot be read, which is reported. */
static int add_edit(const struct ctl_line *line, yyjson_mut_doc *doc)
{
    yyjson_read_err why;
    const char *path = ctl_value(line, "edit");
    if (!path)
        return CTL_OK;
    yyjson_doc *edit = yyjson_read_file(path, YYJSON_READ_NUMBER_AS_RAW, NULL, &why);
    if (!edit) {
        fprintf(stderr, "handoffctl %s: %s: %s at byte %zu\n", line->command->name, path, why.msg,
                why.pos);
        return CTL_FAILED;
    }
    yyjson_mut_obj_add_val(doc, yyjson_mut_doc_get_root(doc), "edit",
                           yyjson_val_mut_copy(doc, yyjson_doc_get_root(edit)));
    yyjson_doc_free(edit);
    return CTL_OK;
}

static int post_replay(const struct ctl_line *line, const char *id, const char *body)
{
    struct ctl_answer answer = {0};
    char *path = ctl_api_path("/v1/parked/", id, "/replay");
    int code = post_json(line, path, body, &answer);
    if (code == CTL_OK)
        code = ctl_show(line, &answer, ctl_show_handoff_line);
    ctl_answer_free(&answer);
    free(path);
    return code;
}

/* The handoff with this id, or the beginning of one. */
static int replay_one(const struct ctl_line *line, const char *text)
{
    int code;
    char *id = ctl_whole_id(line, text, &code);
    if (!id)
        return code;
    yyjson_mut_doc *doc = new_body();
    add_optional_text(doc, "target_agent", ctl_value(line, "to"));
    add_optional_text(doc, "reason", ctl_value(line, "why"));
    if (ctl_flag(line, "again"))
        yyjson_mut_obj_add_true(doc, yyjson_mut_doc_get_root(doc), "again");
    code = add_edit(line, doc);
    char *body = write_body(doc);
    if (code == CTL_OK)
        code = post_replay(line, id, body);
    if (code != CTL_OK && line->noperands > 1)
        fprintf(stderr, "handoffctl %s: skipped %s\n", line->command->name, id);
    free(body);
    free(id);
    return code;
}

static int replay_named(const struct ctl_line *line)
{
    int code = CTL_OK;
    for (size_t i = 0; i < line->noperands; i++) {
        const int one = replay_one(line, line->operands[i]);
        code = code == CTL_OK ? one : code;
    }
    return code;
}

/* ---- all of an agent ---------------------------------------------------------------------------
 */

/* Begins a run; the caller frees *id. */
static int begin_run(const struct ctl_line *line, char **id)
{
    struct ctl_answer answer = {0};
    yyjson_mut_doc *doc = new_body();
    const long limit = ctl_whole(line, "limit", 0);
    add_optional_text(doc, "target", ctl_value(line, "target"));
    add_optional_text(doc, "reason", ctl_value(line, "reason"));
    add_optional_text(doc, "to", ctl_value(line, "to"));
    yyjson_mut_obj_add_int(doc, yyjson_mut_doc_get_root(doc), "rate",
                           ctl_whole(line, "rate", RATE));
    if (limit > 0)
        yyjson_mut_obj_add_int(doc, yyjson_mut_doc_get_root(doc), "limit", limit);
    char *body = write_body(doc);
    int code = post_json(line, "/v1/parked/replay", body, &answer);
    free(body);
    yyjson_doc *run = code == CTL_OK ? yyjson_read(answer.body, answer.size, 0) : NULL;
    *id = run ? strdup(ctl_text(yyjson_doc_get_root(run), "id")) : NULL;
    yyjson_doc_free(run);
    ctl_answer_free(&answer);
    return *id ? CTL_OK : code == CTL_OK ? CTL_FAILED : code;
}

static bool run_is(yyjson_val *run, enum handoff_run_state state)
{
    return strcmp(ctl_text(run, "state"), handoff_run_state_name(state)) == 0;
}

static void show_run(const struct ctl_line *line, yyjson_val *run)
{
    (void)line;
    printf("%.0f replayed, %.0f skipped", ctl_number(run, "replayed"), ctl_number(run, "skipped"));
    if (ctl_number(run, "failed") > 0) {
        printf(", %.0f failed (", ctl_number(run, "failed"));
        ctl_put(stdout, ctl_text(run, "error"), 0);
        putchar(')');
    }
    if (!run_is(run, HANDOFF_RUN_DONE)) {
        fputs("; ", stdout);
        ctl_put(stdout, ctl_text(run, "state"), 0);
    }
    putchar('\n');
}

struct run {
    const struct ctl_line *line;
    char *id;
    struct ctl_progress progress;
    bool over, whole; /* it has ended; and replayed all */
    char error[64];   /* code of the last failure, or "" */
};

static void look_at_run(struct run *run, yyjson_val *status)
{
    run->over = !run_is(status, HANDOFF_RUN_RUNNING);
    run->whole = run_is(status, HANDOFF_RUN_DONE) && ctl_number(status, "failed") <= 0 &&
                 ctl_number(status, "skipped") <= 0;
    snprintf(run->error, sizeof run->error, "%s", ctl_text(status, "error"));
    ctl_progress_draw(&run->progress,
                      (size_t)(ctl_number(status, "replayed") + ctl_number(status, "skipped") +
                               ctl_number(status, "failed")));
}

static int poll_run(struct run *run)
{
    struct ctl_answer answer = {0};
    char *path = ctl_api_path("/v1/replays/", run->id, "");
    int code = ctl_api_call(run->line, "GET", path, NULL, NULL, &answer);
    yyjson_doc *document = code == CTL_OK ? yyjson_read(answer.body, answer.size, 0) : NULL;
    if (code == CTL_OK)
        look_at_run(run, yyjson_doc_get_root(document));
    if (code == CTL_OK && run->over) {
        ctl_progress_end();
        code = ctl_show(run->line, &answer, show_run);
    }
    yyjson_doc_free(document);
    ctl_answer_free(&answer);
    free(path);
    return code;
}

/* Those that are parked as they were before. */
static int report_skipped(const struct run *run, yyjson_val *before)
{
    int code;
    const struct ctl_line *line = run->line;
    const char *why = *run->error ? run->error : "its deadline has passed";
    yyjson_doc *after =
        ctl_select_parked(line, ctl_value(line, "target"), ctl_value(line, "reason"), 0, &code);
    if (after)
        ctl_report_left(line, before, yyjson_doc_get_root(after), why);
    yyjson_doc_free(after);
    return code == CTL_OK ? CTL_FAILED : code;
}

/* The run belongs to the sidecar: interrupting this only stops polling. */
static int replay_selected(const struct ctl_line *line, yyjson_val *selected)
{
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
    const size_t total = yyjson_arr_size(yyjson_obj_get(selected, "items"));
    struct run run = {.line = line, .progress = ctl_progress_begin("replayed", total)};
    int code = begin_run(line, &run.id);
    while (code == CTL_OK && !run.over) {
        nanosleep(&pause, NULL);
        code = poll_run(&run);
    }
    if (code == CTL_OK && !run.whole)
        code = report_skipped(&run, selected);
    free(run.id);
    return code;
}

/* The first one alone: the others follow if it is acknowledged. */
static int replay_canary(const struct ctl_line *line, yyjson_val *selected)
{
    const char *id = ctl_text(yyjson_arr_get_first(yyjson_obj_get(selected, "items")), "id");
    int code = *id ? replay_one(line, id) : CTL_OK;
    if (code == CTL_OK && *id)
        code = ctl_follow_canary(line, id);
    if (code != CTL_OK)
        fprintf(stderr, "handoffctl %s: the canary failed; the others are still parked\n",
                line->command->name);
    return code;
}

static void print_obstacles(yyjson_val *prospect)
{
    size_t i, count;
    yyjson_val *one;
    yyjson_arr_foreach(yyjson_obj_get(prospect, "obstacles"), i, count, one)
    {
        fputs("cannot be delivered now: ", stdout);
        ctl_put(stdout, ctl_text(prospect, "id"), 0);
        fputs(": ", stdout);
        ctl_put(stdout, ctl_text(one, "code"), 0);
        ctl_put_line(": ", ctl_text(one, "detail"));
    }
}

/* Asks whether it would be delivered now, and says what is in the way. CTL_OK: there was an answer.
 */
static int preview_one(const struct ctl_line *line, const char *id)
{
    struct ctl_answer answer = {0};
    char *path = ctl_api_path("/v1/parked/", id, "/check");
    int code = CTL_FAILED;
    if (ctl_api_add_query(&path, "target", ctl_value(line, "to")))
        code = ctl_api_call(line, "GET", path, NULL, NULL, &answer);
    yyjson_doc *doc = code == CTL_OK ? yyjson_read(answer.body, answer.size, 0) : NULL;
    print_obstacles(yyjson_doc_get_root(doc));
    yyjson_doc_free(doc);
    ctl_answer_free(&answer);
    free(path);
    return code;
}

static void show_preview(const struct ctl_line *line, yyjson_val *selected)
{
    size_t i, count;
    yyjson_val *handoff, *items = yyjson_obj_get(selected, "items");
    int code = CTL_OK;
    if (yyjson_arr_size(items) > 0)
        ctl_show_handoffs(line, selected);
    yyjson_arr_foreach(items, i, count, handoff)
    {
        if (code == CTL_OK)
            code = preview_one(line, ctl_text(handoff, "id"));
    }
    printf("%zu would be replayed\n", yyjson_arr_size(items));
}

static int preview(const struct ctl_line *line, yyjson_doc *selected)
{
    yyjson_mut_doc *doc = yyjson_doc_mut_copy(selected, NULL);
    int code = ctl_show_built(line, doc, show_preview);
    yyjson_mut_doc_free(doc);
    return code;
}

static int replay_many(const struct ctl_line *line)
{
    int code;
    yyjson_doc *doc = ctl_select_parked(line, ctl_value(line, "target"), ctl_value(line, "reason"),
                                        (size_t)ctl_whole(line, "limit", 0), &code);
    yyjson_val *selected = yyjson_doc_get_root(doc);
    if (doc && ctl_flag(line, "dry-run"))
        code = preview(line, doc);
    else if (doc && ctl_flag(line, "canary"))
        code = replay_canary(line, selected);
    if (code == CTL_OK && !ctl_flag(line, "dry-run"))
        code = replay_selected(line, selected);
    yyjson_doc_free(doc);
    return code;
}

int ctl_parked_replay(const struct ctl_line *line)
{
    const bool named = line->noperands > 0;
    if (named == (ctl_value(line, "target") != NULL))
        return ctl_usage_error(line,
                               "give either IDs, or --target AGENT to replay all of its handoffs");
    if (ctl_value(line, "edit") && line->noperands != 1)
        return ctl_usage_error(line, "--edit applies to one handoff: give its ID");
    if (named && (ctl_flag(line, "dry-run") || ctl_flag(line, "canary")))
        return ctl_usage_error(line, "--dry-run and --canary apply to --target AGENT");
    return named ? replay_named(line) : replay_many(line);
}
