/* SPDX-License-Identifier: Apache-2.0 */
/* handoffctl memories: the embedded spine from a shell. One thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "ctl/document.h"
#include "ctl/input.h"
#include "ctl/show.h"
#include "ctl/table.h"
#include "ctl/text.h"

/* ---- printing ------------------------------------------------------------------------------ */

enum { LINE_MAX_BYTES = 60 };

/* Only its first line, to keep one row per memory. */
static void print_first_line(const char *text)
{
    char line[LINE_MAX_BYTES + 1];
    const size_t size = strcspn(text, "\r\n");
    snprintf(line, sizeof line, "%.*s", (int)(size < LINE_MAX_BYTES ? size : LINE_MAX_BYTES), text);
    ctl_put(stdout, line, 0);
    puts(size > LINE_MAX_BYTES ? "..." : "");
}

/* On one line. */
static void print_piece(const char *text, bool marked)
{
    char *line = strdup(text);
    for (char *at = line; at && (at = strpbrk(at, "\r\n\t")); at++)
        *at = ' ';
    ctl_tone_begin(stdout, marked ? CTL_STRONG : CTL_PLAIN);
    ctl_put(stdout, line ? line : "", 0);
    ctl_tone_end(stdout, marked ? CTL_STRONG : CTL_PLAIN);
    free(line);
}

/* The words of the query are bold on a terminal. */
static void print_snippet(yyjson_val *pieces)
{
    size_t i, n;
    yyjson_val *piece;
    if (yyjson_arr_size(pieces) == 0)
        return;
    fputs("    ", stdout);
    yyjson_arr_foreach(pieces, i, n, piece)
    {
        print_piece(yyjson_get_str(piece), i % 2 == 1);
    }
    putchar('\n');
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
    putchar('\n');
    print_snippet(yyjson_obj_get(match, "snippet"));
}

static void print_memory_row(const struct ctl_line *line, yyjson_val *memory)
{
    (void)line;
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
    print_first_line(*summary ? summary : ctl_text(memory, "content"));
    print_match(yyjson_obj_get(memory, "match"));
}

/* Those that were found are told with why. */
static void print_found_memories(const struct ctl_line *line, yyjson_val *items)
{
    size_t i, n;
    yyjson_val *memory;
    yyjson_arr_foreach(items, i, n, memory)
    {
        print_memory_row(line, memory);
    }
}

static void put_memory(struct ctl_table *table, yyjson_val *memory)
{
    const char *summary = ctl_text(memory, "summary"), *content = ctl_text(memory, "content");
    ctl_table_put(table, ctl_text(memory, "id"));
    ctl_table_put(table, ctl_text(memory, "importance"));
    ctl_table_put(table, yyjson_is_true(yyjson_obj_get(memory, "pinned")) ? "pinned" : "");
    ctl_table_put_age(table, ctl_text(memory, "created_at"));
    ctl_table_put_number(table, (double)strlen(content));
    ctl_table_put(table, ctl_text(memory, "scope"));
    ctl_table_put(table, *summary ? summary : content);
}

/* How large each is shows which one fills the envelopes. */
static void print_memory_table(const struct ctl_line *line, yyjson_val *items)
{
    static const struct ctl_column columns[] = {{"ID", CTL_SHRINKS, 16},
                                                {"IMPORTANCE", 0, 0},
                                                {"", 0, 0},
                                                {"AGE", CTL_RIGHT, 0},
                                                {"BYTES", CTL_RIGHT, 0},
                                                {"SCOPE", CTL_SHRINKS, 8},
                                                {"TEXT", CTL_SHRINKS, 8},
                                                {NULL, 0, 0}};
    size_t i, n;
    yyjson_val *memory;
    struct ctl_table *table = ctl_table_begin(line, columns);
    yyjson_arr_foreach(items, i, n, memory)
    {
        put_memory(table, memory);
    }
    ctl_table_end(table);
}

static void print_memory_list(const struct ctl_line *line, yyjson_val *list)
{
    yyjson_val *items = yyjson_obj_get(list, "items"), *first = yyjson_arr_get_first(items);
    if (!first)
        puts("no memories");
    else if (yyjson_obj_get(first, "match"))
        print_found_memories(line, items);
    else
        print_memory_table(line, items);
    if (*ctl_text(list, "next"))
        ctl_put_line("more: --cursor ", ctl_text(list, "next"));
}

static void print_memory(const struct ctl_line *line, yyjson_val *memory)
{
    print_memory_row(line, memory);
    if (*ctl_text(memory, "agent"))
        ctl_put_line("agent: ", ctl_text(memory, "agent"));
    if (*ctl_text(memory, "task_id"))
        ctl_put_line("task: ", ctl_text(memory, "task_id"));
    putchar('\n');
    ctl_put_lines(ctl_text(memory, "content"));
    putchar('\n');
}

