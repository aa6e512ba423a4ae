/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/body.h"

#include <string.h>

#include "exporter/problem.h"

bool exporter_body_object(struct exporter_request *request, yyjson_doc **doc, yyjson_val **root)
{
    static const struct exporter_problem no_object = {
        .status = 400,
        .code = "invalid_json",
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

const char *exporter_body_text(yyjson_val *root, const char *key)
{
    return yyjson_get_str(yyjson_obj_get(root, key)); /* NULL where it is no string */
}

static bool refuse(struct exporter_request *request, const char *detail, const char *name,
                   const char *allowed)
{
    const struct exporter_problem problem = {.status = 400,
                                             .code = "invalid_request",
                                             .detail = detail,
                                             .field = name,
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

static bool read_field(struct exporter_request *request, const struct exporter_body_field *field,
                       yyjson_val *value)
{
    if (yyjson_is_null(value))
        return true; /* as if it were absent */
    if (field->text != NULL && yyjson_is_str(value))
        *field->text = yyjson_get_str(value);
    else if (field->number != NULL && yyjson_is_uint(value) && yyjson_get_uint(value) > 0)
        *field->number = yyjson_get_uint(value);
    else
        return refuse(request, "the field has another type", field->name,
                      field->text != NULL ? "a string" : "a whole number, 1 or more");
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
            return refuse(request, "there is no such field", yyjson_get_str(key), NULL);
        if (!read_field(request, field, value))
            return false;
    }
    return true;
}
