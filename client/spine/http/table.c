/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and checks the table of a remote spine, see table.h. Pure; any thread. */
#include "client/spine/http/table.h"

#include <string.h>

#include "lib/base/error.h"
#include "lib/base/json.h"

static const char *const operation_names[HANDOFF_HTTP_OPERATIONS] = {
    [HANDOFF_HTTP_GET] = "get",       [HANDOFF_HTTP_GET_MANY] = "get_many",
    [HANDOFF_HTTP_SEARCH] = "search", [HANDOFF_HTTP_RECENT] = "recent",
    [HANDOFF_HTTP_PINNED] = "pinned", [HANDOFF_HTTP_PUT] = "put",
    [HANDOFF_HTTP_DELETE] = "delete",
};

static const char *const member_names[HANDOFF_HTTP_MEMBERS] = {
    [HANDOFF_HTTP_ID] = "id",
    [HANDOFF_HTTP_CONTENT] = "content",
    [HANDOFF_HTTP_SUMMARY] = "summary",
    [HANDOFF_HTTP_IMPORTANCE] = "importance",
    [HANDOFF_HTTP_TAGS] = "tags",
    [HANDOFF_HTTP_METADATA] = "metadata",
    [HANDOFF_HTTP_PINNED_MEMBER] = "pinned",
    [HANDOFF_HTTP_CREATED_AT] = "created_at",
    [HANDOFF_HTTP_UPDATED_AT] = "updated_at",
    [HANDOFF_HTTP_SCOPE] = "scope",
    [HANDOFF_HTTP_AGENT] = "agent",
    [HANDOFF_HTTP_TASK_ID] = "task_id",
};

/* The calls of a handoff-exporter, so that one sidecar can be the spine of others. */
static const char usual_table[] =
    "{\"operations\":{"
    "\"get\":{\"method\":\"GET\",\"path\":\"/v1/memories/{id}\"},"
    "\"search\":{\"method\":\"GET\",\"path\":\"/v1/memories?query={query}&limit={limit}\","
    "\"memories\":\"/items\"},"
    "\"recent\":{\"method\":\"GET\",\"path\":\"/v1/memories?recent={limit}\","
    "\"memories\":\"/items\"},"
    "\"pinned\":{\"method\":\"GET\",\"path\":\"/v1/memories?pinned=true&limit={limit}\","
    "\"memories\":\"/items\"},"
    "\"put\":{\"method\":\"PUT\",\"path\":\"/v1/memories/"
    "{id}\",\"body\":{\"content\":\"{content}\","
    "\"summary\":\"{summary}\",\"importance\":\"{importance}\",\"tags\":\"{tags}\","
    "\"metadata\":\"{metadata}\",\"pinned\":\"{pinned}\",\"scope\":\"{scope}\"}},"
    "\"delete\":{\"method\":\"DELETE\",\"path\":\"/v1/memories/{id}\"}}}";

const char *handoff_http_operation_name(enum handoff_http_operation operation)
{
    return operation_names[operation];
}

/* ---- refusing -------------------------------------------------------------------------------- */

static enum handoff_code refuse_entry(const char *operation, const char *member,
                                      const char *message, const char *seen, const char *allowed,
                                      struct handoff_error *error)
{
    handoff_error_set(error, HANDOFF_ERR_INVALID, message, NULL, NULL);
    handoff_error_field(error, "%s%s%s", operation, *operation && *member ? "." : "", member);
    if (seen)
        handoff_error_seen(error, "%.100s", seen);
    handoff_error_allow(error, "%s", allowed);
    return HANDOFF_ERR_INVALID;
}

static int find_table_name(const char *const *names, int count, const char *name)
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
        return refuse_entry(
            place, member, "this is not a JSON pointer", text.data,
            "a JSON pointer (RFC 6901) such as /result/items, or empty for the whole", error);
    *pointer = text;
    return HANDOFF_OK;
}

/* ---- operations ------------------------------------------------------------------------------ */

static const char *const path_placeholders[] = {"id", "ids", "query", "limit"};
enum { PATH_PLACEHOLDERS = sizeof path_placeholders / sizeof *path_placeholders };

static enum handoff_code check_path(const char *place, struct base_span path,
                                    struct handoff_error *error)
{
    static const char allowed[] = "a path that begins with /, with {id}, {ids}, {query} or {limit}";
    if (path.size == 0 || path.data[0] != '/' || (path.size > 1 && path.data[1] == '/'))
        return refuse_entry(place, "path", "this is not a path", path.data, allowed, error);
    for (size_t i = 0; i < path.size; i++) {
        char name[16] = "";
        const char *end = path.data[i] == '{' ? memchr(path.data + i, '}', path.size - i) : NULL;
        const size_t size = end ? (size_t)(end - path.data) - i - 1 : 0;
        if (size < sizeof name)
            memcpy(name, path.data + i + 1, size);
        const bool stray =
            path.data[i] == '{' &&
            (!end || find_table_name(path_placeholders, PATH_PLACEHOLDERS, name) < 0);
        if (stray || path.data[i] <= ' ' || path.data[i] == '#' || path.data[i] == '\\' ||
            path.data[i] == 0x7f)
            return refuse_entry(place, "path", "this is not a path", path.data, allowed, error);
    }
    return HANDOFF_OK;
}

