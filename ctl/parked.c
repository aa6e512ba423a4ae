/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoffctl parked: handoffs that could not be delivered, and the operator's decisions about
 * them. The sidecar runs a replay of many handoffs: it keeps the rate, and continues when this
 * command is interrupted. One thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <yyjson.h>

#include "client/handoff.h"
#include "ctl/options.h"
#include "ctl/show.h"

enum {
    RATE = 10, /* default replays per second */
    RATE_MAX = 1000,
    POLL_MS = 100, /* how often a replay of many is polled */
};

struct arguments {
    const struct ctl_command *command;
    struct ctl_api api;
    const char *id, *target, *reason, *to, *rate, *limit, *cursor, *edit;
    bool json, expired;
};

static int take_parked_arguments(struct arguments *arguments, bool takes_id, int argc,
                                 char *const argv[])
{
    const struct ctl_option options[] = {
        {"--target", &arguments->target, NULL},  {"--reason", &arguments->reason, NULL},
        {"--to", &arguments->to, NULL},          {"--rate", &arguments->rate, NULL},
        {"--limit", &arguments->limit, NULL},    {"--cursor", &arguments->cursor, NULL},
        {"--edit", &arguments->edit, NULL},      {"--json", NULL, &arguments->json},
        {"--expired", NULL, &arguments->expired}};
    const struct ctl_line line = {.options = options,
                                  .noptions = sizeof(options) / sizeof(options[0]),
                                  .words = &arguments->id,
                                  .nwords = takes_id ? 1 : 0,
                                  .api = &arguments->api};
    return ctl_take_line(arguments->command, &line, 1, argc, argv);
}

static int need_id(const struct arguments *arguments)
{
    return arguments->id ? CTL_OK : ctl_usage_error(arguments->command, "missing ID");
}

/* ---- list --------------------------------------------------------------------------------------
 */

static int get_list(const struct arguments *arguments, const char *limit, const char *cursor,
                    struct ctl_answer *answer)
{
    char *path = ctl_api_path(arguments->expired ? "/v1/handoffs" : "/v1/parked", "", "");
    int code = CTL_FAILED;
    if (ctl_api_add_query(&path, "state",
                          arguments->expired ? handoff_state_name(HANDOFF_STATE_EXPIRED) : NULL) &&
        ctl_api_add_query(&path, "target", arguments->target) &&
        ctl_api_add_query(&path, "reason", arguments->reason) &&
        ctl_api_add_query(&path, "limit", limit) && ctl_api_add_query(&path, "cursor", cursor))
        code = ctl_api_call(arguments->command, &arguments->api, "GET", path, NULL, NULL, answer);
    free(path);
    return code;
}

static void show_ended(yyjson_val *list, const char *ended)
{
    size_t i, count;
    yyjson_val *handoff, *items = yyjson_obj_get(list, "items");
    printf("%-36s  %-24s  %-20s %-13s %8s  %-20s %s\n", "ID", ended, "TARGET", "REASON", "ATTEMPTS",
           "SOURCE", "TASK");
    yyjson_arr_foreach(items, i, count, handoff)
    {
        ctl_put(stdout, ctl_text(handoff, "id"), 36);
        fputs("  ", stdout);
        ctl_put(stdout, ctl_text(handoff, "settled_at"), 24);
        fputs("  ", stdout);
        ctl_put(stdout, ctl_text(handoff, "target_agent"), 20);
        putchar(' ');
        ctl_put(stdout, ctl_text(handoff, "reason"), 13);
        printf(" %8.0f  ", ctl_number(handoff, "attempts"));
        ctl_put(stdout, ctl_text(handoff, "source_agent"), 20);
        putchar(' ');
        ctl_put(stdout, ctl_text(handoff, "task_id"), 0);
        putchar('\n');
    }
    ctl_show_next(list);
}

static bool is_empty_list(yyjson_val *list)
{
    return yyjson_arr_size(yyjson_obj_get(list, "items")) == 0;
}

static void show_list(yyjson_val *list)
{
    if (is_empty_list(list))
        puts("nothing is parked");
    else
        show_ended(list, "PARKED");
}

/* A page of a search may have none of what further pages have. */
static void show_expired(yyjson_val *list)
{
    if (is_empty_list(list) && yyjson_is_null(yyjson_obj_get(list, "next")))
        puts("nothing has expired");
    else
        show_ended(list, "EXPIRED");
}