/* ---- calling ------------------------------------------------------------------------------- */

static int call_and_print(const struct ctl_line *line, const char *method, const char *path,
                          const char *body, ctl_shown *print)
{
    struct ctl_answer answer = {0};
    int code = ctl_api_call(line, method, path, NULL, body, &answer);
    if (code == CTL_OK)
        code = ctl_show(line, &answer, print);
    ctl_answer_free(&answer);
    return code;
}

static int call_memory(const struct ctl_line *line, const char *method, const char *suffix,
                       const char *body, ctl_shown *print)
{
    char *path = ctl_api_path("/v1/memories/", ctl_operand(line, 0), suffix);
    int code = call_and_print(line, method, path, body, print);
    free(path);
    return code;
}

/* ---- storing one --------------------------------------------------------------------------- */

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

static bool add_tags(yyjson_mut_doc *doc, const struct ctl_line *line)
{
    yyjson_mut_val *tags = yyjson_mut_arr(doc);
    for (size_t i = 0; i < line->ngiven; i++) {
        if (strcmp(line->given[i].option->name, "tag") == 0)
            yyjson_mut_arr_add_str(doc, tags, line->given[i].value);
    }
    return yyjson_mut_arr_size(tags) == 0 ||
           yyjson_mut_obj_add_val(doc, yyjson_mut_doc_get_root(doc), "tags", tags);
}

/* The memory as JSON; free() it. NULL: a value is not valid UTF-8, or --metadata not valid JSON. */
static char *memory_body(const struct ctl_line *line, const char *content)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    char *body = NULL;
    yyjson_mut_doc_set_root(doc, yyjson_mut_obj(doc));
    if (add_memory_text(doc, "content", content) &&
        add_memory_text(doc, "summary", ctl_value(line, "summary")) &&
        add_memory_text(doc, "importance", ctl_value(line, "importance")) &&
        add_memory_text(doc, "scope", ctl_value(line, "scope")) &&
        add_memory_text(doc, "task_id", ctl_value(line, "task")) && add_tags(doc, line) &&
        add_metadata(doc, ctl_value(line, "metadata")) &&
        (!ctl_flag(line, "pin") ||
         yyjson_mut_obj_add_bool(doc, yyjson_mut_doc_get_root(doc), "pinned", true)))
        body = yyjson_mut_write(doc, 0, NULL);
    yyjson_mut_doc_free(doc);
    return body;
}

/* free() it; NULL: it cannot be read, or is no text, which is reported. */
static char *read_content(const struct ctl_line *line, const char *path)
{
    size_t size;
    char *read = ctl_read_file(line, path, &size);
    if (!read || !memchr(read, '\0', size))
        return read;
    free(read);
    fprintf(stderr, "handoffctl %s: %s: not a text file: it contains NUL bytes\n",
            line->command->name, path);
    return NULL;
}

int ctl_memories_put(const struct ctl_line *line)
{
    const char *content = ctl_value(line, "content"), *file = ctl_value(line, "file");
    if (!content == !file)
        return ctl_usage_error(line, "give either --content TEXT or --file FILE");
    char *read = file ? read_content(line, file) : strdup(content);
    if (!read)
        return CTL_FAILED;
    char *body = memory_body(line, read);
    int code =
        body ? call_memory(line, "PUT", "", body, print_memory_row)
             : ctl_usage_error(line, "a value is not valid UTF-8, or --metadata is not valid JSON");
    free(body);
    free(read);
    return code;
}

/* ---- the others ---------------------------------------------------------------------------- */

int ctl_memories_get(const struct ctl_line *line)
{
    return call_memory(line, "GET", "", NULL, print_memory);
}

int ctl_memories_pin(const struct ctl_line *line)
{
    return call_memory(line, "PUT", "/pin", NULL, print_memory_row);
}

int ctl_memories_unpin(const struct ctl_line *line)
{
    return call_memory(line, "DELETE", "/pin", NULL, print_memory_row);
}

int ctl_memories_rm(const struct ctl_line *line)
{
    return call_memory(line, "DELETE", "", NULL, print_memory_row);
}

static int list_memories(const struct ctl_line *line, const char *query)
{
    static const char *const filters[] = {"recent", "limit", "cursor", "scope", NULL};
    char *path = strdup("/v1/memories");
    int code = CTL_FAILED;
    if (ctl_api_add_query(&path, "query", query) && ctl_api_add_options(&path, line, filters) &&
        ctl_api_add_query(&path, "pinned", ctl_flag(line, "pinned") ? "true" : NULL))
        code = call_and_print(line, "GET", path, NULL, print_memory_list);
    free(path);
    return code;
}

int ctl_memories_list(const struct ctl_line *line)
{
    return list_memories(line, ctl_value(line, "query"));
}

int ctl_memories_search(const struct ctl_line *line)
{
    return list_memories(line, ctl_operand(line, 0));
}
