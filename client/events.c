/* SPDX-License-Identifier: Apache-2.0 */
/* Telling the observer what the spine and the store did. On the thread on which it happened: any
   loop's, or the store's writer. What deliveries do is told by deliver/notify.c. */
#include "client/client.h"

void handoff_client_tell(const struct handoff_client *client, const struct handoff_event *event)
{
    if (client->observe)
        client->observe(client->observer, event);
}

void handoff_client_tell_spine(struct handoff_client *client, enum handoff_operation operation,
                               const struct handoff_spine_call *call, int64_t duration_ns)
{
    const enum handoff_spine_health health = handoff_spine_health(call);
    const struct handoff_event event = {.kind = HANDOFF_EVENT_SPINE,
                                        .code = call->error.code,
                                        .of.spine = {.operation = operation,
                                                     .failed = health == HANDOFF_SPINE_FAILED,
                                                     .duration_ns = duration_ns}};
    if (health == HANDOFF_SPINE_UNTRIED)
        return;
    atomic_store(&client->spine_up, health == HANDOFF_SPINE_ANSWERED);
    handoff_client_tell(client, &event);
}

/* On the store's writer thread. */
void handoff_client_tell_commit(void *observer, const struct handoff_store_commit *commit)
{
    const struct handoff_client *client = observer;
    const struct handoff_event event = {
        .kind = HANDOFF_EVENT_COMMITTED,
        .code = commit->failed ? HANDOFF_ERR_STORE_IO : HANDOFF_OK,
        .of.committed = {.duration_ns = commit->duration_ns, .jobs = commit->jobs}};
    handoff_client_tell(client, &event);
}

/* On the store's writer thread. */
void handoff_client_tell_displaced(void *observer, const char *path)
{
    const struct handoff_client *client = observer;
    const struct handoff_event event = {.kind = HANDOFF_EVENT_STORE_DISPLACED,
                                        .code = HANDOFF_ERR_STORE_DISPLACED,
                                        .of.displaced = {.path = path}};
    handoff_client_tell(client, &event);
}
