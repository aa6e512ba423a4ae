/* SPDX-License-Identifier: Apache-2.0 */
/* handoffctl status, attempts, deliver, ack, nack, extend, cancel and park: calls on one handoff,
   given its id. One thread. */
#include <stdio.h>
#include <stdlib.h>
#include <yyjson.h>

#include "ctl/options.h"
#include "ctl/show.h"

struct arguments {
    const struct ctl_command *command;
    struct ctl_api api;
    const char *id, *reason;
    bool final, json;
};

/* How many options a sub-command takes, from the first. */
enum { ONLY_JSON = 1, AND_REASON = 2, AND_FINAL = 3 };

static int take_handoff_arguments(struct arguments *arguments, size_t noptions, int argc,
                                  char *const argv[])
{
    const struct ctl_option options[] = {{"--json", NULL, &arguments->json},
                                         {"--reason", &arguments->reason, NULL},
                                         {"--final", NULL, &arguments->final}};
    const struct ctl_line line = {.options = options,
                                  .noptions = noptions,
                                  .words = &arguments->id,
                                  .nwords = 1,
                                  .api = &arguments->api};
    int code = ctl_take_line(arguments->command, &line, 1, argc, argv);
    if (code == CTL_OK && !arguments->id)
        code = ctl_usage_error(arguments->command, "missing ID");
    return code;
}

static int call_below(const struct arguments *arguments, const char *method, const char *prefix,
                      const char *suffix, const char *body, void (*show)(yyjson_val *))
{
    struct ctl_answer answer = {0};
    char *path = ctl_api_path(prefix, arguments->id, suffix);
    int code = CTL_FAILED;
    if (path)
        code = ctl_api_call(arguments->command, &arguments->api, method, path, NULL, body, &answer);
    if (code == CTL_OK)
        code = ctl_show(&answer, arguments->json, show);
    ctl_answer_free(&answer);
    free(path);
    return code;
}

static int call_and_show(const struct arguments *arguments, const char *method, const char *suffix,
                         const char *body, void (*show)(yyjson_val *))
{
    return call_below(arguments, method, "/v1/handoffs/", suffix, body, show);
}

int ctl_status(const struct ctl_command *command, int argc, char *const argv[])
{
    struct arguments arguments = {.command = command};
    int code = take_handoff_arguments(&arguments, ONLY_JSON, argc, argv);
    return code == CTL_OK ? call_and_show(&arguments, "GET", "", NULL, ctl_show_handoff) : code;
}

int ctl_attempts(const struct ctl_command *command, int argc, char *const argv[])
{
    struct arguments arguments = {.command = command};
    int code = take_handoff_arguments(&arguments, ONLY_JSON, argc, argv);
    return code == CTL_OK ? call_and_show(&arguments, "GET", "/attempts", NULL, ctl_show_attempts)
                          : code;
}

/* Its envelope was assembled before. */
int ctl_deliver(const struct ctl_command *command, int argc, char *const argv[])
{
    struct arguments arguments = {.command = command};
    int code = take_handoff_arguments(&arguments, ONLY_JSON, argc, argv);
    return code == CTL_OK ? call_below(&arguments, "POST", "/v1/envelopes/", "/deliver", NULL,
                                       ctl_show_handoff_line)
                          : code;
}

int ctl_ack(const struct ctl_command *command, int argc, char *const argv[])
{
    struct arguments arguments = {.command = command};
    int code = take_handoff_arguments(&arguments, ONLY_JSON, argc, argv);
    return code == CTL_OK ? call_and_show(&arguments, "POST", "/ack", "{}", ctl_show_handoff_line)
                          : code;
}

/* free() it; NULL: the reason is not UTF-8 */
static char *reason_body(const struct arguments *arguments, bool nack)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    if (nack)
        yyjson_mut_obj_add_bool(doc, root, "retry", !arguments->final);
    if (arguments->reason)
        yyjson_mut_obj_add_str(doc, root, "reason", arguments->reason);
    char *body = yyjson_mut_write(doc, 0, NULL);
    yyjson_mut_doc_free(doc);
    return body;
}

static int call_with_reason(const struct arguments *arguments, const char *suffix, bool nack)
{
    char *body = reason_body(arguments, nack);
    int code = body ? call_and_show(arguments, "POST", suffix, body, ctl_show_handoff_line)
                    : ctl_usage_error(arguments->command, "--reason is not UTF-8");
    free(body);
    return code;
}

int ctl_nack(const struct ctl_command *command, int argc, char *const argv[])
{
    struct arguments arguments = {.command = command};
    int code = take_handoff_arguments(&arguments, AND_FINAL, argc, argv);
    return code == CTL_OK ? call_with_reason(&arguments, "/nack", true) : code;
}

int ctl_cancel(const struct ctl_command *command, int argc, char *const argv[])
{
    struct arguments arguments = {.command = command};
    int code = take_handoff_arguments(&arguments, AND_REASON, argc, argv);
    return code == CTL_OK ? call_with_reason(&arguments, "/cancel", false) : code;
}

int ctl_park(const struct ctl_command *command, int argc, char *const argv[])
{
    struct arguments arguments = {.command = command};
    int code = take_handoff_arguments(&arguments, AND_REASON, argc, argv);
    if (code == CTL_OK && !arguments.reason)
        code = ctl_usage_error(command, "missing --reason");
    return code == CTL_OK ? call_with_reason(&arguments, "/park", false) : code;
}

/* free() it; NULL: the progress is not UTF-8 */
static char *extend_body(const char *progress)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    if (progress)
        yyjson_mut_obj_add_str(doc, root, "progress", progress);
    char *body = yyjson_mut_write(doc, 0, NULL);
    yyjson_mut_doc_free(doc);
    return body;
}

int ctl_extend(const struct ctl_command *command, int argc, char *const argv[])
{
    struct arguments arguments = {.command = command};
    const char *progress = NULL;
    const struct ctl_option options[] = {{"--json", NULL, &arguments.json},
                                         {"--progress", &progress, NULL}};
    const struct ctl_line line = {.options = options,
                                  .noptions = sizeof options / sizeof *options,
                                  .words = &arguments.id,
                                  .nwords = 1,
                                  .api = &arguments.api};
    int code = ctl_take_line(command, &line, 1, argc, argv);
    if (code == CTL_OK && !arguments.id)
        code = ctl_usage_error(command, "missing ID");
    if (code != CTL_OK)
        return code;
    char *body = extend_body(progress);
    code = body ? call_and_show(&arguments, "POST", "/extend", body, ctl_show_handoff_line)
                : ctl_usage_error(command, "--progress is not UTF-8");
    free(body);
    return code;
}