static enum handoff_code read_method(yyjson_val *value, const char *place, const char **method,
                                     struct handoff_error *error)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "DELETE", "PATCH"};
    const char *text = yyjson_get_str(value);
    const int at = text ? find_table_name(methods, 5, text) : -1;
    if (at < 0)
        return refuse_entry(place, "method", "unknown method", text,
                            "GET, POST, PUT, DELETE or PATCH", error);
    *method = methods[at];
    return HANDOFF_OK;
}

static enum handoff_code refuse_unknown_keys(yyjson_val *object, const char *place,
                                             const char *const *names, int count,
                                             const char *allowed, struct handoff_error *error)
{
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(object, i, n, key, value)
    {
        if (find_table_name(names, count, yyjson_get_str(key)) < 0)
            return refuse_entry(place, yyjson_get_str(key), "unknown key", NULL, allowed, error);
    }
    return HANDOFF_OK;
}

static enum handoff_code read_table_row(yyjson_val *object, const char *place,
                                        struct handoff_http_row *row, struct handoff_error *error)
{
    static const char *const keys[] = {"method", "path", "body", "memories"};
    if (!yyjson_is_obj(object))
        return refuse_entry(place, "", "wrong type", NULL, "an object", error);
    enum handoff_code code =
        refuse_unknown_keys(object, place, keys, 4, "method, path, body and memories", error);
    if (code == HANDOFF_OK)
        code = read_method(yyjson_obj_get(object, "method"), place, &row->method, error);
    row->path = base_json_span(yyjson_obj_get(object, "path"));
    if (code == HANDOFF_OK)
        code = check_path(place, row->path, error);
    row->body = yyjson_obj_get(object, "body");
    row->memories = base_span("", 0);
    yyjson_val *memories = yyjson_obj_get(object, "memories");
    if (code == HANDOFF_OK && memories)
        code = read_pointer(memories, place, "memories", &row->memories, error);
    return code;
}

static enum handoff_code read_table_operations(struct handoff_http_table *table,
                                               yyjson_val *operations, struct handoff_error *error)
{
    char place[64];
    enum handoff_code code =
        refuse_unknown_keys(operations, "operations", operation_names, HANDOFF_HTTP_OPERATIONS,
                            "get, get_many, search, recent, pinned, put and delete", error);
    for (int i = 0; i < HANDOFF_HTTP_OPERATIONS && code == HANDOFF_OK; i++) {
        yyjson_val *row = yyjson_obj_get(operations, operation_names[i]);
        if (!row)
            continue;
        snprintf(place, sizeof place, "operations.%s", operation_names[i]);
        code = read_table_row(row, place, &table->rows[i], error);
    }
    if (code == HANDOFF_OK && !table->rows[HANDOFF_HTTP_GET].method &&
        !table->rows[HANDOFF_HTTP_GET_MANY].method)
        return refuse_entry("operations", "", "no operation finds a memory by its id", NULL,
                            "at least get or get_many", error);
    return code;
}

/* Of what is not named, the pointer is the member's own name. null: answers lack it. */
static enum handoff_code read_member_pointers(struct handoff_http_table *table, yyjson_val *members,
                                              struct handoff_error *error)
{
    static const char *const usual[HANDOFF_HTTP_MEMBERS] = {
        "/id",     "/content",    "/summary",    "/importance", "/tags",  "/metadata",
        "/pinned", "/created_at", "/updated_at", "/scope",      "/agent", "/task_id"};
    enum handoff_code code =
        refuse_unknown_keys(members, "memory", member_names, HANDOFF_HTTP_MEMBERS,
                            "the members of a memory, such as id, content and importance", error);
    for (int i = 0; i < HANDOFF_HTTP_MEMBERS && code == HANDOFF_OK; i++) {
        yyjson_val *pointer = yyjson_obj_get(members, member_names[i]);
        const bool needed = i == HANDOFF_HTTP_ID || i == HANDOFF_HTTP_CONTENT;
        if (!pointer)
            table->members[i] = base_span_text(usual[i]);
        else if (!yyjson_is_null(pointer) || needed)
            code = read_pointer(pointer, "memory", member_names[i], &table->members[i], error);
    }
    return code;
}

/* ---- the table ------------------------------------------------------------------------------- */

enum handoff_code handoff_http_table_read(struct handoff_http_table *table, const char *text,
                                          struct handoff_error *error)
{
    static const char *const keys[] = {"operations", "memory"};
    *table = (struct handoff_http_table){0};
    base_arena_init(&table->arena, 0);
    enum handoff_code code = base_json_read(base_span_text(text ? text : usual_table),
                                            "the table of the spine", &table->doc, error);
    if (code != HANDOFF_OK)
        return code;
    yyjson_val *root = yyjson_doc_get_root(table->doc);
    yyjson_val *operations = yyjson_obj_get(root, "operations");
    yyjson_val *members = yyjson_obj_get(root, "memory");
    if (!yyjson_is_obj(operations))
        return refuse_entry("operations", "", "wrong type", NULL, "an object with operations",
                            error);
    if (members && !yyjson_is_obj(members))
        return refuse_entry("memory", "", "wrong type", NULL, "an object with JSON pointers",
                            error);
    code = refuse_unknown_keys(root, "", keys, 2, "operations and memory", error);
    if (code == HANDOFF_OK)
        code = read_table_operations(table, operations, error);
    return code == HANDOFF_OK ? read_member_pointers(table, members, error) : code;
}

void handoff_http_table_free(struct handoff_http_table *table)
{
    yyjson_doc_free(table->doc);
    base_arena_free(&table->arena);
    *table = (struct handoff_http_table){0};
}
