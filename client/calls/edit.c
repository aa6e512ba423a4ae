/* SPDX-License-Identifier: Apache-2.0 */
/* An edit as a request, see edit.h. Numbers are carried as text, so they stay exactly as sent. */
#include "client/calls/edit.h"

#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "client/assemble/request.h"
#include "client/envelope/read.h"
#include "lib/base/json.h"

/* ---- what an edit may be ----------------------------------------------------------------------
 */

/* Some fields identify the handoff, or are carried unchanged along a chain. */
static enum handoff_code check_edit(yyjson_val *edit, struct handoff_error *error)
{
    if (!yyjson_is_obj(edit))
        return handoff_field_refuse_type(error, "edit", edit, "an object");
    for (size_t i = 0; i < handoff_edit_fields.count; i++) {
        const struct handoff_field *field = &handoff_edit_fields.rows[i];
        if (!field->fixed || !yyjson_obj_get(edit, field->name))
            continue;
        handoff_error_set(error, HANDOFF_ERR_INVALID, "an edit cannot change this field", "edit",
                          NULL);
        handoff_error_field(error, "edit.%s", field->name);
        return HANDOFF_ERR_INVALID;
    }
    return HANDOFF_OK;
}

/* ---- the request ------------------------------------------------------------------------------
 */

static void put_edited_member(yyjson_mut_doc *doc, const char *key, yyjson_val *value)
{
    bool empty =
        yyjson_is_null(value) || (yyjson_is_ctn(value) && unsafe_yyjson_get_len(value) == 0);
    if (value && !empty)
        yyjson_mut_obj_put(yyjson_mut_doc_get_root(doc), yyjson_mut_strcpy(doc, key),
                           yyjson_val_mut_copy(doc, value));
}

static void put_all(yyjson_mut_doc *doc, yyjson_val *object)
{
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(object, i, n, key, value)
    {
        yyjson_mut_obj_put(yyjson_mut_doc_get_root(doc), yyjson_val_mut_copy(doc, key),
                           yyjson_val_mut_copy(doc, value));
    }
}

/* Intent, constraints and history are inherited, so the request does not repeat them. */
static void put_envelope(yyjson_mut_doc *doc, const struct handoff_envelope *envelope)
{
    yyjson_val *root = yyjson_doc_get_root(envelope->doc);
    put_edited_member(doc, "previous_id", yyjson_obj_get(root, "id"));
    put_edited_member(doc, "source_agent", yyjson_obj_get(root, "source_agent"));
    put_edited_member(doc, "pattern", yyjson_obj_get(root, "pattern"));
    put_edited_member(doc, "channel", yyjson_obj_get(root, "channel"));
    put_edited_member(doc, "strategy", yyjson_obj_get(yyjson_obj_get(root, "tokens"), "strategy"));
    put_edited_member(doc, "memory_ids", yyjson_obj_get(root, "memory_refs"));
    put_edited_member(doc, "task_summary",
                      yyjson_obj_get(yyjson_obj_get(envelope->context, "task"), "summary"));
    put_edited_member(doc, "state", envelope->state);
    put_edited_member(doc, "expected_output", envelope->expected_output);
}

static enum handoff_code write_request(const struct handoff_envelope *envelope, yyjson_val *body,
                                       const char *target, char **request, size_t *size,
                                       struct handoff_error *error)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_val *named = yyjson_obj_get(body, "target_agent");
    if (!doc)
        return handoff_error_no_memory(error);
    yyjson_mut_doc_set_root(doc, yyjson_mut_obj(doc));
    put_envelope(doc, envelope);
    yyjson_mut_obj_add_str(doc, yyjson_mut_doc_get_root(doc), "target_agent",
                           yyjson_is_str(named) ? yyjson_get_str(named) : target);
    put_all(doc, yyjson_obj_get(body, "edit"));
    *request = yyjson_mut_write(doc, 0, size);
    yyjson_mut_doc_free(doc);
    return *request ? HANDOFF_OK : handoff_error_no_memory(error);
}

enum handoff_code handoff_edit_request(struct base_span envelope, struct base_span body,
                                       const char *target, char **request, size_t *size,
                                       struct handoff_error *error)
{
    struct handoff_envelope read;
    yyjson_doc *doc;
    *request = NULL;
    enum handoff_code code = base_json_read(body, "body", &doc, error);
    if (code != HANDOFF_OK)
        return code;
    yyjson_val *root = yyjson_doc_get_root(doc);
    code = check_edit(yyjson_obj_get(root, "edit"), error);
    if (code == HANDOFF_OK)
        code = handoff_envelope_read(envelope, &read, error);
    if (code == HANDOFF_OK) {
        code = write_request(&read, root, target, request, size, error);
        handoff_envelope_free(&read);
    }
    yyjson_doc_free(doc);
    return code;
}
