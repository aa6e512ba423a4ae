/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the handoff client does and is, as metrics. Its events go to series that were resolved
 * beforehand, so that an event costs an atomic add; its sizes are read when a scrape begins.
 */
#include <string.h>

#include "collectors/check.h"
#include "collectors/collectors.h"
#include "collectors/rows.h"

static const char *const stages[COLLECTORS_STAGES] = {"resolve", "trim", "encode", "persist",
                                                      "attempt"};
static const char *const operations[COLLECTORS_OPERATIONS] = {"resolve", "search", "get",   "list",
                                                              "put",     "pin",    "delete"};
enum outcome { OUTCOME_OK, OUTCOME_REFUSED, OUTCOME_FAILED };
static const char *const outcomes[COLLECTORS_OUTCOMES] = {"ok", "refused", "failed"};

void collectors_client_init(struct collectors *collectors)
{
    struct metric_family *spine = collectors->families[COLLECTORS_SPINE_DURATION];
    struct metric_family *stage = collectors->families[COLLECTORS_STAGE_DURATION];
    for (int i = 0; i < COLLECTORS_STAGES; i++)
        collectors->stages[i] = metric_resolve(stage, (const char *const[]){stages[i]});
    for (int i = 0; i < COLLECTORS_OPERATIONS; i++) {
        for (int o = 0; o < COLLECTORS_OUTCOMES; o++)
            collectors->spine[i][o] =
                metric_resolve(spine, (const char *const[]){operations[i], outcomes[o]});
    }
}

static enum outcome outcome_of(enum handoff_code code)
{
    switch (handoff_code_class(code)) {
    case HANDOFF_CLASS_NONE:
        return OUTCOME_OK;
    case HANDOFF_CLASS_UNAVAILABLE:
    case HANDOFF_CLASS_TIMEOUT:
    case HANDOFF_CLASS_FAILED:
    case HANDOFF_CLASS_INTERNAL:
        return OUTCOME_FAILED;
    default:
        return OUTCOME_REFUSED;
    }
}

static double seconds(int64_t nanoseconds)
{
    return (double)nanoseconds / 1e9;
}

static void observe_spine(struct collectors *collectors, const struct handoff_event *event)
{
    for (int i = 0; i < COLLECTORS_OPERATIONS; i++) {
        if (strcmp(operations[i], event->operation) == 0)
            metric_observe(collectors->spine[i][outcome_of(event->code)],
                           seconds(event->duration_ns));
    }
}

/* A stage that was not reached took no time, which is not the same as 0 seconds. */
static void observe_stages(struct collectors *collectors, const struct handoff_event *event)
{
    const int64_t took[COLLECTORS_STAGE_ATTEMPT] = {event->resolve_ns, event->trim_ns,
                                                    event->encode_ns, event->persist_ns};
    for (int i = 0; i < COLLECTORS_STAGE_ATTEMPT; i++) {
        if (took[i] > 0)
            metric_observe(collectors->stages[i], seconds(took[i]));
    }
}

void collectors_observe(void *observer, const struct handoff_event *event)
{
    struct collectors *collectors = observer;
    METRIC_CHECK(collectors->magic == COLLECTORS_MAGIC);
    switch (event->kind) {
    case HANDOFF_EVENT_ASSEMBLED:
        observe_stages(collectors, event);
        break;
    case HANDOFF_EVENT_COMMITTED:
        metric_observe(collectors->single[COLLECTORS_STORE_COMMIT_DURATION],
                       seconds(event->duration_ns));
        if (event->code != HANDOFF_OK)
            metric_add(collectors->single[COLLECTORS_STORE_COMMITS_FAILED], 1);
        break;
    case HANDOFF_EVENT_SPINE:
        observe_spine(collectors, event);
        break;
    case HANDOFF_EVENT_MOVED:
        if (event->result)
            metric_observe(collectors->stages[COLLECTORS_STAGE_ATTEMPT],
                           seconds(event->attempt_ns));
        break;
    case HANDOFF_EVENT_REJECTED:
    case HANDOFF_EVENT_CIRCUIT:
        break;
    }
}

void collectors_watch_client(struct collectors *collectors, struct handoff_client *client)
{
    METRIC_CHECK(collectors->magic == COLLECTORS_MAGIC);
    collectors->client = client;
}

void collectors_client_read(void *arg)
{
    struct collectors *collectors = arg;
    struct handoff_stats stats;
    METRIC_CHECK(collectors->magic == COLLECTORS_MAGIC);
    if (collectors->client == NULL)
        return;
    handoff_client_stats(collectors->client, &stats);
    metric_gauge_set(collectors->single[COLLECTORS_STORE_BYTES], (double)stats.store_bytes);
    metric_gauge_set(collectors->single[COLLECTORS_SPINE_UP], stats.spine_up ? 1 : 0);
    metric_gauge_set(collectors->single[COLLECTORS_TOKENIZER_EXACT], stats.exact_tokens ? 1 : 0);
}
