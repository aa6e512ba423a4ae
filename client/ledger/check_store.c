/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares what each envelope of a store says with its ledger, folded again. Digests hold the
 * envelopes; the rows beside them, of which later envelopes are made, have none, so a change of
 * theirs is seen here only.
 *
 * On the caller's thread, which may block; handoffctl runs it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/envelope/read.h"
#include "client/ledger/contribution.h"
#include "client/ledger/same.h"
#include "client/store/ledger.h"
#include "lib/base/check.h"
#include "lib/base/json.h"
#include "lib/base/sha256.h"

/* One envelope. */
struct ledger_check {
    const struct handoff_kept_ledger *kept;
    const struct handoff_contribution *own;
    struct handoff_envelope says;
    struct base_arena *arena;
    struct handoff_store_report *report;
};

static void note_ledger(struct ledger_check *check, const char *what)
{
    char id[BASE_UUID_TEXT];
    base_uuid_format(&check->kept->envelope.id, id);
    if (check->report->problems++ == 0)
        snprintf(check->report->problem, sizeof check->report->problem, "%s: %s", what, id);
}

/* ---- links ------------------------------------------------------------------------------------
 */

/* NULL: the rows are damaged. */
static const struct handoff_contribution *
find_checked_contribution(const struct handoff_kept_ledger *kept, const struct base_uuid *id)
{
    for (size_t i = 0; i < kept->count; i++) {
        if (memcmp(&kept->list[i].id, id, sizeof *id) == 0)
            return &kept->list[i];
    }
    return NULL;
}

static bool names_digest(yyjson_val *parent, const uint8_t digest[BASE_SHA256_BYTES])
{
    char text[sizeof "sha256:" + BASE_SHA256_HEX_SIZE] = "sha256:";
    base_sha256_hex(digest, text + strlen(text));
    return yyjson_equals_str(yyjson_obj_get(parent, "digest"), text);
}

static void check_parent(struct ledger_check *check, yyjson_val *parent, const struct base_uuid *id)
{
    const struct handoff_contribution *kept = find_checked_contribution(check->kept, id);
    char text[BASE_UUID_TEXT];
    base_uuid_format(id, text);
    if (!yyjson_equals_str(yyjson_obj_get(parent, "id"), text))
        note_ledger(check, "an envelope names a parent that its lineage does not have");
    else if (kept && !names_digest(parent, kept->digest))
        note_ledger(check, "an envelope names a parent with another digest than is stored");
}

/* NULL: it is no projection. */
static yyjson_val *names_publication(const struct ledger_check *check)
{
    return yyjson_obj_get(yyjson_doc_get_root(check->says.doc), "projection_of");
}

/* A projection has the parents of its publication, and is that one's child. */
static void check_projection(struct ledger_check *check, yyjson_val *publication)
{
    if (check->own->nparents == 1)
        check_parent(check, publication, &check->own->parents[0]);
    else
        note_ledger(check, "a projection and its lineage differ in its publication");
}

static void check_links(struct ledger_check *check)
{
    yyjson_val *parents = yyjson_obj_get(yyjson_doc_get_root(check->says.doc), "parents");
    yyjson_val *publication = names_publication(check);
    size_t i, n;
    yyjson_val *parent;
    if (check->own->hop != check->says.hop_count)
        note_ledger(check, "an envelope and its contribution are of different hops");
    if (publication) {
        check_projection(check, publication);
        return;
    }
    if (yyjson_arr_size(parents) != check->own->nparents) {
        note_ledger(check, "an envelope and its lineage have different numbers of parents");
        return;
    }
    yyjson_arr_foreach(parents, i, n, parent)
    {
        check_parent(check, parent, &check->own->parents[i]);
    }
}

/* ---- what is told -----------------------------------------------------------------------------
 */

static struct base_span member_of_step(yyjson_val *step, const char *name)
{
    return base_json_span(yyjson_obj_get(step, name));
}

/* The step that an earlier handoff became, "handed to NAME: SUMMARY". The name is that of the agent
 * which had it when the envelope was made: a replay or an alternate may have changed it since. */
static bool tells_handed(const struct handoff_item *item, yyjson_val *shown)
{
    static const char handed[] = "handed to ";
    const size_t before = sizeof handed - 1, name = before + item->from->target.size;
    const struct base_span kept = member_of_step(item->value, "action"),
                           says = member_of_step(shown, "action");
    if (kept.size < name || says.size < before + kept.size - name ||
        memcmp(kept.data, handed, before) != 0 || memcmp(says.data, handed, before) != 0)
        return false;
    const size_t rest = kept.size - name; /* ": SUMMARY" */
    return memcmp(kept.data + name, says.data + says.size - rest, rest) == 0 &&
           base_span_equal(member_of_step(item->value, "agent"), member_of_step(shown, "agent")) &&
           base_span_equal(member_of_step(item->value, "at"), member_of_step(shown, "at"));
}

