/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and checks the table of a remote spine, see table.h. Pure; any thread. */
#include "client/spine/remote/table.h"

#include <string.h>

#include "client/spine/remote/wire.h"
#include "lib/base/error.h"
#include "lib/base/json.h"

static const char *const operation_names[HANDOFF_REMOTE_OPERATIONS] = {
    [HANDOFF_REMOTE_GET] = "get",       [HANDOFF_REMOTE_GET_MANY] = "get_many",
    [HANDOFF_REMOTE_SEARCH] = "search", [HANDOFF_REMOTE_RECENT] = "recent",
    [HANDOFF_REMOTE_PINNED] = "pinned", [HANDOFF_REMOTE_PUT] = "put",
    [HANDOFF_REMOTE_DELETE] = "delete",
};

static const char *const member_names[HANDOFF_REMOTE_MEMBERS] = {
    [HANDOFF_REMOTE_ID] = "id",
    [HANDOFF_REMOTE_CONTENT] = "content",
    [HANDOFF_REMOTE_SUMMARY] = "summary",
    [HANDOFF_REMOTE_IMPORTANCE] = "importance",
    [HANDOFF_REMOTE_TAGS] = "tags",
    [HANDOFF_REMOTE_METADATA] = "metadata",
    [HANDOFF_REMOTE_PINNED_MEMBER] = "pinned",
    [HANDOFF_REMOTE_CREATED_AT] = "created_at",
    [HANDOFF_REMOTE_UPDATED_AT] = "updated_at",
    [HANDOFF_REMOTE_SCOPE] = "scope",
    [HANDOFF_REMOTE_AGENT] = "agent",
    [HANDOFF_REMOTE_TASK_ID] = "task_id",
};

const char *handoff_remote_operation_name(enum handoff_remote_operation operation)
{
    return operation_names[operation];
}

/* ---- refusing -------------------------------------------------------------------------------- */

enum handoff_code handoff_remote_refuse_entry(const char *place, const char *member,
                                              const char *message, const char *seen,
                                              const char *allowed, struct handoff_error *error)
{
    handoff_error_set(error, HANDOFF_ERR_INVALID, message, NULL, NULL);
    handoff_error_field(error, "%s%s%s", place, *place && *member ? "." : "", member);
    if (seen)
        handoff_error_seen(error, "%.100s", seen);
    handoff_error_allow(error, "%s", allowed);
    return HANDOFF_ERR_INVALID;
}

int handoff_remote_find_name(const char *const *names, int count, const char *name)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0)
            return i;
    }
    return -1;
}

/* ---- pointers -------------------------------------------------------------------------------- */

/* "" or "/a/0/~1b" */
static bool is_json_pointer(struct base_span text)
{
    if (text.size > 0 && text.data[0] != '/')
        return false;
    for (size_t i = 0; i < text.size; i++) {
        const char next = i + 1 < text.size ? text.data[i + 1] : '\0';
        if (text.data[i] == '\0' || (text.data[i] == '~' && next != '0' && next != '1'))
            return false;
    }
    return true;
}

static enum handoff_code read_pointer(yyjson_val *value, const char *place, const char *member,
                                      struct base_span *pointer, struct handoff_error *error)
{
    const struct base_span text = base_json_span(value);
    if (!text.data || !is_json_pointer(text))
        return handoff_remote_refuse_entry(
            place, member, "this is not a JSON pointer", text.data,
            "a JSON pointer (RFC 6901) such as /result/items, or empty for the whole", error);
    *pointer = text;
    return HANDOFF_OK;
}

/* ---- operations ------------------------------------------------------------------------------ */

static enum handoff_code refuse_unknown_keys(yyjson_val *object, const char *place,
                                             const char *const *names, int count,
                                             const char *allowed, struct handoff_error *error)
{
    size_t i, n;
    yyjson_val *key, *value;
    if (!object)
        return HANDOFF_OK;
    yyjson_obj_foreach(object, i, n, key, value)
    {
        if (handoff_remote_find_name(names, count, yyjson_get_str(key)) < 0)
            return handoff_remote_refuse_entry(place, yyjson_get_str(key), "unknown key", NULL,
                                               allowed, error);
    }
    return HANDOFF_OK;
}

/* "{limit}" and the like: letters and underscores in braces. */
static bool looks_like_placeholder(struct base_span text)
{
    if (text.size < 3 || text.data[0] != '{' || text.data[text.size - 1] != '}')
        return false;
    for (size_t i = 1; i + 1 < text.size; i++) {
        if (text.data[i] != '_' && (text.data[i] < 'a' || text.data[i] > 'z'))
            return false;
    }
    return true;
}

