/* SPDX-License-Identifier: Apache-2.0 */
#include "client/assemble/field.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/json.h"
#include "lib/base/nearest.h"
#include "lib/base/uuid.h"

enum { FIELDS_MAX = 64 }; /* of one table */

/* ---- refusals ------------------------------------------------------------------------------- */

/* The value as the caller wrote it, cut to fit. */
static void show_seen(struct handoff_error *error, yyjson_val *value)
{
    if (yyjson_is_str(value))
        handoff_error_seen(error, "%s", yyjson_get_str(value));
    else if (yyjson_is_raw(value))
        handoff_error_seen(error, "%.*s",
                           yyjson_get_len(value) < 64 ? (int)yyjson_get_len(value) : 64,
                           yyjson_get_raw(value));
    else if (yyjson_is_bool(value))
        handoff_error_seen(error, "%s", yyjson_is_true(value) ? "true" : "false");
    else
        handoff_error_seen(error, "%s",
                           yyjson_is_obj(value)   ? "an object"
                           : yyjson_is_arr(value) ? "an array"
                                                  : "null");
}

enum handoff_code handoff_field_refuse(struct handoff_error *error, const char *message,
                                       const char *name, yyjson_val *seen)
{
    handoff_error_set(error, HANDOFF_ERR_INVALID, message, name, NULL);
    if (seen)
        show_seen(error, seen);
    return HANDOFF_ERR_INVALID;
}

enum handoff_code handoff_field_refuse_type(struct handoff_error *error, const char *name,
                                            yyjson_val *seen, const char *type)
{
    handoff_field_refuse(error, "the field has another type", name, seen);
    handoff_error_allow(error, "%s", type);
    return HANDOFF_ERR_INVALID;
}

void handoff_field_allow_words(struct handoff_error *error, const char *const *words)
{
    char allowed[96] = ""; /* as the error's */
    for (int i = 0; words[i]; i++)
        snprintf(allowed + strlen(allowed), sizeof(allowed) - strlen(allowed), "%s%s",
                 i ? ", " : "", words[i]);
    handoff_error_allow(error, "%s", allowed);
}

/* ---- checks of one value ------------------------------------------------------------------- */

static enum handoff_code check_length(const struct handoff_field *field, yyjson_val *value,
                                      struct handoff_error *error)
{
    if (!yyjson_is_str(value))
        return handoff_field_refuse_type(error, field->name, value, "a string");
    int64_t length = (int64_t)yyjson_get_len(value);
    if (length >= field->least && length <= field->most)
        return HANDOFF_OK;
    handoff_field_refuse(error, "the text is empty or too long", field->name, NULL);
    handoff_error_seen(error, "%lld bytes", (long long)length);
    handoff_error_allow(error, "%lld to %lld bytes", (long long)field->least,
                        (long long)field->most);
    return HANDOFF_ERR_INVALID;
}

enum handoff_code handoff_field_text(const struct handoff_field *field, yyjson_val *value, void *at,
                                     struct handoff_error *error)
{
    enum handoff_code code = check_length(field, value, error);
    if (code == HANDOFF_OK)
        *(struct base_span *)at = base_json_span(value);
    return code;
}

static bool has_control(struct base_span text)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c < 0x20 || c == 0x7f)
            return true;
    }
    return false;
}

enum handoff_code handoff_field_id(const struct handoff_field *field, yyjson_val *value, void *at,
                                   struct handoff_error *error)
{
    enum handoff_code code = handoff_field_text(field, value, at, error);
    if (code == HANDOFF_OK && has_control(base_json_span(value))) {
        code = handoff_field_refuse(error, "the text has control characters", field->name, value);
        handoff_error_allow(error, "printable characters");
    }
    return code;
}

static bool is_name_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

/* The characters that the configuration allows in an agent's name. */
enum handoff_code handoff_field_name(const struct handoff_field *field, yyjson_val *value, void *at,
                                     struct handoff_error *error)
{
    enum handoff_code code = handoff_field_text(field, value, at, error);
    struct base_span name = base_json_span(value);
    for (size_t i = 0; code == HANDOFF_OK && i < name.size; i++) {
        if (is_name_character(name.data[i]))
            continue;
        code = handoff_field_refuse(error, "the name has other characters", field->name, value);
        handoff_error_allow(error, "letters, digits, '.', '_' and '-'");
    }
    return code;
}

