/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The request of a handoff from a command line; see request.h. The options are rows of a table:
 * each names the field of the request that it fills. One thread.
 */
#include "ctl/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "ctl/input.h"

enum kind { TEXT, LIST, JSON, YES, NO, CONSTRAINT_JSON, CONSTRAINT_TEXT, CONSTRAINT_PAIR };

static const struct row {
    const char *option, *field;
    enum kind kind;
} rows[] = {
    {"from", "source_agent", TEXT},
    {"to", "target_agent", TEXT},
    {"summary", "task_summary", TEXT},
    {"task", "task_id", TEXT},
    {"intent", "intent", TEXT},
    {"memory", "memory_ids", LIST},
    {"recent", "include_recent", JSON},
    {"state", "state", JSON},
    {"history", "execution_history", JSON},
    {"expect", "expected_output", JSON},
    {"max-tokens", "max_tokens", CONSTRAINT_JSON},
    {"deadline", "deadline", CONSTRAINT_TEXT},
    {"constraint", NULL, CONSTRAINT_PAIR},
    {"strategy", "strategy", TEXT},
    {"previous", "previous_id", LIST},
    {"new-chain", "new_chain", YES},
    {"scope", "scope", LIST},
    {"pattern", "pattern", TEXT},
    {"channel", "channel", TEXT},
    {"pipeline", "pipeline", TEXT},
    {"no-pins", "include_pins", NO},
};

/* ---- filling the request -----------------------------------------------------------------------
 */

/* The JSON value in the text, or the text as a string if it is not JSON and that is allowed. */
static yyjson_mut_val *json_or_text(yyjson_mut_doc *doc, const char *text, bool text_allowed)
{
    yyjson_doc *read = yyjson_read(text, strlen(text), YYJSON_READ_NUMBER_AS_RAW);
    yyjson_mut_val *value = read ? yyjson_val_mut_copy(doc, yyjson_doc_get_root(read)) : NULL;
    yyjson_doc_free(read);
    return value || !text_allowed ? value : yyjson_mut_strcpy(doc, text);
}

static bool put_member(yyjson_mut_doc *doc, yyjson_mut_val *object, const char *key, size_t length,
                       yyjson_mut_val *value)
{
    return value && yyjson_mut_obj_put(object, yyjson_mut_strncpy(doc, key, length), value);
}

/* The member of the root with this name, added if it does not exist. */
static yyjson_mut_val *get_or_add_member(yyjson_mut_doc *doc, const char *name, bool list)
{
    yyjson_mut_val *root = yyjson_mut_doc_get_root(doc), *found = yyjson_mut_obj_get(root, name);
    if (!found || yyjson_mut_is_null(found)) {
        found = list ? yyjson_mut_arr(doc) : yyjson_mut_obj(doc);
        put_member(doc, root, name, strlen(name), found);
    }
    return found;
}

/* Fields such as previous_id are one text or several: that of a file becomes the first. */
static yyjson_mut_val *list_of_texts(yyjson_mut_doc *doc, const char *name)
{
    yyjson_mut_val *root = yyjson_mut_doc_get_root(doc), *found = yyjson_mut_obj_get(root, name);
    if (!yyjson_mut_is_str(found))
        return get_or_add_member(doc, name, true);
    yyjson_mut_val *only = yyjson_mut_strcpy(doc, yyjson_mut_get_str(found));
    yyjson_mut_obj_remove_key(root, name);
    yyjson_mut_arr_append(get_or_add_member(doc, name, true), only);
    return yyjson_mut_obj_get(root, name);
}

static bool put_constraint_pair(yyjson_mut_doc *doc, const char *pair)
{
    const char *equals = strchr(pair, '=');
    return equals && equals > pair &&
           put_member(doc, get_or_add_member(doc, "constraints", false), pair,
                      (size_t)(equals - pair), json_or_text(doc, equals + 1, true));
}

static bool set_field(yyjson_mut_doc *doc, const struct row *row, const char *value)
{
    yyjson_mut_val *root = yyjson_mut_doc_get_root(doc);
    size_t length = row->field ? strlen(row->field) : 0;
    switch (row->kind) {
    case TEXT:
        return put_member(doc, root, row->field, length, yyjson_mut_strcpy(doc, value));
    case JSON:
        return put_member(doc, root, row->field, length, json_or_text(doc, value, false));
    case YES:
        return put_member(doc, root, row->field, length, yyjson_mut_true(doc));
    case NO:
        return put_member(doc, root, row->field, length, yyjson_mut_false(doc));
    case LIST:
        return yyjson_mut_arr_append(list_of_texts(doc, row->field), yyjson_mut_strcpy(doc, value));
    case CONSTRAINT_JSON:
        return put_member(doc, get_or_add_member(doc, "constraints", false), row->field, length,
                          json_or_text(doc, value, false));
    case CONSTRAINT_TEXT:
        return put_member(doc, get_or_add_member(doc, "constraints", false), row->field, length,
                          yyjson_mut_strcpy(doc, value));
    default:
        return put_constraint_pair(doc, value);
    }
}

static const struct row *row_of_option(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].option, name) == 0)
            return &rows[i];
    }
    return NULL; /* an option of the command itself */
}

static int set_fields(const struct ctl_line *line, yyjson_mut_doc *doc)
{
    for (size_t i = 0; i < line->ngiven; i++) {
        const struct ctl_given *given = &line->given[i];
        const struct row *row = row_of_option(given->option->name);
        if (row && !set_field(doc, row, given->value)) {
            fprintf(stderr, "handoffctl %s: --%s: invalid value \"%s\"\n", line->command->name,
                    row->option, given->value);
            return CTL_USAGE;
        }
    }
    return CTL_OK;
}

/* The request to start with: the file's object, or an empty one. NULL: it cannot be read, which is
 * reported. */
static yyjson_mut_doc *load_body(const struct ctl_line *line, const char *path)
{
    size_t size;
    if (!path) {
        yyjson_mut_doc *empty = yyjson_mut_doc_new(NULL);
        yyjson_mut_doc_set_root(empty, yyjson_mut_obj(empty));
        return empty;
    }
    char *text = ctl_read_file(line, path, &size);
    if (!text)
        return NULL;
    yyjson_mut_doc *body = NULL;
    yyjson_doc *read = yyjson_read(text, size, YYJSON_READ_NUMBER_AS_RAW);
    free(text);
    if (yyjson_is_obj(yyjson_doc_get_root(read)))
        body = yyjson_doc_mut_copy(read, NULL);
    yyjson_doc_free(read);
    if (!body)
        fprintf(stderr, "handoffctl %s: %s is not a JSON object\n", line->command->name, path);
    return body;
}

bool ctl_request_is_given(const struct ctl_line *line, const char *file)
{
    bool given = file != NULL;
    for (size_t i = 0; i < line->ngiven; i++)
        given |= row_of_option(line->given[i].option->name) != NULL;
    return given;
}

int ctl_request_body(const struct ctl_line *line, const char *file, char **body)
{
    if (!ctl_request_is_given(line, file))
        return ctl_usage_error(line, "expected FILE, or options such as --from and --summary");
    yyjson_mut_doc *doc = load_body(line, file);
    if (!doc)
        return CTL_FAILED;
    int code = set_fields(line, doc);
    if (code == CTL_OK)
        *body = yyjson_mut_write(doc, 0, NULL);
    yyjson_mut_doc_free(doc);
    if (code == CTL_OK && !*body) {
        fprintf(stderr, "handoffctl %s: a value is not UTF-8\n", line->command->name);
        code = CTL_USAGE;
    }
    return code;
}