static bool is_known_placeholder(struct base_span text, bool puts)
{
    static const char *const names[] = {"{id}",     "{ids}",      "{query}",     "{limit}",
                                        "{scopes}", "{content}",  "{summary}",   "{importance}",
                                        "{tags}",   "{metadata}", "{pinned}",    "{scope}",
                                        "{agent}",  "{task_id}",  "{created_at}"};
    enum { OF_ALL = 5, OF_PUT = sizeof names / sizeof *names };
    return handoff_remote_find_name(names, puts ? OF_PUT : OF_ALL, text.data) >= 0;
}

/* Looks for a placeholder that has no value: it would be sent as it is. NULL: there is none. As
   deep as a document may be. */
static const char *find_stray_placeholder(yyjson_val *value, bool puts)
{
    size_t i, n;
    yyjson_val *key, *inner;
    const char *stray = NULL;
    if (yyjson_is_str(value)) {
        const struct base_span text = base_json_span(value);
        return looks_like_placeholder(text) && !is_known_placeholder(text, puts) ? text.data : NULL;
    }
    if (yyjson_is_arr(value)) {
        yyjson_arr_foreach(value, i, n, inner) stray =
            stray ? stray : find_stray_placeholder(inner, puts);
    } else if (yyjson_is_obj(value)) {
        yyjson_obj_foreach(value, i, n, key, inner) stray =
            stray ? stray : find_stray_placeholder(inner, puts);
    }
    return stray;
}

static enum handoff_code check_template(const struct handoff_remote_wire *wire, const char *place,
                                        yyjson_val *template, bool puts,
                                        struct handoff_error *error)
{
    const char *stray = find_stray_placeholder(template, puts);
    if (!stray)
        return HANDOFF_OK;
    return handoff_remote_refuse_entry(place, wire->template_key, "unknown placeholder", stray,
                                       puts ? "{id}, or a member of a memory in braces"
                                            : "{id}, {ids}, {query}, {limit} or {scopes}",
                                       error);
}

/* In a path it may be part of the text. */
static bool says_placeholder(yyjson_val *value, const char *name)
{
    size_t i, n;
    yyjson_val *key, *inner;
    bool says = yyjson_is_str(value) && strstr(yyjson_get_str(value), name);
    if (yyjson_is_arr(value)) {
        yyjson_arr_foreach(value, i, n, inner) says = says || says_placeholder(inner, name);
    } else if (yyjson_is_obj(value)) {
        yyjson_obj_foreach(value, i, n, key, inner) says = says || says_placeholder(inner, name);
    }
    return says;
}

/* Without it, every request would be the same. */
static enum handoff_code check_needed_placeholder(const struct handoff_remote_wire *wire,
                                                  yyjson_val *object, const char *place,
                                                  enum handoff_remote_operation operation,
                                                  struct handoff_error *error)
{
    static const char *const needed[HANDOFF_REMOTE_OPERATIONS] = {
        [HANDOFF_REMOTE_GET] = "{id}",
        [HANDOFF_REMOTE_GET_MANY] = "{ids}",
        [HANDOFF_REMOTE_SEARCH] = "{query}",
        [HANDOFF_REMOTE_DELETE] = "{id}",
    };
    const char *name = needed[operation];
    char allowed[64];
    yyjson_val *path = yyjson_obj_get(object, "path");
    if (!name || says_placeholder(path, name) ||
        says_placeholder(yyjson_obj_get(object, wire->template_key), name))
        return HANDOFF_OK;
    snprintf(allowed, sizeof allowed, "%s in %s%s", name, path ? "path or " : "",
             wire->template_key);
    return handoff_remote_refuse_entry(place, "", "a placeholder is missing", yyjson_get_str(path),
                                       allowed, error);
}

static enum handoff_code read_table_row(const struct handoff_remote_wire *wire, yyjson_val *object,
                                        const char *place, bool puts,
                                        struct handoff_remote_row *row, struct handoff_error *error)
{
    yyjson_val *memories = yyjson_obj_get(object, "memories"),
               *more = yyjson_obj_get(object, "more");
    if (!yyjson_is_obj(object))
        return handoff_remote_refuse_entry(place, "", "wrong type", NULL, "an object", error);
    enum handoff_code code = refuse_unknown_keys(object, place, wire->row_keys, wire->row_key_count,
                                                 wire->row_keys_text, error);
    row->exists = true;
    row->template = yyjson_obj_get(object, wire->template_key);
    row->memories = base_span("", 0);
    if (code == HANDOFF_OK)
        code = wire->read_row(object, place, row, error);
    if (code == HANDOFF_OK)
        code = check_template(wire, place, row->template, puts, error);
    if (code == HANDOFF_OK && memories)
        code = read_pointer(memories, place, "memories", &row->memories, error);
    if (code == HANDOFF_OK && more)
        code = read_pointer(more, place, "more", &row->more, error);
    return code;
}

