/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of scopes: read from text and JSON, compared, and printed for errors. Pure; any thread. */
#include "client/spine/scopes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/json.h"

/* ---- names ---------------------------------------------------------------------------------- */

static bool is_scope_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || (byte != '\0' && strchr("._:@/-", byte));
}

bool handoff_scope_is_valid(const char *name, size_t size)
{
    size_t good = 0;
    while (good < size && is_scope_byte(name[good]))
        good++;
    return size > 0 && size <= HANDOFF_SCOPE_MAX && good == size;
}

enum handoff_code handoff_scope_validate(struct base_span name, const char *field,
                                         struct handoff_error *error)
{
    if (name.size == 0 || handoff_scope_is_valid(name.data, name.size))
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_INVALID, "not a valid scope", field, NULL);
    handoff_error_seen(error, "%zu bytes: %.*s", name.size, name.size < 64 ? (int)name.size : 64,
                       name.data);
    handoff_error_allow(error, HANDOFF_SCOPE_ALLOWED);
    return HANDOFF_ERR_INVALID;
}

static int compare_names(const void *left, const void *right)
{
    const struct base_span *a = left, *b = right;
    const size_t shorter = a->size < b->size ? a->size : b->size;
    const int order = memcmp(a->data, b->data, shorter);
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

/* Takes `count` names, which are checked, and not empty. */
static void make_set(struct base_span *names, size_t count, struct handoff_scopes *scopes)
{
    size_t kept = 0;
    if (count > 1)
        qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || !base_span_equal(names[kept - 1], names[i]))
            names[kept++] = names[i];
    *scopes = (struct handoff_scopes){.names = names, .count = kept};
}

static enum handoff_code refuse_number(size_t seen, const char *field, struct handoff_error *error)
{
    handoff_error_set(error, HANDOFF_ERR_INVALID, "too many scopes", field, NULL);
    handoff_error_seen(error, "%zu", seen);
    handoff_error_allow(error, "up to %d", HANDOFF_SCOPES_MAX);
    return HANDOFF_ERR_INVALID;
}

static enum handoff_code refuse_empty(const char *field, struct handoff_error *error)
{
    handoff_error_set(error, HANDOFF_ERR_INVALID,
                      "a scope in a list is empty; shared memories are always seen", field, NULL);
    handoff_error_allow(error, HANDOFF_SCOPE_ALLOWED);
    return HANDOFF_ERR_INVALID;
}

/* ---- from text ------------------------------------------------------------------------------ */

static size_t count_names(const char *text)
{
    size_t count = 1;
    for (; *text; text++)
        count += *text == ',';
    return count;
}

enum handoff_code handoff_scopes_of_text(const char *text, const char *field,
                                         struct base_arena *arena, struct handoff_scopes *scopes,
                                         struct handoff_error *error)
{
    *scopes = (struct handoff_scopes){.all = text == NULL};
    if (!text || !*text)
        return HANDOFF_OK;
    const size_t count = count_names(text);
    if (count > HANDOFF_SCOPES_MAX)
        return refuse_number(count, field, error);
    struct base_span *names = base_arena_alloc(arena, count * sizeof *names);
    const char *copy = base_arena_strdup(arena, text);
    if (!names || !copy)
        return handoff_error_no_memory(error);
    for (size_t i = 0; i < count; i++) {
        names[i] = base_span(copy, strcspn(copy, ","));
        copy += names[i].size + 1;
        if (names[i].size == 0)
            return refuse_empty(field, error);
        if (handoff_scope_validate(names[i], field, error) != HANDOFF_OK)
            return HANDOFF_ERR_INVALID;
    }
    make_set(names, count, scopes);
    return HANDOFF_OK;
}

/* ---- from JSON ------------------------------------------------------------------------------ */

static enum handoff_code refuse_type(const char *field, struct handoff_error *error)
{
    handoff_error_set(error, HANDOFF_ERR_INVALID, "wrong type", field, NULL);
    handoff_error_allow(error, "a scope, or an array of scopes");
    return HANDOFF_ERR_INVALID;
}

static enum handoff_code take_list(yyjson_val *list, const char *field, struct base_span *names,
                                   struct handoff_error *error)
{
    size_t i, n;
    yyjson_val *value;
    yyjson_arr_foreach(list, i, n, value)
    {
        if (!yyjson_is_str(value))
            return refuse_type(field, error);
        names[i] = base_json_span(value);
        if (names[i].size == 0)
            return refuse_empty(field, error);
        if (handoff_scope_validate(names[i], field, error) != HANDOFF_OK)
            return HANDOFF_ERR_INVALID;
    }
    return HANDOFF_OK;
}

enum handoff_code handoff_scopes_of_json(yyjson_val *value, const char *field,
                                         struct base_arena *arena, struct handoff_scopes *scopes,
                                         struct handoff_error *error)
{
    *scopes = (struct handoff_scopes){0};
    const size_t count = yyjson_is_arr(value) ? yyjson_arr_size(value) : 1;
    if (!value || count == 0 || (yyjson_is_str(value) && yyjson_get_len(value) == 0))
        return HANDOFF_OK;
    if (!yyjson_is_str(value) && !yyjson_is_arr(value))
        return refuse_type(field, error);
    if (count > HANDOFF_SCOPES_MAX)
        return refuse_number(count, field, error);
    struct base_span *names = base_arena_alloc(arena, count * sizeof *names);
    if (!names)
        return handoff_error_no_memory(error);
    enum handoff_code code;
    if (yyjson_is_arr(value)) {
        code = take_list(value, field, names, error);
    } else {
        names[0] = base_json_span(value);
        code = handoff_scope_validate(names[0], field, error);
    }
    if (code == HANDOFF_OK)
        make_set(names, count, scopes);
    return code;
}

/* ---- comparing ------------------------------------------------------------------------------ */

bool handoff_scopes_has(const struct handoff_scopes *scopes, struct base_span name)
{
    for (size_t i = 0; i < scopes->count; i++)
        if (base_span_equal(scopes->names[i], name))
            return true;
    return false;
}

bool handoff_scopes_equal(const struct handoff_scopes *a, const struct handoff_scopes *b)
{
    if (a->count != b->count || a->all != b->all)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (!base_span_equal(a->names[i], b->names[i]))
            return false;
    return true;
}

bool handoff_scopes_see(const struct handoff_scopes *scopes, struct base_span name)
{
    return scopes->all || name.size == 0 || handoff_scopes_has(scopes, name);
}

bool handoff_scopes_may_store(const struct handoff_scopes *scopes, struct base_span name)
{
    return scopes->all || (scopes->count == 0 ? name.size == 0 : handoff_scopes_has(scopes, name));
}

void handoff_scopes_allow(const struct handoff_scopes *scopes, struct handoff_error *error)
{
    char text[sizeof error->allowed] = "";
    size_t used = 0;
    BASE_CHECK(!scopes->all);
    for (size_t i = 0; i < scopes->count && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.*s", i ? ", " : "",
                                 (int)scopes->names[i].size, scopes->names[i].data);
    if (used >= sizeof text)
        memcpy(text + sizeof text - sizeof "...", "...", sizeof "...");
    handoff_error_allow(error, "%s", scopes->count ? text : "only shared memories");
}
