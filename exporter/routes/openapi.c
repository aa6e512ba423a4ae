/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OpenAPI 3.1 document of the agent API, written from the table of calls.
 *
 * It is written anew for each request: it takes well under a millisecond, and is asked for once by
 * a client that is being made. Nothing is kept, so nothing has to be guarded.
 *
 * On the loop of the request; exporter_openapi_write is pure.
 */
#include "exporter/routes/openapi.h"

#include <stdio.h>
#include <string.h>

#include "client/calls/schema.h"
#include "exporter/http/pending_call.h"
#include "exporter/http/problem.h"
#include "exporter/routes/calls.h"
#include "exporter/version.h"
#include "generated/envelope_schemas.h"
#include "lib/base/json.h"

#define SCHEMAS "#/components/schemas/"

static void write_keyword(struct base_buffer *out, const char *key, const char *text)
{
    if (text == NULL)
        return;
    base_json_write_name(out, key);
    base_json_write_string(out, base_span_text(text));
}

/* ---- parameters and bodies ------------------------------------------------------------------ */

static void write_parameter(struct handoff_schema *schema, const struct handoff_field *field)
{
    static const char *const places[] = {
        [HANDOFF_IN_PATH] = "path", [HANDOFF_IN_QUERY] = "query", [HANDOFF_IN_HEADER] = "header"};
    struct base_buffer *out = schema->out;
    base_buffer_byte(out, '{');
    write_keyword(out, "name", field->name);
    write_keyword(out, "in", places[field->place]);
    write_keyword(out, "description", field->doc);
    if (field->required)
        base_buffer_text(out, ",\"required\":true");
    base_json_write_name(out, "schema");
    handoff_schema_write_field(schema, field);
    base_buffer_byte(out, '}');
}

static void write_parameters(struct handoff_schema *schema, const struct handoff_fields *input)
{
    bool any = false;
    for (size_t i = 0; i < input->count; i++) {
        if (input->rows[i].place == HANDOFF_IN_BODY)
            continue;
        base_buffer_text(schema->out, any ? "," : ",\"parameters\":[");
        write_parameter(schema, &input->rows[i]);
        any = true;
    }
    base_buffer_text(schema->out, any ? "]" : "");
}

static void write_request_body(struct handoff_schema *schema, const struct handoff_call *call)
{
    struct base_buffer *out = schema->out;
    if (!handoff_call_has_body(call))
        return;
    base_json_write_name(out, "requestBody");
    base_buffer_printf(out, "{\"required\":%s,\"content\":{\"application/json\":{\"schema\":",
                       call->body == HANDOFF_DOCUMENT ? "true" : "false");
    handoff_schema_write_body(schema, call);
    if (call->example != NULL)
        base_buffer_printf(out, ",\"example\":%s", call->example);
    base_buffer_text(out, "}}}");
}

/* ---- answers -------------------------------------------------------------------------------- */

static void write_content(struct handoff_schema *schema, const struct handoff_fields *shape)
{
    struct base_buffer *out = schema->out;
    const bool envelope = shape == &handoff_shape_envelope || shape == &handoff_shape_pulled;
    base_json_write_name(out, "content");
    if (envelope)
        base_buffer_text(out, "{\"" HANDOFF_ENVELOPE_TYPE
                              "\":{\"schema\":{\"anyOf\":[{\"$ref\":\"" SCHEMAS
                              "Envelope\"},{\"$ref\":\"" SCHEMAS "EnvelopeVersion1\"}]}}");
    if (shape == &handoff_shape_pulled)
        base_buffer_text(out, ",\"text/event-stream\":{\"schema\":{\"type\":\"string\"}}");
    if (shape == &handoff_shape_envelope)
        base_buffer_text(out, ",\"text/markdown\":{\"schema\":{\"type\":\"string\"}}");
    if (!envelope) {
        base_buffer_text(out, "{\"application/json\":{\"schema\":");
        handoff_schema_write(schema, shape);
        base_buffer_byte(out, '}');
    }
    base_buffer_byte(out, '}');
}

