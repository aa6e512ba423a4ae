/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds handoffs by what is known of them. The store finds the rows (client/store/search.h); each
 * is shown as memory has it, and left out if its state is no longer one that was asked for. On a
 * reader thread (lookup.c).
 */
#include <string.h>

#include "client/calls/call.h"
#include "client/calls/filters.h"
#include "client/calls/read.h"
#include "client/calls/render.h"
#include "client/model/model.h"
#include "client/store/search.h"
#include "lib/base/error.h"

enum { FOUND_LIMIT = 50 };

static const char known_states[] =
#define HANDOFF_STATE(state, number, text, ...) text ", "
#include "client/model/handoff_model.def"
    "or none for any";

static enum handoff_code read_state(const char *text, uint32_t *states, struct handoff_error *error)
{
    *states = UINT32_MAX;
    if (!text)
        return HANDOFF_OK;
    enum handoff_state state;
    for (int number = 1; handoff_state_from_number(number, &state); number++) {
        if (strcmp(text, handoff_state_name(state)) == 0) {
            *states = 1u << number;
            return HANDOFF_OK;
        }
    }
    handoff_error_set(error, HANDOFF_ERR_INVALID, "unknown state", "state", text);
    handoff_error_allow(error, "%s", known_states);
    return HANDOFF_ERR_INVALID;
}

static enum handoff_code read_after(const char *cursor, struct base_uuid *after,
                                    struct handoff_error *error)
{
    *after = (struct base_uuid){0};
    if (!cursor || base_uuid_parse(cursor, strlen(cursor), after))
        return HANDOFF_OK;
    return handoff_error_set(error, HANDOFF_ERR_INVALID_CURSOR,
                             "the cursor is not from this list; start again without one", "cursor",
                             cursor);
}

/* In the store an attempt that is out is ready; memory knows better. */
static uint32_t stored_states(uint32_t states)
{
    const uint32_t live = 1u << HANDOFF_STATE_READY | 1u << HANDOFF_STATE_IN_FLIGHT |
                          1u << HANDOFF_STATE_AWAITING_ACK;
    return states & live ? states | live : states;
}

static enum handoff_code read_search(const struct handoff_find_query *query,
                                     struct handoff_store_search *search, uint32_t *states,
                                     struct handoff_error *error)
{
    *search = (struct handoff_store_search){.source = base_span_text(query->source),
                                            .target = base_span_text(query->target),
                                            .task_id = base_span_text(query->task_id),
                                            .party = base_span_text(query->caller),
                                            .incomplete = query->incomplete,
                                            .open = query->open,
                                            .limit = query->limit > 0 ? (size_t)query->limit
                                                                      : FOUND_LIMIT};
    enum handoff_code code = read_state(query->state, states, error);
    if (code == HANDOFF_OK)
        code = handoff_read_time("since", query->since, &search->since_ms, error);
    if (code == HANDOFF_OK)
        code = handoff_read_order(query->order, &search->newest_first, false, error);
    if (code == HANDOFF_OK)
        code = read_after(query->cursor, &search->after, error);
    search->states = stored_states(*states);
    return code;
}

/* Retention may have removed it meanwhile. */
static enum handoff_code write_found(struct handoff_client *client, struct base_buffer *out,
                                     const struct base_uuid *id, uint32_t states,
                                     struct handoff_error *error)
{
    struct base_arena arena;
    struct handoff_status status;
    base_arena_init(&arena, 0);
    enum handoff_code code = handoff_read_status(client, id, &arena, &status, error);
    if (code == HANDOFF_ERR_NOT_FOUND) {
        code = handoff_error_clear(error);
    } else if (code == HANDOFF_OK && (states >> status.state & 1)) {
        base_buffer_text(out, out->data[out->size - 1] == '[' ? "" : ",");
        handoff_object_write_listed(out, &status);
    }
    base_arena_free(&arena);
    return code;
}

static enum handoff_code write_found_page(struct handoff_client *client, struct base_buffer *out,
                                          const struct handoff_store_search *search,
                                          uint32_t states, struct handoff_error *error)
{
    char next[BASE_UUID_TEXT];
    enum handoff_code code = HANDOFF_OK;
    base_buffer_text(out, "{\"items\":[");
    for (size_t i = 0; code == HANDOFF_OK && !out->failed && i < search->count; i++)
        code = write_found(client, out, &search->ids[i], states, error);
    base_uuid_format(&search->next, next);
    if (search->more)
        base_buffer_printf(out, "],\"next\":\"%s\"}", next);
    else
        base_buffer_text(out, "],\"next\":null}");
    return code;
}

enum handoff_code handoff_read_found(struct handoff_client *client,
                                     const struct handoff_find_query *query,
                                     struct handoff_text *text, struct handoff_error *error)
{
    struct handoff_store_search search;
    struct base_arena arena;
    struct base_buffer out = {0};
    const struct handoff_filtered filtered = {
        .target = query->target, .source = query->source, .caller = query->caller};
    uint32_t states;
    *text = (struct handoff_text){0};
    enum handoff_code code = read_search(query, &search, &states, error);
    if (code != HANDOFF_OK)
        return code;
    base_arena_init(&arena, 0);
    code = handoff_store_search(client->store, &search, &arena, error);
    if (code == HANDOFF_OK && search.count == 0 && !search.more && !query->cursor)
        code = handoff_check_filters(client, &filtered, error);
    if (code == HANDOFF_OK)
        code = write_found_page(client, &out, &search, states, error);
    if (code == HANDOFF_OK)
        code = handoff_client_give(&out, text, error);
    base_buffer_free(&out);
    base_arena_free(&arena);
    return code;
}
