/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoffctl memories: the embedded spine from a shell. Each verb is a row of a table; all verbs
 * accept all options, and a verb uses those it needs. One thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "ctl/api.h"
#include "ctl/command.h"
#include "ctl/input.h"
#include "ctl/show.h"

enum { TAGS_MAX = 64 };

struct arguments {
    const struct ctl_command *command;
    struct ctl_api api;
    const char *id;
    const char *content, *file, *summary, *importance, *metadata, *scope, *task;
    const char *tags[TAGS_MAX];
    size_t ntags;
    const char *recent, *query, *limit, *cursor;
    bool pin, pinned, json;
};

static const struct option {
    const char *name;
    size_t offset; /* of the const char * in struct arguments */
} options[] = {
#define AT(member) offsetof(struct arguments, member)
    {"--content", AT(content)},
    {"--file", AT(file)},
    {"--summary", AT(summary)},
    {"--metadata", AT(metadata)},
    {"--importance", AT(importance)},
    {"--recent", AT(recent)},
    {"--query", AT(query)},
    {"--limit", AT(limit)},
    {"--cursor", AT(cursor)},
    {"--scope", AT(scope)},
    {"--task", AT(task)},
};

static const struct flag {
    const char *name;
    size_t offset; /* of the bool */
} flags[] = {{"--pin", AT(pin)}, {"--pinned", AT(pinned)}, {"--json", AT(json)}};

/* ---- printing ------------------------------------------------------------------------------ */

enum { LINE_MAX_BYTES = 60 };

/* Only its first line, to keep one row per memory. */
static void print_line(const char *text)
{
    char line[LINE_MAX_BYTES + 1];
    const size_t size = strcspn(text, "\r\n");
    snprintf(line, sizeof line, "%.*s", (int)(size < LINE_MAX_BYTES ? size : LINE_MAX_BYTES), text);
    ctl_put(stdout, line, 0);
    puts(size > LINE_MAX_BYTES ? "..." : "");
}

/* Why it was found. */
static void print_match(yyjson_val *match)
{
    size_t i, n;
    yyjson_val *word;
    if (!match)
        return;
    const int64_t similar = yyjson_get_sint(yyjson_obj_get(match, "similar"));
    printf("    %.3f ", yyjson_get_num(yyjson_obj_get(match, "score")));
    yyjson_arr_foreach(yyjson_obj_get(match, "words"), i, n, word)
    {
        putchar(' ');
        ctl_put(stdout, yyjson_get_str(word), 0);
    }
    if (similar > 0)
        printf("  and %lld nearly the same", (long long)similar);
    printf("\n");
}

static void print_memory_row(yyjson_val *memory)
{
    const char *summary = ctl_text(memory, "summary"), *scope = ctl_text(memory, "scope");
    ctl_put(stdout, ctl_text(memory, "id"), 24);
    putchar(' ');
    ctl_put(stdout, ctl_text(memory, "importance"), 8);
    printf(" %-6s ", yyjson_is_true(yyjson_obj_get(memory, "pinned")) ? "pinned" : "");
    ctl_put(stdout, ctl_text(memory, "created_at"), 0);
    fputs("  ", stdout);
    if (*scope) {
        putchar('[');
        ctl_put(stdout, scope, 0);
        fputs("] ", stdout);
    }
    print_line(*summary ? summary : ctl_text(memory, "content"));
    print_match(yyjson_obj_get(memory, "match"));
}

static void print_memory_list(yyjson_val *list)
{
    size_t i, n;
    yyjson_val *memory;
    yyjson_arr_foreach(yyjson_obj_get(list, "items"), i, n, memory)
    {
        print_memory_row(memory);
    }
    if (*ctl_text(list, "next"))
        ctl_put_line("more: --cursor ", ctl_text(list, "next"));
}

static void print_memory(yyjson_val *memory)
{
    print_memory_row(memory);
    if (*ctl_text(memory, "agent"))
        ctl_put_line("agent: ", ctl_text(memory, "agent"));
    if (*ctl_text(memory, "task_id"))
        ctl_put_line("task: ", ctl_text(memory, "task_id"));
    putchar('\n');
    ctl_put_lines(ctl_text(memory, "content"));
    putchar('\n');
}