static void write_answers(struct handoff_schema *schema, const struct handoff_call *call)
{
    struct base_buffer *out = schema->out;
    for (const struct handoff_call_answer *answer = call->answers; answer->status != 0; answer++) {
        char status[16];
        snprintf(status, sizeof status, "%u", answer->status);
        base_json_write_name(out, status);
        base_buffer_byte(out, '{');
        write_keyword(out, "description", answer->doc);
        if (answer->shape != NULL)
            write_content(schema, answer->shape);
        base_buffer_byte(out, '}');
    }
}

/* ---- errors --------------------------------------------------------------------------------- */

struct failures {
    enum handoff_code codes[HANDOFF_CODE_COUNT];
    size_t count;
};

static unsigned status_of_code(enum handoff_code code)
{
    return exporter_problem_status(&(struct exporter_problem){.code = code});
}

static void add_code(struct failures *failures, enum handoff_code code)
{
    size_t i = 0;
    while (i < failures->count && failures->codes[i] != code)
        i++;
    if (i == failures->count)
        failures->codes[failures->count++] = code;
}

/* What the daemon itself may answer, and what the store may. */
static void collect(struct failures *failures, const struct handoff_call *call)
{
    failures->count = 0;
    for (size_t i = 0; call->codes[i] != HANDOFF_OK; i++)
        add_code(failures, call->codes[i]);
    add_code(failures, HANDOFF_ERR_INVALID);
    add_code(failures, HANDOFF_ERR_AMBIGUOUS);
    add_code(failures, HANDOFF_ERR_UNKNOWN_TRANSFER_CODING);
    add_code(failures, HANDOFF_ERR_UNKNOWN_CONTENT_CODING);
    add_code(failures, HANDOFF_ERR_BAD_PATH);
    add_code(failures, HANDOFF_ERR_UNAUTHENTICATED);
    add_code(failures, HANDOFF_ERR_CROSS_ORIGIN);
    if (call->access != HANDOFF_FOR_ALL)
        add_code(failures, HANDOFF_ERR_FORBIDDEN);
    if (call->body != HANDOFF_NO_BODY) {
        add_code(failures, HANDOFF_ERR_TOO_LARGE);
        add_code(failures, HANDOFF_ERR_UNSUPPORTED_MEDIA_TYPE);
    }
    add_code(failures, HANDOFF_ERR_STORE_CORRUPT);
    add_code(failures, HANDOFF_ERR_INTERNAL);
    add_code(failures, HANDOFF_ERR_OUT_OF_MEMORY);
    add_code(failures, HANDOFF_ERR_SHUTTING_DOWN);
    add_code(failures, HANDOFF_ERR_STORE_IO);
    add_code(failures, HANDOFF_ERR_STORE_DISPLACED);
    if (call->effect == HANDOFF_READS)
        return;
    add_code(failures, HANDOFF_ERR_STORE_FULL);
    add_code(failures, HANDOFF_ERR_STORE_READ_ONLY);
}

static void write_status(struct base_buffer *out, const struct failures *failures, unsigned status)
{
    char key[16];
    struct base_buffer words = {0};
    snprintf(key, sizeof key, "%u", status);
    base_json_write_name(out, key);
    base_buffer_text(out, "{\"content\":{\"application/problem+json\":{\"schema\":{\"allOf\":"
                          "[{\"$ref\":\"" SCHEMAS "Problem\"}],"
                          "\"properties\":{\"code\":{\"enum\":[");
    for (size_t i = 0; i < failures->count; i++) {
        const enum handoff_code code = failures->codes[i];
        if (status_of_code(code) != status)
            continue;
        base_buffer_printf(out, "%s\"%s\"", words.size > 0 ? "," : "", handoff_code_name(code));
        base_buffer_printf(&words, "%s`%s`: %s", words.size > 0 ? "\n" : "",
                           handoff_code_name(code), handoff_code_meaning(code));
    }
    base_buffer_text(out, "]}}}}}");
    write_keyword(out, "description", base_buffer_span(&words).data);
    out->failed = out->failed || words.failed;
    base_buffer_free(&words);
    base_buffer_byte(out, '}');
}

