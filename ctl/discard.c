/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoffctl parked discard: those that are named, each by a call, or those that options select, by
 * a bulk job. One thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <yyjson.h>

#include "ctl/bulk.h"
#include "ctl/document.h"
#include "ctl/handoff_id.h"
#include "ctl/show.h"
#include "ctl/text.h"

enum { RATE = 1000 }; /* nothing is sent to an agent */

static int call_discard(const struct ctl_line *line, const char *id, struct ctl_answer *answer)
{
    char *path = ctl_api_path("/v1/parked/", id, "");
    int code = CTL_FAILED;
    if (ctl_api_add_query(&path, "reason", ctl_value(line, "reason")))
        code = ctl_api_call(line, "DELETE", path, NULL, NULL, answer);
    free(path);
    return code;
}

static int skipped(const struct ctl_line *line, const char *id)
{
    fprintf(stderr, "handoffctl %s: skipped ", line->command->name);
    ctl_put(stderr, id, 0);
    fputc('\n', stderr);
    return CTL_FAILED;
}

/* ---- those that are named ---------------------------------------------------------------------
 */

static int discard_one(const struct ctl_line *line, const char *text)
{
    struct ctl_answer answer = {0};
    int code;
    char *id = ctl_whole_id(line, text, &code);
    if (id)
        code = call_discard(line, id, &answer);
    if (code == CTL_OK)
        code = ctl_show(line, &answer, ctl_show_handoff_line);
    else if (line->noperands > 1)
        skipped(line, id ? id : text);
    ctl_answer_free(&answer);
    free(id);
    return code;
}

static int discard_named(const struct ctl_line *line)
{
    int code = CTL_OK;
    for (size_t i = 0; i < line->noperands; i++) {
        const int one = discard_one(line, line->operands[i]);
        code = code == CTL_OK ? one : code;
    }
    return code;
}

/* ---- the command ------------------------------------------------------------------------------
 */

int ctl_parked_discard(const struct ctl_line *line)
{
    static const struct ctl_bulk bulk = {
        .action = HANDOFF_ACTION_DISCARD, .cause = "cause", .why = "reason", .rate = RATE};
    const char *reason = ctl_value(line, "reason");
    const bool named = line->noperands > 0, is_preview = ctl_flag(line, "dry-run");
    if (named == ctl_bulk_selects(line, &bulk))
        return ctl_usage_error(line, "give either IDs, or options that select handoffs, such as "
                                     "--target AGENT, or --all");
    if (!is_preview && (!reason || !*reason))
        return ctl_usage_error(line, "missing --reason TEXT: it is recorded with the handoff");
    if (named && (is_preview || ctl_flag(line, "canary")))
        return ctl_usage_error(line,
                               "--dry-run and --canary apply to many: select them with options");
    return named ? discard_named(line) : ctl_bulk(line, &bulk);
}
