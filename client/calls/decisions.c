/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists decisions: as a page of a list, or as lines of JSON for programs that keep them elsewhere.
 * On a reader thread (lookup.c).
 */
#include "client/calls/decisions.h"

#include <string.h>

#include "client/calls/call.h"
#include "client/calls/filters.h"
#include "client/calls/read.h"
#include "client/calls/render.h"
#include "client/model/model.h"
#include "client/store/decisions.h"
#include "lib/base/error.h"
#include "lib/base/json.h"
#include "lib/base/rfc3339.h"

enum { DECISIONS_LIMIT = 50 };

/* ---- what is asked for ------------------------------------------------------------------------
 */

static const char known_actions[] =
#define HANDOFF_ACTION(action, number, text, ...) text ", "
#include "client/model/handoff_model.def"
    "or none for any";

static enum handoff_code read_action(const char *text, uint32_t *actions,
                                     struct handoff_error *error)
{
    *actions = UINT32_MAX;
    for (int action = 0; text && action < HANDOFF_ACTION_COUNT; action++) {
        if (strcmp(text, handoff_action_name((enum handoff_action)action)) == 0) {
            *actions = UINT32_C(1) << action;
            return HANDOFF_OK;
        }
    }
    if (!text)
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_INVALID, "unknown action", "action", text);
    handoff_error_allow(error, "%s", known_actions);
    return HANDOFF_ERR_INVALID;
}

enum handoff_code handoff_read_time(const char *field, const char *text, int64_t *wall_ms,
                                    struct handoff_error *error)
{
    *wall_ms = 0;
    if (!text || base_rfc3339_parse(text, strlen(text), wall_ms))
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_INVALID, "not a time", field, text);
    handoff_error_allow(error, "RFC 3339, such as 2030-01-31T18:00:00Z; a + in a URL is %%2B");
    return HANDOFF_ERR_INVALID;
}

static enum handoff_code read_uuid(const char *field, const char *text, struct base_uuid *id,
                                   struct handoff_error *error)
{
    *id = (struct base_uuid){0};
    if (!text || base_uuid_parse(text, strlen(text), id))
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_INVALID, "not a UUID", field, text);
    handoff_error_allow(error, "the whole id, such as 01890a5d-ac96-774b-bcce-b302099a8057");
    return HANDOFF_ERR_INVALID;
}

static enum handoff_code read_decision_filter(const struct handoff_decision_query *query,
                                              struct handoff_decision_filter *filter,
                                              struct handoff_error *error)
{
    *filter = (struct handoff_decision_filter){.task_id = base_span_text(query->task),
                                               .who = base_span_text(query->who),
                                               .by = base_span_text(query->by),
                                               .target = base_span_text(query->target),
                                               .limit = query->limit > 0 ? (size_t)query->limit
                                                                         : DECISIONS_LIMIT};
    bool newest_first = true;
    enum handoff_code code = read_uuid("handoff", query->handoff, &filter->handoff, error);
    if (code == HANDOFF_OK)
        code = read_uuid("job", query->job, &filter->job, error);
    if (code == HANDOFF_OK)
        code = read_action(query->action, &filter->actions, error);
    if (code == HANDOFF_OK)
        code = handoff_read_time("since", query->since, &filter->since_ms, error);
    if (code == HANDOFF_OK)
        code = handoff_read_time("until", query->until, &filter->until_ms, error);
    if (code == HANDOFF_OK)
        code = handoff_read_order(query->order, &newest_first, true, error);
    filter->oldest_first = !newest_first;
    if (code == HANDOFF_OK)
        code = handoff_read_cursor(query->cursor, &filter->beyond, error);
    return code;
}

/* ---- as JSON ----------------------------------------------------------------------------------
 */

struct decision_page {
    struct base_buffer out;
    bool lines;
    size_t count;
    int64_t last;
};

static void show_decision(void *arg, const struct handoff_stored_decision *row)
{
    struct decision_page *page = arg;
    if (page->count++ > 0 && !page->lines)
        base_buffer_byte(&page->out, ',');
    handoff_object_write_decision(&page->out, row);
    if (page->lines)
        base_buffer_byte(&page->out, '\n');
    page->last = row->number;
}

enum handoff_code handoff_read_decisions(struct handoff_client *client,
                                         const struct handoff_decision_query *query,
                                         struct handoff_text *text, struct handoff_error *error)
{
    struct decision_page page = {.lines = query->lines};
    struct handoff_decision_filter filter;
    *text = (struct handoff_text){0};
    enum handoff_code code = read_decision_filter(query, &filter, error);
    if (code != HANDOFF_OK)
        return code;
    base_buffer_text(&page.out, page.lines ? "" : "{\"items\":[");
    code = handoff_store_visit_decisions(client->store, &filter, show_decision, &page, error);
    const struct handoff_filtered filtered = {.target = query->target};
    if (code == HANDOFF_OK && page.count == 0 && !query->cursor)
        code = handoff_check_filters(client, &filtered, error);
    if (!page.lines && page.count == filter.limit)
        base_buffer_printf(&page.out, "],\"next\":\"%lld\"}", (long long)page.last);
    else if (!page.lines)
        base_buffer_text(&page.out, "],\"next\":null}");
    if (code == HANDOFF_OK)
        code = handoff_client_give(&page.out, text, error);
    base_buffer_free(&page.out);
    return code;
}