static void write_statuses(struct base_buffer *out, const struct handoff_call *call)
{
    struct failures failures;
    collect(&failures, call);
    for (unsigned status = 400; status < 600; status++) {
        for (size_t i = 0; i < failures.count; i++) {
            if (status_of_code(failures.codes[i]) == status) {
                write_status(out, &failures, status);
                break;
            }
        }
    }
}

/* ---- calls ---------------------------------------------------------------------------------- */

static void write_description(struct base_buffer *out, const struct handoff_call *call)
{
    struct base_buffer words = {0};
    if (call->doc != NULL)
        base_buffer_printf(&words, "%s\n\n", call->doc);
    if (call->answer_doc != NULL)
        base_buffer_printf(&words, "%s\n\n", call->answer_doc);
    base_buffer_printf(&words, "An agent may call it: %s", call->agent_may);
    write_keyword(out, "description", base_buffer_span(&words).data);
    out->failed = out->failed || words.failed;
    base_buffer_free(&words);
}

/* The second segment of the path: "/v1/handoffs/{id}" is about handoffs. */
static void write_tag(struct base_buffer *out, const char *path)
{
    const char *segment = path + strlen("/v1/");
    base_buffer_printf(out, ",\"tags\":[\"%.*s\"]", (int)strcspn(segment, "/."), segment);
}

static void write_call(struct handoff_schema *schema, const struct handoff_call *call)
{
    static const char *const access[] = {[HANDOFF_FOR_OPERATOR] = "operator",
                                         [HANDOFF_FOR_NAMED] = "named",
                                         [HANDOFF_FOR_ALL] = "all"};
    static const char *const effects[] = {[HANDOFF_READS] = "reads",
                                          [HANDOFF_SETS] = "sets",
                                          [HANDOFF_ADDS] = "adds",
                                          [HANDOFF_DESTROYS] = "destroys"};
    struct base_buffer *out = schema->out;
    char method[16] = "";
    for (size_t i = 0; i < sizeof method - 1 && call->rest.method[i] != '\0'; i++)
        method[i] = (char)(call->rest.method[i] | 0x20);
    base_json_write_name(out, method);
    base_buffer_byte(out, '{');
    write_keyword(out, "operationId", call->name);
    write_tag(out, call->rest.path);
    write_keyword(out, "summary", call->summary);
    write_description(out, call);
    write_keyword(out, "x-handoff-access", access[call->access]);
    write_keyword(out, "x-handoff-agent-may", call->agent_may);
    write_keyword(out, "x-handoff-effect", effects[call->effect]);
    write_parameters(schema, &call->input);
    write_request_body(schema, call);
    base_json_write_name(out, "responses");
    base_buffer_byte(out, '{');
    write_answers(schema, call);
    write_statuses(out, call);
    base_buffer_text(out, "}}");
}

static bool is_first_of_its_path(size_t index)
{
    size_t i = 0;
    while (strcmp(handoff_calls[i].rest.path, handoff_calls[index].rest.path) != 0)
        i++;
    return i == index;
}

static void write_path(struct handoff_schema *schema, const char *path)
{
    base_json_write_name(schema->out, path);
    base_buffer_byte(schema->out, '{');
    for (size_t i = 0; i < HANDOFF_CALLS; i++) {
        if (strcmp(handoff_calls[i].rest.path, path) == 0)
            write_call(schema, &handoff_calls[i]);
    }
    base_buffer_byte(schema->out, '}');
}

/* ---- components ----------------------------------------------------------------------------- */

