/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials in documents and reasons, see redact.h. The values of a document lie one after the
 * other in yyjson's memory, keys and values alike, so one pass over them needs no recursion. A
 * string with markers is a new one, in the arena.
 *
 * Any thread.
 */
#include "client/secrets/redact.h"

#include <stdio.h>
#include <string.h>

#include "client/secrets/find.h"
#include "lib/base/buffer.h"
#include "lib/base/check.h"
#include "lib/base/json.h"
#include "lib/base/utf8.h"

_Static_assert(HANDOFF_SECRET_COUNT <= 32, "a set of kinds has a bit for each");

/* ---- markers --------------------------------------------------------------------------------- */

enum { MARKER_SIZE = 64, WORDS_SIZE = 40 };

/* "github token" */
static void write_kind_words(char words[WORDS_SIZE], enum handoff_secret kind)
{
    snprintf(words, WORDS_SIZE, "%s", handoff_secret_name(kind));
    for (char *c = words; *c; c++)
        *c = (char)(*c == '_' ? ' ' : *c);
}

static int write_marker(char marker[MARKER_SIZE], enum handoff_secret kind)
{
    char words[WORDS_SIZE];
    write_kind_words(words, kind);
    return snprintf(marker, MARKER_SIZE, "[redacted: %s]", words);
}

/* ---- counting -------------------------------------------------------------------------------- */

static void note_field(struct handoff_secrets *secrets, const char *field, enum handoff_secret kind)
{
    for (size_t i = 0; i < secrets->nfields; i++) {
        if (secrets->fields[i].kind == kind && strcmp(secrets->fields[i].field, field) == 0)
            return;
    }
    if (secrets->nfields == HANDOFF_SECRET_FIELDS)
        return;
    struct handoff_secret_in_field *entry = &secrets->fields[secrets->nfields++];
    snprintf(entry->field, sizeof entry->field, "%s", field);
    entry->kind = kind;
}

