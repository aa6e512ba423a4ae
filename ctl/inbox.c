/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoffctl inbox: takes the next handoff for an agent that pulls, prints it, and with --ack
 * acknowledges it. It prints first: a handoff that was acknowledged but never shown would be lost.
 * One thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <yyjson.h>

#include "ctl/options.h"
#include "ctl/show.h"

enum { NO_CONTENT = 204 };

struct arguments {
    const struct ctl_command *command;
    struct ctl_api api;
    const char *agent, *wait;
    bool ack, json;
};

static int call_handoff(const struct arguments *arguments, const char *id, const char *method,
                        const char *suffix, const char *accept, struct ctl_answer *answer)
{
    char *path = ctl_api_path("/v1/handoffs/", id, suffix);
    int code = CTL_FAILED;
    if (path)
        code =
            ctl_api_call(arguments->command, &arguments->api, method, path, accept, NULL, answer);
    free(path);
    return code;
}

/* The envelope as it would be given to the agent's model. */
static int print_brief(const struct arguments *arguments, const struct ctl_answer *got)
{
    struct ctl_answer brief = {0};
    int code =
        call_handoff(arguments, got->handoff_id, "GET", "/envelope", "text/markdown", &brief);
    if (code == CTL_OK) {
        fputs("handoff ", stdout);
        ctl_put(stdout, got->handoff_id, 0);
        printf(", attempt %ld, acknowledge within %ld s\n\n", got->attempt, got->lease_s);
        fwrite(brief.body ? brief.body : "", 1, brief.size, stdout);
    }
    ctl_answer_free(&brief);
    return code;
}

static int print_taken(const struct arguments *arguments, const struct ctl_answer *got)
{
    int code = arguments->json ? ctl_show(got, true, NULL) : print_brief(arguments, got);
    if (code == CTL_OK && (fflush(stdout) != 0 || ferror(stdout))) {
        fprintf(stderr, "handoffctl %s: printing failed, so the handoff was not acknowledged\n",
                arguments->command->name);
        code = CTL_FAILED;
    }
    return code;
}

static int acknowledge_taken(const struct arguments *arguments, const char *id)
{
    struct ctl_answer answer = {0};
    int code = call_handoff(arguments, id, "POST", "/ack", NULL, &answer);
    ctl_answer_free(&answer);
    return code;
}

static int take_from_inbox(const struct arguments *arguments)
{
    struct ctl_answer got = {0};
    char *path = ctl_api_path("/v1/agents/", arguments->agent, "/inbox");
    int code = CTL_FAILED;
    if (ctl_api_add_query(&path, "wait", arguments->wait))
        code = ctl_api_call(arguments->command, &arguments->api, "GET", path, NULL, NULL, &got);
    if (code == CTL_OK && got.status == NO_CONTENT) {
        fprintf(stderr, "handoffctl %s: no handoff for %s\n", arguments->command->name,
                arguments->agent);
        code = CTL_NOT_FOUND;
    }
    if (code == CTL_OK)
        code = print_taken(arguments, &got);
    if (code == CTL_OK && arguments->ack)
        code = acknowledge_taken(arguments, got.handoff_id);
    ctl_answer_free(&got);
    free(path);
    return code;
}

int ctl_inbox(const struct ctl_command *command, int argc, char *const argv[])
{
    struct arguments arguments = {.command = command};
    const struct ctl_option options[] = {{"--wait", &arguments.wait, NULL},
                                         {"--ack", NULL, &arguments.ack},
                                         {"--json", NULL, &arguments.json}};
    const struct ctl_line line = {.options = options,
                                  .noptions = 3,
                                  .words = &arguments.agent,
                                  .nwords = 1,
                                  .api = &arguments.api};
    int code = ctl_take_line(command, &line, 1, argc, argv);
    if (code == CTL_OK && !arguments.agent)
        code = ctl_usage_error(command, "missing AGENT");
    return code == CTL_OK ? take_from_inbox(&arguments) : code;
}