/* A schema of docs/schema as a component: its references lead into the component. */
static void write_moved(struct base_buffer *out, yyjson_val *value, const char *name, bool is_root)
{
    static const char defs[] = "#/$defs/";
    size_t i, n;
    yyjson_val *key, *child;
    if (yyjson_is_arr(value)) {
        base_buffer_byte(out, '[');
        yyjson_arr_foreach(value, i, n, child)
        {
            base_buffer_text(out, i > 0 ? "," : "");
            write_moved(out, child, name, false);
        }
        base_buffer_byte(out, ']');
    } else if (yyjson_is_obj(value)) {
        base_buffer_byte(out, '{');
        yyjson_obj_foreach(value, i, n, key, child)
        {
            const char *text = yyjson_get_str(child);
            const bool is_def = text != NULL && strncmp(text, defs, strlen(defs)) == 0;
            if (is_root && yyjson_get_str(key)[0] == '$' && !yyjson_equals_str(key, "$defs"))
                continue; /* $id and its like are the file's */
            base_json_write_key(out, base_json_span(key));
            if (is_def && yyjson_equals_str(key, "$ref"))
                base_buffer_printf(out, "\"" SCHEMAS "%s/%s\"", name, text + 2);
            else
                write_moved(out, child, name, false);
        }
        base_buffer_byte(out, '}');
    } else {
        base_json_write(out, value);
    }
}

static void write_document(struct base_buffer *out, const char *name, const char *text)
{
    yyjson_doc *doc;
    struct handoff_error error;
    if (base_json_read(base_span_text(text), name, &doc, &error) != HANDOFF_OK) {
        BASE_CHECK(error.code == HANDOFF_ERR_OUT_OF_MEMORY);
        out->failed = true;
        return;
    }
    base_json_write_name(out, name);
    write_moved(out, yyjson_doc_get_root(doc), name, true);
    yyjson_doc_free(doc);
}

/* Writing one may refer to more. */
static void write_components(struct handoff_schema *schema)
{
    struct base_buffer *out = schema->out;
    base_buffer_text(out, ",\"components\":{\"securitySchemes\":{\"bearer\":{\"type\":\"http\","
                          "\"scheme\":\"bearer\",\"description\":\"A token of api.tokens_file.\"}},"
                          "\"schemas\":{");
    write_document(out, "Envelope", exporter_envelope_2_schema);
    write_document(out, "EnvelopeVersion1", exporter_envelope_1_schema);
    base_json_write_name(out, handoff_shape_problem.name);
    handoff_schema_write_object(schema, &handoff_shape_problem);
    for (size_t i = 0; i < schema->nnamed; i++) {
        base_json_write_name(out, schema->named[i]->name);
        handoff_schema_write_object(schema, schema->named[i]);
    }
    base_buffer_text(out, "}}");
}

/* ---- the document --------------------------------------------------------------------------- */

static void write_info(struct base_buffer *out)
{
    base_buffer_text(out,
                     "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"handoff-exporter agent "
                     "API\",\"license\":{\"name\":\"Apache-2.0\",\"identifier\":\"Apache-2.0\"},"
                     "\"description\":\"Hands work from agent to agent and parks what cannot be "
                     "delivered. Errors are RFC 9457 problem documents with a stable code. With "
                     "api.tokens_file, each request needs a bearer token.\"");
    write_keyword(out, "version", exporter_version());
    base_buffer_text(out,
                     "},\"servers\":[{\"url\":\"/\",\"description\":\"the server of this "
                     "document\"},{\"url\":\"http://127.0.0.1:8780\",\"description\":\"the default "
                     "of --api.listen-address\"}],\"security\":[{},{\"bearer\":[]}],\"paths\":{");
}

void exporter_openapi_write(struct base_buffer *out)
{
    struct handoff_schema schema = {.out = out, .refs = SCHEMAS};
    write_info(out);
    for (size_t i = 0; i < HANDOFF_CALLS; i++) {
        if (is_first_of_its_path(i))
            write_path(&schema, handoff_calls[i].rest.path);
    }
    base_buffer_byte(out, '}');
    write_components(&schema);
    base_buffer_byte(out, '}');
}

void exporter_call_get_openapi(struct exporter_request *request, void *context)
{
    struct base_buffer out = {0};
    struct handoff_error error;
    (void)context;
    exporter_openapi_write(&out);
    if (out.failed) {
        handoff_error_set(&error, HANDOFF_ERR_OUT_OF_MEMORY, "out of memory (OpenAPI document)",
                          NULL, NULL);
        exporter_respond_error(request, &error);
    } else {
        exporter_respond_bytes(request, 200, "application/json", out.data, out.size);
    }
    base_buffer_free(&out);
}
