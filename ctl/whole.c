/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoffctl show: one handoff whole, put together from several calls: its status, the brief that
 * its agent gets, the attempts, the task as a tree, and what people decided about it. One thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <yyjson.h>

#include "ctl/decisions.h"
#include "ctl/document.h"
#include "ctl/handoff_id.h"
#include "ctl/show.h"
#include "ctl/task.h"
#include "ctl/text.h"

enum { GONE = 410 };

struct whole {
    const struct ctl_line *line;
    const char *id;
    yyjson_mut_doc *doc; /* {"handoff", "brief", "attempts", "task", "decisions"?} */
};

static void put_part(struct whole *whole, const char *name, const char *body, size_t size)
{
    yyjson_doc *read = yyjson_read(body ? body : "", size, YYJSON_READ_NUMBER_AS_RAW);
    yyjson_mut_obj_add_val(whole->doc, yyjson_mut_doc_get_root(whole->doc), name,
                           read ? yyjson_val_mut_copy(whole->doc, yyjson_doc_get_root(read))
                                : yyjson_mut_null(whole->doc));
    yyjson_doc_free(read);
}

static int fetch_part(struct whole *whole, const char *name, const char *suffix)
{
    struct ctl_answer answer = {0};
    char *path = ctl_api_path("/v1/handoffs/", whole->id, suffix);
    int code = ctl_api_call(whole->line, "GET", path, NULL, NULL, &answer);
    if (code == CTL_OK)
        put_part(whole, name, answer.body, answer.size);
    ctl_answer_free(&answer);
    free(path);
    return code;
}

/* A text; null where retention has removed the envelope. */
static int fetch_brief(struct whole *whole)
{
    struct ctl_answer answer = {0};
    char *path = ctl_api_path("/v1/handoffs/", whole->id, "/envelope");
    const struct ctl_call call = {.method = "GET", .path = path, .accept = "text/markdown"};
    int code = path ? ctl_api_exchange(whole->line, &call, &answer) : CTL_FAILED;
    const bool gone = code == CTL_OK && answer.status == GONE;
    if (code == CTL_OK && !gone)
        code = ctl_api_check_answer(whole->line, &answer);
    if (code == CTL_OK)
        yyjson_mut_obj_add_val(
            whole->doc, yyjson_mut_doc_get_root(whole->doc), "brief",
            gone ? yyjson_mut_null(whole->doc)
                 : yyjson_mut_strncpy(whole->doc, answer.body ? answer.body : "", answer.size));
    ctl_answer_free(&answer);
    free(path);
    return code;
}

static int fetch_tree(struct whole *whole)
{
    int code;
    yyjson_mut_val *root = yyjson_mut_doc_get_root(whole->doc);
    const char *task =
        yyjson_mut_get_str(yyjson_mut_obj_get(yyjson_mut_obj_get(root, "handoff"), "task_id"));
    yyjson_mut_doc *list = ctl_fetch_task(whole->line, task ? task : "", &code);
    if (list)
        yyjson_mut_obj_add_val(whole->doc, root, "task",
                               yyjson_mut_val_mut_copy(whole->doc, yyjson_mut_doc_get_root(list)));
    yyjson_mut_doc_free(list);
    return code;
}

/* Only an operator may see decisions; for others there is none of them here. */
static int fetch_decisions(struct whole *whole)
{
    struct ctl_answer answer = {0};
    char *path = ctl_api_path("/v1/decisions?handoff=", whole->id, "");
    const struct ctl_call call = {.method = "GET", .path = path};
    int code = path ? ctl_api_exchange(whole->line, &call, &answer) : CTL_FAILED;
    if (code == CTL_OK && answer.status / 100 == 2)
        put_part(whole, "decisions", answer.body, answer.size);
    ctl_answer_free(&answer);
    free(path);
    return code;
}

/* ---- printing ----------------------------------------------------------------------------------
 */

static void put_title(const char *title)
{
    putchar('\n');
    ctl_tone_begin(stdout, CTL_STRONG);
    fputs(title, stdout);
    ctl_tone_end(stdout, CTL_STRONG);
    fputs("\n\n", stdout);
}

static void show_whole(const struct ctl_line *line, yyjson_val *whole)
{
    const char *brief = yyjson_get_str(yyjson_obj_get(whole, "brief"));
    ctl_show_handoff(line, yyjson_obj_get(whole, "handoff"));
    put_title("BRIEF");
    if (brief)
        ctl_put_lines(brief);
    else
        puts("removed by retention");
    put_title("ATTEMPTS");
    ctl_show_attempts(line, yyjson_obj_get(whole, "attempts"));
    put_title("TASK");
    ctl_show_task(line, yyjson_obj_get(whole, "task"));
    yyjson_val *decisions = yyjson_obj_get(whole, "decisions");
    if (yyjson_arr_size(yyjson_obj_get(decisions, "items")) == 0)
        return;
    put_title("DECISIONS");
    ctl_show_decisions(line, decisions);
}

static int show_fetched(const struct ctl_line *line, const char *id)
{
    struct whole whole = {.line = line, .id = id, .doc = yyjson_mut_doc_new(NULL)};
    yyjson_mut_doc_set_root(whole.doc, yyjson_mut_obj(whole.doc));
    int code = fetch_part(&whole, "handoff", "");
    if (code == CTL_OK)
        code = fetch_brief(&whole);
    if (code == CTL_OK)
        code = fetch_part(&whole, "attempts", "/attempts");
    if (code == CTL_OK)
        code = fetch_tree(&whole);
    if (code == CTL_OK)
        code = fetch_decisions(&whole);
    if (code == CTL_OK && line->format == CTL_NAME)
        ctl_put_line("", id);
    else if (code == CTL_OK)
        code = ctl_show_built(line, whole.doc, show_whole);
    yyjson_mut_doc_free(whole.doc);
    return code;
}

int ctl_show_command(const struct ctl_line *line)
{
    int code;
    char *id = ctl_whole_id(line, ctl_operand(line, 0), &code);
    if (id)
        code = show_fetched(line, id);
    free(id);
    return code;
}