static int check_expired(const struct arguments *arguments)
{
    return arguments->expired && arguments->reason
               ? ctl_usage_error(arguments->command, "--expired takes no --reason")
               : CTL_OK;
}

static int run_parked_list(const struct ctl_command *command, int argc, char *const argv[])
{
    struct arguments arguments = {.command = command};
    struct ctl_answer answer = {0};
    int code = take_parked_arguments(&arguments, false, argc, argv);
    if (code == CTL_OK)
        code = check_expired(&arguments);
    if (code == CTL_OK)
        code = get_list(&arguments, arguments.limit, arguments.cursor, &answer);
    if (code == CTL_OK)
        code = ctl_show(&answer, arguments.json, arguments.expired ? show_expired : show_list);
    ctl_answer_free(&answer);
    return code;
}

/* ---- show --------------------------------------------------------------------------------------
 */

static int get_handoff(const struct arguments *arguments, const char *suffix,
                       struct ctl_answer *answer)
{
    char *path = ctl_api_path("/v1/handoffs/", arguments->id, suffix);
    int code = CTL_FAILED;
    if (path)
        code = ctl_api_call(arguments->command, &arguments->api, "GET", path, NULL, NULL, answer);
    free(path);
    return code;
}

static int run_parked_show(const struct ctl_command *command, int argc, char *const argv[])
{
    struct arguments arguments = {.command = command};
    struct ctl_answer handoff = {0}, attempts = {0};
    int code = take_parked_arguments(&arguments, true, argc, argv);
    if (code == CTL_OK)
        code = need_id(&arguments);
    if (code == CTL_OK)
        code = get_handoff(&arguments, "", &handoff);
    if (code == CTL_OK)
        code = get_handoff(&arguments, "/attempts", &attempts);
    if (code == CTL_OK && arguments.json) {
        printf("{\"handoff\":%s,\"attempts\":%s}\n", handoff.body, attempts.body);
    } else if (code == CTL_OK) {
        code = ctl_show(&handoff, false, ctl_show_handoff);
        putchar('\n');
    }
    if (code == CTL_OK && !arguments.json)
        code = ctl_show(&attempts, false, ctl_show_attempts);
    ctl_answer_free(&handoff);
    ctl_answer_free(&attempts);
    return code;
}

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

static int post_json(const struct arguments *arguments, const char *path, const char *body,
                     struct ctl_answer *answer)
{
    if (!path || !body)
        return CTL_FAILED;
    return ctl_api_call(arguments->command, &arguments->api, "POST", path, NULL, body, answer);
}

/* Adds the content of the file unchanged. CTL_FAILED: it cannot be read, which is reported. */
static int add_edit(const struct arguments *arguments, yyjson_mut_doc *doc)
{
    yyjson_read_err why;
    if (!arguments->edit)
        return CTL_OK;
    yyjson_doc *edit = yyjson_read_file(arguments->edit, YYJSON_READ_NUMBER_AS_RAW, NULL, &why);
    if (!edit) {
        fprintf(stderr, "handoffctl: %s: %s at byte %zu\n", arguments->edit, why.msg, why.pos);
        return CTL_FAILED;
    }
    yyjson_mut_obj_add_val(doc, yyjson_mut_doc_get_root(doc), "edit",
                           yyjson_val_mut_copy(doc, yyjson_doc_get_root(edit)));
    yyjson_doc_free(edit);
    return CTL_OK;
}

static int replay_one(const struct arguments *arguments)
{
    struct ctl_answer answer = {0};
    char *path = ctl_api_path("/v1/parked/", arguments->id, "/replay");
    yyjson_mut_doc *doc = new_body();
    add_optional_text(doc, "target_agent", arguments->to);
    int code = add_edit(arguments, doc);
    char *body = write_body(doc);
    if (code == CTL_OK)
        code = post_json(arguments, path, body, &answer);
    free(body);
    if (code == CTL_OK)
        code = ctl_show(&answer, arguments->json, ctl_show_handoff_line);
    ctl_answer_free(&answer);
    free(path);
    return code;
}

