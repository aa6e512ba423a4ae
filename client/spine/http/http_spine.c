/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memories behind an HTTP server: an operation is a method, a path with placeholders and a body,
 * and its answer a status and a JSON document. Requests are composed on any thread, answers are
 * read on the exchange's.
 */
#include "client/spine/http/http_spine.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/json.h"
#include "lib/base/utf8.h"

const char handoff_http_usual_table[] =
    "{\"operations\":{"
    "\"get\":{\"method\":\"GET\",\"path\":\"/v1/memories/{id}\"},"
    "\"search\":{\"method\":\"GET\",\"path\":\"/v1/"
    "memories?query={query}&limit={limit}&scope={scopes}\","
    "\"memories\":\"/items\"},"
    "\"recent\":{\"method\":\"GET\",\"path\":\"/v1/memories?recent={limit}&scope={scopes}\","
    "\"memories\":\"/items\"},"
    "\"pinned\":{\"method\":\"GET\",\"path\":\"/v1/"
    "memories?pinned=true&limit={limit}&scope={scopes}\","
    "\"memories\":\"/items\",\"more\":\"/next\"},"
    "\"put\":{\"method\":\"PUT\",\"path\":\"/v1/memories/"
    "{id}\",\"body\":{\"content\":\"{content}\","
    "\"summary\":\"{summary}\",\"importance\":\"{importance}\",\"tags\":\"{tags}\","
    "\"metadata\":\"{metadata}\",\"pinned\":\"{pinned}\",\"scope\":\"{scope}\","
    "\"agent\":\"{agent}\",\"task_id\":\"{task_id}\",\"created_at\":\"{created_at}\"}},"
    "\"delete\":{\"method\":\"DELETE\",\"path\":\"/v1/memories/{id}\"}}}";

/* ---- rows ------------------------------------------------------------------------------------ */

static const char *const path_placeholders[] = {"id", "ids", "query", "limit", "scopes"};
enum { PATH_PLACEHOLDERS = sizeof path_placeholders / sizeof *path_placeholders };

static enum handoff_code check_path(const char *place, struct base_span path,
                                    struct handoff_error *error)
{
    static const char allowed[] =
        "a path that begins with /, with {id}, {ids}, {query}, {limit} or {scopes}";
    if (path.size == 0 || path.data[0] != '/' || (path.size > 1 && path.data[1] == '/'))
        return handoff_remote_refuse_entry(place, "path", "this is not a path", path.data, allowed,
                                           error);
    for (size_t i = 0; i < path.size; i++) {
        char name[16] = "";
        const char *end = path.data[i] == '{' ? memchr(path.data + i, '}', path.size - i) : NULL;
        const size_t size = end ? (size_t)(end - path.data) - i - 1 : 0;
        if (size < sizeof name)
            memcpy(name, path.data + i + 1, size);
        const bool stray =
            path.data[i] == '{' &&
            (!end || handoff_remote_find_name(path_placeholders, PATH_PLACEHOLDERS, name) < 0);
        if (stray || path.data[i] <= ' ' || path.data[i] == '#' || path.data[i] == '\\' ||
            path.data[i] == 0x7f)
            return handoff_remote_refuse_entry(place, "path", "this is not a path", path.data,
                                               allowed, error);
    }
    return HANDOFF_OK;
}

static enum handoff_code read_method(yyjson_val *value, const char *place, const char **method,
                                     struct handoff_error *error)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "DELETE", "PATCH"};
    const char *text = yyjson_get_str(value);
    const int at = text ? handoff_remote_find_name(methods, 5, text) : -1;
    if (at < 0)
        return handoff_remote_refuse_entry(place, "method", "unknown method", text,
                                           "GET, POST, PUT, DELETE or PATCH", error);
    *method = methods[at];
    return HANDOFF_OK;
}

