/* SPDX-License-Identifier: Apache-2.0 */
/* Pulls handoffs from an agent's inbox. On the loop's thread. */
#include "client/calls/pull.h"

#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum { PULL_MAGIC = 0x70756c6c, GIVING_BACK_MAGIC = 0x62616b21 };

struct handoff_puller {
    unsigned magic;
    struct handoff_loop *loop;
    bool (*pulled)(void *context, const struct handoff_pulled *got);
    void *context;
    struct handoff_poller_request request;
};

/* An undelivered lease that is being returned. */
struct giving_back {
    unsigned magic;
    struct handoff_loop *loop;
    struct handoff_reply reply;
};

/* The handoff is offered again; or it has ended meanwhile, which is fine too. */
static void given_back(struct handoff_reply *reply)
{
    struct giving_back *back = BASE_CONTAINER_OF(reply, struct giving_back, reply);
    BASE_CHECK_MAGIC(back, GIVING_BACK_MAGIC);
    back->loop->pending--;
    back->magic = 0;
    base_free(back);
}

void handoff_give_back(struct handoff_loop *loop, const struct base_uuid *id, uint32_t attempt)
{
    struct giving_back *back = base_calloc(1, sizeof *back);
    if (!back)
        return;
    back->magic = GIVING_BACK_MAGIC;
    back->loop = loop;
    back->reply.lane = loop->lane;
    back->reply.told = given_back;
    back->reply.id = *id;
    back->reply.word = HANDOFF_WORD_RETURN;
    back->reply.attempt = attempt;
    loop->pending++;
    handoff_engine_reply(loop->client->engine, &back->reply);
}

void handoff_pulled_fill(struct handoff_pulled *got, const struct handoff_poller_request *request)
{
    *got = (struct handoff_pulled){.envelope = request->envelope,
                                   .size = request->envelope_size,
                                   .rendering = request->rendering,
                                   .attempt = request->attempt,
                                   .lease_ms = request->lease_ms};
    handoff_error_clear(&got->error);
    if (!got->envelope)
        return;
    base_uuid_format(&request->id, got->id);
    got->task_id = request->chain[HANDOFF_CHAIN_TASK];
    got->root_id = request->chain[HANDOFF_CHAIN_ROOT];
    got->previous_id = request->chain[HANDOFF_CHAIN_PREVIOUS];
}

static void pull_told(struct handoff_poller_request *request)
{
    struct handoff_puller *pull = BASE_CONTAINER_OF(request, struct handoff_puller, request);
    BASE_CHECK_MAGIC(pull, PULL_MAGIC);
    struct handoff_pulled got;
    handoff_pulled_fill(&got, request);
    bool taken = pull->pulled(pull->context, &got);
    if (got.envelope && !taken)
        handoff_give_back(pull->loop, &request->id, request->attempt);
    base_free(request->envelope);
    pull->loop->pending--;
    pull->magic = 0;
    base_free(pull);
}

enum handoff_code handoff_check_pulls(struct handoff_agents *agents, struct handoff_agent *agent,
                                      const char *name, struct handoff_error *error)
{
    struct handoff_settings *settings = agent ? handoff_agent_settings(agent) : NULL;
    const bool pulls = settings && settings->protocol->pulls;
    handoff_settings_release(&settings);
    if (!agent)
        return handoff_agents_refuse_unknown(agents, base_span_text(name), "name", error);
    if (pulls)
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_INVALID,
                      "the agent has a url, so its handoffs are sent there and its inbox has none",
                      "name", name);
    handoff_error_allow(error, "an agent without a url");
    return error->code;
}

struct handoff_puller *handoff_pull(struct handoff_loop *loop, const char *name, int64_t wait_ms,
                                    bool (*pulled)(void *context, const struct handoff_pulled *got),
                                    void *context)
{
    struct handoff_pulled refusal = {0};
    struct handoff_agent *agent = handoff_agents_find(loop->client->agents, base_span_text(name));
    struct handoff_puller *pull = NULL;
    if (handoff_check_pulls(loop->client->agents, agent, name, &refusal.error) == HANDOFF_OK) {
        pull = base_calloc(1, sizeof *pull);
        if (!pull)
            handoff_error_no_memory(&refusal.error);
    }
    if (!pull) {
        pulled(context, &refusal);
        return NULL;
    }
    pull->magic = PULL_MAGIC;
    pull->loop = loop;
    pull->pulled = pulled;
    pull->context = context;
    pull->request.lane = loop->lane;
    pull->request.agent = agent;
    pull->request.told = pull_told;
    loop->pending++;
    handoff_inbox_poll(&pull->request, wait_ms);
    return pull;
}

void handoff_pull_withdraw(struct handoff_puller *pull)
{
    BASE_CHECK_MAGIC(pull, PULL_MAGIC);
    handoff_inbox_withdraw(&pull->request);
}