static bool tells(const struct handoff_item *item, yyjson_val *shown)
{
    if (!yyjson_is_obj(item->value) || !yyjson_is_obj(shown))
        return handoff_same_entry(item->value, shown);
    return handoff_same_step(item->value, shown) || tells_handed(item, shown);
}

static void note_list(struct ledger_check *check, enum handoff_part part)
{
    char what[100];
    snprintf(what, sizeof what, "the %s of an envelope are not those of its ledger",
             handoff_part_name(part));
    note_ledger(check, what);
}

static uint64_t count_omitted(const struct ledger_check *check, enum handoff_part part)
{
    yyjson_val *omitted = yyjson_obj_get(yyjson_doc_get_root(check->says.doc), "omitted");
    int64_t count = 0;
    return base_json_whole(yyjson_obj_get(omitted, handoff_part_name(part)), &count) && count > 0
               ? (uint64_t)count
               : 0;
}

/* All that is shown is in the ledger, in its order; the others were counted. */
static void check_list(struct ledger_check *check, const struct handoff_items *items,
                       yyjson_val *shown, enum handoff_part part)
{
    size_t i, n, at = 0;
    yyjson_val *entry;
    bool differs = false;
    yyjson_arr_foreach(shown, i, n, entry)
    {
        while (at < items->count && !tells(&items->at[at], entry))
            at++;
        differs |= at++ >= items->count;
    }
    if (differs || count_omitted(check, part) != items->count - yyjson_arr_size(shown))
        note_list(check, part);
}

static int compare_named_ids(const void *left, const void *right)
{
    const struct base_span *a = left, *b = right;
    const int order = memcmp(a->data, b->data, a->size < b->size ? a->size : b->size);
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

/* Of an array of ids, or of objects that have one. */
static size_t copy_ids(yyjson_val *list, struct base_span *to)
{
    size_t i, n, count = 0;
    yyjson_val *entry;
    yyjson_arr_foreach(list, i, n, entry)
    {
        yyjson_val *id = yyjson_is_obj(entry) ? yyjson_obj_get(entry, "id") : entry;
        if (yyjson_is_str(id))
            to[count++] = base_json_span(id);
    }
    return count;
}

static bool has_named_id(struct base_span id, const struct base_span *sorted, size_t count)
{
    return count && bsearch(&id, sorted, count, sizeof id, compare_named_ids);
}

/* The ids that an envelope names, wherever it does; NULL: out of memory. */
static struct base_span *sort_named_ids(struct ledger_check *check, size_t *count)
{
    static const char *const members[] = {"memory_refs", "missing", "trimmed"};
    yyjson_val *root = yyjson_doc_get_root(check->says.doc), *lists[3];
    size_t room = 1;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        lists[i] = yyjson_obj_get(root, members[i]);
        room += yyjson_arr_size(lists[i]);
    }
    struct base_span *ids = base_arena_calloc(check->arena, room, sizeof *ids);
    *count = 0;
    for (size_t i = 0; ids && i < sizeof members / sizeof *members; i++)
        *count += copy_ids(lists[i], ids + *count);
    if (ids)
        qsort(ids, *count, sizeof *ids, compare_named_ids);
    return ids;
}

/* What was asked for is named, or was counted. */
static size_t count_unnamed(const struct handoff_items *items, const struct base_span *named,
                            size_t count)
{
    size_t unnamed = 0;
    for (size_t i = 0; i < items->count; i++) {
        if (!items->at[i].mentioned &&
            !has_named_id(base_json_span(items->at[i].value), named, count))
            unnamed++;
    }
    return unnamed;
}

/* What is missing since a hop was asked for. The others are pinned, or stand for what a spine that
 * failed would have found. */
static bool has_asked_for_missing(struct ledger_check *check, const struct handoff_items *items,
                                  struct base_span *asked)
{
    yyjson_val *missing = yyjson_obj_get(yyjson_doc_get_root(check->says.doc), "missing");
    size_t i, n;
    yyjson_val *entry;
    for (i = 0; i < items->count; i++)
        asked[i] = base_json_span(items->at[i].value);
    qsort(asked, items->count, sizeof *asked, compare_named_ids);
    yyjson_arr_foreach(missing, i, n, entry)
    {
        if (yyjson_obj_get(entry, "since_hop") &&
            !has_named_id(base_json_span(yyjson_obj_get(entry, "id")), asked, items->count))
            return false;
    }
    return true;
}

/* Which memories there were only the spine knows, and which of them were pinned; so the memories
 * that an envelope has need not be in its ledger. */
