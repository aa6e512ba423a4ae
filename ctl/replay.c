/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoffctl parked replay: those that are named, each by a call, or those that options select, by
 * a bulk job. One thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <yyjson.h>

#include "client/handoff.h"
#include "ctl/bulk.h"
#include "ctl/document.h"
#include "ctl/handoff_id.h"
#include "ctl/prospect.h"
#include "ctl/show.h"
#include "ctl/text.h"

enum { RATE = 10 }; /* an agent that has just come back is not buried under what it missed */

/* ---- those that are named ---------------------------------------------------------------------
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

static char *replay_body(const struct ctl_line *line, int *code)
{
    yyjson_mut_doc *doc = new_body();
    add_optional_text(doc, "target_agent", ctl_value(line, "to"));
    add_optional_text(doc, "reason", ctl_value(line, "why"));
    if (ctl_flag(line, "again"))
        yyjson_mut_obj_add_true(doc, yyjson_mut_doc_get_root(doc), "again");
    *code = add_edit(line, doc);
    return write_body(doc);
}

/* What is in the way is said before; that it is replayed nevertheless is the operator's decision.
 */
static int replay_id(const struct ctl_line *line, const char *id)
{
    int code;
    char *body = replay_body(line, &code);
    if (code == CTL_OK && !ctl_value(line, "edit"))
        code = ctl_put_obstacles(line, stderr, id, ctl_value(line, "to"));
    if (code == CTL_OK)
        code = post_replay(line, id, body);
    if (code != CTL_OK && line->noperands > 1)
        fprintf(stderr, "handoffctl %s: skipped %s\n", line->command->name, id);
    free(body);
    return code;
}

static int replay_named(const struct ctl_line *line)
{
    int code = CTL_OK;
    for (size_t i = 0; i < line->noperands; i++) {
        int one;
        char *id = ctl_whole_id(line, line->operands[i], &one);
        if (id && ctl_flag(line, "dry-run"))
            one = ctl_put_obstacles(line, stdout, id, ctl_value(line, "to"));
        else if (id)
            one = replay_id(line, id);
        free(id);
        code = code == CTL_OK ? one : code;
    }
    return code;
}

/* ---- the command ------------------------------------------------------------------------------
 */

int ctl_parked_replay(const struct ctl_line *line)
{
    static const struct ctl_bulk bulk = {
        .action = HANDOFF_ACTION_REPLAY, .cause = "reason", .why = "why", .to = "to", .rate = RATE};
    const bool named = line->noperands > 0;
    if (named == ctl_bulk_selects(line, &bulk))
        return ctl_usage_error(line, "give either IDs, or options that select handoffs, such as "
                                     "--target AGENT, or --all");
    if (ctl_value(line, "edit") && line->noperands != 1)
        return ctl_usage_error(line, "--edit applies to one handoff: give its ID");
    if (named && ctl_flag(line, "canary"))
        return ctl_usage_error(line, "--canary applies to many: select them with options");
    return named ? replay_named(line) : ctl_bulk(line, &bulk);
}
