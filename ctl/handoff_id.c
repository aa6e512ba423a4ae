/* SPDX-License-Identifier: Apache-2.0 */
/* The id of a handoff from its beginning; see handoff_id.h. One thread. */
#include "ctl/handoff_id.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "ctl/api.h"
#include "ctl/show.h"
#include "ctl/text.h"

enum { ID_LENGTH = 36, BEGINNING_LEAST = 4, NAMED_OF_SEVERAL = 5 };
static const char lowest_id[] = "00000000-0000-0000-0000-000000000000";
static const char highest_id[] = "ffffffff-ffff-ffff-ffff-ffffffffffff";

static bool is_beginning(const char *text)
{
    const size_t length = strlen(text);
    if (length < BEGINNING_LEAST || length >= ID_LENGTH)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (lowest_id[i] == '-' ? text[i] != '-' : !strchr("0123456789abcdef", text[i]))
            return false;
    }
    return true;
}

/* ---- finding ----------------------------------------------------------------------------------
 */

/* Those that begin so, up to NAMED_OF_SEVERAL. */
struct search {
    const char *beginning;
    char cursor[ID_LENGTH + 1];
    yyjson_mut_doc *doc;
    yyjson_mut_val *found; /* handoffs */
    bool over;
};

static bool begins_so(const struct search *search, const char *id)
{
    return strncmp(id, search->beginning, strlen(search->beginning)) == 0;
}

/* The list is in the order of ids, so the search is over at the first one that begins otherwise. */
static void take_page_of_ids(struct search *search, yyjson_val *list)
{
    size_t i, count;
    yyjson_val *handoff;
    const char *next = ctl_text(list, "next");
    yyjson_arr_foreach(yyjson_obj_get(list, "items"), i, count, handoff)
    {
        search->over |= !begins_so(search, ctl_text(handoff, "id"));
        if (!search->over)
            yyjson_mut_arr_append(search->found, yyjson_val_mut_copy(search->doc, handoff));
    }
    snprintf(search->cursor, sizeof search->cursor, "%s", next);
    search->over |=
        !begins_so(search, next) || yyjson_mut_arr_size(search->found) >= NAMED_OF_SEVERAL;
}

static int look_for_ids(const struct ctl_line *line, struct search *search)
{
    char path[128];
    struct ctl_answer answer = {0};
    snprintf(path, sizeof path, "/v1/handoffs?limit=%d&cursor=%s", NAMED_OF_SEVERAL,
             search->cursor);
    int code = ctl_api_call(line, "GET", path, NULL, NULL, &answer);
    yyjson_doc *doc = code == CTL_OK ? yyjson_read(answer.body, answer.size, 0) : NULL;
    if (doc)
        take_page_of_ids(search, yyjson_doc_get_root(doc));
    yyjson_doc_free(doc);
    ctl_answer_free(&answer);
    return code == CTL_OK && !doc ? CTL_FAILED : code;
}

/* A page begins behind its cursor, so this is the greatest id below all that begin so. */
static void put_cursor_before(struct search *search)
{
    size_t at = strlen(search->beginning);
    snprintf(search->cursor, sizeof search->cursor, "%s%s", search->beginning, highest_id + at);
    while (at > 0) {
        char *digit = &search->cursor[--at];
        if (*digit == '-')
            continue;
        if (*digit != '0') {
            *digit = *digit == 'a' ? '9' : (char)(*digit - 1);
            return;
        }
        *digit = 'f';
    }
    memcpy(search->cursor, lowest_id, sizeof lowest_id); /* nothing is below */
}

/* ---- the one ----------------------------------------------------------------------------------
 */

static int report_several(const struct ctl_line *line, const struct search *search)
{
    size_t i, count;
    yyjson_mut_val *handoff;
    fprintf(stderr, "handoffctl %s: several handoffs begin with %s; give more of the id:\n",
            line->command->name, search->beginning);
    yyjson_mut_arr_foreach(search->found, i, count, handoff)
    {
        fputs("  ", stderr);
        ctl_put(stderr, yyjson_mut_get_str(yyjson_mut_obj_get(handoff, "id")), 0);
        fputs("  ", stderr);
        ctl_put(stderr, yyjson_mut_get_str(yyjson_mut_obj_get(handoff, "state")), 0);
        fputc('\n', stderr);
    }
    return CTL_FAILED;
}

static char *choose_id(const struct ctl_line *line, const struct search *search, int *code)
{
    yyjson_mut_val *first = yyjson_mut_arr_get_first(search->found);
    if (yyjson_mut_arr_size(search->found) == 1)
        return strdup(yyjson_mut_get_str(yyjson_mut_obj_get(first, "id")));
    *code = CTL_NOT_FOUND;
    if (first)
        *code = report_several(line, search);
    else
        fprintf(stderr, "handoffctl %s: no handoff begins with %s\n", line->command->name,
                search->beginning);
    return NULL;
}

char *ctl_whole_id(const struct ctl_line *line, const char *text, int *code)
{
    *code = CTL_OK;
    if (!is_beginning(text))
        return strdup(text);
    struct search search = {.beginning = text, .doc = yyjson_mut_doc_new(NULL)};
    search.found = yyjson_mut_arr(search.doc);
    put_cursor_before(&search);
    while (*code == CTL_OK && !search.over)
        *code = look_for_ids(line, &search);
    char *id = *code == CTL_OK ? choose_id(line, &search, code) : NULL;
    yyjson_mut_doc_free(search.doc);
    return id;
}

int ctl_whole_ids_of_options(struct ctl_line *line)
{
    int code = CTL_OK;
    for (size_t i = 0; i < line->ngiven && code == CTL_OK; i++) {
        struct ctl_given *given = &line->given[i];
        if (given->option->kind != CTL_HANDOFF)
            continue;
        given->whole = ctl_whole_id(line, given->value, &code);
        given->value = given->whole;
    }
    return code;
}