static enum handoff_code read_table_operations(struct handoff_remote_table *table,
                                               const struct handoff_remote_wire *wire,
                                               yyjson_val *operations, struct handoff_error *error)
{
    char place[64];
    enum handoff_code code =
        refuse_unknown_keys(operations, "operations", operation_names, HANDOFF_REMOTE_OPERATIONS,
                            "get, get_many, search, recent, pinned, put and delete", error);
    for (int i = 0; i < HANDOFF_REMOTE_OPERATIONS && code == HANDOFF_OK; i++) {
        yyjson_val *row = yyjson_obj_get(operations, operation_names[i]);
        if (!row)
            continue;
        snprintf(place, sizeof place, "operations.%s", operation_names[i]);
        code = read_table_row(wire, row, place, i == HANDOFF_REMOTE_PUT, &table->rows[i], error);
        if (code == HANDOFF_OK)
            code =
                check_needed_placeholder(wire, row, place, (enum handoff_remote_operation)i, error);
    }
    if (code == HANDOFF_OK && !table->rows[HANDOFF_REMOTE_GET].exists &&
        !table->rows[HANDOFF_REMOTE_GET_MANY].exists)
        return handoff_remote_refuse_entry("operations", "",
                                           "no operation finds a memory by its id", NULL,
                                           "at least get or get_many", error);
    return code;
}

/* Of what is not named, the pointer is the member's own name. null: answers lack it. */
static enum handoff_code read_member_pointers(struct handoff_remote_table *table,
                                              yyjson_val *members, struct handoff_error *error)
{
    static const char *const usual[HANDOFF_REMOTE_MEMBERS] = {
        "/id",     "/content",    "/summary",    "/importance", "/tags",  "/metadata",
        "/pinned", "/created_at", "/updated_at", "/scope",      "/agent", "/task_id"};
    enum handoff_code code =
        refuse_unknown_keys(members, "memory", member_names, HANDOFF_REMOTE_MEMBERS,
                            "the members of a memory, such as id, content and importance", error);
    for (int i = 0; i < HANDOFF_REMOTE_MEMBERS && code == HANDOFF_OK; i++) {
        yyjson_val *pointer = yyjson_obj_get(members, member_names[i]);
        const bool needed = i == HANDOFF_REMOTE_ID || i == HANDOFF_REMOTE_CONTENT;
        if (!pointer)
            table->members[i] = base_span_text(usual[i]);
        else if (!yyjson_is_null(pointer) || needed)
            code = read_pointer(pointer, "memory", member_names[i], &table->members[i], error);
    }
    return code;
}

/* ---- the table ------------------------------------------------------------------------------- */

enum handoff_code handoff_remote_table_read(struct handoff_remote_table *table,
                                            const struct handoff_remote_wire *wire,
                                            const char *text, struct handoff_error *error)
{
    static const char *const keys[] = {"operations", "memory"};
    *table = (struct handoff_remote_table){0};
    base_arena_init(&table->arena, 0);
    enum handoff_code code =
        base_json_read(base_span_text(text), "the table of the spine", &table->doc, error);
    if (code != HANDOFF_OK)
        return code;
    yyjson_val *root = yyjson_doc_get_root(table->doc);
    yyjson_val *operations = yyjson_obj_get(root, "operations");
    yyjson_val *members = yyjson_obj_get(root, "memory");
    if (!yyjson_is_obj(operations))
        return handoff_remote_refuse_entry("operations", "", "wrong type", NULL,
                                           "an object with operations", error);
    if (members && !yyjson_is_obj(members))
        return handoff_remote_refuse_entry("memory", "", "wrong type", NULL,
                                           "an object with JSON pointers", error);
    code = refuse_unknown_keys(root, "", keys, 2, "operations and memory", error);
    if (code == HANDOFF_OK)
        code = read_table_operations(table, wire, operations, error);
    return code == HANDOFF_OK ? read_member_pointers(table, members, error) : code;
}

void handoff_remote_table_free(struct handoff_remote_table *table)
{
    yyjson_doc_free(table->doc);
    base_arena_free(&table->arena);
    *table = (struct handoff_remote_table){0};
}
