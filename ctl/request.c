/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The request of a handoff from a command line; see request.h. The options are rows of a table:
 * each names the field of the request that it fills. One thread.
 */
#include "ctl/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/input.h"

enum kind { TEXT, LIST, JSON, CONSTRAINT_JSON, CONSTRAINT_TEXT, CONSTRAINT_PAIR };

static const struct row {
    const char *option, *field;
    enum kind kind;
} rows[] = {
    {"--from", "source_agent", TEXT},
    {"--to", "target_agent", TEXT},
    {"--summary", "task_summary", TEXT},
    {"--task", "task_id", TEXT},
    {"--intent", "intent", TEXT},
    {"--memory", "memory_ids", LIST},
    {"--recent", "include_recent", JSON},
    {"--state", "state", JSON},
    {"--history", "execution_history", JSON},
    {"--expect", "expected_output", JSON},
    {"--max-tokens", "max_tokens", CONSTRAINT_JSON},
    {"--deadline", "deadline", CONSTRAINT_TEXT},
    {"--constraint", NULL, CONSTRAINT_PAIR},
    {"--strategy", "strategy", TEXT},
    {"--previous", "previous_id", TEXT},
    {"--pattern", "pattern", TEXT},
    {"--channel", "channel", TEXT},
    {"--pipeline", "pipeline", TEXT},
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
    if (!found) {
        found = list ? yyjson_mut_arr(doc) : yyjson_mut_obj(doc);
        put_member(doc, root, name, strlen(name), found);
    }
    return found;
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
    case LIST:
        return yyjson_mut_arr_append(get_or_add_member(doc, row->field, true),
                                     yyjson_mut_strcpy(doc, value));
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

/* Returns CTL_OK, or the exit code after reporting the reason. */
static int take_argument(const struct ctl_command *command, struct ctl_request *request, int argc,
                         char *const argv[], int *i)
{
    if (ctl_api_option(&request->api, argc, argv, i) ||
        ctl_take_option(request->options, request->noptions, argc, argv, i))
        return CTL_OK;
    if (strcmp(argv[*i], "--no-pins") == 0)
        return put_member(request->body, yyjson_mut_doc_get_root(request->body), "include_pins", 12,
                          yyjson_mut_false(request->body))
                   ? CTL_OK
                   : CTL_FAILED;
    if (argv[*i][0] != '-' || strcmp(argv[*i], "-") == 0)
        return CTL_OK; /* the file, which was read first */
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        const char *value = ctl_option(rows[r].option, argc, argv, i);
        if (!value)
            continue;
        if (*i < argc && set_field(request->body, &rows[r], value))
            return CTL_OK;
        fprintf(stderr, "handoffctl %s: %s: invalid value \"%s\"\n", command->name, rows[r].option,
                value);
        return CTL_USAGE;
    }
    fprintf(stderr, "handoffctl %s: unknown option %s, see handoffctl %s --help\n", command->name,
            argv[*i < argc ? *i : argc - 1], command->name);
    return CTL_USAGE;
}

/* The first argument that is neither an option nor an option's value. */
static const char *find_file(const struct ctl_request *request, int argc, char *const argv[])
{
    struct ctl_api ignored = {0};
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-' || strcmp(argv[i], "-") == 0)
            return argv[i];
        if (ctl_api_option(&ignored, argc, argv, &i) ||
            ctl_take_option(request->options, request->noptions, argc, argv, &i))
            continue;
        for (size_t r = 0; i < argc && r < sizeof(rows) / sizeof(rows[0]); r++) {
            if (ctl_option(rows[r].option, argc, argv, &i))
                break;
        }
    }
    return NULL;
}

/* The request to start with: the file's object, or an empty one. */
static int load_body(const struct ctl_command *command, struct ctl_request *request,
                     const char *path)
{
    size_t size;
    char *text;
    yyjson_doc *read = NULL;
    if (!path) {
        request->body = yyjson_mut_doc_new(NULL);
        yyjson_mut_doc_set_root(request->body, yyjson_mut_obj(request->body));
        return CTL_OK;
    }
    text = ctl_read_file(command, path, &size);
    if (!text)
        return CTL_FAILED;
    read = yyjson_read(text, size, YYJSON_READ_NUMBER_AS_RAW);
    free(text);
    if (yyjson_is_obj(yyjson_doc_get_root(read)))
        request->body = yyjson_doc_mut_copy(read, NULL);
    yyjson_doc_free(read);
    if (request->body)
        return CTL_OK;
    fprintf(stderr, "handoffctl %s: %s is not a JSON object\n", command->name, path);
    return CTL_FAILED;
}

int ctl_request_read(const struct ctl_command *command, struct ctl_request *request, int argc,
                     char *const argv[])
{
    if (argc < 2)
        return ctl_usage_error(command,
                               "expected FILE, or options such as --from, --to and --summary");
    int code = load_body(command, request, find_file(request, argc, argv));
    for (int i = 1; i < argc && code == CTL_OK; i++)
        code = take_argument(command, request, argc, argv, &i);
    return code;
}
