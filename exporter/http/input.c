/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what a call is given, see input.h. On the loop of the request. */
#include "exporter/http/input.h"

#include <string.h>

#include "exporter/http/pending_call.h"
#include "lib/base/json.h"

/* ---- path and query ------------------------------------------------------------------------- */

/* What comes as text; NULL: it does not come. */
static const char *text_of(struct exporter_request *request, const struct handoff_field *field)
{
    if (field->place == HANDOFF_IN_PATH)
        return exporter_request_param(request, 0); /* no call has two */
    return field->place == HANDOFF_IN_QUERY ? exporter_request_query(request, field->name) : NULL;
}

static enum handoff_code read_texts(struct exporter_request *request,
                                    const struct handoff_fields *fields, void *into,
                                    struct handoff_error *error)
{
    for (size_t i = 0; i < fields->count; i++) {
        const struct handoff_field *field = &fields->rows[i];
        const char *text = text_of(request, field);
        enum handoff_code code = HANDOFF_OK;
        if (text != NULL)
            code = handoff_field_read_text(field, text, into, error);
        else if (field->required && field->place == HANDOFF_IN_QUERY)
            code = handoff_field_refuse_missing(error, field);
        if (code != HANDOFF_OK)
            return code;
    }
    return HANDOFF_OK;
}

static bool is_query_field(void *arg, const char *name)
{
    const struct handoff_fields *fields = arg;
    size_t i = 0;
    while (i < fields->count &&
           (fields->rows[i].place != HANDOFF_IN_QUERY || strcmp(fields->rows[i].name, name) != 0))
        i++;
    return i < fields->count;
}

/* A misspelt filter is not one that is absent: the answer would be of everything. */
static enum handoff_code read_query(struct exporter_request *request,
                                    const struct handoff_fields *fields, void *into,
                                    struct handoff_error *error)
{
    const char *unknown = exporter_request_query_unknown(request, is_query_field, (void *)fields);
    if (unknown != NULL)
        return handoff_fields_refuse_unknown(fields, HANDOFF_IN_QUERY, unknown, error);
    return read_texts(request, fields, into, error);
}

/* ---- the body ------------------------------------------------------------------------------- */

static enum handoff_code read_body_fields(struct exporter_request *request,
                                          const struct handoff_fields *fields,
                                          struct exporter_input *input, struct handoff_error *error)
{
    size_t size;
    const char *twice, *body = exporter_request_body(request, &size);
    if (size == 0)
        return handoff_fields_read_none(fields, error);
    enum handoff_code code = base_json_read(base_span(body, size), "body", &input->doc, error);
    if (code != HANDOFF_OK)
        return code;
    yyjson_val *root = yyjson_doc_get_root(input->doc);
    if (!yyjson_is_obj(root))
        return handoff_error_set(error, HANDOFF_ERR_INVALID_JSON,
                                 "the body must be empty or a JSON object", "body", NULL);
    if (!base_json_keys_are_plain(root, &twice))
        return handoff_error_set(error, HANDOFF_ERR_INVALID, "key given twice", twice, twice);
    return handoff_fields_read(fields, root, &input->values, error);
}

static bool is_read_here(const struct handoff_call *call)
{
    return call->body == HANDOFF_BODY_OF_WORDS || call->body == HANDOFF_BODY_WITH_DOCUMENT;
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* The client takes 0 for the default of a number; a boolean has no such value. */
static enum handoff_code set_flag_defaults(const struct handoff_fields *fields, void *into,
                                           struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    for (size_t i = 0; i < fields->count && code == HANDOFF_OK; i++) {
        const struct handoff_field *field = &fields->rows[i];
        if (field->type == HANDOFF_FIELD_BOOL && field->fallback != NULL)
            code = handoff_field_read_text(field, field->fallback, into, error);
    }
    return code;
}

bool exporter_input_open(struct exporter_request *request, const struct handoff_call *call,
                         struct exporter_input *input)
{
    struct handoff_error error;
    *input = (struct exporter_input){0};
    enum handoff_code code = set_flag_defaults(&call->input, &input->values, &error);
    if (code == HANDOFF_OK)
        code = read_query(request, &call->input, &input->values, &error);
    if (code == HANDOFF_OK && is_read_here(call))
        code = read_body_fields(request, &call->input, input, &error);
    if (code == HANDOFF_OK)
        return true;
    exporter_respond_error(request, &error);
    exporter_input_close(input);
    return false;
}

void exporter_input_close(struct exporter_input *input)
{
    yyjson_doc_free(input->doc);
    input->doc = NULL;
}
