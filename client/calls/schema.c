/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Schemas of fields, see schema.h. Pure; any thread. */
#include "client/calls/schema.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/json.h"

static void write_text_keyword(struct base_buffer *out, const char *key, const char *text)
{
    if (!text)
        return;
    base_json_write_name(out, key);
    base_json_write_string(out, base_span_text(text));
}

static void write_number_keyword(struct base_buffer *out, const char *key, int64_t number)
{
    base_json_write_name(out, key);
    base_buffer_number(out, number);
}

/* ---- types ---------------------------------------------------------------------------------- */

static void write_type(struct base_buffer *out, const struct handoff_field *field, const char *type)
{
    base_json_write_name(out, "type");
    if (field->nullable)
        base_buffer_printf(out, "[\"%s\",\"null\"]", type);
    else
        base_buffer_printf(out, "\"%s\"", type);
}

static void write_string(struct base_buffer *out, const struct handoff_field *field,
                         const char *pattern, const char *format)
{
    const bool bounded = field->most > 0 && field->most < INT64_MAX;
    write_type(out, field, "string");
    if (field->least > 0)
        write_number_keyword(out, "minLength", field->least);
    if (bounded)
        write_number_keyword(out, "maxLength", field->most);
    write_text_keyword(out, "pattern", pattern);
    write_text_keyword(out, "format", format);
}

static void write_range(struct base_buffer *out, const struct handoff_field *field,
                        const char *type)
{
    write_type(out, field, type);
    write_number_keyword(out, "minimum", field->least);
    if (field->most < INT64_MAX)
        write_number_keyword(out, "maximum", field->most);
}

static void write_words(struct base_buffer *out, const struct handoff_field *field)
{
    base_json_write_name(out, "enum");
    base_buffer_byte(out, '[');
    for (int i = 0; field->words[i]; i++) {
        base_buffer_text(out, i ? "," : "");
        base_json_write_string(out, base_span_text(field->words[i]));
    }
    base_buffer_text(out, field->nullable ? ",null]" : "]");
}

static void write_array_keywords(struct handoff_schema *schema, const struct handoff_field *field)
{
    write_type(schema->out, field, "array");
    if (field->most < INT64_MAX)
        write_number_keyword(schema->out, "maxItems", field->most);
    if (!field->item)
        return;
    base_json_write_name(schema->out, "items");
    handoff_schema_write_field(schema, field->item);
}

static void write_one_or_many(struct handoff_schema *schema, const struct handoff_field *field)
{
    base_json_write_name(schema->out, "anyOf");
    base_buffer_byte(schema->out, '[');
    handoff_schema_write_field(schema, field->item);
    base_buffer_text(schema->out, ",{");
    write_array_keywords(schema, field);
    base_buffer_text(schema->out, "}]");
}

static void write_members(struct handoff_schema *schema, const struct handoff_fields *fields);

static bool is_referred_to(const struct handoff_schema *schema, const struct handoff_fields *fields)
{
    return schema->refs && fields && fields->name;
}

static void write_reference(struct handoff_schema *schema, const struct handoff_fields *fields)
{
    size_t i = 0;
    while (i < schema->nnamed && strcmp(schema->named[i]->name, fields->name) != 0)
        i++;
    if (i == schema->nnamed) {
        BASE_CHECK(i < HANDOFF_SCHEMA_NAMED_MAX);
        schema->named[schema->nnamed++] = fields;
    }
    base_json_write_name(schema->out, "$ref");
    base_buffer_printf(schema->out, "\"%s%s\"", schema->refs, fields->name);
}

/* Draft 2020-12 allows other keywords next to $ref. */
static void write_object_keywords(struct handoff_schema *schema, const struct handoff_field *field)
{
    if (is_referred_to(schema, field->members)) {
        write_reference(schema, field->members);
        return;
    }
    write_type(schema->out, field, "object");
    if (field->members)
        write_members(schema, field->members);
}

static void write_field_type(struct handoff_schema *schema, const struct handoff_field *field)
{
    static const char uuid[] = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$";
    static const char date_time[] = "^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}"
                                    "(\\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})$";
    struct base_buffer *out = schema->out;
    switch (field->type) {
    case HANDOFF_FIELD_TEXT:
    case HANDOFF_FIELD_STRING:
        write_string(out, field, NULL, NULL);
        break;
    case HANDOFF_FIELD_ID:
        write_string(out, field, "^[^\\u0000-\\u001f\\u007f]*$", NULL);
        break;
    case HANDOFF_FIELD_NAME:
        write_string(out, field, "^[A-Za-z0-9._-]*$", NULL);
        break;
    case HANDOFF_FIELD_UUID:
        write_type(out, field, "string");
        write_text_keyword(out, "pattern", uuid);
        break;
    case HANDOFF_FIELD_TRACE_ID:
        write_string(out, field, "^(?!0{32})[0-9a-f]{32}$", NULL);
        break;
    case HANDOFF_FIELD_WORD:
        write_words(out, field);
        break;
    case HANDOFF_FIELD_BOOL:
        write_type(out, field, "boolean");
        break;
    case HANDOFF_FIELD_WHOLE:
        write_range(out, field, "integer");
        break;
    case HANDOFF_FIELD_NUMBER:
        write_range(out, field, "number");
        break;
    case HANDOFF_FIELD_TIME:
        write_type(out, field, "string");
        write_text_keyword(out, "pattern", date_time);
        write_text_keyword(out, "format", "date-time");
        break;
    case HANDOFF_FIELD_DURATION:
        write_type(out, field, "string");
        write_text_keyword(out, "pattern", "^(0|([0-9]+(d|h|m|s|ms))+)$");
        break;
    case HANDOFF_FIELD_ARRAY:
        write_array_keywords(schema, field);
        break;
    case HANDOFF_FIELD_ONE_OR_MANY:
        write_one_or_many(schema, field);
        break;
    case HANDOFF_FIELD_OBJECT:
        write_object_keywords(schema, field);
        break;
    case HANDOFF_FIELD_ANY:
        break;
    }
}