static enum handoff_code read_http_row(yyjson_val *object, const char *place,
                                       struct handoff_remote_row *row, struct handoff_error *error)
{
    enum handoff_code code =
        read_method(yyjson_obj_get(object, "method"), place, &row->method, error);
    row->path = base_json_span(yyjson_obj_get(object, "path"));
    return code == HANDOFF_OK ? check_path(place, row->path, error) : code;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* All but what RFC 3986 calls unreserved, so a value never ends its segment or its parameter. */
static void append_encoded(struct base_buffer *out, struct base_span text)
{
    for (size_t i = 0; i < text.size; i++) {
        const unsigned char byte = (unsigned char)text.data[i];
        const bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                           (byte >= '0' && byte <= '9') || (byte != 0 && strchr("-_~", byte));
        if (plain)
            base_buffer_byte(out, (char)byte);
        else
            base_buffer_printf(out, "%%%02X", byte);
    }
}

static void append_encoded_list(struct base_buffer *out, const struct base_span *texts,
                                size_t count)
{
    for (size_t i = 0; i < count; i++) {
        base_buffer_text(out, i > 0 ? "," : "");
        append_encoded(out, texts[i]);
    }
}

static bool is_path_value(struct base_span text, const char *name)
{
    return base_span_equal(text, base_span_text(name));
}

/* What is searched for may be a summary of 64 KiB, and servers refuse such URLs, often at 8 KiB or
   16 KiB: the beginning is enough to find what fits it. */
static struct base_span shorten_for_path(struct base_span query)
{
    enum { IN_PATH_MAX = 4096 };
    if (query.size <= IN_PATH_MAX)
        return query;
    return base_span(query.data, base_utf8_valid_length(query.data, IN_PATH_MAX));
}

static void append_path_value(struct base_buffer *out, struct base_span name,
                              const struct handoff_remote_values *values)
{
    if (is_path_value(name, "id"))
        append_encoded(out, values->id);
    else if (is_path_value(name, "ids"))
        append_encoded_list(out, values->ids, values->id_count);
    else if (is_path_value(name, "scopes"))
        append_encoded_list(out, values->scopes, values->scope_count);
    else if (is_path_value(name, "query"))
        append_encoded(out, shorten_for_path(values->query));
    else
        base_buffer_number(out, (int64_t)values->limit);
}

void handoff_http_compose_path(const struct handoff_remote_row *row,
                               const struct handoff_remote_values *values, struct base_buffer *out)
{
    const struct base_span path = row->path;
    for (size_t at = 0; at < path.size; at++) {
        if (path.data[at] != '{') {
            base_buffer_byte(out, path.data[at]);
            continue;
        }
        const char *end = memchr(path.data + at, '}', path.size - at); /* it was checked */
        const size_t size = (size_t)(end - path.data) - at - 1;
        append_path_value(out, base_span(path.data + at + 1, size), values);
        at += size + 1;
    }
}

static void compose_http(const struct handoff_remote_row *row,
                         const struct handoff_remote_values *values,
                         struct handoff_remote_request *request)
{
    request->method = row->method;
    handoff_http_compose_path(row, values, &request->target);
    handoff_remote_compose(row, values, &request->body);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Neither 404 nor 422 and the like say that the server is not well; 3xx, 401, 403, 429, 5xx do. */
static enum handoff_remote_verdict judge_http_status(enum handoff_remote_operation operation,
                                                     long status)
{
    const bool gets = operation == HANDOFF_REMOTE_GET;
    if (status < 400 || status == 401 || status == 403 || status == 429 || status >= 500)
        return HANDOFF_REMOTE_FAILED;
    if ((gets || operation == HANDOFF_REMOTE_DELETE) && (status == 404 || status == 410))
        return HANDOFF_REMOTE_ABSENT;
    if (gets && (status == 400 || status == 414 || status == 422))
        return HANDOFF_REMOTE_ODD_ID;
    return HANDOFF_REMOTE_REFUSED;
}

static enum handoff_remote_verdict judge_http(const struct handoff_remote_row *row,
                                              enum handoff_remote_operation operation,
                                              const struct handoff_remote_request *request,
                                              struct base_arena *arena,
                                              struct handoff_remote_answer *answer)
{
    const long status = request->status;
    yyjson_doc *doc;
    (void)row;
    if (request->failure) {
        snprintf(answer->why, sizeof answer->why, "%s", request->failure);
        return HANDOFF_REMOTE_FAILED;
    }
    if (status < 200 || status > 299) {
        snprintf(answer->why, sizeof answer->why, "status %ld", status);
        return judge_http_status(operation, status);
    }
    if (handoff_remote_changes(operation))
        return HANDOFF_REMOTE_ANSWERED;
    if (base_json_read_in(arena, base_buffer_span(&request->answer), "answer", &doc, NULL) !=
        HANDOFF_OK) {
        snprintf(answer->why, sizeof answer->why, "its answer is not JSON");
        return HANDOFF_REMOTE_FAILED;
    }
    answer->document = yyjson_doc_get_root(doc);
    return HANDOFF_REMOTE_ANSWERED;
}

static const char *const http_row_keys[] = {"method", "path", "body", "memories", "more"};

const struct handoff_remote_wire handoff_http_wire = {
    .kind = "http",
    .accept = "Accept: application/json",
    .row_keys = http_row_keys,
    .row_key_count = 5,
    .row_keys_text = "method, path, body, memories and more",
    .template_key = "body",
    .read_row = read_http_row,
    .compose = compose_http,
    .judge = judge_http,
};