/* ---- calling ------------------------------------------------------------------------------- */

static int call_and_print(const struct arguments *arguments, const char *method, const char *path,
                          const char *body, void (*print)(yyjson_val *))
{
    struct ctl_answer answer = {0};
    int code = ctl_api_call(arguments->command, &arguments->api, method, path, NULL, body, &answer);
    if (code == CTL_OK)
        code = ctl_show(&answer, arguments->json, print);
    ctl_answer_free(&answer);
    return code;
}

static int call_memory(const struct arguments *arguments, const char *method, const char *suffix,
                       const char *body, void (*print)(yyjson_val *))
{
    char *path = NULL, *id = ctl_api_escape(arguments->id);
    int code = CTL_FAILED;
    if (id && asprintf(&path, "/v1/memories/%s%s", id, suffix) >= 0)
        code = call_and_print(arguments, method, path, body, print);
    free(path);
    free(id);
    return code;
}

/* ---- the verbs ----------------------------------------------------------------------------- */

static bool add_memory_text(yyjson_mut_doc *doc, const char *key, const char *text)
{
    return !text || yyjson_mut_obj_add_str(doc, yyjson_mut_doc_get_root(doc), key, text);
}

static bool add_metadata(yyjson_mut_doc *doc, const char *text)
{
    if (!text)
        return true;
    yyjson_doc *read = yyjson_read(text, strlen(text), YYJSON_READ_NUMBER_AS_RAW);
    yyjson_mut_val *value = read ? yyjson_val_mut_copy(doc, yyjson_doc_get_root(read)) : NULL;
    yyjson_doc_free(read);
    return value && yyjson_mut_obj_add_val(doc, yyjson_mut_doc_get_root(doc), "metadata", value);
}

static bool add_tags(yyjson_mut_doc *doc, const struct arguments *arguments)
{
    yyjson_mut_val *tags = yyjson_mut_arr(doc);
    for (size_t i = 0; i < arguments->ntags; i++)
        yyjson_mut_arr_add_str(doc, tags, arguments->tags[i]);
    return !arguments->ntags ||
           yyjson_mut_obj_add_val(doc, yyjson_mut_doc_get_root(doc), "tags", tags);
}

/* The memory as JSON; free() it. NULL: a value is not valid UTF-8, or --metadata not valid JSON. */
static char *memory_body(const struct arguments *arguments, const char *content)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    char *body = NULL;
    yyjson_mut_doc_set_root(doc, yyjson_mut_obj(doc));
    if (add_memory_text(doc, "content", content) &&
        add_memory_text(doc, "summary", arguments->summary) &&
        add_memory_text(doc, "importance", arguments->importance) &&
        add_memory_text(doc, "scope", arguments->scope) &&
        add_memory_text(doc, "task_id", arguments->task) && add_tags(doc, arguments) &&
        add_metadata(doc, arguments->metadata) &&
        (!arguments->pin ||
         yyjson_mut_obj_add_bool(doc, yyjson_mut_doc_get_root(doc), "pinned", true)))
        body = yyjson_mut_write(doc, 0, NULL);
    yyjson_mut_doc_free(doc);
    return body;
}

static int run_memory_put(const struct arguments *arguments)
{
    size_t size;
    char *read = NULL;
    if (!arguments->content == !arguments->file)
        return ctl_usage_error(arguments->command, "give either --content TEXT or --file FILE");
    if (arguments->file) {
        read = ctl_read_file(arguments->command, arguments->file, &size);
        if (!read)
            return CTL_FAILED;
        if (memchr(read, '\0', size)) {
            free(read);
            fprintf(stderr, "handoffctl %s: %s: not a text file: it contains NUL bytes\n",
                    arguments->command->name, arguments->file);
            return CTL_FAILED;
        }
    }
    char *body = memory_body(arguments, read ? read : arguments->content);
    int code = body
                   ? call_memory(arguments, "PUT", "", body, print_memory_row)
                   : ctl_usage_error(arguments->command,
                                     "a value is not valid UTF-8, or --metadata is not valid JSON");
    free(body);
    free(read);
    return code;
}

static int run_memory_get(const struct arguments *arguments)
{
    return call_memory(arguments, "GET", "", NULL, print_memory);
}

