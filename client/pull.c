/* SPDX-License-Identifier: Apache-2.0 */
/* Pulling handoffs from an agent's inbox. */
#include "client/base/check.h"
#include "client/base/error.h"
#include "client/base/memory.h"
#include "client/client.h"

enum { PULL_MAGIC = 0x70756c6c };

struct handoff_puller {
    unsigned magic;
    struct handoff_loop *loop;
    void (*pulled)(void *context, const struct handoff_pulled *got);
    void *context;
    struct handoff_poller_request request;
};

static void pull_told(struct handoff_poller_request *request)
{
    struct handoff_puller *pull =
        (void *)((char *)request - offsetof(struct handoff_puller, request));
    HANDOFF_CHECK_MAGIC(pull, PULL_MAGIC);
    struct handoff_pulled got = {.envelope = request->envelope,
                                 .size = request->envelope_size,
                                 .attempt = request->attempt,
                                 .lease_ms = request->lease_ms};
    handoff_error_clear(&got.error);
    if (got.envelope)
        handoff_uuid_format(&request->id, got.id);
    pull->pulled(pull->context, &got);
    handoff_free(request->envelope);
    pull->loop->pending--;
    pull->magic = 0;
    handoff_free(pull);
}

struct handoff_puller *handoff_pull(struct handoff_loop *loop, const char *name, int64_t wait_ms,
                                    void (*pulled)(void *context, const struct handoff_pulled *got),
                                    void *context)
{
    struct handoff_pulled refusal = {0};
    struct handoff_agent *agent =
        handoff_agents_find(loop->client->agents, handoff_span_text(name));
    struct handoff_puller *pull = agent ? handoff_calloc(1, sizeof *pull) : NULL;
    if (!pull) {
        if (agent)
            handoff_error_no_memory(&refusal.error);
        else
            handoff_error_set(&refusal.error, HANDOFF_ERR_UNKNOWN_AGENT,
                              "the configuration has no agent of this name", "name", name);
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
    HANDOFF_CHECK_MAGIC(pull, PULL_MAGIC);
    handoff_inbox_withdraw(&pull->request);
}
