/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Would a parked handoff be delivered, if it were replayed now? The same questions that a replay
 * asks (client/deliver/decide.c), and what would stop the delivery after it; all of them, so that
 * one look shows everything. On a reader thread (lookup.c).
 */
#include <stdlib.h>
#include <string.h>

#include "client/calls/parked.h"
#include "client/calls/read.h"
#include "client/deliver/decide.h"
#include "client/model/model.h"
#include "lib/base/error.h"
#include "lib/base/json.h"

struct prospect {
    struct base_buffer out;
    size_t obstacles;
    enum handoff_code first; /* if there is any */
};

static void add_obstacle(struct prospect *prospect, enum handoff_code code, const char *detail)
{
    if (prospect->obstacles == 0)
        prospect->first = code;
    base_buffer_text(&prospect->out, prospect->obstacles++ ? ",{" : "{");
    base_json_write_key(&prospect->out, base_span_text("code"));
    base_json_write_string(&prospect->out, base_span_text(handoff_code_name(code)));
    base_json_write_key(&prospect->out, base_span_text("detail"));
    base_json_write_string(&prospect->out, base_span_text(detail));
    base_buffer_byte(&prospect->out, '}');
}

/* The second line of an excerpt (excerpt.h); 0: not known. */
static uint64_t tokens_of(const struct handoff_stored *stored)
{
    const char *line = stored->excerpt.data ? strchr(stored->excerpt.data, '\n') : NULL;
    return line ? strtoull(line + 1, NULL, 10) : 0;
}

static void look_at_its_settings(struct prospect *prospect, struct handoff_client *client,
                                 const struct handoff_stored *stored, struct handoff_agent *agent,
                                 bool is_other)
{
    struct handoff_stored_envelope envelope;
    struct handoff_error error;
    struct base_arena arena;
    struct handoff_settings *settings = handoff_agent_settings(agent);
    base_arena_init(&arena, 0);
    const enum handoff_code code =
        handoff_store_get_envelope(client->store, &stored->id, &arena, &envelope, &error);
    if (code != HANDOFF_OK)
        add_obstacle(prospect, code, error.message);
    if (settings && is_other && tokens_of(stored) > settings->options.token_budget)
        add_obstacle(prospect, HANDOFF_ERR_BUDGET_TOO_SMALL,
                     "the envelope exceeds the token budget of this agent; replay it with an edit");
    if (settings && is_other && code == HANDOFF_OK &&
        settings->protocol->obstacle(&settings->options, envelope.body) != HANDOFF_OBSTACLE_NONE)
        add_obstacle(
            prospect, HANDOFF_ERR_INVALID,
            "this agent does not read the version of the envelope; replay it with an edit");
    handoff_settings_release(&settings);
    base_arena_free(&arena);
}

static void look_at_receiver(struct prospect *prospect, struct handoff_client *client,
                             const struct handoff_stored *stored, struct base_span target)
{
    struct handoff_agent *agent = handoff_agents_find(client->agents, target);
    const int64_t now_ms = base_monotonic_ns(&base_clock_system) / 1000000;
    int64_t wait_ms;
    if (!agent) {
        add_obstacle(prospect, HANDOFF_ERR_UNKNOWN_AGENT,
                     "the agent is not in the configuration; replay it to another agent");
        return;
    }
    if (handoff_agent_is_open(agent, now_ms, &wait_ms))
        add_obstacle(prospect, HANDOFF_ERR_CIRCUIT_OPEN,
                     "the agent's circuit is open; wait for its probe, or close the circuit");
    look_at_its_settings(prospect, client, stored, agent,
                         !base_span_equal(target, stored->asked_target));
}

static const char *why_not_parked(const struct handoff_stored *stored)
{
    static const struct base_uuid nil;
    if (memcmp(&stored->replaced_by, &nil, sizeof nil) != 0)
        return "an edit has replaced it";
    return stored->standing.state == HANDOFF_STATE_EXPIRED
               ? "it has expired; replay it with an edit that has a later deadline"
               : "it is not parked";
}

static void look_at_handoff(struct prospect *prospect, const struct handoff_stored *stored)
{
    if (stored->standing.state != HANDOFF_STATE_PARKED)
        add_obstacle(prospect, HANDOFF_ERR_CONFLICT, why_not_parked(stored));
    else if (stored->deadline_ms && stored->deadline_ms <= base_wall_ms(&base_clock_system))
        add_obstacle(prospect, HANDOFF_ERR_DEADLINE_PASSED,
                     "its deadline has passed; replay it with an edit that has a later deadline");
    if (stored->standing.replays >= HANDOFF_REPLAYS_MAX)
        add_obstacle(prospect, HANDOFF_ERR_CONFLICT,
                     "it was replayed several times already; a further replay needs again");
}

/* It would be delivered, and stop one hop later. */
static void write_note(struct base_buffer *out, const struct handoff_stored *stored)
{
    if (stored->standing.reason != HANDOFF_REASON_HOP_LIMIT)
        return;
    base_json_write_name(out, "note");
    base_json_write_string(out, base_span_text("it is beyond the hop limit (hops.max); a replay "
                                               "delivers it, and what its agent hands on "
                                               "is parked again"));
}

static void write_prospect(struct base_buffer *out, const char *id, struct base_span target,
                           const struct handoff_stored *stored, const struct prospect *prospect)
{
    base_buffer_byte(out, '{');
    base_json_write_key(out, base_span_text("id"));
    base_json_write_string(out, base_span_text(id));
    base_json_write_key(out, base_span_text("target_agent"));
    base_json_write_string(out, target);
    base_buffer_printf(out, ",\"deliverable\":%s,\"obstacles\":[",
                       prospect->obstacles ? "false" : "true");
    base_buffer_append(out, prospect->out.data, prospect->out.size);
    base_buffer_byte(out, ']');
    write_note(out, stored);
    base_buffer_byte(out, '}');
}

enum handoff_code handoff_prospect_of(struct handoff_client *client,
                                      const struct handoff_stored *stored, struct base_span to)
{
    struct prospect prospect = {.first = HANDOFF_OK};
    look_at_handoff(&prospect, stored);
    look_at_receiver(&prospect, client, stored, to.size > 0 ? to : stored->standing.target);
    base_buffer_free(&prospect.out);
    return prospect.first;
}

enum handoff_code handoff_read_prospect(struct handoff_client *client, const char *id,
                                        const char *target, struct handoff_text *text,
                                        struct handoff_error *error)
{
    struct prospect prospect = {0};
    struct handoff_stored stored;
    struct base_buffer out = {0};
    struct base_arena arena;
    struct base_uuid uuid;
    *text = (struct handoff_text){0};
    base_arena_init(&arena, 0);
    enum handoff_code code = handoff_read_id(id, &uuid, error);
    if (code == HANDOFF_OK)
        code = handoff_store_get_handoff(client->store, &uuid, &arena, &stored, error);
    if (code == HANDOFF_OK) {
        struct base_span to = target ? base_span_text(target) : stored.standing.target;
        look_at_handoff(&prospect, &stored);
        look_at_receiver(&prospect, client, &stored, to);
        write_prospect(&out, id, to, &stored, &prospect);
        code = handoff_client_give(&out, text, error);
    }
    base_buffer_free(&out);
    base_buffer_free(&prospect.out);
    base_arena_free(&arena);
    return code;
}