static enum handoff_code check_references(struct ledger_check *check,
                                          const struct handoff_items *items,
                                          struct handoff_error *error)
{
    size_t count;
    struct base_span *named = sort_named_ids(check, &count);
    struct base_span *asked = base_arena_calloc(check->arena, items->count + 1, sizeof *asked);
    if (!named || !asked)
        return handoff_error_no_memory(error);
    if (count_unnamed(items, named, count) > count_omitted(check, HANDOFF_PART_REFERENCES) ||
        !has_asked_for_missing(check, items, asked))
        note_list(check, HANDOFF_PART_REFERENCES);
    return HANDOFF_OK;
}

static enum handoff_code check_told(struct ledger_check *check, const struct handoff_ledger *ledger,
                                    struct handoff_error *error)
{
    static const struct {
        enum handoff_item_kind kind;
        enum handoff_part part;
    } lists[] = {{HANDOFF_ITEM_DECISION, HANDOFF_PART_DECISIONS},
                 {HANDOFF_ITEM_UNRESOLVED, HANDOFF_PART_UNRESOLVED},
                 {HANDOFF_ITEM_REMAINING, HANDOFF_PART_REMAINING}};
    yyjson_val *constraints = check->says.constraints;
    if (ledger->constraints ? !base_json_equal(ledger->constraints, constraints)
                            : yyjson_obj_size(constraints) > 0)
        note_ledger(check, "the constraints of an envelope are not those of its ledger");
    if (!base_span_equal(ledger->intent, check->says.intent))
        note_ledger(check, "the intent of an envelope is not that of its ledger");
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        check_list(check, &ledger->items[lists[i].kind],
                   yyjson_obj_get(check->says.state, handoff_part_name(lists[i].part)),
                   lists[i].part);
    check_list(check, &ledger->items[HANDOFF_ITEM_STEP], check->says.history, HANDOFF_PART_STEPS);
    return check_references(check, &ledger->items[HANDOFF_ITEM_REFERENCE], error);
}

/* The envelope's own comes last: the others are those of its ancestors. A projection shows the
 * ledger of its publication, which is the one before. */
static enum handoff_code fold_again(struct ledger_check *check, struct handoff_ledger *ledger,
                                    struct handoff_error *error)
{
    const struct handoff_kept_ledger *kept = check->kept;
    struct handoff_said *said = base_arena_calloc(check->arena, kept->count, sizeof *said);
    const size_t last = kept->count - 1, own = last - (names_publication(check) ? 1 : 0);
    enum handoff_code code = said ? HANDOFF_OK : handoff_error_no_memory(error);
    if (check->own != &kept->list[last] || own > last)
        return HANDOFF_ERR_STORE_CORRUPT;
    for (size_t i = 0; i < kept->count && code == HANDOFF_OK; i++)
        code = handoff_contribution_read(&kept->list[i], base_span(NULL, 0), check->arena, &said[i],
                                         NULL, error);
    if (code == HANDOFF_OK)
        code = handoff_contributions_link(kept->list, kept->count, check->arena, said, error);
    return code == HANDOFF_OK
               ? handoff_ledger_fold(ledger, check->arena, said, own, &said[own], error)
               : code;
}

static enum handoff_code check_ledger_of(struct ledger_check *check, struct handoff_error *error)
{
    struct handoff_ledger ledger;
    check_links(check);
    if (!check->kept->is_as_written)
        return HANDOFF_OK;
    enum handoff_code code = fold_again(check, &ledger, error);
    if (code == HANDOFF_ERR_OUT_OF_MEMORY)
        return code;
    if (code == HANDOFF_OK)
        return check_told(check, &ledger, error);
    note_ledger(check, "the ledger of an envelope cannot be folded");
    return handoff_error_clear(error);
}

/* ---- all of them ------------------------------------------------------------------------------
 */

/* An older version's envelope does not say "parents", and has no contribution. */
static enum handoff_code check_envelope(struct ledger_check *check, struct handoff_error *error)
{
    const struct handoff_kept_ledger *kept = check->kept;
    enum handoff_code code =
        handoff_envelope_read_in(check->arena, kept->envelope.body, &check->says, error);
    if (code == HANDOFF_ERR_OUT_OF_MEMORY)
        return code;
    if (code != HANDOFF_OK) {
        if (kept->has_contribution)
            note_ledger(check, "an envelope cannot be read");
        return handoff_error_clear(error);
    }
    if (!kept->has_contribution) {
        if (yyjson_obj_get(yyjson_doc_get_root(check->says.doc), "parents"))
            note_ledger(check, "an envelope has lost its contribution");
        return HANDOFF_OK;
    }
    check->own = find_checked_contribution(kept, &kept->envelope.id);
    if (check->own)
        return check_ledger_of(check, error);
    note_ledger(check, "an envelope's contribution is not in its ledger");
    return HANDOFF_OK;
}

