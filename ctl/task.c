/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoffctl task: the handoffs of a task as a tree. Their envelopes name the handoff that each
 * continues, so each envelope is read once; where retention has removed it, that is said. One
 * thread.
 */
#include "ctl/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "ctl/document.h"
#include "ctl/show.h"
#include "ctl/text.h"

enum { PAGE = 100, DEPTH_MAX = 64 };

struct task {
    const struct ctl_line *line;
    const char *id;
    /* {"items": [handoffs, each with previous_id, hop, removed and passed_over], "next":
       null, "task" and "next_refused": as they came} */
    yyjson_mut_doc *list;
    yyjson_mut_val *items;
};

/* ---- fetching ----------------------------------------------------------------------------------
 */

static int get_json(const struct task *task, const char *path, yyjson_doc **doc)
{
    struct ctl_answer answer = {0};
    *doc = NULL;
    int code = ctl_api_call(task->line, "GET", path, NULL, NULL, &answer);
    if (code == CTL_OK)
        *doc = yyjson_read(answer.body, answer.size, 0);
    ctl_answer_free(&answer);
    return code == CTL_OK && !*doc ? CTL_FAILED : code;
}

/* The envelope of a handoff; none where retention has removed it. */
static int get_envelope(const struct task *task, yyjson_val *handoff, yyjson_doc **doc)
{
    enum { GONE = 410 };
    struct ctl_answer answer = {0};
    char *path = ctl_api_path("/v1/handoffs/", ctl_text(handoff, "id"), "/envelope");
    const struct ctl_call call = {.method = "GET", .path = path};
    *doc = NULL;
    int code = path ? ctl_api_exchange(task->line, &call, &answer) : CTL_FAILED;
    if (code == CTL_OK && answer.status != GONE) {
        code = ctl_api_check_answer(task->line, &answer);
        if (code == CTL_OK)
            *doc = yyjson_read(answer.body, answer.size, 0);
        if (!*doc && code == CTL_OK)
            code = CTL_FAILED;
    }
    ctl_answer_free(&answer);
    free(path);
    return code;
}

/* The agents that were passed over, and why: fetched only if the handoff did not end with the agent
 * it was sent to. */
static int add_passed_over(struct task *task, yyjson_mut_val *row, yyjson_val *handoff,
                           const char *asked)
{
    yyjson_doc *attempts;
    size_t i, count;
    yyjson_val *one;
    bool straight = strcmp(ctl_text(handoff, "target_agent"), asked) == 0 &&
                    ctl_state(handoff) != HANDOFF_STATE_PARKED;
    yyjson_mut_val *passed = yyjson_mut_obj_add_arr(task->list, row, "passed_over");
    if (straight)
        return CTL_OK;
    char *path = ctl_api_path("/v1/handoffs/", ctl_text(handoff, "id"), "/attempts");
    int code = get_json(task, path, &attempts);
    free(path);
    yyjson_arr_foreach(yyjson_obj_get(yyjson_doc_get_root(attempts), "items"), i, count, one)
    {
        if (strcmp(ctl_text(one, "result"), "passed_over") == 0)
            yyjson_mut_arr_append(passed, yyjson_val_mut_copy(task->list, one));
    }
    yyjson_doc_free(attempts);
    return code;
}

/* What its envelope says, as far as it is there. */
static void add_place(struct task *task, yyjson_mut_val *row, yyjson_val *envelope)
{
    yyjson_mut_doc *list = task->list;
    const char *previous = ctl_text(yyjson_obj_get(envelope, "previous"), "id");
    yyjson_val *hop = yyjson_obj_get(yyjson_obj_get(envelope, "hop"), "count");
    yyjson_mut_obj_add_val(list, row, "previous_id",
                           *previous ? yyjson_mut_strcpy(list, previous) : yyjson_mut_null(list));
    yyjson_mut_obj_add_val(list, row, "hop",
                           hop ? yyjson_mut_sint(list, yyjson_get_sint(hop))
                               : yyjson_mut_null(list));
    yyjson_mut_obj_add_bool(list, row, "removed", !envelope);
}

static int add_handoff(struct task *task, yyjson_val *handoff)
{
    yyjson_doc *doc;
    int code = get_envelope(task, handoff, &doc);
    if (code != CTL_OK)
        return code;
    yyjson_val *envelope = yyjson_doc_get_root(doc);
    yyjson_mut_val *row = yyjson_val_mut_copy(task->list, handoff);
    add_place(task, row, envelope);
    code = add_passed_over(task, row, handoff, ctl_text(envelope, "target_agent"));
    yyjson_doc_free(doc);
    if (code != CTL_OK)
        return code;
    return yyjson_mut_arr_append(task->items, row) ? CTL_OK : CTL_FAILED;
}

