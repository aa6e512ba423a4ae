/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoffctl parked discard: those that are named, or all of an agent. Each is a call, so an
 * interrupt leaves the rest parked. One thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <yyjson.h>

#include "client/handoff.h"
#include "ctl/document.h"
#include "ctl/handoff_id.h"
#include "ctl/list.h"
#include "ctl/selection.h"
#include "ctl/show.h"
#include "ctl/text.h"

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

/* ---- all of an agent --------------------------------------------------------------------------
 */

/* Goes on after one that cannot be discarded, but not without the sidecar. */
static int discard_selected(const struct ctl_line *line, yyjson_val *items)
{
    size_t i, count, discarded = 0, failed = 0;
    yyjson_val *handoff;
    int code = CTL_OK;
    const struct ctl_progress progress =
        ctl_progress_begin(handoff_state_name(HANDOFF_STATE_DISCARDED), yyjson_arr_size(items));
    yyjson_arr_foreach(items, i, count, handoff)
    {
        struct ctl_answer answer = {0};
        const char *id = ctl_text(handoff, "id");
        if (code == CTL_UNREACHABLE)
            break;
        code = call_discard(line, id, &answer);
        discarded += code == CTL_OK;
        failed += code != CTL_OK;
        if (code != CTL_OK)
            skipped(line, id);
        ctl_answer_free(&answer);
        ctl_progress_draw(&progress, i + 1);
    }
    ctl_progress_end();
    printf("%zu discarded, %zu skipped\n", discarded, failed);
    return code == CTL_UNREACHABLE ? code : failed ? CTL_FAILED : CTL_OK;
}

static void show_discarded(const struct ctl_line *line, yyjson_val *selected)
{
    const size_t count = yyjson_arr_size(yyjson_obj_get(selected, "items"));
    if (count > 0)
        ctl_show_handoffs(line, selected);
    printf("%zu would be discarded\n", count);
}

static int discard_many(const struct ctl_line *line)
{
    int code;
    yyjson_doc *doc = ctl_select_parked(line, ctl_value(line, "target"), ctl_value(line, "cause"),
                                        (size_t)ctl_whole(line, "limit", 0), &code);
    if (doc && ctl_flag(line, "dry-run")) {
        yyjson_mut_doc *copy = yyjson_doc_mut_copy(doc, NULL);
        code = ctl_show_built(line, copy, show_discarded);
        yyjson_mut_doc_free(copy);
    } else if (doc) {
        code = discard_selected(line, yyjson_obj_get(yyjson_doc_get_root(doc), "items"));
    }
    yyjson_doc_free(doc);
    return code;
}

int ctl_parked_discard(const struct ctl_line *line)
{
    const char *reason = ctl_value(line, "reason");
    const bool named = line->noperands > 0;
    if (named == (ctl_value(line, "target") != NULL))
        return ctl_usage_error(line,
                               "give either IDs, or --target AGENT to discard all of its handoffs");
    if (!ctl_flag(line, "dry-run") && (!reason || !*reason))
        return ctl_usage_error(line, "missing --reason TEXT: it is recorded with the handoff");
    if (named && ctl_flag(line, "dry-run"))
        return ctl_usage_error(line, "--dry-run applies to --target AGENT");
    return named ? discard_named(line) : discard_many(line);
}
