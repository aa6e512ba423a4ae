/* SPDX-License-Identifier: Apache-2.0 */
/* Telling the observer what the spine and the store did. On the thread on which it happened: any
   loop's, or the store's writer. What deliveries do is told by deliver/notify.c. */
#include <string.h>

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
    const struct handoff_event event = {
        .kind = HANDOFF_EVENT_SPINE,
        .code = call->error.code,
        .of.spine = {.operation = operation,
                     .failed = health == HANDOFF_SPINE_FAILED,
                     .cut = call->cut,
                     .why = health == HANDOFF_SPINE_FAILED ? handoff_spine_why(call) : NULL,
                     .duration_ns = duration_ns}};
    if (health == HANDOFF_SPINE_UNTRIED)
        return;
    if (health == HANDOFF_SPINE_ANSWERED)
        atomic_store(&client->spine_failures, 0);
    else
        atomic_fetch_add(&client->spine_failures, 1);
    handoff_client_tell(client, &event);
}

void handoff_client_tell_copies(void *observer, size_t used, size_t lacking, int64_t oldest_ns)
{
    const struct handoff_client *client = observer;
    const struct handoff_event event = {
        .kind = HANDOFF_EVENT_SPINE_CACHE,
        .of.spine_cache = {.used = used, .lacking = lacking, .oldest_ns = oldest_ns}};
    handoff_client_tell(client, &event);
}

static void tell_secret(const struct handoff_client *client, int kind, int place, unsigned count)
{
    const struct handoff_event event = {.kind = HANDOFF_EVENT_SECRETS,
                                        .of.secrets = {.kind = (enum handoff_secret)kind,
                                                       .place = (enum handoff_secret_place)place,
                                                       .count = count}};
    if (count > 0)
        handoff_client_tell(client, &event);
}

void handoff_client_tell_secrets(const struct handoff_client *client,
                                 const struct handoff_secrets *secrets)
{
    if (secrets->total == 0)
        return;
    for (int kind = 0; kind < HANDOFF_SECRET_COUNT; kind++) {
        for (int place = 0; place < HANDOFF_SECRET_PLACE_COUNT; place++)
            tell_secret(client, kind, place, secrets->found[kind][place]);
    }
}

void handoff_client_copy_reason(const struct handoff_client *client, char *to, size_t size,
                                const char *reason)
{
    handoff_secret_set kinds =
        handoff_secrets_cut(to, size, reason ? reason : "", reason ? strlen(reason) : 0);
    for (int kind = 0; kinds != 0; kind++, kinds >>= 1)
        tell_secret(client, kind, HANDOFF_SECRET_PLACE_REASON, kinds & 1);
}

/* On the store's writer thread. */
void handoff_client_tell_commit(void *observer, const struct handoff_store_commit *commit)
{
    const struct handoff_client *client = observer;
    const struct handoff_event event = {.kind = HANDOFF_EVENT_COMMITTED,
                                        .code = commit->code,
                                        .of.committed = {.duration_ns = commit->duration_ns,
                                                         .jobs = commit->jobs,
                                                         .turned = commit->turned,
                                                         .probe = commit->probe}};
    handoff_client_tell(client, &event);
}

void handoff_client_tell_shortage(void *observer, enum handoff_shortage resource,
                                  const char *hindered)
{
    const struct handoff_client *client = observer;
    const struct handoff_event event = {
        .kind = HANDOFF_EVENT_SHORTAGE,
        .of.shortage = {.resource = resource, .hindered = hindered}};
    handoff_client_tell(client, &event);
}

void handoff_client_tell_upgrade(void *observer, int from, int to, int64_t bytes)
{
    const struct handoff_client *client = observer;
    const struct handoff_event event = {.kind = HANDOFF_EVENT_STORE_UPGRADING,
                                        .of.upgrading = {.from = from, .to = to, .bytes = bytes}};
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
