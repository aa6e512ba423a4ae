/* SPDX-License-Identifier: Apache-2.0 */
/* Takes unknown fields out of a document, see lenient.h. Pure; any thread. */
#include "client/model/lenient.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/nearest.h"
#include "lib/base/utf8.h"

enum { PATH_SIZE = 160, NAME_SIZE = 64 };

/* One document on its way through. */
struct stripping {
    yyjson_mut_doc *doc;
    struct handoff_warnings *warnings;
    bool stripped; /* something was ignored */
    bool failed;   /* out of memory */
};

static void note_ignored(struct stripping *stripping, const char *path, const char *nearest)
{
    char detail[NAME_SIZE + 96];
    if (nearest)
        snprintf(detail, sizeof detail, "unknown field, ignored (the nearest name is %s)", nearest);
    else
        snprintf(detail, sizeof detail, "unknown field, ignored");
    stripping->stripped = true;
    if (!handoff_warn(stripping->warnings, path, detail))
        stripping->failed = true;
}

/* ---- the walk ------------------------------------------------------------------------------- */

static const struct handoff_field *find_known_row(const struct handoff_fields *fields,
                                                  const char *name)
{
    for (size_t i = 0; i < fields->count; i++) {
        const struct handoff_field *row = &fields->rows[i];
        if (row->place == HANDOFF_IN_BODY && strcmp(row->name, name) == 0)
            return row;
    }
    return NULL;
}

static const struct handoff_field *nearest_row(const struct handoff_fields *fields,
                                               const char *name)
{
    struct base_nearest nearest = base_nearest_begin(name, strlen(name));
    for (size_t i = 0; i < fields->count; i++) {
        if (fields->rows[i].place == HANDOFF_IN_BODY)
            base_nearest_offer(&nearest, fields->rows[i].name, strlen(fields->rows[i].name));
    }
    return nearest.best ? find_known_row(fields, nearest.best) : NULL;
}

/* "parent.name", cut to fit. */
static void join_path(char path[PATH_SIZE], const char *parent, const char *name)
{
    char shown[NAME_SIZE];
    base_utf8_cut(shown, sizeof shown, name, strlen(name));
    snprintf(path, PATH_SIZE, "%.80s%s%s", parent, *parent ? "." : "", shown);
}

static void strip_object(struct stripping *stripping, const struct handoff_fields *fields,
                         yyjson_mut_val *object, const char *path);

static void strip_array(struct stripping *stripping, const struct handoff_fields *fields,
                        yyjson_mut_val *array, const char *path)
{
    size_t i, n;
    yyjson_mut_val *entry;
    yyjson_mut_arr_foreach(array, i, n, entry)
    {
        char at[PATH_SIZE];
        snprintf(at, sizeof at, "%.100s[%zu]", path, i);
        strip_object(stripping, fields, entry, at);
    }
}

static void strip_known(struct stripping *stripping, const struct handoff_field *row,
                        yyjson_mut_val *value, const char *parent)
{
    char path[PATH_SIZE];
    join_path(path, parent, row->name);
    if (row->members)
        strip_object(stripping, row->members, value, path);
    else if (row->item && row->item->members)
        strip_array(stripping, row->item->members, value, path);
}

/* Whether an unknown member goes; a misspelling of a vital one stays, and is rejected later. */
static bool drop_unknown(struct stripping *stripping, const struct handoff_fields *fields,
                         const char *name, const char *parent)
{
    char path[PATH_SIZE];
    const struct handoff_field *nearest = nearest_row(fields, name);
    if (fields->open || (nearest && nearest->vital))
        return false;
    join_path(path, parent, name);
    note_ignored(stripping, path, nearest ? nearest->name : NULL);
    return true;
}

static void strip_object(struct stripping *stripping, const struct handoff_fields *fields,
                         yyjson_mut_val *object, const char *path)
{
    yyjson_mut_obj_iter members;
    yyjson_mut_val *key;
    if (!yyjson_mut_obj_iter_init(object, &members))
        return; /* a wrong type, which is rejected later */
    while ((key = yyjson_mut_obj_iter_next(&members))) {
        const char *name = yyjson_mut_get_str(key);
        const struct handoff_field *row = find_known_row(fields, name);
        if (row)
            strip_known(stripping, row, yyjson_mut_obj_iter_get_val(key), path);
        else if (drop_unknown(stripping, fields, name, path))
            yyjson_mut_obj_iter_remove(&members);
    }
}

enum handoff_code handoff_ignore_unknown(const struct handoff_fields *fields, bool batch,
                                         yyjson_doc **doc, struct handoff_warnings *warnings,
                                         struct handoff_error *error)
{
    struct stripping stripping = {.doc = yyjson_doc_mut_copy(*doc, NULL), .warnings = warnings};
    if (!stripping.doc)
        return handoff_error_no_memory(error);
    yyjson_mut_val *root = yyjson_mut_doc_get_root(stripping.doc);
    yyjson_mut_val *items = batch ? yyjson_mut_obj_get(root, "items") : NULL;
    if (items)
        strip_array(&stripping, fields, items, "items");
    else
        strip_object(&stripping, fields, root, "");
    yyjson_doc *without = stripping.stripped ? yyjson_mut_doc_imut_copy(stripping.doc, NULL) : NULL;
    yyjson_mut_doc_free(stripping.doc);
    if (stripping.failed || (stripping.stripped && !without)) {
        yyjson_doc_free(without);
        return handoff_error_no_memory(error);
    }
    if (without) {
        yyjson_doc_free(*doc);
        *doc = without;
    }
    return handoff_error_clear(error);
}