/* Damage was found by handoff_store_check. */
static enum handoff_code visit_to_check(void *context, const struct handoff_kept_ledger *kept,
                                        struct base_arena *arena, struct handoff_error *error)
{
    struct ledger_check check = {.kept = kept, .arena = arena, .report = context};
    return kept->found == HANDOFF_OK ? check_envelope(&check, error) : HANDOFF_OK;
}

enum handoff_code handoff_store_check_ledgers(const char *path, struct handoff_store_report *report,
                                              struct handoff_error *error)
{
    return handoff_store_visit_ledgers(path, base_span(NULL, 0), visit_to_check, report, error);
}

/* ---- one task ---------------------------------------------------------------------------------
 */

/* Of handoff_store_audit. */
struct task_audit {
    struct handoff_store_report *report;
    void (*visit)(void *context, const char *json);
    void *context;
};

static void write_told(struct base_buffer *out, const struct handoff_envelope *says)
{
    static const char *const members[] = {"digest", "created_at", "source_agent", "target_agent",
                                          "hop",    "parents",    "omitted"};
    yyjson_val *root = yyjson_doc_get_root(says->doc);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        yyjson_val *value = yyjson_obj_get(root, members[i]);
        if (!value)
            continue;
        base_buffer_printf(out, ",\"%s\":", members[i]);
        base_json_write(out, value);
    }
}

/* Of what it names as its parents. */
static void write_removed_parents(struct base_buffer *out, const struct ledger_check *check)
{
    const char *separator = "";
    base_buffer_text(out, ",\"removed_parents\":[");
    for (size_t i = 0; check->own && i < check->own->nparents; i++) {
        const struct base_uuid *parent = &check->own->parents[i];
        const struct handoff_contribution *kept = find_checked_contribution(check->kept, parent);
        char id[BASE_UUID_TEXT];
        if (kept && !kept->envelope_is_gone)
            continue;
        base_uuid_format(parent, id);
        base_buffer_printf(out, "%s\"%s\"", separator, id);
        separator = ",";
    }
    base_buffer_byte(out, ']');
}

static void write_audited(struct base_buffer *out, const struct ledger_check *check)
{
    const bool removed = check->kept->found == HANDOFF_ERR_ENVELOPE_REMOVED;
    char id[BASE_UUID_TEXT];
    base_uuid_format(&check->kept->envelope.id, id);
    base_buffer_printf(out, "{\"id\":\"%s\"", id);
    if (check->says.doc)
        write_told(out, &check->says);
    write_removed_parents(out, check);
    base_buffer_printf(out,
                       ",\"contributions\":%zu,\"removed\":%s,\"problem\":", check->kept->count,
                       removed ? "true" : "false");
    if (check->report->problems)
        base_json_write_string(out, base_span_text(check->report->problem));
    else
        base_buffer_text(out, "null");
    base_buffer_append(out, "}", sizeof "}");
}

static void add_report(struct handoff_store_report *to, const struct handoff_store_report *from)
{
    if (to->problems == 0)
        memcpy(to->problem, from->problem, sizeof to->problem);
    to->problems += from->problems;
    to->envelopes++;
}

static enum handoff_code visit_to_audit(void *context, const struct handoff_kept_ledger *kept,
                                        struct base_arena *arena, struct handoff_error *error)
{
    struct task_audit *audit = context;
    struct handoff_store_report report = {0};
    struct ledger_check check = {.kept = kept, .arena = arena, .report = &report};
    struct base_buffer out = {.arena = arena};
    enum handoff_code code = HANDOFF_OK;
    if (kept->found == HANDOFF_OK)
        code = check_envelope(&check, error);
    else if (kept->found != HANDOFF_ERR_ENVELOPE_REMOVED)
        note_ledger(&check, "an envelope or one of its ancestors is damaged");
    if (code != HANDOFF_OK)
        return code;
    write_audited(&out, &check);
    if (out.failed)
        return handoff_error_no_memory(error);
    add_report(audit->report, &report);
    audit->visit(audit->context, out.data);
    return HANDOFF_OK;
}

enum handoff_code handoff_store_audit(const char *path, const char *task_id,
                                      void (*visit)(void *context, const char *json), void *context,
                                      struct handoff_store_report *report,
                                      struct handoff_error *error)
{
    struct task_audit audit = {.report = report, .visit = visit, .context = context};
    *report = (struct handoff_store_report){0};
    return handoff_store_visit_ledgers(path, base_span_text(task_id), visit_to_audit, &audit,
                                       error);
}
