/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of fields, see field.h: one check for each type, and one walk over an object.
 *
 * Every request to hand off passes here on the thread that received it, so a name is found by its
 * first letter before it is compared, and a check stores the value in the same step.
 *
 * Pure; any thread.
 */
#include "client/model/field.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/json.h"
#include "lib/base/nearest.h"
#include "lib/base/units.h"
#include "lib/base/uuid.h"

enum { FIELDS_MAX = 64 }; /* of one table: a bit of a word each */

/* ---- errors --------------------------------------------------------------------------------- */

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
    handoff_field_refuse(error, "wrong type", name, seen);
    handoff_error_allow(error, "%s", type);
    return HANDOFF_ERR_INVALID;
}

/* False: not all of them fit. */
static bool join_words(char *out, size_t size, const char *const *words, const char *joint)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; words[i] && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? joint : "", words[i]);
    return used < size;
}

/* A long list does without blanks. */
static void allow_words(struct handoff_error *error, const char *const *words)
{
    char allowed[sizeof error->allowed];
    if (!join_words(allowed, sizeof allowed, words, ", "))
        (void)join_words(allowed, sizeof allowed, words, ",");
    handoff_error_allow(error, "%s", allowed);
}

enum handoff_code handoff_field_refuse_missing(struct handoff_error *error,
                                               const struct handoff_field *field)
{
    handoff_field_refuse(error, "required field is missing", field->name, NULL);
    if (field->words)
        allow_words(error, field->words);
    return HANDOFF_ERR_INVALID;
}

static bool has_row(const struct handoff_fields *fields, enum handoff_field_place place, size_t i)
{
    return fields->rows[i].place == place && !(fields->edit && fields->rows[i].fixed);
}

enum handoff_code handoff_fields_refuse_unknown(const struct handoff_fields *fields,
                                                enum handoff_field_place place, const char *name,
                                                struct handoff_error *error)
{
    const char *names[FIELDS_MAX + 1];
    size_t count = 0;
    BASE_CHECK(fields->count <= FIELDS_MAX);
    for (size_t i = 0; i < fields->count; i++) {
        if (has_row(fields, place, i))
            names[count++] = fields->rows[i].name;
    }
    names[count] = NULL;
    const char *nearest = base_nearest(name, names, count);
    handoff_error_set(error, HANDOFF_ERR_INVALID,
                      place == HANDOFF_IN_QUERY ? "unknown query parameter" : "unknown field", name,
                      name);
    if (nearest)
        handoff_error_allow(error, "%s (the nearest name)", nearest);
    else if (fields->known)
        handoff_error_allow(error, "%s", fields->known);
    else if (count == 0)
        handoff_error_allow(error, "none");
    else
        allow_words(error, names);
    return HANDOFF_ERR_INVALID;
}

enum handoff_code handoff_field_within(const char *parent, enum handoff_code code,
                                       struct handoff_error *error)
{
    char member[sizeof error->field];
    if (code != HANDOFF_OK && error) {
        memcpy(member, error->field, sizeof member);
        handoff_error_field(error, "%s.%s", parent, member);
    }
    return code;
}

/* ---- text ----------------------------------------------------------------------------------- */