static int run_memory_pin(const struct arguments *arguments)
{
    return call_memory(arguments, "PUT", "/pin", NULL, print_memory_row);
}

static int run_memory_unpin(const struct arguments *arguments)
{
    return call_memory(arguments, "DELETE", "/pin", NULL, print_memory_row);
}

static int run_memory_rm(const struct arguments *arguments)
{
    return call_memory(arguments, "DELETE", "", NULL, print_memory_row);
}

static int run_memory_list(const struct arguments *arguments)
{
    const struct {
        const char *name, *value;
    } parts[] = {{"recent", arguments->recent}, {"query", arguments->query},
                 {"limit", arguments->limit},   {"cursor", arguments->cursor},
                 {"scope", arguments->scope},   {"pinned", arguments->pinned ? "true" : NULL}};
    char *path = strdup("/v1/memories");
    for (size_t i = 0, n = 0; i < sizeof(parts) / sizeof(parts[0]) && path; i++) {
        if (!parts[i].value)
            continue;
        char *value = ctl_api_escape(parts[i].value), *longer = NULL;
        if (!value ||
            asprintf(&longer, "%s%c%s=%s", path, n++ ? '&' : '?', parts[i].name, value) < 0)
            longer = NULL;
        free(value);
        free(path);
        path = longer;
    }
    int code = path ? call_and_print(arguments, "GET", path, NULL, print_memory_list) : CTL_FAILED;
    free(path);
    return code;
}

/* What stands in the place of an id is the query. */
static int run_memory_search(const struct arguments *arguments)
{
    struct arguments listed = *arguments;
    listed.query = arguments->id;
    return run_memory_list(&listed);
}

static const struct verb {
    const char *name;
    bool takes_id;
    int (*run)(const struct arguments *arguments);
} verbs[] = {
    {"put", true, run_memory_put},       {"get", true, run_memory_get},
    {"list", false, run_memory_list},    {"pin", true, run_memory_pin},
    {"unpin", true, run_memory_unpin},   {"rm", true, run_memory_rm},
    {"search", true, run_memory_search},
};

/* ---- the command line ---------------------------------------------------------------------- */

static bool take_memory_option(struct arguments *arguments, int argc, char *const argv[], int *i)
{
    for (size_t o = 0; o < sizeof(options) / sizeof(options[0]); o++) {
        const char *value = ctl_option(options[o].name, argc, argv, i);
        if (!value)
            continue;
        *(const char **)(void *)((char *)arguments + options[o].offset) = value;
        return *i < argc;
    }
    for (size_t f = 0; f < sizeof(flags) / sizeof(flags[0]); f++) {
        if (strcmp(argv[*i], flags[f].name) != 0)
            continue;
        *(bool *)(void *)((char *)arguments + flags[f].offset) = true;
        return true;
    }
    const char *tag = ctl_option("--tag", argc, argv, i);
    if (!tag || *i >= argc || arguments->ntags == TAGS_MAX)
        return false;
    arguments->tags[arguments->ntags++] = tag;
    return true;
}

static int take_memory_arguments(struct arguments *arguments, bool takes_id, int argc,
                                 char *const argv[])
{
    for (int i = 2; i < argc; i++) {
        const char *argument = argv[i];
        if (takes_id && !arguments->id && argument[0] != '-') {
            arguments->id = argument;
        } else if (!ctl_api_option(&arguments->api, argc, argv, &i) &&
                   !take_memory_option(arguments, argc, argv, &i)) {
            fprintf(stderr, "handoffctl %s: %s: unknown option, or its value is missing\n",
                    arguments->command->name, argument);
            return CTL_USAGE;
        }
    }
    return takes_id && !arguments->id ? ctl_usage_error(arguments->command, "missing ID") : CTL_OK;
}

int ctl_memories(const struct ctl_command *command, int argc, char *const argv[])
{
    struct arguments arguments = {.command = command};
    for (size_t i = 0; argc > 1 && i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (strcmp(argv[1], verbs[i].name) != 0)
            continue;
        int code = take_memory_arguments(&arguments, verbs[i].takes_id, argc, argv);
        return code == CTL_OK ? verbs[i].run(&arguments) : code;
    }
    return ctl_usage_error(command, "expected a verb: put, get, list, search, pin, unpin or rm");
}
