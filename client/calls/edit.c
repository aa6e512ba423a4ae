/* SPDX-License-Identifier: Apache-2.0 */
/* An edit as a request, see edit.h. Numbers are carried as text, so they stay exactly as sent. */
#include "client/calls/edit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "client/assemble/request.h"
#include "client/envelope/read.h"
#include "client/ledger/same.h"
#include "client/ledger/set.h"
#include "client/store/ledger.h"
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

static void put_origin(yyjson_mut_doc *doc, yyjson_val *envelope)
{
    put_edited_member(doc, "source_agent", yyjson_obj_get(envelope, "source_agent"));
    put_edited_member(doc, "pattern", yyjson_obj_get(envelope, "pattern"));
    put_edited_member(doc, "channel", yyjson_obj_get(envelope, "channel"));
}

/* No edit changes it, not even the summary of a first hop that has no other intent. */
static void put_intent(yyjson_mut_doc *doc, const struct handoff_envelope *envelope)
{
    put_edited_member(doc, "intent",
                      yyjson_obj_get(yyjson_obj_get(envelope->context, "task"), "intent"));
}

/* All that the old request supplied itself: an envelope shows its chain, and only what fits. */
static void put_contribution(yyjson_mut_doc *doc, yyjson_val *contribution)
{
    static const struct {
        const char *kept, *asked;
    } members[] = {{"intent", "intent"},
                   {"summary", "task_summary"},
                   {"state", "state"},
                   {"steps", "execution_history"},
                   {"references", "memory_ids"},
                   {"expected_output", "expected_output"},
                   {"scope", "scope"}};
    static const char *const options[] = {"include_recent", "include_pins", "strategy", "pipeline"};
    yyjson_val *asked = yyjson_obj_get(contribution, "options");
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        put_edited_member(doc, members[i].asked, yyjson_obj_get(contribution, members[i].kept));
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        put_edited_member(doc, options[i], yyjson_obj_get(asked, options[i]));
}

/* An older version's envelope is all that is left of its request, and of its chain. */
static void put_shown(yyjson_mut_doc *doc, const struct handoff_envelope *envelope)
{
    yyjson_val *root = yyjson_doc_get_root(envelope->doc);
    put_edited_member(doc, "strategy", yyjson_obj_get(yyjson_obj_get(root, "tokens"), "strategy"));
    put_edited_member(doc, "memory_ids", yyjson_obj_get(root, "memory_refs"));
    put_edited_member(doc, "task_summary",
                      yyjson_obj_get(yyjson_obj_get(envelope->context, "task"), "summary"));
    put_edited_member(doc, "state", envelope->state);
    put_edited_member(doc, "execution_history", envelope->history);
    put_edited_member(doc, "expected_output", envelope->expected_output);
}

static bool is_text_or_number(yyjson_val *id)
{
    return yyjson_is_raw(id) ||
           (yyjson_is_str(id) && handoff_trim_text(base_json_span(id)).size > 0);
}

/* The entries that an edit lists as open, found by themselves and by their ids: comparing all with
 * all would take minutes where both lists are long. */
struct open_entries {
    struct handoff_set set;
    yyjson_val **at;
    yyjson_val *ended; /* which is looked for */
};

/* Of an entry; NULL: it has none that can name it. */
static yyjson_val *id_of_entry(yyjson_val *entry)
{
    yyjson_val *id = yyjson_is_obj(entry) ? yyjson_obj_get(entry, "id") : NULL;
    return is_text_or_number(id) ? id : NULL;
}

/* Of what ended, which may be an id itself. */
static yyjson_val *id_of_ended(yyjson_val *ended)
{
    return !yyjson_is_obj(ended) && is_text_or_number(ended) ? ended : id_of_entry(ended);
}

static bool is_open_entry(const void *context, size_t number)
{
    const struct open_entries *open = context;
    yyjson_val *id = id_of_entry(open->at[number]), *ended_id = id_of_ended(open->ended);
    return handoff_same_entry(open->ended, open->at[number]) ||
           (id && ended_id && handoff_same_entry(ended_id, id));
}

