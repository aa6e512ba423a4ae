/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and reads contributions; contribution.h has the form. Pure but for the arena, any thread.
 */
#include "client/ledger/contribution.h"

#include <stdlib.h>
#include <string.h>

#include "client/envelope/inheritance.h"
#include "client/envelope/read.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/json.h"
#include "lib/base/rfc3339.h"

/* ---- writing ----------------------------------------------------------------------------------
 */

static void write_kept_value(struct base_buffer *out, const char *name, yyjson_val *value)
{
    if (!value || (yyjson_is_ctn(value) && unsafe_yyjson_get_len(value) == 0))
        return;
    base_json_write_name(out, name);
    base_json_write(out, value);
}

static void write_options(struct base_buffer *out, yyjson_val *request)
{
    static const char *const names[] = {"include_recent", "include_pins", "strategy", "pipeline",
                                        "new_chain"};
    bool some = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        yyjson_val *value = yyjson_obj_get(request, names[i]);
        if (!value || yyjson_is_null(value))
            continue;
        if (!some)
            base_buffer_text(out, ",\"options\":{");
        some = true;
        base_json_write_name(out, names[i]);
        base_json_write(out, value);
    }
    if (some)
        base_buffer_byte(out, '}');
}

static void write_names(struct base_buffer *out, const char *key, const struct base_span *names,
                        size_t count)
{
    base_json_write_name(out, key);
    base_buffer_byte(out, '[');
    for (size_t i = 0; i < count; i++) {
        if (i)
            base_buffer_byte(out, ',');
        base_json_write_string(out, names[i]);
    }
    base_buffer_byte(out, ']');
}

static void write_way(struct base_buffer *out, const struct handoff_way *way)
{
    if (way->nscopes)
        write_names(out, "scope", way->scopes, way->nscopes);
    base_json_write_name(out, "hop");
    base_buffer_text(out, "{\"max\":");
    base_buffer_number(out, way->hop_max);
    write_names(out, "path", way->path, way->npath);
    base_buffer_byte(out, '}');
    if (!way->traceparent.data)
        return;
    base_buffer_text(out, ",\"trace\":{\"traceparent\":");
    base_json_write_string(out, way->traceparent);
    if (way->tracestate.data) {
        base_json_write_name(out, "tracestate");
        base_json_write_string(out, way->tracestate);
    }
    base_buffer_byte(out, '}');
}

/* The items of this hop are in the order of its list; a repeated entry made none. */
static void write_counts(struct base_buffer *out, const struct handoff_ledger *ledger,
                         enum handoff_item_kind kind, const char *name, yyjson_val *list)
{
    const struct handoff_items *items = &ledger->items[kind];
    size_t i, n, at = 0;
    yyjson_val *value;
    while (at < items->count && items->at[at].from != &ledger->own)
        at++;
    if (at == items->count || !yyjson_is_arr(list))
        return;
    base_json_write_name(out, name);
    base_buffer_byte(out, '[');
    yyjson_arr_foreach(list, i, n, value)
    {
        const bool is_item = at < items->count && items->at[at].value == value;
        if (i)
            base_buffer_byte(out, ',');
        base_buffer_number(out, is_item ? items->at[at].tokens : 0);
        at += is_item;
    }
    base_buffer_byte(out, ']');
}

static void write_all_counts(struct base_buffer *out, const struct handoff_said *own,
                             const struct handoff_ledger *ledger, struct base_span encoding)
{
    static const struct {
        enum handoff_item_kind kind;
        const char *name;
    } lists[] = {{HANDOFF_ITEM_DECISION, "decisions"},
                 {HANDOFF_ITEM_UNRESOLVED, "unresolved"},
                 {HANDOFF_ITEM_REMAINING, "remaining"}};
    base_buffer_text(out, ",\"tokens\":{\"encoding\":");
    base_json_write_string(out, encoding);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        write_counts(out, ledger, lists[i].kind, lists[i].name,
                     yyjson_obj_get(own->state, lists[i].name));
    write_counts(out, ledger, HANDOFF_ITEM_STEP, "steps", own->steps);
    base_buffer_byte(out, '}');
}

void handoff_contribution_write(struct base_buffer *out, const struct handoff_said *own,
                                const struct handoff_ledger *ledger, const struct handoff_way *way,
                                const struct handoff_looked_up *looked_up, yyjson_val *options,
                                struct base_span encoding)
{
    base_buffer_byte(out, '{');
    write_kept_value(out, "intent", own->intent);
    write_kept_value(out, "summary", own->summary);
    write_kept_value(out, "constraints", own->constraints);
    write_kept_value(out, "expected_output", own->expected_output);
    write_kept_value(out, "state", own->state);
    write_kept_value(out, "steps", own->steps);
    write_kept_value(out, "references", own->references);
    write_kept_value(out, "mentioned", own->mentioned);
    if (looked_up->nmissing)
        write_names(out, "missing", looked_up->missing, looked_up->nmissing);
    if (looked_up->nfound)
        write_names(out, "found", looked_up->found, looked_up->nfound);
    if (own->revises)
        base_buffer_text(out, ",\"revises\":true");
    write_way(out, way);
    write_options(out, options);
    write_all_counts(out, own, ledger, encoding);
    base_buffer_byte(out, '}');
}