static int add_page(struct task *task, yyjson_val *items)
{
    size_t i, count;
    yyjson_val *handoff;
    int code = CTL_OK;
    yyjson_arr_foreach(items, i, count, handoff)
    {
        code = add_handoff(task, handoff);
        if (code != CTL_OK)
            break;
    }
    return code;
}

/* Each page has the state of the task; the last one is the newest. */
static int take_page(struct task *task, yyjson_val *page)
{
    yyjson_val *of_task = yyjson_obj_get(page, "task");
    yyjson_val *refused = yyjson_obj_get(page, "next_refused");
    yyjson_mut_val *root = yyjson_mut_doc_get_root(task->list);
    if (of_task)
        yyjson_mut_obj_put(root, yyjson_mut_str(task->list, "task"),
                           yyjson_val_mut_copy(task->list, of_task));
    if (refused)
        yyjson_mut_obj_put(root, yyjson_mut_str(task->list, "next_refused"),
                           yyjson_val_mut_copy(task->list, refused));
    return add_page(task, yyjson_obj_get(page, "items"));
}

static int fetch_task(struct task *task)
{
    char limit[16], *cursor = NULL;
    int code = CTL_OK;
    snprintf(limit, sizeof(limit), "%d", PAGE);
    do {
        yyjson_doc *doc = NULL;
        char *path = ctl_api_path("/v1/tasks/", task->id, "");
        if (!ctl_api_add_query(&path, "limit", limit) ||
            !ctl_api_add_query(&path, "cursor", cursor))
            code = CTL_FAILED;
        else
            code = get_json(task, path, &doc);
        free(path);
        free(cursor);
        yyjson_val *list = yyjson_doc_get_root(doc);
        if (code == CTL_OK)
            code = take_page(task, list);
        cursor = *ctl_text(list, "next") ? strdup(ctl_text(list, "next")) : NULL;
        yyjson_doc_free(doc);
    } while (code == CTL_OK && cursor);
    free(cursor);
    return code;
}

/* ---- printing ----------------------------------------------------------------------------------
 */

static void print_passed_over(yyjson_val *handoff)
{
    size_t i, count;
    yyjson_val *one;
    yyjson_arr_foreach(yyjson_obj_get(handoff, "passed_over"), i, count, one)
    {
        fputs(i ? ", " : "  passed over ", stdout);
        ctl_put(stdout, ctl_text(one, "target_agent"), 0);
        fputs(" (", stdout);
        ctl_put(stdout, ctl_text(one, "error"), 0);
        putchar(')');
    }
}

static void print_node(yyjson_val *handoff, int depth)
{
    yyjson_val *completeness = yyjson_obj_get(handoff, "completeness");
    printf("%*s%s", depth > 0 ? (depth - 1) * 3 : 0, "", depth > 0 ? "`- " : "");
    ctl_put(stdout, ctl_text(handoff, "source_agent"), 0);
    fputs(" -> ", stdout);
    ctl_put(stdout, ctl_text(handoff, "target_agent"), 0);
    fputs("  ", stdout);
    ctl_put_state(stdout, handoff, 0);
    if (yyjson_is_true(yyjson_obj_get(handoff, "removed")))
        fputs("  envelope removed", stdout);
    else
        printf("  hop %.0f", ctl_number(handoff, "hop"));
    printf("  attempts %.0f  memories %.0f/%.0f  tokens %.0f  ", ctl_number(handoff, "attempts"),
           ctl_number(completeness, "included"), ctl_number(completeness, "requested"),
           ctl_number(handoff, "token_count"));
    ctl_put(stdout, ctl_text(handoff, "id"), 0);
    print_passed_over(handoff);
    const size_t gaps = ctl_open_gaps(handoff);
    if (gaps > 0)
        printf("  %zu gap%s", gaps, gaps == 1 ? "" : "s");
    if (*ctl_text(handoff, "progress")) {
        fputs("  progress: ", stdout);
        ctl_put(stdout, ctl_text(handoff, "progress"), 0);
    }
    putchar('\n');
}

static bool contains_handoff(yyjson_val *items, const char *id)
{
    size_t i, count;
    yyjson_val *handoff;
    yyjson_arr_foreach(items, i, count, handoff)
    {
        if (strcmp(ctl_text(handoff, "id"), id) == 0)
            return true;
    }
    return false;
}

/* Those that continue `parent`; with "", those whose parent is not in the list. */
static void print_children(yyjson_val *items, const char *parent, int depth)
{
    size_t i, count;
    yyjson_val *handoff;
    yyjson_arr_foreach(items, i, count, handoff)
    {
        const char *previous = ctl_text(handoff, "previous_id");
        bool is_child =
            *parent ? strcmp(previous, parent) == 0 : !contains_handoff(items, previous);
        if (!is_child)
            continue;
        print_node(handoff, depth);
        if (depth < DEPTH_MAX)
            print_children(items, ctl_text(handoff, "id"), depth + 1);
    }
}