/* Begins a run; the caller frees *id. */
static int begin_run(const struct arguments *arguments, long rate, long limit, char **id)
{
    struct ctl_answer answer = {0};
    yyjson_mut_doc *doc = new_body();
    add_optional_text(doc, "target", arguments->target);
    add_optional_text(doc, "reason", arguments->reason);
    add_optional_text(doc, "to", arguments->to);
    yyjson_mut_obj_add_int(doc, yyjson_mut_doc_get_root(doc), "rate", rate);
    if (limit > 0)
        yyjson_mut_obj_add_int(doc, yyjson_mut_doc_get_root(doc), "limit", limit);
    char *body = write_body(doc);
    int code = post_json(arguments, "/v1/parked/replay", body, &answer);
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

static void show_run(yyjson_val *run)
{
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

/* Polls once; *over says whether the run has ended. */
static int poll_run(const struct arguments *arguments, const char *id, bool *over)
{
    struct ctl_answer answer = {0};
    char *path = ctl_api_path("/v1/replays/", id, "");
    int code = CTL_FAILED;
    if (path)
        code = ctl_api_call(arguments->command, &arguments->api, "GET", path, NULL, NULL, &answer);
    yyjson_doc *document = code == CTL_OK ? yyjson_read(answer.body, answer.size, 0) : NULL;
    yyjson_val *run = yyjson_doc_get_root(document);
    *over = !run_is(run, HANDOFF_RUN_RUNNING);
    bool whole = run_is(run, HANDOFF_RUN_DONE) && ctl_number(run, "failed") <= 0;
    if (code == CTL_OK && *over) {
        code = ctl_show(&answer, arguments->json, show_run);
        if (code == CTL_OK && !whole)
            code = CTL_FAILED;
    }
    yyjson_doc_free(document);
    ctl_answer_free(&answer);
    free(path);
    return code;
}

/* The run belongs to the sidecar: interrupting this only stops polling. */
static int replay_many(const struct arguments *arguments)
{
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
    char *end = "", *last = "", *id = NULL;
    bool over = false;
    long rate = arguments->rate ? strtol(arguments->rate, &end, 10) : RATE;
    long limit = arguments->limit ? strtol(arguments->limit, &last, 10) : 0;
    if (*end || rate < 1 || rate > RATE_MAX)
        return ctl_usage_error(arguments->command, "--rate must be a whole number from 1 to 1000");
    if (*last || (arguments->limit && limit < 1))
        return ctl_usage_error(arguments->command, "--limit must be a whole number of at least 1");
    int code = begin_run(arguments, rate, limit, &id);
    while (code == CTL_OK && !over) {
        nanosleep(&pause, NULL);
        code = poll_run(arguments, id, &over);
    }
    free(id);
    return code;
}

static int run_parked_replay(const struct ctl_command *command, int argc, char *const argv[])
{
    struct arguments arguments = {.command = command};
    int code = take_parked_arguments(&arguments, true, argc, argv);
    if (code == CTL_OK && !arguments.id == !arguments.target)
        code = ctl_usage_error(
            command, "give either an ID, or --target AGENT to replay all of its handoffs");
    if (code == CTL_OK && arguments.edit && !arguments.id)
        code = ctl_usage_error(command, "--edit applies to one handoff: give its ID");
    if (code != CTL_OK)
        return code;
    return arguments.id ? replay_one(&arguments) : replay_many(&arguments);
}

/* ---- discard -----------------------------------------------------------------------------------
 */

static int discard_parked(const struct arguments *arguments)
{
    struct ctl_answer answer = {0};
    char *path = ctl_api_path("/v1/parked/", arguments->id, "");
    int code = CTL_FAILED;
    if (ctl_api_add_query(&path, "reason", arguments->reason))
        code =
            ctl_api_call(arguments->command, &arguments->api, "DELETE", path, NULL, NULL, &answer);
    if (code == CTL_OK)
        code = ctl_show(&answer, arguments->json, ctl_show_handoff_line);
    ctl_answer_free(&answer);
    free(path);
    return code;
}

static int run_parked_discard(const struct ctl_command *command, int argc, char *const argv[])
{
    struct arguments arguments = {.command = command};
    int code = take_parked_arguments(&arguments, true, argc, argv);
    if (code == CTL_OK)
        code = need_id(&arguments);
    if (code == CTL_OK && (!arguments.reason || !*arguments.reason))
        code = ctl_usage_error(command, "missing --reason TEXT: it is recorded with the handoff");
    return code == CTL_OK ? discard_parked(&arguments) : code;
}

int ctl_parked(const struct ctl_command *command, int argc, char *const argv[])
{
    static const struct ctl_verb verbs[] = {{"list", run_parked_list},
                                            {"show", run_parked_show},
                                            {"replay", run_parked_replay},
                                            {"discard", run_parked_discard}};
    return ctl_run_verb(command, verbs, sizeof(verbs) / sizeof(verbs[0]), argc, argv);
}
