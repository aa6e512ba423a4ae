/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A receiving agent inside the program that embeds the client: it has no url, so it pulls from its
 * inbox. Here the program hands off to itself; a host with several threads gives each one a loop.
 *
 *     cc receive.c $(pkg-config --cflags --libs handoff) -o receive && ./receive
 */
#include <handoff.h>
#include <stdio.h>

struct agent {
    struct handoff_loop *loop;
    int served;
};

static void acknowledged(void *context, const struct handoff_result *result)
{
    struct agent *agent = context;
    agent->served += result->error.code == HANDOFF_OK;
}

/* Your agent: works on the envelope and reports the result. The lease is ack_timeout_ms. */
static bool pulled(void *context, const struct handoff_pulled *got)
{
    struct agent *agent = context;
    if (!got->envelope) /* nothing arrived in time */
        return false;
    printf("attempt %u: %.*s\n", got->attempt, (int)got->size, got->envelope);
    handoff_acknowledge(agent->loop, got->id, HANDOFF_ANSWER_ACK, NULL, "reviewer", acknowledged,
                        agent);
    return true; /* false would give it back */
}

static void sent(void *context, const struct handoff_result *result)
{
    fprintf(context, "%s: %.*s\n", handoff_code_name(result->error.code), (int)result->size,
            result->body ? result->body : "");
}

int main(void)
{
    static const char body[] = "{\"source_agent\": \"analyst\", \"target_agent\": \"reviewer\","
                               " \"task_summary\": \"Review the comparison\"}";
    const struct handoff_ask ask = {.body = body, .size = sizeof body - 1};
    const struct handoff_agent_options reviewer = handoff_agent_defaults("reviewer", NULL);
    const struct handoff_configuration configuration = {.agents = &reviewer, .nagents = 1};
    const struct handoff_options options = {.storage_path = "handoff-data"};
    struct handoff_client *client;
    struct handoff_error error;
    struct agent agent = {0};
    if (handoff_start(&client, &agent.loop, &options, &configuration, &error) != HANDOFF_OK)
        return 1;
    handoff_pull(agent.loop, "reviewer", 20000, pulled, &agent);
    handoff_send(agent.loop, &ask, sent, stderr); /* answered when it is acknowledged */
    while (handoff_loop_pending(agent.loop) > 0)
        handoff_loop_wait(agent.loop, -1);
    handoff_finish(&client, &agent.loop, 0);
    return agent.served == 1 ? 0 : 1;
}
