/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what a call is given, see input.h. On the loop of the request; a body on any thread. */
#include "exporter/http/input.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "exporter/http/pending_call.h"
#include "lib/base/json.h"
#include "lib/base/members.h"

/* ---- path and query ------------------------------------------------------------------------- */

/* What comes as text; NULL: it does not come. The fields of the path are in its order, and
 * `nparams` of them came before. */
static const char *text_of(struct exporter_request *request, const struct handoff_field *field,
                           size_t *nparams)
{
    if (field->place == HANDOFF_IN_PATH)
        return exporter_request_param(request, (*nparams)++);
    return field->place == HANDOFF_IN_QUERY ? exporter_request_query(request, field->name) : NULL;
}

static enum handoff_code read_texts(struct exporter_request *request,
                                    const struct handoff_fields *fields, void *into,
                                    struct handoff_error *error)
{
    size_t nparams = 0;
    for (size_t i = 0; i < fields->count; i++) {
        const struct handoff_field *field = &fields->rows[i];
        const char *text = text_of(request, field, &nparams);
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

/* The fields of the body that are judged on the loop; NULL: none are. Long documents are for the
 * client, which also leaves out what is unknown of them. */
static const struct handoff_fields *fields_of_body(const struct handoff_call *call)
{
    if (call->body == HANDOFF_BODY_EMPTY || call->body == HANDOFF_BODY_OF_WORDS ||
        call->body == HANDOFF_BODY_WITH_DOCUMENT)
        return &call->input;
    return call->body == HANDOFF_DOCUMENT && !call->assembles ? call->document : NULL;
}

static enum handoff_code check_body_object(yyjson_val *root, struct handoff_error *error)
{
    const char *twice;
    if (!yyjson_is_obj(root))
        return handoff_error_set(error, HANDOFF_ERR_INVALID_JSON,
                                 "the body must be empty or a JSON object", "body", NULL);
    if (!base_json_keys_are_plain(root, &twice))
        return handoff_error_set(error, HANDOFF_ERR_INVALID, "key given twice", twice, twice);
    return HANDOFF_OK;
}

/* A form is what tools post that were not told otherwise. Many of them send JSON under that type,
 * and that is taken. */
static bool is_form(const char *type, const char *body, size_t size)
{
    if (strncasecmp(type, "multipart/form-data", 19) == 0)
        return true;
    const size_t blank = strspn(body, " \t\r\n");
    return strncasecmp(type, "application/x-www-form-urlencoded", 33) == 0 && blank < size &&
           body[blank] != '{' && body[blank] != '[';
}

static enum handoff_code refuse_form(struct exporter_request *request,
                                     const struct handoff_call *call, struct handoff_error *error)
{
    size_t size;
    const char *body = exporter_request_body(request, &size);
    const char *type = exporter_request_header(request, "Content-Type");
    if (call->body == HANDOFF_NO_BODY || size == 0 || type == NULL || !is_form(type, body, size))
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_UNSUPPORTED_MEDIA_TYPE,
                      "the body is a form; send JSON instead", "Content-Type", type);
    handoff_error_allow(error, "application/json");
    return error->code;
}

/* The document without what is ignored, as a text: what others read of the body must not have that
 * either. */
static enum handoff_code keep_shortened(struct exporter_input *input, yyjson_doc *without)
{
    struct base_buffer text = {.arena = &input->arena};
    base_json_write(&text, yyjson_doc_get_root(without));
    yyjson_doc_free(without);
    if (text.failed)
        return handoff_error_no_memory(&input->error);
    input->shortened = base_buffer_span(&text);
    return base_json_read_in(&input->arena, input->shortened, "body", &input->doc, &input->error);
}

static enum handoff_code ignore_unknown(struct exporter_input *input)
{
    yyjson_doc *doc = input->doc;
    enum handoff_code code = handoff_ignore_unknown(fields_of_body(input->call), input->call->batch,
                                                    &doc, &input->warnings, &input->error);
    return code == HANDOFF_OK && doc != input->doc ? keep_shortened(input, doc) : code;
}

/* The request that the body carries, and its name; NULL: none. An edit is part of one, and read by
 * the client. */
static yyjson_val *request_within(const struct exporter_input *input, const char **name)
{
    const struct handoff_fields *fields = &input->call->input;
    for (size_t i = 0; i < fields->count && input->call->body == HANDOFF_BODY_WITH_DOCUMENT; i++) {
        const struct handoff_field *row = &fields->rows[i];
        if (row->type == HANDOFF_FIELD_OBJECT && (row->members == NULL || !row->members->edit)) {
            const void *at = (const char *)&input->values + row->offset;
            *name = row->name;
            return *(yyjson_val *const *)at;
        }
    }
    return NULL;
}

/* As it is in the body, which costs a fraction of writing it anew. */
static enum handoff_code find_request_within(struct exporter_input *input)
{
    struct base_buffer text = {.arena = &input->arena};
    struct base_span body = input->shortened.data != NULL ? input->shortened : input->body;
    size_t members;
    const char *name;
    yyjson_val *request = request_within(input, &name);
    if (request == NULL)
        return HANDOFF_OK;
    if (base_json_find_members(body, &name, &input->document, 1, &members) &&
        input->document.data != NULL)
        return HANDOFF_OK;
    base_json_write(&text, request);
    input->document = base_buffer_span(&text);
    return text.failed ? handoff_error_no_memory(&input->error) : HANDOFF_OK;
}

static enum handoff_code read_body_fields(struct exporter_input *input)
{
    const struct handoff_call *call = input->call;
    struct handoff_error *error = &input->error;
    if (input->body.size == 0)
        return handoff_fields_read_none(&call->input, error);
    enum handoff_code code =
        base_json_read_in(&input->arena, input->body, "body", &input->doc, error);
    if (code == HANDOFF_OK)
        code = check_body_object(yyjson_doc_get_root(input->doc), error);
    if (code == HANDOFF_OK && input->lenient)
        code = ignore_unknown(input);
    if (code != HANDOFF_OK || call->body == HANDOFF_DOCUMENT)
        return code;
    code =
        handoff_fields_read(&call->input, yyjson_doc_get_root(input->doc), &input->values, error);
    return code == HANDOFF_OK ? find_request_within(input) : code;
}

void exporter_input_read(struct exporter_input *input)
{
    if (input->body.data != NULL)
        input->error.code = read_body_fields(input);
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

/* What the handler does not read itself, and the client neither. */
static void lend_body(struct exporter_request *request, struct exporter_input *input)
{
    size_t size;
    const char *body = exporter_request_body(request, &size);
    if (fields_of_body(input->call) == NULL)
        return;
    input->lenient = exporter_request_is_lenient(request);
    if (input->call->body != HANDOFF_DOCUMENT || (size > 0 && input->lenient))
        input->body = base_span(body, size);
}

bool exporter_input_open(struct exporter_request *request, const struct handoff_call *call,
                         struct exporter_input *input)
{
    struct handoff_error error;
    *input = (struct exporter_input){.call = call};
    base_arena_init(&input->arena, 0);
    enum handoff_code code = set_flag_defaults(&call->input, &input->values, &error);
    if (code == HANDOFF_OK)
        code = read_query(request, &call->input, &input->values, &error);
    if (code == HANDOFF_OK)
        code = refuse_form(request, call, &error);
    if (code == HANDOFF_OK) {
        lend_body(request, input);
        return true;
    }
    exporter_respond_error(request, &error);
    exporter_input_close(input);
    return false;
}

bool exporter_input_is_long(const struct exporter_input *input)
{
    enum { SIZE_ON_LOOP = 64 * 1024 }; /* 1 ms, if it is all small objects */
    return input->body.size > SIZE_ON_LOOP;
}

bool exporter_input_accept(struct exporter_request *request, struct exporter_input *input)
{
    if (input->shortened.data != NULL)
        exporter_request_shorten_body(request, input->shortened.data, input->shortened.size);
    if (input->warnings.count > 0)
        exporter_request_warn(request, handoff_warnings_text(&input->warnings).data);
    if (input->error.code == HANDOFF_OK)
        return true;
    exporter_respond_error(request, &input->error);
    return false;
}

void exporter_input_close(struct exporter_input *input)
{
    handoff_warnings_free(&input->warnings);
    base_arena_free(&input->arena);
    input->doc = NULL;
}