void handoff_contribution_pass_on(struct base_buffer *out, const struct handoff_way *way)
{
    base_buffer_byte(out, '{');
    write_way(out, way);
    base_buffer_byte(out, '}');
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static yyjson_val *text_of_member(yyjson_val *object, const char *name)
{
    yyjson_val *value = yyjson_obj_get(object, name);
    return yyjson_is_str(value) ? value : NULL;
}

static yyjson_val *object_member(yyjson_val *object, const char *name)
{
    yyjson_val *value = yyjson_obj_get(object, name);
    return yyjson_is_obj(value) ? value : NULL;
}

static yyjson_val *array_member(yyjson_val *object, const char *name)
{
    yyjson_val *value = yyjson_obj_get(object, name);
    return yyjson_is_arr(value) ? value : NULL;
}

static enum handoff_code list_path(yyjson_val *path, struct base_arena *arena,
                                   struct handoff_way *way, struct handoff_error *error)
{
    struct base_span *names = base_arena_alloc(arena, (yyjson_arr_size(path) + 1) * sizeof *names);
    size_t i, n;
    yyjson_val *agent;
    if (!names)
        return handoff_error_no_memory(error);
    yyjson_arr_foreach(path, i, n, agent)
    {
        names[i] = base_json_span(agent);
    }
    way->path = names;
    way->npath = yyjson_arr_size(path);
    return HANDOFF_OK;
}

static enum handoff_code read_way(yyjson_val *root, struct base_arena *arena,
                                  struct handoff_way *way, struct handoff_error *error)
{
    yyjson_val *hop = yyjson_obj_get(root, "hop"), *trace = yyjson_obj_get(root, "trace");
    *way = (struct handoff_way){.traceparent = base_json_span(yyjson_obj_get(trace, "traceparent")),
                                .tracestate = base_json_span(yyjson_obj_get(trace, "tracestate")),
                                .scope = array_member(root, "scope")};
    if (!base_json_whole(yyjson_obj_get(hop, "max"), &way->hop_max) || way->hop_max < 1)
        way->hop_max = INT64_MAX; /* the configured one holds */
    return list_path(array_member(hop, "path"), arena, way, error);
}

static yyjson_val *counts_of(yyjson_val *root, struct base_span encoding)
{
    yyjson_val *counts = object_member(root, "tokens");
    return base_span_equal(base_json_span(yyjson_obj_get(counts, "encoding")), encoding) ? counts
                                                                                         : NULL;
}

static void take_said(yyjson_val *root, struct base_span encoding, struct handoff_said *said)
{
    said->intent = text_of_member(root, "intent");
    said->summary = text_of_member(root, "summary");
    said->constraints = object_member(root, "constraints");
    said->expected_output = object_member(root, "expected_output");
    said->state = object_member(root, "state");
    said->steps = array_member(root, "steps");
    said->references = array_member(root, "references");
    said->mentioned = array_member(root, "mentioned");
    said->missing = array_member(root, "missing");
    said->found = array_member(root, "found");
    said->revises = yyjson_is_true(yyjson_obj_get(root, "revises"));
    said->tokens = counts_of(root, encoding);
}

static enum handoff_code read_kept_text(const struct handoff_contribution *stored,
                                        struct base_span encoding, struct base_arena *arena,
                                        struct handoff_said *said, struct handoff_way *way,
                                        struct handoff_error *error)
{
    yyjson_doc *doc;
    enum handoff_code code = base_json_read_in(arena, stored->text, "contribution", &doc, error);
    if (code == HANDOFF_ERR_INVALID_JSON)
        return handoff_error_set(error, HANDOFF_ERR_STORE_CORRUPT,
                                 "what an envelope contributed to its chain is damaged", NULL,
                                 NULL);
    if (code != HANDOFF_OK)
        return code;
    yyjson_val *root = yyjson_doc_get_root(doc);
    take_said(root, encoding, said);
    return way ? read_way(root, arena, way, error) : HANDOFF_OK;
}

/* ---- older versions ---------------------------------------------------------------------------
 */

static enum handoff_code removed_whole(struct handoff_error *error)
{
    return handoff_error_set(error, HANDOFF_ERR_ENVELOPE_REMOVED,
                             "retention removed the body of an envelope that an older version "
                             "stored, and what it passes on was too large to keep; start a new "
                             "chain (new_chain)",
                             "previous_id", NULL);
}

/* What is left of an envelope has intent and constraints at the top. */
static void take_shown(const struct handoff_envelope *envelope, struct handoff_said *said)
{
    yyjson_val *task = yyjson_obj_get(envelope->context, "task");
    said->intent = text_of_member(task ? task : yyjson_doc_get_root(envelope->doc), "intent");
    said->summary = text_of_member(task, "summary");
    said->constraints = envelope->constraints;
    said->state = envelope->state;
    said->steps = envelope->history;
    said->expected_output = envelope->expected_output;
    said->hop.hop = envelope->hop_count;
    said->hop.agent = envelope->source_agent;
    if (!said->hop.target.data)
        said->hop.target = envelope->target_agent;
}

/* By an older version, which kept them nowhere else. */
static size_t steps_trimmed(const struct handoff_envelope *envelope)
{
    int64_t trimmed = 0;
    yyjson_val *value = yyjson_obj_get(yyjson_doc_get_root(envelope->doc), "history_trimmed");
    return base_json_whole(value, &trimmed) && trimmed > 0 ? (size_t)trimmed : 0;
}

static enum handoff_code read_older(const struct handoff_contribution *stored,
                                    struct base_arena *arena, struct handoff_said *said,
                                    struct handoff_way *way, struct handoff_error *error)
{
    struct handoff_envelope envelope = {0};
    enum handoff_code code;
    if (stored->body.data)
        code = handoff_envelope_read_in(arena, stored->body, &envelope, error);
    else if (stored->inheritance.data)
        code = handoff_inheritance_read(stored->inheritance, &stored->id, stored->digest, arena,
                                        &envelope, &said->steps_lost, error);
    else
        code = removed_whole(error);
    if (code != HANDOFF_OK)
        return code;
    BASE_CHECK(envelope.doc);
    take_shown(&envelope, said);
    said->steps_lost += steps_trimmed(&envelope);
    if (!way)
        return HANDOFF_OK;
    *way = (struct handoff_way){.hop_max = envelope.hop_max,
                                .traceparent = envelope.traceparent,
                                .tracestate = envelope.tracestate};
    return list_path(envelope.path, arena, way, error);
}

enum handoff_code handoff_contribution_read(const struct handoff_contribution *stored,
                                            struct base_span encoding, struct base_arena *arena,
                                            struct handoff_said *said, struct handoff_way *way,
                                            struct handoff_error *error)
{
    *said = (struct handoff_said){.hop = {.id = stored->id,
                                          .hop = stored->hop,
                                          .at_ms = stored->created_ms,
                                          .agent = stored->source,
                                          .target = stored->target},
                                  .accepted = true};
    enum handoff_code code = stored->text.data
                                 ? read_kept_text(stored, encoding, arena, said, way, error)
                                 : read_older(stored, arena, said, way, error);
    if (code != HANDOFF_OK || !stored->replaced)
        return code;
    yyjson_val *steps = said->steps;
    const size_t steps_lost = said->steps_lost;
    handoff_said_reduce(said, stored->nparents == 0);
    if (!stored->text.data) { /* its ancestors' as well */
        said->steps = steps;
        said->steps_lost = steps_lost;
    }
    return HANDOFF_OK;
}

void handoff_said_reduce(struct handoff_said *said, bool begins)
{
    yyjson_val *intent = said->intent ? said->intent : said->summary;
    *said = (struct handoff_said){.hop = said->hop,
                                  .intent = begins ? intent : NULL,
                                  .constraints = said->constraints,
                                  .parents = said->parents,
                                  .nparents = said->nparents,
                                  .revises = said->revises,
                                  .accepted = said->accepted};
}

/* ---- a list of them ---------------------------------------------------------------------------
 */

/* Where an envelope stands in the list, sorted by its id. */
struct place {
    struct base_uuid id;
    size_t place;
};

static int compare_places(const void *left, const void *right)
{
    return memcmp(left, right, sizeof(struct base_uuid));
}

static struct place *sort_places(const struct handoff_contribution *list, size_t count,
                                 struct base_arena *arena)
{
    struct place *sorted = base_arena_calloc(arena, count + 1, sizeof *sorted);
    for (size_t i = 0; sorted && i < count; i++)
        sorted[i] = (struct place){list[i].id, i};
    if (sorted && count > 1)
        qsort(sorted, count, sizeof *sorted, compare_places);
    return sorted;
}

/* In damaged rows, a parent may be missing or come later; it is left out. NULL: out of memory. */
static const size_t *find_places(const struct place *sorted, size_t count,
                                 const struct handoff_contribution *of, size_t at,
                                 struct base_arena *arena, size_t *nplaces)
{
    size_t *places = base_arena_calloc(arena, of->nparents + 1, sizeof *places);
    *nplaces = 0;
    for (size_t i = 0; places && i < of->nparents; i++) {
        const struct place *found =
            bsearch(&of->parents[i], sorted, count, sizeof *sorted, compare_places);
        if (found && found->place < at)
            places[(*nplaces)++] = found->place;
    }
    return places;
}

enum handoff_code handoff_contributions_link(const struct handoff_contribution *list, size_t count,
                                             struct base_arena *arena, struct handoff_said *said,
                                             struct handoff_error *error)
{
    const struct place *sorted = sort_places(list, count, arena);
    if (!sorted)
        return handoff_error_no_memory(error);
    for (size_t i = 0; i < count; i++) {
        said[i].parents = find_places(sorted, count, &list[i], i, arena, &said[i].nparents);
        if (!said[i].parents)
            return handoff_error_no_memory(error);
    }
    return HANDOFF_OK;
}
