/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers with the ledger of an envelope: folded from the contributions of its ancestors and its
 * own, as for a request that it continues. On a reader thread of the store (lookup.c).
 */
#include <string.h>

#include "client/calls/read.h"
#include "client/ledger/contribution.h"
#include "client/store/parties.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/json.h"
#include "lib/base/rfc3339.h"

enum { ITEMS_PER_PAGE = 50 };

/* A page on its way. Items are numbered from 0 through all kinds that are asked for. */
struct ledger_page {
    struct base_buffer out;
    int kind; /* 0: all */
    int64_t first, last, number;
};

/* ---- writing ----------------------------------------------------------------------------------
 */

static void write_member_text(struct base_buffer *out, const char *key, struct base_span text)
{
    base_json_write_name(out, key);
    base_json_write_string(out, text);
}

static void write_ledger_item(struct base_buffer *out, enum handoff_item_kind kind,
                              const struct handoff_item *item)
{
    char id[BASE_UUID_TEXT], at[BASE_RFC3339_SIZE];
    base_uuid_format(&item->from->id, id);
    base_rfc3339_format(item->from->at_ms, at);
    base_buffer_byte(out, '{');
    write_member_text(out, "kind", base_span_text(handoff_item_name(kind)));
    base_json_write_name(out, "hop");
    base_buffer_number(out, item->from->hop);
    write_member_text(out, "agent", item->from->agent);
    write_member_text(out, "at", base_span_text(at));
    write_member_text(out, "envelope_id", base_span_text(id));
    if (kind == HANDOFF_ITEM_CONSTRAINT || kind == HANDOFF_ITEM_STATE)
        write_member_text(out, "name", item->name);
    base_json_write_name(out, "value");
    base_json_write(out, item->value);
    base_buffer_byte(out, '}');
}

static void add_item(struct ledger_page *page, enum handoff_item_kind kind,
                     const struct handoff_item *item)
{
    if (page->kind && page->kind != (int)kind + 1)
        return;
    const int64_t number = page->number++;
    if (number < page->first || number >= page->last)
        return;
    if (number > page->first)
        base_buffer_byte(&page->out, ',');
    write_ledger_item(&page->out, kind, item);
}

/* All of one hop from where the list was left, which is in the order of the hops. */
static void add_items_of(struct ledger_page *page, enum handoff_item_kind kind,
                         struct handoff_items *rest, const struct handoff_hop *hop)
{
    while (rest->count && rest->at->from == hop) {
        add_item(page, kind, rest->at);
        rest->at++;
        rest->count--;
    }
}

static void add_hop(struct ledger_page *page, struct handoff_ledger *rest,
                    const struct handoff_hop *hop)
{
    for (int kind = 0; kind < HANDOFF_ITEM_COUNT; kind++) {
        add_items_of(page, (enum handoff_item_kind)kind, &rest->items[kind], hop);
        add_items_of(page, (enum handoff_item_kind)kind, &rest->past[kind], hop);
    }
}

static void write_ledger_page(struct ledger_page *page, const struct handoff_ledger *ledger,
                              const struct handoff_said *said, size_t nsaid)
{
    struct handoff_ledger rest = *ledger;
    base_buffer_text(&page->out, "{\"items\":[");
    for (size_t i = 0; i < nsaid; i++)
        add_hop(page, &rest, &said[i].hop);
    add_hop(page, &rest, &ledger->own);
    base_buffer_text(&page->out, "],\"next\":");
    if (page->number > page->last)
        base_buffer_printf(&page->out, "\"%lld\"}", (long long)page->last);
    else
        base_buffer_text(&page->out, "null}");
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static enum handoff_code no_envelope(const char *id, struct handoff_error *error)
{
    return handoff_error_set(error, HANDOFF_ERR_NOT_FOUND, "no envelope has this id", "id", id);
}

static enum handoff_code check_party(struct handoff_client *client, const struct base_uuid *id,
                                     const struct handoff_hop *hop, const char *caller,
                                     struct handoff_error *error)
{
    const struct base_span agent = base_span_text(caller);
    bool sees = !caller;
    if (!sees)
        sees = base_span_equal(agent, hop->agent) || base_span_equal(agent, hop->target);
    if (sees)
        return HANDOFF_OK;
    enum handoff_code code = handoff_store_is_party(client->store, id, agent, &sees, error);
    return code != HANDOFF_OK || sees ? code : HANDOFF_ERR_NOT_FOUND;
}

/* What each has said; the last is the envelope itself. */
static enum handoff_code read_said(struct handoff_client *client, const struct base_uuid *id,
                                   struct base_arena *arena, struct handoff_said **said,
                                   size_t *nsaid, struct handoff_error *error)
{
    struct handoff_contribution *list;
    enum handoff_code code =
        handoff_store_get_ledger(client->store, id, 1, arena, &list, nsaid, error);
    if (code != HANDOFF_OK)
        return code;
    BASE_CHECK(*nsaid > 0);
    *said = base_arena_calloc(arena, *nsaid + 1, sizeof **said);
    if (!*said)
        return handoff_error_no_memory(error);
    for (size_t i = 0; i < *nsaid && code == HANDOFF_OK; i++)
        code = handoff_contribution_read(&list[i], base_span(NULL, 0), arena, &(*said)[i], NULL,
                                         error);
    return code == HANDOFF_OK ? handoff_contributions_link(list, *nsaid, arena, *said, error)
                              : code;
}

static enum handoff_code answer_page(struct handoff_client *client, const struct base_uuid *id,
                                     const char *caller, struct base_arena *arena,
                                     struct ledger_page *page, struct handoff_error *error)
{
    struct handoff_ledger ledger;
    struct handoff_said *said;
    size_t nsaid;
    enum handoff_code code = read_said(client, id, arena, &said, &nsaid, error);
    if (code != HANDOFF_OK)
        return code;
    const struct handoff_said *own = &said[--nsaid];
    if (memcmp(&own->hop.id, id, sizeof *id) != 0)
        return handoff_error_set(error, HANDOFF_ERR_STORE_CORRUPT,
                                 "an ancestor of this envelope has its hop or a later one", NULL,
                                 NULL);
    code = check_party(client, id, &own->hop, caller, error);
    if (code == HANDOFF_OK)
        code = handoff_ledger_fold(&ledger, arena, said, nsaid, own, error);
    if (code == HANDOFF_OK)
        write_ledger_page(page, &ledger, said, nsaid);
    return code;
}

enum handoff_code handoff_read_ledger(struct handoff_client *client, const char *id,
                                      const char *caller, const struct handoff_ledger_query *query,
                                      struct handoff_text *text, struct handoff_error *error)
{
    struct base_arena arena;
    struct base_uuid uuid = {0};
    struct ledger_page page = {.kind = query->kind};
    *text = (struct handoff_text){0};
    enum handoff_code code = handoff_read_cursor(query->cursor, &page.first, error);
    if (code != HANDOFF_OK)
        return code;
    if (page.first > INT64_MAX / 2) /* no list is as long */
        page.first = INT64_MAX / 2;
    page.last = page.first + (query->limit ? query->limit : ITEMS_PER_PAGE);
    base_arena_init(&arena, 0);
    code = base_uuid_parse(id, strlen(id), &uuid)
               ? answer_page(client, &uuid, caller, &arena, &page, error)
               : HANDOFF_ERR_NOT_FOUND;
    base_arena_free(&arena);
    if (code == HANDOFF_ERR_NOT_FOUND)
        no_envelope(id, error);
    if (code == HANDOFF_OK)
        return handoff_client_give(&page.out, text, error);
    base_buffer_free(&page.out);
    return code;
}