static enum handoff_code check_text_field(const struct handoff_field *field, yyjson_val *value,
                                          void *at, struct handoff_error *error)
{
    if (!yyjson_is_str(value))
        return handoff_field_refuse_type(error, field->name, value, "a string");
    int64_t length = (int64_t)yyjson_get_len(value);
    if (length >= field->least && length <= field->most) {
        *(struct base_span *)at = base_json_span(value);
        return HANDOFF_OK;
    }
    handoff_field_refuse(error, "wrong length", field->name, NULL);
    handoff_error_seen(error, "%lld bytes", (long long)length);
    handoff_error_allow(error, "%lld to %lld bytes", (long long)field->least,
                        (long long)field->most);
    return HANDOFF_ERR_INVALID;
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

static enum handoff_code check_id_field(const struct handoff_field *field, yyjson_val *value,
                                        void *at, struct handoff_error *error)
{
    enum handoff_code code = check_text_field(field, value, at, error);
    if (code == HANDOFF_OK && has_control(base_json_span(value))) {
        code = handoff_field_refuse(error, "contains control characters", field->name, value);
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
static enum handoff_code check_name_field(const struct handoff_field *field, yyjson_val *value,
                                          void *at, struct handoff_error *error)
{
    enum handoff_code code = check_text_field(field, value, at, error);
    struct base_span name = base_json_span(value);
    for (size_t i = 0; code == HANDOFF_OK && i < name.size; i++) {
        if (is_name_character(name.data[i]))
            continue;
        code = handoff_field_refuse(error, "contains characters that are not allowed in a name",
                                    field->name, value);
        handoff_error_allow(error, "letters, digits, '.', '_' and '-'");
    }
    return code;
}

static enum handoff_code check_uuid_field(const struct handoff_field *field, yyjson_val *value,
                                          void *at, struct handoff_error *error)
{
    struct base_uuid uuid = {0};
    struct base_span text = base_json_span(value);
    if (!yyjson_is_str(value) || !base_uuid_parse(text.data, text.size, &uuid)) {
        handoff_field_refuse(error, "not a valid envelope id", field->name, value);
        handoff_error_allow(error, "a UUID");
        return HANDOFF_ERR_INVALID;
    }
    *(struct base_span *)at = text;
    return HANDOFF_OK;
}

/* W3C Trace Context: 32 digits of lower-case hexadecimal, not all of them zero. */
static enum handoff_code check_trace_id_field(const struct handoff_field *field, yyjson_val *value,
                                              void *at, struct handoff_error *error)
{
    enum { DIGITS = 32 };
    struct base_span text = base_json_span(value);
    if (text.size == DIGITS && strspn(text.data, "0123456789abcdef") == DIGITS &&
        strspn(text.data, "0") < DIGITS) {
        *(struct base_span *)at = text;
        return HANDOFF_OK;
    }
    handoff_field_refuse(error, "not a valid trace id", field->name, value);
    handoff_error_allow(error, "32 lowercase hexadecimal digits");
    return HANDOFF_ERR_INVALID;
}

/* What follows a NUL would be lost without a word. */
static enum handoff_code check_string_field(const struct handoff_field *field, yyjson_val *value,
                                            void *at, struct handoff_error *error)
{
    struct base_span text = base_json_span(value);
    if (!text.data || strlen(text.data) != text.size)
        return handoff_field_refuse_type(error, field->name, value, "a string without NUL");
    enum handoff_code code = check_text_field(field, value, &text, error);
    if (code == HANDOFF_OK)
        *(const char **)at = text.data;
    return code;
}

enum handoff_code handoff_field_check_word(const struct handoff_field *field, yyjson_val *value,
                                           void *at, struct handoff_error *error)
{
    for (int i = 0; field->words[i]; i++) {
        if (yyjson_equals_str(value, field->words[i])) {
            *(int *)at = i;
            return HANDOFF_OK;
        }
    }
    handoff_field_refuse(error, "unknown value", field->name, value);
    allow_words(error, field->words);
    return HANDOFF_ERR_INVALID;
}

/* ---- numbers and times ---------------------------------------------------------------------- */

static enum handoff_code check_bool_field(const struct handoff_field *field, yyjson_val *value,
                                          void *at, struct handoff_error *error)
{
    if (!yyjson_is_bool(value))
        return handoff_field_refuse_type(error, field->name, value, "true or false");
    *(bool *)at = yyjson_is_true(value);
    return HANDOFF_OK;
}

static enum handoff_code refuse_range(const struct handoff_field *field, yyjson_val *value,
                                      const char *kind, struct handoff_error *error)
{
    const bool bounded = field->most < INT64_MAX;
    handoff_field_refuse(error, "out of range", field->name, value);
    if (bounded)
        handoff_error_allow(error, "%s, %lld to %lld", kind, (long long)field->least,
                            (long long)field->most);
    else
        handoff_error_allow(error, "%s, %lld or more", kind, (long long)field->least);
    return HANDOFF_ERR_INVALID;
}

static enum handoff_code check_whole_field(const struct handoff_field *field, yyjson_val *value,
                                           void *at, struct handoff_error *error)
{
    int64_t number;
    if (!base_json_whole(value, &number) || number < field->least || number > field->most)
        return refuse_range(field, value, "a whole number", error);
    *(int64_t *)at = number;
    return HANDOFF_OK;
}

static enum handoff_code check_number_field(const struct handoff_field *field, yyjson_val *value,
                                            void *at, struct handoff_error *error)
{
    double number;
    if (!base_json_double(value, &number) || number < (double)field->least ||
        number > (double)field->most)
        return refuse_range(field, value, "a number", error);
    *(double *)at = number;
    return HANDOFF_OK;
}

static enum handoff_code check_time_field(const struct handoff_field *field, yyjson_val *value,
                                          void *at, struct handoff_error *error)
{
    if (base_json_time(value, at))
        return HANDOFF_OK;
    handoff_field_refuse(error, "not a valid time", field->name, value);
    handoff_error_allow(error, "RFC 3339, such as 2026-01-30T00:00:00Z");
    return HANDOFF_ERR_INVALID;
}

static enum handoff_code check_duration_field(const struct handoff_field *field, yyjson_val *value,
                                              void *at, struct handoff_error *error)
{
    struct base_printed most;
    uint64_t ms;
    const char *text = yyjson_get_str(value);
    if (text && base_duration_parse(text, &ms) && ms >= (uint64_t)field->least &&
        ms <= (uint64_t)field->most) {
        *(int64_t *)at = (int64_t)ms;
        return HANDOFF_OK;
    }
    handoff_field_refuse(error, "not a duration, or out of range", field->name, value);
    handoff_error_allow(error, "a duration up to %s, such as 20s",
                        base_duration_print(&most, (uint64_t)field->most));
    return HANDOFF_ERR_INVALID;
}

/* ---- arrays and objects --------------------------------------------------------------------- */

/* Room for whatever a check stores, where only its verdict is wanted. */
union anything {
    struct base_span span;
    const char *string;
    int64_t whole;
    double number;
    yyjson_val *value;
};

enum handoff_code handoff_field_check_array(const struct handoff_field *field, yyjson_val *value,
                                            void *at, struct handoff_error *error)
{
    if (!yyjson_is_arr(value))
        return handoff_field_refuse_type(error, field->name, value, "an array");
    if ((int64_t)yyjson_arr_size(value) > field->most) {
        handoff_field_refuse(error, "too many entries", field->name, NULL);
        handoff_error_seen(error, "%zu entries", yyjson_arr_size(value));
        handoff_error_allow(error, "%lld", (long long)field->most);
        return HANDOFF_ERR_INVALID;
    }
    *(yyjson_val **)at = value;
    return HANDOFF_OK;
}

/* The error is about one entry: memory_ids[3]. */
static enum handoff_code at_index(enum handoff_code code, const char *list, size_t index,
                                  struct handoff_error *error)
{
    handoff_error_field(error, "%s[%zu]", list, index);
    return code;
}

static enum handoff_code check_array_field(const struct handoff_field *field, yyjson_val *value,
                                           void *at, struct handoff_error *error)
{
    enum handoff_code code = handoff_field_check_array(field, value, at, error);
    size_t i, n;
    yyjson_val *entry;
    if (code != HANDOFF_OK || !field->item)
        return code;
    yyjson_arr_foreach(value, i, n, entry)
    {
        union anything unused;
        code = handoff_field_read(field->item, entry, &unused, error);
        if (code != HANDOFF_OK)
            return at_index(code, field->name, i, error);
    }
    return HANDOFF_OK;
}

static enum handoff_code check_one_or_many(const struct handoff_field *field, yyjson_val *value,
                                           void *at, struct handoff_error *error)
{
    union anything unused;
    if (yyjson_is_arr(value))
        return check_array_field(field, value, at, error);
    *(yyjson_val **)at = value;
    return handoff_field_read(field->item, value, &unused, error);
}

enum handoff_code handoff_field_check_object(const struct handoff_field *field, yyjson_val *value,
                                             void *at, struct handoff_error *error)
{
    if (!yyjson_is_obj(value))
        return handoff_field_refuse_type(error, field->name, value, "an object");
    if (field->members && !field->members->open)
        return handoff_field_within(field->name,
                                    handoff_fields_read(field->members, value, at, error), error);
    *(yyjson_val **)at = value;
    if (!field->members)
        return HANDOFF_OK;
    return handoff_fields_check_open(field->members, value, field->name, error);
}

static enum handoff_code check_nothing_field(const struct handoff_field *field, yyjson_val *value,
                                             void *at, struct handoff_error *error)
{
    (void)field;
    (void)value;
    (void)at;
    (void)error;
    return HANDOFF_OK;
}

static handoff_field_check *const checks[] = {
    [HANDOFF_FIELD_TEXT] = check_text_field,
    [HANDOFF_FIELD_ID] = check_id_field,
    [HANDOFF_FIELD_NAME] = check_name_field,
    [HANDOFF_FIELD_UUID] = check_uuid_field,
    [HANDOFF_FIELD_TRACE_ID] = check_trace_id_field,
    [HANDOFF_FIELD_STRING] = check_string_field,
    [HANDOFF_FIELD_WORD] = handoff_field_check_word,
    [HANDOFF_FIELD_BOOL] = check_bool_field,
    [HANDOFF_FIELD_WHOLE] = check_whole_field,
    [HANDOFF_FIELD_NUMBER] = check_number_field,
    [HANDOFF_FIELD_TIME] = check_time_field,
    [HANDOFF_FIELD_DURATION] = check_duration_field,
    [HANDOFF_FIELD_ARRAY] = check_array_field,
    [HANDOFF_FIELD_ONE_OR_MANY] = check_one_or_many,
    [HANDOFF_FIELD_OBJECT] = handoff_field_check_object,
    [HANDOFF_FIELD_ANY] = check_nothing_field,
};

enum handoff_code handoff_field_read(const struct handoff_field *field, yyjson_val *value,
                                     void *into, struct handoff_error *error)
{
    handoff_field_check *check = field->check ? field->check : checks[field->type];
    return check(field, value, (char *)into + field->offset, error);
}

/* ---- walks ---------------------------------------------------------------------------------- */

static const struct handoff_field *find_field(const struct handoff_fields *fields, yyjson_val *key)
{
    const char first = yyjson_get_str(key)[0]; /* few names begin alike */
    for (size_t i = 0; i < fields->count; i++) {
        const struct handoff_field *row = &fields->rows[i];
        if (row->name[0] == first && row->place == HANDOFF_IN_BODY &&
            yyjson_equals_str(key, row->name))
            return row;
    }
    return NULL;
}

static enum handoff_code require(const struct handoff_fields *fields, uint64_t present,
                                 struct handoff_error *error)
{
    for (size_t i = 0; i < fields->count; i++) {
        const struct handoff_field *row = &fields->rows[i];
        if (row->required && row->place == HANDOFF_IN_BODY && !(present >> i & 1))
            return handoff_field_refuse_missing(error, row);
    }
    return HANDOFF_OK;
}

enum handoff_code handoff_fields_read_none(const struct handoff_fields *fields,
                                           struct handoff_error *error)
{
    return require(fields, 0, error);
}

enum handoff_code handoff_fields_read(const struct handoff_fields *fields, yyjson_val *object,
                                      void *into, struct handoff_error *error)
{
    uint64_t present = 0;
    size_t i, n;
    yyjson_val *key, *value;
    BASE_CHECK(fields->count <= FIELDS_MAX);
    yyjson_obj_foreach(object, i, n, key, value)
    {
        const struct handoff_field *field = find_field(fields, key);
        if (!field)
            return handoff_fields_refuse_unknown(fields, HANDOFF_IN_BODY, yyjson_get_str(key),
                                                 error);
        if (yyjson_is_null(value))
            continue;
        enum handoff_code code = handoff_field_read(field, value, into, error);
        if (code != HANDOFF_OK)
            return code;
        present |= (uint64_t)1 << (field - fields->rows);
    }
    return require(fields, present, error);
}

enum handoff_code handoff_fields_check_open(const struct handoff_fields *fields, yyjson_val *object,
                                            const char *parent, struct handoff_error *error)
{
    for (size_t i = 0; i < fields->count; i++) {
        union anything unused;
        const struct handoff_field *row = &fields->rows[i];
        yyjson_val *value = yyjson_obj_get(object, row->name);
        if (!value)
            continue;
        BASE_CHECK(row->offset == 0); /* nothing of it is stored */
        enum handoff_code code = handoff_field_read(row, value, &unused, error);
        if (code != HANDOFF_OK)
            return handoff_field_within(parent, code, error);
    }
    return HANDOFF_OK;
}

/* NULL: none. */
static const char *slip_of(const struct handoff_fields *fields, yyjson_val *object, yyjson_val *key)
{
    if (find_field(fields, key))
        return NULL;
    for (size_t i = 0; i < fields->count; i++) {
        const char *name = fields->rows[i].name;
        if (base_is_slip(yyjson_get_str(key), yyjson_get_len(key), name, strlen(name)) &&
            !yyjson_obj_get(object, name))
            return name;
    }
    return NULL;
}

enum handoff_code handoff_fields_refuse_slips(const struct handoff_fields *fields,
                                              yyjson_val *object, const char *parent,
                                              struct handoff_error *error)
{
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(object, i, n, key, value)
    {
        const char *name = slip_of(fields, object, key);
        if (!name)
            continue;
        handoff_error_set(error, HANDOFF_ERR_INVALID, "probably a misspelt field", NULL,
                          yyjson_get_str(key));
        handoff_error_field(error, "%s.%s", parent, yyjson_get_str(key));
        handoff_error_allow(error, "%s (the nearest name)", name);
        return HANDOFF_ERR_INVALID;
    }
    return HANDOFF_OK;
}

enum handoff_code handoff_field_read_text(const struct handoff_field *field, const char *text,
                                          void *into, struct handoff_error *error)
{
    yyjson_val value = {0};
    const char *digits = *text == '-' ? text + 1 : text;
    const bool numeric = field->type == HANDOFF_FIELD_WHOLE || field->type == HANDOFF_FIELD_NUMBER;
    if (numeric && *digits >= '0' && *digits <= '9')
        yyjson_set_raw(&value, text, strlen(text));
    else if (field->type == HANDOFF_FIELD_BOOL && strcmp(text, "true") == 0)
        yyjson_set_bool(&value, true);
    else if (field->type == HANDOFF_FIELD_BOOL && strcmp(text, "false") == 0)
        yyjson_set_bool(&value, false);
    else
        yyjson_set_strn(&value, text, strlen(text));
    return handoff_field_read(field, &value, into, error);
}