static void note_secret(struct handoff_secrets *secrets, const char *field,
                        enum handoff_secret_place place, enum handoff_secret kind)
{
    uint16_t *count = &secrets->found[kind][place];
    *count = (uint16_t)(*count + (*count < UINT16_MAX));
    secrets->total++;
    note_field(secrets, field, kind);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static enum handoff_code refuse_secret(struct handoff_error *error, const char *field,
                                       enum handoff_secret kind, const char *allowed)
{
    char words[WORDS_SIZE];
    write_kind_words(words, kind);
    handoff_error_set(error, HANDOFF_ERR_SECRET_IN_REQUEST,
                      "credentials cannot be handed on; send the name of the secret, and let the "
                      "receiver fetch it",
                      field, words);
    handoff_error_allow(error, "%s", allowed);
    return HANDOFF_ERR_SECRET_IN_REQUEST;
}

static enum handoff_code refuse_in_id(struct handoff_error *error, const char *field,
                                      enum handoff_secret kind)
{
    return refuse_secret(error, field, kind, "an id or a name without credentials");
}

/* ---- documents ------------------------------------------------------------------------------- */

/* The member of a document that a value is in; "body": it is the key of one. */
static const char *member_of(yyjson_doc *doc, const yyjson_val *value)
{
    yyjson_val *root = yyjson_doc_get_root(doc);
    size_t i, n;
    yyjson_val *key, *member;
    yyjson_obj_foreach(root, i, n, key, member)
    {
        if (value >= member && value < unsafe_yyjson_get_next(member))
            return yyjson_get_str(key);
    }
    return "body";
}

/* What says which task, agent or memory is meant. */
static bool identifies(const struct handoff_field *field)
{
    switch (field->type) {
    case HANDOFF_FIELD_ID:
    case HANDOFF_FIELD_NAME:
    case HANDOFF_FIELD_UUID:
        return true;
    case HANDOFF_FIELD_ARRAY:
        return field->item && identifies(field->item);
    default:
        return false;
    }
}

static bool is_identifying(const struct handoff_fields *fields, const char *name)
{
    for (size_t i = 0; i < fields->count; i++) {
        if (strcmp(fields->rows[i].name, name) == 0)
            return identifies(&fields->rows[i]);
    }
    return false;
}

/* A document that is searched. */
struct document {
    struct handoff_secrets *secrets;
    const struct handoff_fields *fields;
    enum handoff_secret_place place;
    yyjson_doc *doc;
    struct handoff_error *error;
};

static enum handoff_code judge_secret(const struct document *document, const yyjson_val *value,
                                      enum handoff_secret kind)
{
    struct handoff_secrets *secrets = document->secrets;
    const char *member = member_of(document->doc, value);
    enum handoff_secret_place place = document->place;
    if (place == HANDOFF_SECRET_PLACE_REQUEST && strcmp(member, "constraints") == 0)
        place = HANDOFF_SECRET_PLACE_CONSTRAINT;
    note_secret(secrets, member, place, kind);
    if (secrets->policy == HANDOFF_SECRET_POLICY_REFUSE)
        return refuse_secret(document->error, member, kind,
                             "no credentials, as the configuration says (secrets)");
    return is_identifying(document->fields, member) ? refuse_in_id(document->error, member, kind)
                                                    : HANDOFF_OK;
}

static void set_string(yyjson_val *value, struct base_span text)
{
    value->tag = (uint64_t)text.size << YYJSON_TAG_BIT | YYJSON_TYPE_STR;
    value->uni.str = text.data;
}

/* Writes the text anew, from the first credential on. */
static enum handoff_code redact_string(const struct document *document, yyjson_val *value,
                                       struct handoff_secret_search *search,
                                       struct handoff_secret_found *found)
{
    const struct base_span text = search->text;
    struct base_buffer out = {.arena = document->secrets->arena};
    char marker[MARKER_SIZE];
    size_t copied = 0;
    do {
        enum handoff_code code = judge_secret(document, value, found->kind);
        if (code != HANDOFF_OK)
            return code;
        base_buffer_append(&out, text.data + copied, found->at - copied);
        base_buffer_append(&out, marker, (size_t)write_marker(marker, found->kind));
        copied = found->at + found->size;
    } while (handoff_secret_next(search, found));
    base_buffer_append(&out, text.data + copied, text.size - copied);
    if (out.failed)
        return handoff_error_no_memory(document->error);
    set_string(value, base_buffer_span(&out));
    return HANDOFF_OK;
}

static struct base_span string_of(const yyjson_val *value)
{
    return base_span(value->uni.str, (size_t)(value->tag >> YYJSON_TAG_BIT));
}

static bool is_string(const yyjson_val *value)
{
    return (value->tag & YYJSON_TYPE_MASK) == YYJSON_TYPE_STR;
}

/* Whether it is a string that is long enough. */
static bool is_searched(const yyjson_val *value)
{
    return value->tag >= (uint64_t)HANDOFF_SECRET_SHORTEST << YYJSON_TAG_BIT && is_string(value);
}

/* From `at` on. The value before it may be its key. */
static enum handoff_code search_string(const struct document *document, yyjson_val *value,
                                       size_t at)
{
    const bool has_key = value > yyjson_doc_get_root(document->doc) && is_string(value - 1);
    struct handoff_secret_search search;
    struct handoff_secret_found found;
    handoff_secret_begin(&search, string_of(value),
                         has_key ? string_of(value - 1) : (struct base_span){0}, at);
    return handoff_secret_next(&search, &found) ? redact_string(document, value, &search, &found)
                                                : HANDOFF_OK;
}

enum handoff_code handoff_secrets_in_document(struct handoff_secrets *secrets,
                                              const struct handoff_fields *fields,
                                              enum handoff_secret_place place, yyjson_doc *doc,
                                              struct handoff_error *error)
{
    const struct document document = {secrets, fields, place, doc, error};
    yyjson_val *value = yyjson_doc_get_root(doc);
    const yyjson_val *end = value + yyjson_doc_get_val_count(doc);
    enum handoff_code code = HANDOFF_OK;
    size_t at;
    if (secrets->policy == HANDOFF_SECRET_POLICY_ALLOW)
        return HANDOFF_OK;
    for (; value < end && code == HANDOFF_OK; value++) {
        if (is_searched(value) && handoff_secret_look(string_of(value), &at))
            code = search_string(&document, value, at);
    }
    return code;
}

void handoff_secrets_warn(const struct handoff_secrets *secrets, struct handoff_warnings *warnings)
{
    for (size_t i = 0; i < secrets->nfields; i++) {
        char words[WORDS_SIZE], detail[WORDS_SIZE + 32];
        write_kind_words(words, secrets->fields[i].kind);
        snprintf(detail, sizeof detail, "%s replaced by a marker", words);
        handoff_warn(warnings, secrets->fields[i].field, detail); /* out of memory: untold */
    }
}

/* ---- other texts ----------------------------------------------------------------------------- */

/* False: there is nothing to be found. */
static bool begin_search(struct handoff_secret_search *search, struct base_span text)
{
    size_t at;
    if (!handoff_secret_look(text, &at))
        return false;
    handoff_secret_begin(search, text, (struct base_span){0}, at);
    return true;
}

enum handoff_code handoff_secrets_in_id(struct handoff_secrets *secrets, const char *field,
                                        enum handoff_secret_place place, struct base_span text,
                                        struct handoff_error *error)
{
    struct handoff_secret_search search;
    struct handoff_secret_found found;
    if (secrets->policy == HANDOFF_SECRET_POLICY_ALLOW || !begin_search(&search, text) ||
        !handoff_secret_next(&search, &found))
        return HANDOFF_OK;
    note_secret(secrets, field, place, found.kind);
    return refuse_in_id(error, field, found.kind);
}

/* Appends what fits; more than fits is cut later, at a character. */
static size_t append_cut(char *to, size_t size, size_t used, const char *text, size_t length)
{
    const size_t room = size - 1 - used;
    const size_t taken = length < room ? length : room;
    memcpy(to + used, text, taken);
    return used + taken;
}

handoff_secret_set handoff_secrets_cut(char *to, size_t size, const char *text, size_t length)
{
    struct handoff_secret_search search;
    struct handoff_secret_found found;
    const bool may_hold = begin_search(&search, base_span(text, length));
    char marker[MARKER_SIZE];
    handoff_secret_set kinds = 0;
    size_t used = 0, copied = 0;
    BASE_CHECK(size > 0);
    while (may_hold && used < size - 1 && handoff_secret_next(&search, &found)) {
        used = append_cut(to, size, used, text + copied, found.at - copied);
        used = append_cut(to, size, used, marker, (size_t)write_marker(marker, found.kind));
        copied = found.at + found.size;
        kinds |= UINT32_C(1) << found.kind;
    }
    if (kinds == 0) {
        base_utf8_cut(to, size, text, length);
        return 0;
    }
    used = append_cut(to, size, used, text + copied, length - copied);
    to[base_utf8_valid_length(to, used)] = '\0'; /* without half a character */
    return kinds;
}
