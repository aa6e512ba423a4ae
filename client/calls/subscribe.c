/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Subscribes an agent to a channel at run time, and lets it leave. One struct from the call to its
 * answer: the change is on disk before it takes effect, and takes effect before it is answered.
 *
 * On the loop's thread; the store writes on its writer thread.
 */
#include <string.h>

#include "client/calls/catch_up.h"
#include "client/calls/read.h"
#include "client/calls/reply.h"
#include "client/client.h"
#include "client/model/model.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/json.h"
#include "lib/base/memory.h"

enum { SUBSCRIBING_MAGIC = 0x73756273 };

struct subscribing {
    unsigned magic;
    struct handoff_loop *loop;
    handoff_answered *answered;
    void *context;
    enum handoff_subscription_state was;
    struct handoff_store_subscribe put;
    char channel[HANDOFF_NAME_MAX + 1], agent[HANDOFF_NAME_MAX + 1];
};

/* ---- the answer -------------------------------------------------------------------------------
 */

static void write_flag(struct base_buffer *out, const char *name, bool value)
{
    base_json_write_name(out, name);
    base_buffer_text(out, value ? "true" : "false");
}

static void give_subscription(const struct subscribing *subscribing)
{
    const struct handoff_stored_subscription *row = &subscribing->put.row;
    const bool catching_up = row->state == HANDOFF_SUBSCRIPTION_CATCHING_UP;
    struct base_buffer body = {0};
    struct handoff_result result = {0};
    base_buffer_byte(&body, '{');
    base_json_write_name(&body, "channel");
    base_json_write_string(&body, row->channel);
    base_json_write_name(&body, "agent");
    base_json_write_string(&body, row->receiver);
    write_flag(&body, "subscribed", catching_up || row->state == HANDOFF_SUBSCRIPTION_CURRENT);
    write_flag(&body, "catching_up", catching_up);
    base_buffer_byte(&body, '}');
    result.body = body.data;
    result.size = body.size;
    if (body.failed)
        handoff_error_no_memory(&result.error);
    subscribing->answered(subscribing->context, &result);
    base_buffer_free(&body);
}

/* Without memory to begin with, a subscriber catches up after the next start. */
static void subscription_written(struct handoff_store_job *job)
{
    struct subscribing *subscribing = BASE_CONTAINER_OF(job, struct subscribing, put.job);
    BASE_CHECK_MAGIC(subscribing, SUBSCRIBING_MAGIC);
    const struct handoff_stored_subscription *row = &subscribing->put.row;
    struct handoff_channels *channels = &subscribing->loop->client->channels;
    subscribing->loop->pending--;
    if (job->error.code != HANDOFF_OK) {
        handoff_channels_give_up_change(channels, row->channel, row->receiver);
        handoff_give_error(subscribing->answered, subscribing->context, &job->error);
    } else {
        const uint64_t number = handoff_channels_end_change(channels, row->channel, row->receiver,
                                                            row->state, row->at_ms);
        if (row->state == HANDOFF_SUBSCRIPTION_CATCHING_UP)
            (void)handoff_catch_up_begin(subscribing->loop, row, number);
        give_subscription(subscribing);
    }
    subscribing->magic = 0;
    base_free(subscribing);
}

/* ---- what is wanted ---------------------------------------------------------------------------
 */

/* "now", "all" or a time that has passed. */
static enum handoff_code read_from(const char *from, int64_t now_ms,
                                   struct handoff_stored_subscription *row,
                                   struct handoff_error *error)
{
    row->state = HANDOFF_SUBSCRIPTION_CURRENT;
    if (!from || strcmp(from, "now") == 0)
        return HANDOFF_OK;
    row->state = HANDOFF_SUBSCRIPTION_CATCHING_UP;
    if (strcmp(from, "all") == 0)
        return HANDOFF_OK;
    enum handoff_code code = handoff_read_time("from", from, &row->from_ms, error);
    if (code == HANDOFF_OK && row->from_ms > now_ms)
        code = handoff_error_set(error, HANDOFF_ERR_INVALID, "the time is in the future", "from",
                                 from);
    if (code != HANDOFF_OK)
        handoff_error_allow(error, "now, all, or a time of RFC 3339 that has passed");
    return code;
}

