/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/http/body.h"

#include <stdlib.h>
#include <string.h>

#include "exporter/http/problem.h"

bool exporter_body_object(struct exporter_request *request, yyjson_doc **doc, yyjson_val **root)
{
    static const struct exporter_problem no_object = {
        .code = HANDOFF_ERR_INVALID_JSON,
        .detail = "the body is neither empty nor a JSON object",
        .field = "body"};
    size_t size;
    const char *body = exporter_request_body(request, &size);
    *root = NULL;
    *doc = size > 0 ? yyjson_read(body, size, 0) : NULL;
    if (*doc != NULL)
        *root = yyjson_doc_get_root(*doc);
    if (size == 0 || yyjson_is_obj(*root))
        return true;
    yyjson_doc_free(*doc);
    exporter_respond_problem(request, &no_object);
    return false;
}

static bool refuse(struct exporter_request *request, const char *detail, const char *name,
                   const char *seen, const char *allowed)
{
    const struct exporter_problem problem = {.code = HANDOFF_ERR_INVALID,
                                             .detail = detail,
                                             .field = name,
                                             .seen = seen,
                                             .allowed = allowed};
    exporter_respond_problem(request, &problem);
    return false;
}

static const struct exporter_body_field *find(const struct exporter_body_field *fields,
                                              size_t count, const char *name)
{
    size_t i = 0;
    while (i < count && strcmp(fields[i].name, name) != 0)
        i++;
    return i < count ? &fields[i] : NULL;
}

static const char *allowed_of(const struct exporter_body_field *field)
{
    if (field->text != NULL)
        return "a string without zero characters";
    return field->number != NULL ? "a whole number, 1 or more" : "true or false";
}

/* Shows the value as JSON; its beginning, as it may be long. In ASCII, so that it is cut well. */
static bool refuse_value(struct exporter_request *request, const struct exporter_body_field *field,
                         const yyjson_val *value)
{
    enum { SEEN_MAX = 64 };
    char *json = yyjson_val_write(value, YYJSON_WRITE_ESCAPE_UNICODE, NULL);
    if (json != NULL)
        json[strnlen(json, SEEN_MAX)] = '\0';
    refuse(request, "the field has a value that it cannot have", field->name, json,
           allowed_of(field));
    free(json);
    return false;
}

/* What is behind a zero character would be lost without a word. */
static bool is_text(yyjson_val *value)
{
    return yyjson_is_str(value) && strlen(yyjson_get_str(value)) == yyjson_get_len(value);
}

static bool read_field(struct exporter_request *request, const struct exporter_body_field *field,
                       yyjson_val *value)
{
    if (yyjson_is_null(value))
        return true; /* as if it were absent */
    if (field->text != NULL && is_text(value))
        *field->text = yyjson_get_str(value);
    else if (field->number != NULL && yyjson_is_uint(value) && yyjson_get_uint(value) > 0)
        *field->number = yyjson_get_uint(value);
    else if (field->flag != NULL && yyjson_is_bool(value))
        *field->flag = yyjson_get_bool(value);
    else
        return refuse_value(request, field, value);
    return true;
}

bool exporter_body_read(struct exporter_request *request, yyjson_val *root,
                        const struct exporter_body_field *fields, size_t count)
{
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(root, i, n, key, value)
    {
        const struct exporter_body_field *field = find(fields, count, yyjson_get_str(key));
        if (field == NULL)
            return refuse(request, "there is no such field", yyjson_get_str(key), NULL, NULL);
        if (!read_field(request, field, value))
            return false;
    }
    return true;
}

bool exporter_body_pick(struct exporter_request *request, yyjson_val *root,
                        const struct exporter_body_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        yyjson_val *value = yyjson_obj_get(root, fields[i].name);
        if (value != NULL && !read_field(request, &fields[i], value))
            return false;
    }
    return true;
}