static bool find_open(struct open_entries *open, yyjson_val *ended)
{
    yyjson_val *id = id_of_ended(ended);
    open->ended = ended;
    return handoff_set_find(&open->set, handoff_hash_entry(ended), is_open_entry, open) !=
               HANDOFF_SET_NONE ||
           (id && handoff_set_find(&open->set, handoff_hash_entry(id), is_open_entry, open) !=
                      HANDOFF_SET_NONE);
}

/* False: out of memory. */
static bool note_open(struct open_entries *open, yyjson_val *list, struct base_arena *arena)
{
    size_t i, n;
    yyjson_val *entry;
    open->at = base_arena_calloc(arena, yyjson_arr_size(list) + 1, sizeof(yyjson_val *));
    if (!open->at || !handoff_set_init(&open->set, arena, 2 * yyjson_arr_size(list) + 1))
        return false;
    yyjson_arr_foreach(list, i, n, entry)
    {
        yyjson_val *id = id_of_entry(entry);
        open->at[i] = entry;
        handoff_set_add(&open->set, handoff_hash_entry(entry), i);
        if (id)
            handoff_set_add(&open->set, handoff_hash_entry(id), i);
    }
    return true;
}

/* False: out of memory. */
static bool keep_ended(yyjson_mut_doc *doc, yyjson_val *old, yyjson_val *edited, const char *ended,
                       const char *open)
{
    yyjson_mut_val *state = yyjson_mut_obj_get(yyjson_mut_doc_get_root(doc), "state");
    yyjson_mut_val *kept = yyjson_mut_arr(doc);
    struct open_entries entries = {.at = NULL};
    struct base_arena arena;
    size_t i, n;
    yyjson_val *entry, *list = yyjson_obj_get(old, ended);
    if (!yyjson_is_arr(list) || yyjson_obj_get(edited, ended))
        return true;
    base_arena_init(&arena, 0);
    const bool good = note_open(&entries, yyjson_obj_get(edited, open), &arena);
    yyjson_arr_foreach(list, i, n, entry)
    {
        if (good && !find_open(&entries, entry))
            yyjson_mut_arr_append(kept, yyjson_val_mut_copy(doc, entry));
    }
    base_arena_free(&arena);
    if (yyjson_mut_arr_size(kept) > 0)
        yyjson_mut_obj_add(state, yyjson_mut_str(doc, ended), kept);
    return good;
}

/* What was finished stays finished, unless the edit says otherwise: it names the list, or the entry
 * as an open one. False: out of memory. */
static bool keep_all_ended(yyjson_mut_doc *doc, yyjson_val *old, yyjson_val *edited)
{
    return !yyjson_is_obj(edited) || (keep_ended(doc, old, edited, "resolved", "unresolved") &&
                                      keep_ended(doc, old, edited, "done", "remaining"));
}

/* Which of the steps that an older version's envelope shows are its ancestors' is not known, so an
 * edit only adds to them. */
static void put_edited_steps(yyjson_mut_doc *doc, const struct handoff_envelope *envelope,
                             yyjson_val *edited)
{
    yyjson_mut_val *steps;
    size_t i, n;
    yyjson_val *step;
    if (!yyjson_is_arr(edited) || !(steps = yyjson_val_mut_copy(doc, envelope->history)))
        return;
    yyjson_arr_foreach(edited, i, n, step)
    {
        yyjson_mut_arr_append(steps, yyjson_val_mut_copy(doc, step));
    }
    yyjson_mut_obj_put(yyjson_mut_doc_get_root(doc), yyjson_mut_str(doc, "execution_history"),
                       steps);
}

