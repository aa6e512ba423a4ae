/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows an agent's inbox: one handoff after the other, up to a number of leases, for as long as
 * the host wants. A follower polls the inbox whenever its host is ready for the next handoff; what
 * it was given is kept with the inbox (client/protocol/pull/streams.h). On the loop's thread.
 */
#include <string.h>

#include "client/calls/pull.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum {
    FOLLOWER_MAGIC = 0x666f6c6c,
    LOOK_MS = 30000, /* how often one that waits looks whether its agent still pulls */
};

struct handoff_follower {
    unsigned magic;
    TAILQ_ENTRY(handoff_follower) entry; /* of the loop */
    struct handoff_loop *loop;
    struct handoff_agent *agent;
    handoff_given *given;
    void *context;
    bool asks;   /* the request is open */
    bool leaves; /* the host has ended it, and is told nothing more */
    unsigned lost;
    struct handoff_stream_holder holder;
    struct handoff_poller_request request;
};

static void free_follower(struct handoff_follower *follower)
{
    TAILQ_REMOVE(&follower->loop->followers, follower, entry);
    follower->magic = 0;
    base_free(follower);
}

static void return_lost(struct handoff_follower *follower, const struct handoff_stream_lost *lost)
{
    for (size_t i = 0; i < lost->count; i++)
        handoff_give_back(follower->loop, &lost->events[i].id, lost->events[i].attempt);
}

static void leave_stream(struct handoff_follower *follower, unsigned unsent)
{
    struct handoff_stream_lost lost;
    handoff_stream_close(&follower->agent->inbox, &follower->holder, unsent, &lost);
    return_lost(follower, &lost);
}

/* Its host is told so. */
static void end_following(struct handoff_follower *follower, const struct handoff_pulled *why)
{
    leave_stream(follower, 0);
    follower->given(follower->context, why);
    free_follower(follower);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void ask_for_one(struct handoff_follower *follower)
{
    follower->asks = true;
    follower->loop->pending++;
    handoff_inbox_poll(&follower->request, LOOK_MS);
}

/* Nothing came in the time: what has changed meanwhile? */
static void ask_again(struct handoff_follower *follower)
{
    struct handoff_pulled why = {0};
    const bool over = handoff_inbox_is_gone(&follower->request) || follower->loop->lane->closing ||
                      !handoff_stream_is_held(&follower->agent->inbox, &follower->holder);
    handoff_error_clear(&why.error);
    if (over || handoff_check_pulls(follower->loop->client->agents, follower->agent,
                                    follower->agent->name, &why.error) != HANDOFF_OK)
        end_following(follower, &why);
    else
        ask_for_one(follower);
}

static void give(struct handoff_follower *follower)
{
    struct handoff_pulled got;
    char *envelope = follower->request.envelope;
    handoff_pulled_fill(&got, &follower->request);
    if (!handoff_stream_is_held(&follower->agent->inbox, &follower->holder))
        ask_again(follower); /* who took the stream over has returned it */
    else if (!follower->given(follower->context, &got))
        handoff_follow_end(follower, 1);
    base_free(envelope);
}

static void follower_told(struct handoff_poller_request *request)
{
    struct handoff_follower *follower =
        BASE_CONTAINER_OF(request, struct handoff_follower, request);
    BASE_CHECK_MAGIC(follower, FOLLOWER_MAGIC);
    follower->asks = false;
    follower->loop->pending--;
    if (follower->leaves) {
        leave_stream(follower, follower->lost + (request->envelope != NULL));
        base_free(request->envelope);
        free_follower(follower);
    } else if (request->envelope) {
        give(follower);
    } else {
        ask_again(follower);
    }
}

void handoff_follow_next(struct handoff_follower *follower)
{
    BASE_CHECK_MAGIC(follower, FOLLOWER_MAGIC);
    BASE_CHECK(!follower->asks);
    ask_for_one(follower);
}

/* ---- beginning and ending -------------------------------------------------------------------- */

/* Names the event before the next one; "": the client knows it. */
static void open_stream(struct handoff_follower *follower, struct handoff_stream *stream,
                        const struct handoff_follow_options *options, char *first_id)
{
    struct handoff_stream_lost lost;
    struct base_uuid last;
    const bool named = options->last_event &&
                       base_uuid_parse(options->last_event, strlen(options->last_event), &last);
    stream->id = base_uuid_make(&follower->loop->client->uuids);
    stream->most = options->leases;
    base_uuid_format(&stream->id, first_id);
    handoff_stream_open(&follower->agent->inbox, &follower->holder, stream, named ? &last : NULL,
                        &lost);
    if (follower->holder.stream != stream)
        *first_id = '\0';
    return_lost(follower, &lost);
}

static struct handoff_follower *follower_new(struct handoff_loop *loop, struct handoff_agent *agent,
                                             handoff_given *given, void *context)
{
    struct handoff_follower *follower = base_calloc(1, sizeof *follower);
    if (!follower)
        return NULL;
    follower->magic = FOLLOWER_MAGIC;
    follower->loop = loop;
    follower->agent = agent;
    follower->given = given;
    follower->context = context;
    follower->request = (struct handoff_poller_request){
        .lane = loop->lane, .agent = agent, .holder = &follower->holder, .told = follower_told};
    TAILQ_INSERT_TAIL(&loop->followers, follower, entry);
    return follower;
}

struct handoff_follower *handoff_follow(struct handoff_loop *loop,
                                        const struct handoff_follow_options *options,
                                        handoff_given *given, void *context, char first_id[37],
                                        struct handoff_error *error)
{
    BASE_CHECK(options->leases >= 1 && options->leases <= HANDOFF_FOLLOW_LEASES_MAX);
    struct handoff_agents *agents = loop->client->agents;
    struct handoff_agent *agent = handoff_agents_find(agents, base_span_text(options->agent));
    if (handoff_check_pulls(agents, agent, options->agent, error) != HANDOFF_OK)
        return NULL;
    struct handoff_stream *stream = base_calloc(1, sizeof *stream);
    struct handoff_follower *follower = stream ? follower_new(loop, agent, given, context) : NULL;
    if (!follower) {
        base_free(stream);
        handoff_error_no_memory(error);
        return NULL;
    }
    open_stream(follower, stream, options, first_id);
    return follower;
}

void handoff_follow_end(struct handoff_follower *follower, unsigned lost)
{
    BASE_CHECK_MAGIC(follower, FOLLOWER_MAGIC);
    if (follower->asks) {
        follower->leaves = true; /* what may be on its way to it goes back, too */
        follower->lost = lost;
        handoff_inbox_withdraw(&follower->request);
        return;
    }
    leave_stream(follower, lost);
    free_follower(follower);
}

void handoff_followers_end(struct handoff_loop *loop)
{
    static const struct handoff_pulled over = {.error = {.code = HANDOFF_OK}};
    struct handoff_follower *next;
    for (struct handoff_follower *follower = TAILQ_FIRST(&loop->followers); follower;
         follower = next) {
        next = TAILQ_NEXT(follower, entry);
        if (!follower->asks) /* the others are told with the pollers */
            end_following(follower, &over);
    }
}
