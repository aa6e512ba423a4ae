/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of constraints.h. One walk both checks and writes. Pure, any thread. */
#include "client/assemble/constraints.h"

#include <stdbool.h>
#include <string.h>

#include "lib/base/json.h"

/* The walk: the current path, and the names rejected so far. */
struct merge {
    struct base_buffer *out;
    struct base_buffer path;    /* "limits.max_cost" */
    struct base_buffer refused; /* "style, limits.max_cost" */
};

static void merge_objects(struct merge *merge, yyjson_val *parent, yyjson_val *child);

/* ---- what tightening is -------------------------------------------------------------------- */

static bool begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool number_is_tighter(const char *name, yyjson_val *parent, yyjson_val *child)
{
    double from, to;
    if (!base_json_double(parent, &from) || !base_json_double(child, &to))
        return false;
    /* A negative maximum often means unlimited. */
    return (begins_with(name, "max_") && to < from && (to >= 0 || from < 0)) ||
           (begins_with(name, "min_") && to > from);
}

static bool deadline_is_tighter(const char *name, yyjson_val *parent, yyjson_val *child)
{
    int64_t from, to;
    return strcmp(name, "deadline") == 0 && base_json_time(parent, &from) &&
           base_json_time(child, &to) && to < from;
}

static bool lists_demands(const char *name)
{
    static const char *const names[] = {
        "do_not", "must",    "must_not", "never",   "avoid",    "forbid", "forbidden", "deny",
        "denied", "exclude", "excluded", "require", "required", "rules",  "guardrails"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

static bool array_contains(yyjson_val *array, yyjson_val *wanted)
{
    size_t i, n;
    yyjson_val *item;
    yyjson_arr_foreach(array, i, n, item)
    {
        if (base_json_equal(item, wanted))
            return true;
    }
    return false;
}

enum { DEMANDS_MAX = 1000 }; /* comparing two lists is quadratic */

static bool list_is_tighter(const char *name, yyjson_val *parent, yyjson_val *child)
{
    size_t i, n;
    yyjson_val *item;
    if (!lists_demands(name) || !yyjson_is_arr(parent) || yyjson_arr_size(parent) > DEMANDS_MAX ||
        yyjson_arr_size(child) > DEMANDS_MAX)
        return false;
    yyjson_arr_foreach(parent, i, n, item)
    {
        if (!array_contains(child, item))
            return false;
    }
    return yyjson_is_arr(child);
}

static bool is_tighter(const char *name, yyjson_val *parent, yyjson_val *child)
{
    return number_is_tighter(name, parent, child) || deadline_is_tighter(name, parent, child) ||
           list_is_tighter(name, parent, child);
}

/* ---- the walk ------------------------------------------------------------------------------ */

static void note_loosened(struct merge *merge)
{
    if (merge->refused.size)
        base_buffer_text(&merge->refused, ", ");
    base_buffer_append(&merge->refused, merge->path.data, merge->path.size);
}

static void merge_value(struct merge *merge, const char *name, yyjson_val *parent,
                        yyjson_val *child)
{
    if (yyjson_is_obj(parent) && yyjson_is_obj(child)) {
        merge_objects(merge, parent, child);
    } else if (!child || base_json_equal(parent, child)) {
        base_json_write(merge->out, parent);
    } else {
        if (!is_tighter(name, parent, child))
            note_loosened(merge);
        base_json_write(merge->out, child);
    }
}

static void merge_member(struct merge *merge, yyjson_val *key, yyjson_val *parent,
                         yyjson_val *child)
{
    size_t before = merge->path.size;
    if (before)
        base_buffer_byte(&merge->path, '.');
    base_buffer_append(&merge->path, yyjson_get_str(key), yyjson_get_len(key));
    base_json_write_key(merge->out, base_json_span(key));
    merge_value(merge, yyjson_get_str(key), parent, child);
    if (!merge->path.failed)
        merge->path.size = before;
}

static yyjson_val *same_member(yyjson_val *object, yyjson_val *key)
{
    return yyjson_obj_getn(object, yyjson_get_str(key), yyjson_get_len(key));
}

static void merge_inherited(struct merge *merge, yyjson_val *parent, yyjson_val *child)
{
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(parent, i, n, key, value)
    {
        merge_member(merge, key, value, same_member(child, key));
    }
}

static void add_new(struct merge *merge, yyjson_val *parent, yyjson_val *child)
{
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(child, i, n, key, value)
    {
        if (same_member(parent, key))
            continue;
        base_json_write_key(merge->out, base_json_span(key));
        base_json_write(merge->out, value);
    }
}

/* Either may be NULL, which yyjson's loops over objects do not accept. */
static void merge_objects(struct merge *merge, yyjson_val *parent, yyjson_val *child)
{
    base_buffer_byte(merge->out, '{');
    if (parent)
        merge_inherited(merge, parent, child);
    if (child)
        add_new(merge, parent, child);
    base_buffer_byte(merge->out, '}');
}

enum handoff_code handoff_inherit_constraints(struct base_buffer *out, yyjson_val *parent,
                                              yyjson_val *child, struct handoff_error *error)
{
    struct merge merge = {.out = out};
    merge_objects(&merge, parent, child);
    enum handoff_code code = HANDOFF_OK;
    if (out->failed || merge.path.failed || merge.refused.failed) {
        code = handoff_error_no_memory(error);
    } else if (merge.refused.size) {
        code = handoff_error_set(error, HANDOFF_ERR_CONSTRAINT_LOOSENED,
                                 "inherited constraints may be tightened, not dropped or loosened",
                                 "constraints", merge.refused.data);
        handoff_error_allow(error, "the inherited value or a tighter one");
    }
    base_buffer_free(&merge.path);
    base_buffer_free(&merge.refused);
    return code;
}