static enum handoff_code check_names(const char *channel, const char *agent,
                                     struct handoff_error *error)
{
    const size_t size = strlen(channel);
    handoff_error_clear(error);
    if (size == 0 || size > HANDOFF_NAME_MAX ||
        strspn(channel, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") !=
            size ||
        handoff_name_is_reserved(channel, size)) {
        handoff_error_set(error, HANDOFF_ERR_INVALID, "a channel cannot have this name", "channel",
                          channel);
        handoff_error_allow(error, "1 to 128 characters of A-Z a-z 0-9 . _ -");
        return HANDOFF_ERR_INVALID;
    }
    return strlen(agent) <= HANDOFF_NAME_MAX
               ? HANDOFF_OK
               : handoff_error_set(error, HANDOFF_ERR_UNKNOWN_AGENT,
                                   handoff_code_meaning(HANDOFF_ERR_UNKNOWN_AGENT), "agent", NULL);
}

static enum handoff_code refuse_other_agent(const char *agent, const char *caller,
                                            struct handoff_error *error)
{
    const enum handoff_code code = HANDOFF_ERR_FORBIDDEN;
    handoff_error_set(error, code,
                      "an agent subscribes and unsubscribes only itself; an operator may do it for "
                      "others",
                      "agent", agent);
    handoff_error_allow(error, "%s", caller);
    return code;
}

/* An agent decides for itself. */
static enum handoff_code check_subscriber(struct handoff_client *client, const char *agent,
                                          const char *caller, bool has_to_exist,
                                          struct handoff_error *error)
{
    if (caller && strcmp(caller, agent) != 0)
        return refuse_other_agent(agent, caller, error);
    if (has_to_exist && !handoff_agents_find(client->agents, base_span_text(agent)))
        return handoff_agents_refuse_unknown(client->agents, base_span_text(agent), "agent", error);
    return HANDOFF_OK;
}

static struct subscribing *make_subscribing(struct handoff_loop *loop, const char *channel,
                                            const char *agent, handoff_answered *answered,
                                            void *context)
{
    struct subscribing *made = base_calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->magic = SUBSCRIBING_MAGIC;
    made->loop = loop;
    made->answered = answered;
    made->context = context;
    memcpy(made->channel, channel, strlen(channel) + 1);
    memcpy(made->agent, agent, strlen(agent) + 1);
    made->put.row.channel = base_span_text(made->channel);
    made->put.row.receiver = base_span_text(made->agent);
    made->put.row.at_ms = handoff_channels_time_of_change(
        &loop->client->channels, base_wall_ms(loop->client->assembler.clock));
    made->put.job.mailbox = loop->lane->mailbox;
    made->put.job.done = subscription_written;
    return made;
}

/* It is no receiver: a repeat, unless one of the names is wrong. */
static enum handoff_code check_stranger(const struct subscribing *subscribing,
                                        struct handoff_error *error)
{
    struct handoff_client *client = subscribing->loop->client;
    struct handoff_channel channel;
    struct base_arena arena;
    if (!handoff_agents_find(client->agents, subscribing->put.row.receiver))
        return handoff_agents_refuse_unknown(client->agents, subscribing->put.row.receiver, "agent",
                                             error);
    base_arena_init(&arena, 0);
    const enum handoff_code code = handoff_channels_find(
        &client->channels, subscribing->put.row.channel, &arena, &channel, error);
    base_arena_free(&arena);
    return code;
}

/* Leaving a channel of the configuration is remembered, and any other subscription forgotten. */
static enum handoff_code decide_leaving(struct subscribing *subscribing, bool configured,
                                        struct handoff_error *error)
{
    const enum handoff_subscription_state was = subscribing->was;
    if (!configured && was == HANDOFF_SUBSCRIPTION_NONE &&
        check_stranger(subscribing, error) != HANDOFF_OK)
        return error->code;
    subscribing->put.row.state = configured ? HANDOFF_SUBSCRIPTION_LEFT : HANDOFF_SUBSCRIPTION_NONE;
    return HANDOFF_OK;
}

static enum handoff_code begin_change(struct subscribing *subscribing, bool leaves,
                                      struct handoff_error *error)
{
    struct handoff_channels *channels = &subscribing->loop->client->channels;
    const struct handoff_stored_subscription *row = &subscribing->put.row;
    bool configured;
    enum handoff_code code = handoff_channels_begin_change(channels, row->channel, row->receiver,
                                                           &configured, &subscribing->was, error);
    if (code != HANDOFF_OK || !leaves)
        return code;
    code = decide_leaving(subscribing, configured, error);
    if (code != HANDOFF_OK)
        handoff_channels_give_up_change(channels, row->channel, row->receiver);
    return code;
}

static void write_change(struct subscribing *subscribing, bool leaves)
{
    struct handoff_error error;
    if (begin_change(subscribing, leaves, &error) != HANDOFF_OK) {
        handoff_give_error(subscribing->answered, subscribing->context, &error);
        base_free(subscribing);
        return;
    }
    subscribing->loop->pending++;
    handoff_store_subscribe(subscribing->loop->client->store, &subscribing->put);
}

/* ---- the calls --------------------------------------------------------------------------------
 */

void handoff_subscribe(struct handoff_loop *loop, const char *channel, const char *agent,
                       const char *from, const char *caller, handoff_answered *answered,
                       void *context)
{
    struct handoff_error error;
    struct handoff_stored_subscription wanted = {0};
    BASE_CHECK_MAGIC(loop, HANDOFF_LOOP_MAGIC);
    if (check_names(channel, agent, &error) != HANDOFF_OK ||
        check_subscriber(loop->client, agent, caller, true, &error) != HANDOFF_OK ||
        read_from(from, base_wall_ms(loop->client->assembler.clock), &wanted, &error) !=
            HANDOFF_OK) {
        handoff_give_error(answered, context, &error);
        return;
    }
    struct subscribing *made = make_subscribing(loop, channel, agent, answered, context);
    if (!made) {
        handoff_give_no_memory(answered, context);
        return;
    }
    made->put.row.state = wanted.state;
    made->put.row.from_ms = wanted.from_ms;
    write_change(made, false);
}

void handoff_unsubscribe(struct handoff_loop *loop, const char *channel, const char *agent,
                         const char *caller, handoff_answered *answered, void *context)
{
    struct handoff_error error;
    BASE_CHECK_MAGIC(loop, HANDOFF_LOOP_MAGIC);
    if (check_names(channel, agent, &error) != HANDOFF_OK ||
        check_subscriber(loop->client, agent, caller, false, &error) != HANDOFF_OK) {
        handoff_give_error(answered, context, &error);
        return;
    }
    struct subscribing *made = make_subscribing(loop, channel, agent, answered, context);
    if (made)
        write_change(made, true);
    else
        handoff_give_no_memory(answered, context);
}
