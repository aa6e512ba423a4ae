/* SPDX-License-Identifier: Apache-2.0 */
/* The list of warnings, see warnings.h. Any thread, one at a time. */
#include "client/model/warnings.h"

#include <stdio.h>
#include <stdlib.h>

static bool list_warning(struct handoff_warnings *warnings, const char *field, const char *detail)
{
    if (!warnings->doc)
        warnings->doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_doc *doc = warnings->doc;
    if (doc && !yyjson_mut_doc_get_root(doc))
        yyjson_mut_doc_set_root(doc, yyjson_mut_arr(doc));
    yyjson_mut_val *entry = doc ? yyjson_mut_arr_add_obj(doc, yyjson_mut_doc_get_root(doc)) : NULL;
    return entry && yyjson_mut_obj_add_strcpy(doc, entry, "field", field) &&
           yyjson_mut_obj_add_strcpy(doc, entry, "detail", detail);
}

bool handoff_warn(struct handoff_warnings *warnings, const char *field, const char *detail)
{
    return ++warnings->count > HANDOFF_WARNINGS_MAX || list_warning(warnings, field, detail);
}

static void list_rest(struct handoff_warnings *warnings)
{
    char detail[64];
    snprintf(detail, sizeof detail, "and %zu more", warnings->count - HANDOFF_WARNINGS_MAX);
    (void)list_warning(warnings, "", detail);
}

struct base_span handoff_warnings_text(struct handoff_warnings *warnings)
{
    size_t size;
    if (!warnings->text && warnings->count > HANDOFF_WARNINGS_MAX)
        list_rest(warnings);
    if (!warnings->text && warnings->doc)
        warnings->text = yyjson_mut_write(warnings->doc, YYJSON_WRITE_ESCAPE_UNICODE, &size);
    return base_span_text(warnings->text);
}

void handoff_warnings_free(struct handoff_warnings *warnings)
{
    yyjson_mut_doc_free(warnings->doc);
    free(warnings->text); /* yyjson's */
    *warnings = (struct handoff_warnings){0};
}