static void print_end(const struct ctl_line *line, yyjson_val *of_task)
{
    const char *at = ctl_text(of_task, "completed_at");
    double handoffs = ctl_number(of_task, "handoffs");
    (void)line;
    if (!*at)
        return;
    fputs("completed at ", stdout);
    ctl_put(stdout, at, 0);
    printf(" after %.0f handoff%s\n", handoffs, handoffs > 1 ? "s" : "");
}

/* What agents wanted to hand on, and was refused. */
static void print_refused(yyjson_val *refused)
{
    size_t i, count;
    yyjson_val *one;
    yyjson_arr_foreach(refused, i, count, one)
    {
        fputs("refused as the next of ", stdout);
        ctl_put(stdout, ctl_text(one, "id"), 0);
        fputs(": ", stdout);
        ctl_put(stdout, ctl_text(one, "code"), 0);
        fputs(": ", stdout);
        ctl_put(stdout, ctl_text(one, "detail"), 0);
        putchar('\n');
    }
}

void ctl_show_task(const struct ctl_line *line, yyjson_val *list)
{
    print_children(yyjson_obj_get(list, "items"), "", 0);
    print_refused(yyjson_obj_get(list, "next_refused"));
    print_end(line, yyjson_obj_get(list, "task"));
}

/* ---- the commands ------------------------------------------------------------------------------
 */

yyjson_mut_doc *ctl_fetch_task(const struct ctl_line *line, const char *id, int *code)
{
    struct task task = {.line = line, .id = id, .list = yyjson_mut_doc_new(NULL)};
    yyjson_mut_val *root = yyjson_mut_obj(task.list);
    yyjson_mut_doc_set_root(task.list, root);
    task.items = yyjson_mut_obj_add_arr(task.list, root, "items");
    yyjson_mut_obj_add_null(task.list, root, "next");
    *code = task.items ? fetch_task(&task) : CTL_FAILED;
    if (*code == CTL_OK)
        return task.list;
    yyjson_mut_doc_free(task.list);
    return NULL;
}

static bool is_empty_task(yyjson_mut_doc *list)
{
    return yyjson_mut_arr_size(yyjson_mut_obj_get(yyjson_mut_doc_get_root(list), "items")) == 0;
}

/* The task of the handoff with this id; free() it. NULL: there is none, or it cannot be said. */
static char *task_of_handoff(const struct ctl_line *line, const char *id)
{
    struct ctl_answer answer = {0};
    char *path = ctl_api_path("/v1/handoffs/", id, ""), *task = NULL;
    const struct ctl_call call = {.method = "GET", .path = path, .quiet = true};
    if (path && ctl_api_exchange(line, &call, &answer) == CTL_OK && answer.status / 100 == 2) {
        yyjson_doc *doc = yyjson_read(answer.body, answer.size, 0);
        const char *found = ctl_text(yyjson_doc_get_root(doc), "task_id");
        task = *found ? strdup(found) : NULL;
        yyjson_doc_free(doc);
    }
    ctl_answer_free(&answer);
    free(path);
    return task;
}

/* Whoever has only the id of a handoff means its task. */
static yyjson_mut_doc *fetch_task_or_that_of_handoff(const struct ctl_line *line, const char *id,
                                                     int *code)
{
    yyjson_mut_doc *list = ctl_fetch_task(line, id, code);
    char *task = list && is_empty_task(list) ? task_of_handoff(line, id) : NULL;
    if (task) {
        yyjson_mut_doc_free(list);
        list = ctl_fetch_task(line, task, code);
    }
    free(task);
    return list;
}

int ctl_task(const struct ctl_line *line)
{
    int code;
    const char *id = ctl_operand(line, 0);
    yyjson_mut_doc *list = fetch_task_or_that_of_handoff(line, id, &code);
    if (!list)
        return code;
    if (!is_empty_task(list)) {
        code = ctl_show_built(line, list, ctl_show_task);
    } else {
        fprintf(stderr, "handoffctl %s: no handoffs for task %s\n", line->command->name, id);
        code = CTL_NOT_FOUND;
    }
    yyjson_mut_doc_free(list);
    return code;
}

int ctl_task_complete(const struct ctl_line *line)
{
    struct ctl_answer answer = {0};
    char *path = ctl_api_path("/v1/tasks/", ctl_operand(line, 0), "/complete");
    int code = ctl_api_call(line, "POST", path, NULL, "{}", &answer);
    if (code == CTL_OK)
        code = ctl_show(line, &answer, print_end);
    ctl_answer_free(&answer);
    free(path);
    return code;
}
