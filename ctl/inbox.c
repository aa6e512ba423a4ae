/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoffctl inbox: takes the next handoff for an agent that pulls, prints it, and with --ack
 * acknowledges it. It prints first: a handoff that was acknowledged but never shown would be lost.
 * One thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <yyjson.h>

#include "ctl/document.h"
#include "ctl/show.h"
#include "ctl/text.h"

enum { NO_CONTENT = 204 };

static int call_handoff(const struct ctl_line *line, const char *id, const char *method,
                        const char *suffix, const char *accept, struct ctl_answer *answer)
{
    char *path = ctl_api_path("/v1/handoffs/", id, suffix);
    int code = ctl_api_call(line, method, path, accept, NULL, answer);
    free(path);
    return code;
}

/* The envelope as it would be given to the agent's model. */
static int print_brief(const struct ctl_line *line, const struct ctl_answer *got)
{
    struct ctl_answer brief = {0};
    int code = call_handoff(line, got->handoff_id, "GET", "/envelope", "text/markdown", &brief);
    if (code == CTL_OK) {
        fputs("handoff ", stdout);
        ctl_put(stdout, got->handoff_id, 0);
        printf(", attempt %ld, acknowledge within %ld s\n\n", got->attempt, got->lease_s);
        ctl_put_document(brief.body ? brief.body : "", brief.size, false);
    }
    ctl_answer_free(&brief);
    return code;
}

static int print_taken(const struct ctl_line *line, const struct ctl_answer *got)
{
    const bool as_brief = line->format == CTL_TABLE || line->format == CTL_WIDE;
    int code = as_brief ? print_brief(line, got) : ctl_show(line, got, NULL);
    if (code == CTL_OK && (fflush(stdout) != 0 || ferror(stdout))) {
        fprintf(stderr, "handoffctl %s: printing failed, so the handoff was not acknowledged\n",
                line->command->name);
        code = CTL_FAILED;
    }
    return code;
}

static int acknowledge_taken(const struct ctl_line *line, const char *id)
{
    struct ctl_answer answer = {0};
    int code = call_handoff(line, id, "POST", "/ack", NULL, &answer);
    ctl_answer_free(&answer);
    return code;
}

int ctl_inbox(const struct ctl_line *line)
{
    const char *agent = ctl_operand(line, 0);
    struct ctl_answer got = {0};
    char *path = ctl_api_path("/v1/agents/", agent, "/inbox");
    int code = CTL_FAILED;
    if (ctl_api_add_query(&path, "wait", ctl_value(line, "wait")))
        code = ctl_api_call(line, "GET", path, NULL, NULL, &got);
    if (code == CTL_OK && got.status == NO_CONTENT) {
        fprintf(stderr, "handoffctl %s: no handoff for %s\n", line->command->name, agent);
        code = CTL_NOT_FOUND;
    }
    if (code == CTL_OK)
        code = print_taken(line, &got);
    if (code == CTL_OK && ctl_flag(line, "ack"))
        code = acknowledge_taken(line, got.handoff_id);
    ctl_answer_free(&got);
    free(path);
    return code;
}
