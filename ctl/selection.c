/* SPDX-License-Identifier: Apache-2.0 */
/* The parked handoffs that a decision about many is for; see selection.h. One thread. */
#include "ctl/selection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl/api.h"
#include "ctl/show.h"
#include "ctl/terminal.h"
#include "ctl/text.h"

/* ---- selecting --------------------------------------------------------------------------------
 */

struct selection {
    yyjson_mut_doc *doc;
    yyjson_mut_val *items;
    size_t limit; /* 0: none */
    char *cursor; /* of the next page; NULL: none */
};

static char *path_of_parked(const struct selection *selection, const char *target,
                            const char *cause)
{
    char *path = strdup("/v1/parked?limit=1000");
    if (ctl_api_add_query(&path, "target", target) && ctl_api_add_query(&path, "reason", cause))
        ctl_api_add_query(&path, "cursor", selection->cursor);
    return path;
}

static bool is_selection_full(const struct selection *selection)
{
    return selection->limit > 0 && yyjson_mut_arr_size(selection->items) >= selection->limit;
}

static void take_selected(struct selection *selection, yyjson_val *list)
{
    size_t i, count;
    yyjson_val *handoff;
    const char *next = ctl_text(list, "next");
    yyjson_arr_foreach(yyjson_obj_get(list, "items"), i, count, handoff)
    {
        if (!is_selection_full(selection))
            yyjson_mut_arr_append(selection->items, yyjson_val_mut_copy(selection->doc, handoff));
    }
    free(selection->cursor);
    selection->cursor = *next && !is_selection_full(selection) ? strdup(next) : NULL;
}

static int select_parked_page(const struct ctl_line *line, struct selection *selection,
                              const char *target, const char *cause)
{
    struct ctl_answer answer = {0};
    char *path = path_of_parked(selection, target, cause);
    int code = ctl_api_call(line, "GET", path, NULL, NULL, &answer);
    yyjson_doc *doc = code == CTL_OK ? yyjson_read(answer.body, answer.size, 0) : NULL;
    if (doc)
        take_selected(selection, yyjson_doc_get_root(doc));
    else if (code == CTL_OK)
        code = CTL_FAILED;
    yyjson_doc_free(doc);
    ctl_answer_free(&answer);
    free(path);
    return code;
}

yyjson_doc *ctl_select_parked(const struct ctl_line *line, const char *target, const char *cause,
                              size_t limit, int *code)
{
    struct selection selection = {.doc = yyjson_mut_doc_new(NULL), .limit = limit};
    yyjson_mut_val *root = yyjson_mut_obj(selection.doc);
    yyjson_mut_doc_set_root(selection.doc, root);
    selection.items = yyjson_mut_obj_add_arr(selection.doc, root, "items");
    yyjson_mut_obj_add_null(selection.doc, root, "next");
    do
        *code = select_parked_page(line, &selection, target, cause);
    while (*code == CTL_OK && selection.cursor);
    yyjson_doc *selected = *code == CTL_OK ? yyjson_mut_doc_imut_copy(selection.doc, NULL) : NULL;
    free(selection.cursor);
    yyjson_mut_doc_free(selection.doc);
    return selected;
}

/* ---- what is left -----------------------------------------------------------------------------
 */

static void report_left_one(const struct ctl_line *line, yyjson_val *handoff, const char *why)
{
    fprintf(stderr, "handoffctl %s: skipped ", line->command->name);
    ctl_put(stderr, ctl_text(handoff, "id"), 0);
    fputs(": ", stderr);
    ctl_put(stderr, why, 0);
    fputc('\n', stderr);
}

static bool is_same_parking(yyjson_val *one, yyjson_val *other)
{
    return strcmp(ctl_text(one, "id"), ctl_text(other, "id")) == 0 &&
           strcmp(ctl_text(one, "settled_at"), ctl_text(other, "settled_at")) == 0;
}

/* Both lists are in the order of acceptance, so one walk over each is enough: a handoff that is in
 * both is found before any that was accepted after it. */
size_t ctl_report_left(const struct ctl_line *line, yyjson_val *before, yyjson_val *after,
                       const char *why)
{
    yyjson_arr_iter were, are;
    yyjson_val *was, *is;
    size_t left = 0;
    yyjson_arr_iter_init(yyjson_obj_get(before, "items"), &were);
    yyjson_arr_iter_init(yyjson_obj_get(after, "items"), &are);
    is = yyjson_arr_iter_next(&are);
    while (is && (was = yyjson_arr_iter_next(&were))) {
        if (strcmp(ctl_text(was, "id"), ctl_text(is, "id")) != 0)
            continue;
        if (is_same_parking(was, is)) {
            report_left_one(line, was, why);
            left++;
        }
        is = yyjson_arr_iter_next(&are);
    }
    return left;
}

/* ---- progress ---------------------------------------------------------------------------------
 */

static int64_t monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct ctl_progress ctl_progress_begin(const char *verb, size_t total)
{
    return (struct ctl_progress){.verb = verb, .total = total, .started_ms = monotonic_ms()};
}

void ctl_progress_draw(const struct ctl_progress *progress, size_t done)
{
    if (!ctl_on_terminal(stderr))
        return;
    const int64_t took_ms = monotonic_ms() - progress->started_ms;
    const size_t left = progress->total > done ? progress->total - done : 0;
    ctl_line_over(stderr);
    fprintf(stderr, "%s %zu of %zu", progress->verb, done, progress->total);
    if (progress->total > 0)
        fprintf(stderr, " (%zu %%)", 100 * done / progress->total);
    if (done > 0)
        fprintf(stderr, ", %lld s left",
                (long long)(took_ms * (int64_t)left / (int64_t)done / 1000));
    fflush(stderr);
}

void ctl_progress_end(void)
{
    if (ctl_on_terminal(stderr))
        fputc('\n', stderr);
}