void handoff_schema_write_field(struct handoff_schema *schema, const struct handoff_field *field)
{
    struct base_buffer *out = schema->out;
    base_buffer_byte(out, '{');
    write_field_type(schema, field);
    write_text_keyword(out, "description", field->doc);
    if (field->fallback) {
        base_json_write_name(out, "default");
        base_buffer_text(out, field->fallback);
    }
    if (field->example) {
        base_json_write_name(out, "examples");
        base_buffer_printf(out, "[%s]", field->example);
    }
    base_buffer_byte(out, '}');
}

/* ---- objects -------------------------------------------------------------------------------- */

static bool is_member(const struct handoff_fields *fields, const struct handoff_field *field)
{
    return field->place == HANDOFF_IN_BODY && !(fields->edit && field->fixed);
}

static void write_required(struct base_buffer *out, const struct handoff_fields *fields)
{
    size_t count = 0;
    for (size_t i = 0; i < fields->count && !fields->edit; i++) {
        if (!fields->rows[i].required || !is_member(fields, &fields->rows[i]))
            continue;
        if (count++ == 0) {
            base_json_write_name(out, "required");
            base_buffer_byte(out, '[');
        } else {
            base_buffer_byte(out, ',');
        }
        base_json_write_string(out, base_span_text(fields->rows[i].name));
    }
    if (count > 0)
        base_buffer_byte(out, ']');
}

static void write_members(struct handoff_schema *schema, const struct handoff_fields *fields)
{
    struct base_buffer *out = schema->out;
    if (!fields->open) {
        base_json_write_name(out, "additionalProperties");
        base_buffer_text(out, "false");
    }
    write_required(out, fields);
    if (fields->count == 0)
        return;
    base_json_write_name(out, "properties");
    base_buffer_byte(out, '{');
    for (size_t i = 0; i < fields->count; i++) {
        if (!is_member(fields, &fields->rows[i]))
            continue;
        base_json_write_name(out, fields->rows[i].name);
        handoff_schema_write_field(schema, &fields->rows[i]);
    }
    base_buffer_byte(out, '}');
}

void handoff_schema_write_object(struct handoff_schema *schema, const struct handoff_fields *fields)
{
    base_buffer_text(schema->out, "{\"type\":\"object\"");
    write_text_keyword(schema->out, "description", fields->doc);
    write_members(schema, fields);
    base_buffer_byte(schema->out, '}');
}

void handoff_schema_write(struct handoff_schema *schema, const struct handoff_fields *fields)
{
    if (!is_referred_to(schema, fields)) {
        handoff_schema_write_object(schema, fields);
        return;
    }
    base_buffer_byte(schema->out, '{');
    write_reference(schema, fields);
    base_buffer_byte(schema->out, '}');
}

/* ---- bodies --------------------------------------------------------------------------------- */

bool handoff_call_has_body(const struct handoff_call *call)
{
    return call->body == HANDOFF_DOCUMENT || call->body == HANDOFF_BODY_OF_WORDS ||
           call->body == HANDOFF_BODY_WITH_DOCUMENT;
}

static void write_batch(struct handoff_schema *schema, const struct handoff_fields *fields)
{
    base_buffer_text(schema->out, "{\"oneOf\":[");
    handoff_schema_write(schema, fields);
    base_buffer_text(schema->out, ",{\"type\":\"object\",\"additionalProperties\":false,"
                                  "\"required\":[\"items\"],\"properties\":{\"items\":"
                                  "{\"type\":\"array\",\"maxItems\":1000,\"items\":");
    handoff_schema_write(schema, fields);
    base_buffer_text(schema->out, "}}}]}");
}

void handoff_schema_write_body(struct handoff_schema *schema, const struct handoff_call *call)
{
    BASE_CHECK(handoff_call_has_body(call));
    if (call->batch)
        write_batch(schema, call->document);
    else
        handoff_schema_write(schema, call->document ? call->document : &call->input);
}