static enum handoff_code write_request(const struct handoff_envelope *envelope,
                                       yyjson_val *contribution, yyjson_val *body,
                                       const char *target, char **request, size_t *size,
                                       struct handoff_error *error)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_val *named = yyjson_obj_get(body, "target_agent"), *edit = yyjson_obj_get(body, "edit");
    if (!doc)
        return handoff_error_no_memory(error);
    yyjson_mut_doc_set_root(doc, yyjson_mut_obj(doc));
    put_origin(doc, yyjson_doc_get_root(envelope->doc));
    put_intent(doc, envelope);
    if (contribution)
        put_contribution(doc, contribution);
    else
        put_shown(doc, envelope);
    yyjson_mut_obj_add_str(doc, yyjson_mut_doc_get_root(doc), "target_agent",
                           yyjson_is_str(named) ? yyjson_get_str(named) : target);
    put_all(doc, edit);
    const bool good =
        keep_all_ended(doc, contribution ? yyjson_obj_get(contribution, "state") : envelope->state,
                       yyjson_obj_get(edit, "state"));
    if (!contribution)
        put_edited_steps(doc, envelope, yyjson_obj_get(edit, "execution_history"));
    *request = good ? yyjson_mut_write(doc, 0, size) : NULL;
    yyjson_mut_doc_free(doc);
    return *request ? HANDOFF_OK : handoff_error_no_memory(error);
}

enum handoff_code handoff_edit_contribution(struct handoff_store *store, const struct base_uuid *id,
                                            struct base_arena *arena, struct base_span *text,
                                            struct handoff_error *error)
{
    struct handoff_contribution *list;
    size_t count;
    enum handoff_code code = handoff_store_get_ledger(store, id, 1, arena, &list, &count, error);
    *text = base_span(NULL, 0);
    for (size_t i = 0; code == HANDOFF_OK && i < count; i++) {
        if (memcmp(&list[i].id, id, sizeof *id) == 0)
            *text = list[i].text;
    }
    return code;
}

/* *doc is NULL for an absent one. */
static enum handoff_code read_kept_contribution(struct base_span contribution, yyjson_doc **doc,
                                                struct handoff_error *error)
{
    *doc = NULL;
    if (!contribution.data)
        return HANDOFF_OK;
    enum handoff_code code = base_json_read(contribution, "contribution", doc, error);
    if (code != HANDOFF_ERR_INVALID_JSON)
        return code;
    return handoff_error_set(error, HANDOFF_ERR_STORE_CORRUPT,
                             "what an envelope contributed to its chain is damaged", NULL, NULL);
}

enum handoff_code handoff_edit_request(struct base_span envelope, struct base_span contribution,
                                       struct base_span body, const char *target, char **request,
                                       size_t *size, struct handoff_error *error)
{
    struct handoff_envelope read;
    yyjson_doc *doc, *kept = NULL;
    *request = NULL;
    enum handoff_code code = base_json_read(body, "body", &doc, error);
    if (code != HANDOFF_OK)
        return code;
    yyjson_val *root = yyjson_doc_get_root(doc);
    code = check_edit(yyjson_obj_get(root, "edit"), error);
    if (code == HANDOFF_OK)
        code = read_kept_contribution(contribution, &kept, error);
    if (code == HANDOFF_OK)
        code = handoff_envelope_read(envelope, &read, error);
    if (code == HANDOFF_OK) {
        code = write_request(&read, yyjson_doc_get_root(kept), root, target, request, size, error);
        handoff_envelope_free(&read);
    }
    yyjson_doc_free(kept);
    yyjson_doc_free(doc);
    return code;
}

void handoff_edit_names(struct base_span body, char *names, size_t size)
{
    yyjson_doc *doc = yyjson_read(body.data, body.size, YYJSON_READ_NOFLAG);
    yyjson_val *edit = yyjson_obj_get(yyjson_doc_get_root(doc), "edit"), *name, *value;
    size_t used = 0, i, n;
    names[0] = '\0';
    yyjson_obj_foreach(edit, i, n, name, value)
    {
        if (used + yyjson_get_len(name) + 2 > size)
            break;
        used += (size_t)snprintf(names + used, size - used, "%s%s", used ? "," : "",
                                 yyjson_get_str(name));
    }
    yyjson_doc_free(doc);
}