enum handoff_code handoff_field_uuid(const struct handoff_field *field, yyjson_val *value, void *at,
                                     struct handoff_error *error)
{
    struct base_uuid uuid = {0};
    struct base_span text = base_json_span(value);
    if (!yyjson_is_str(value) || !base_uuid_parse(text.data, text.size, &uuid)) {
        handoff_field_refuse(error, "the id is not one of an envelope", field->name, value);
        handoff_error_allow(error, "a UUID");
        return HANDOFF_ERR_INVALID;
    }
    *(struct base_span *)at = text;
    return HANDOFF_OK;
}

enum handoff_code handoff_field_whole(const struct handoff_field *field, yyjson_val *value,
                                      void *at, struct handoff_error *error)
{
    int64_t number;
    if (base_json_whole(value, &number) && number >= field->least && number <= field->most) {
        *(int64_t *)at = number;
        return HANDOFF_OK;
    }
    handoff_field_refuse(error, "the number is out of range", field->name, value);
    handoff_error_allow(error, "a whole number, %lld to %lld", (long long)field->least,
                        (long long)field->most);
    return HANDOFF_ERR_INVALID;
}

enum handoff_code handoff_field_number(const struct handoff_field *field, yyjson_val *value,
                                       void *at, struct handoff_error *error)
{
    double number;
    if (base_json_double(value, &number) && number >= (double)field->least &&
        number <= (double)field->most) {
        *(double *)at = number;
        return HANDOFF_OK;
    }
    handoff_field_refuse(error, "the number is out of range", field->name, value);
    handoff_error_allow(error, "a number, %lld to %lld", (long long)field->least,
                        (long long)field->most);
    return HANDOFF_ERR_INVALID;
}

enum handoff_code handoff_field_bool(const struct handoff_field *field, yyjson_val *value, void *at,
                                     struct handoff_error *error)
{
    if (!yyjson_is_bool(value))
        return handoff_field_refuse_type(error, field->name, value, "true or false");
    *(bool *)at = yyjson_is_true(value);
    return HANDOFF_OK;
}

enum handoff_code handoff_field_word(const struct handoff_field *field, yyjson_val *value, void *at,
                                     struct handoff_error *error)
{
    for (int i = 0; field->words[i]; i++) {
        if (yyjson_equals_str(value, field->words[i])) {
            *(int *)at = i;
            return HANDOFF_OK;
        }
    }
    handoff_field_refuse(error, "the field has another value", field->name, value);
    handoff_field_allow_words(error, field->words);
    return HANDOFF_ERR_INVALID;
}

/* ---- objects -------------------------------------------------------------------------------- */

static const struct handoff_field *find_field(const struct handoff_fields *fields, yyjson_val *key)
{
    const char first = yyjson_get_str(key)[0]; /* few names begin alike */
    for (size_t i = 0; i < fields->count; i++) {
        const char *name = fields->rows[i].name;
        if (name[0] == first && yyjson_equals_str(key, name))
            return &fields->rows[i];
    }
    return NULL;
}

static enum handoff_code refuse_unknown(const struct handoff_fields *fields, yyjson_val *key,
                                        struct handoff_error *error)
{
    const char *names[FIELDS_MAX];
    BASE_CHECK(fields->count <= FIELDS_MAX);
    for (size_t i = 0; i < fields->count; i++)
        names[i] = fields->rows[i].name;
    const char *nearest = base_nearest(yyjson_get_str(key), names, fields->count);
    handoff_error_set(error, HANDOFF_ERR_INVALID, fields->unknown, yyjson_get_str(key),
                      yyjson_get_str(key));
    if (nearest)
        handoff_error_allow(error, "%s (the nearest name)", nearest);
    else
        handoff_error_allow(error, "%s", fields->known);
    return HANDOFF_ERR_INVALID;
}

enum handoff_code handoff_fields_read(const struct handoff_fields *fields, yyjson_val *object,
                                      void *into, struct handoff_error *error)
{
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(object, i, n, key, value)
    {
        const struct handoff_field *field = find_field(fields, key);
        if (!field)
            return refuse_unknown(fields, key, error);
        if (yyjson_is_null(value))
            continue;
        enum handoff_code code = field->check(field, value, (char *)into + field->offset, error);
        if (code != HANDOFF_OK)
            return code;
    }
    return HANDOFF_OK;
}
