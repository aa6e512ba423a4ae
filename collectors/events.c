/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the handoff client does and is, as metrics. Its events go to the measures
 * (measures.h), and to series that were resolved beforehand, so that an event costs a lookup and
 * atomics; its sizes are read when a scrape begins.
 *
 * Events on any thread; sizes on the thread that scrapes.
 */
#include "collectors/collectors.h"
#include "collectors/measures.h"
#include "collectors/rows.h"
#include "lib/base/check.h"

static const char *const cache_outcomes[COLLECTORS_CACHE_OUTCOMES] = {"hit", "miss"};
enum outcome { OUTCOME_OK, OUTCOME_REFUSED, OUTCOME_FAILED };
static const char *const outcomes[COLLECTORS_OUTCOMES] = {"ok", "refused", "failed"};
static const char *const observations[COLLECTORS_OBSERVATIONS] = {"accepted", "repeated",
                                                                  "rejected"};

static void init_secrets(struct collectors *collectors)
{
    for (int kind = HANDOFF_SECRET_NONE + 1; kind < HANDOFF_SECRET_COUNT; kind++) {
        for (int place = 0; place < HANDOFF_SECRET_PLACE_COUNT; place++) {
            const char *const values[] = {
                handoff_secret_name((enum handoff_secret)kind),
                handoff_secret_place_name((enum handoff_secret_place)place)};
            collectors->secrets[kind][place] =
                metric_resolve(collectors->families[COLLECTORS_SECRETS], values);
        }
    }
}

void collectors_client_init(struct collectors *collectors)
{
    struct metric_family *spine = collectors->families[COLLECTORS_SPINE_DURATION];
    collectors_latency_init(collectors);
    collectors_hops_init(collectors);
    collectors_retention_init(collectors);
    for (int i = 0; i < COLLECTORS_OBSERVATIONS; i++)
        collectors->observations[i] = metric_resolve(collectors->families[COLLECTORS_OBSERVED],
                                                     (const char *const[]){observations[i]});
    for (int i = HANDOFF_SHORTAGE_NONE + 1; i < HANDOFF_SHORTAGE_COUNT; i++) {
        const char *resource = handoff_shortage_name((enum handoff_shortage)i);
        collectors->shortages[i] = metric_resolve(collectors->families[COLLECTORS_SHORTAGES],
                                                  (const char *const[]){resource});
    }
    init_secrets(collectors);
    for (int i = 0; i < COLLECTORS_CACHE_OUTCOMES; i++)
        collectors->spine_cache[i] = metric_resolve(collectors->families[COLLECTORS_SPINE_CACHE],
                                                    (const char *const[]){cache_outcomes[i]});
    for (int i = 0; i < HANDOFF_ACTION_COUNT; i++) {
        const char *action = handoff_action_name((enum handoff_action)i);
        collectors->decisions[i] = metric_resolve(collectors->families[COLLECTORS_DECISIONS],
                                                  (const char *const[]){action});
    }
    for (int i = 0; i < HANDOFF_OPERATION_COUNT; i++) {
        const char *operation = handoff_operation_name((enum handoff_operation)i);
        for (int o = 0; o < COLLECTORS_OUTCOMES; o++)
            collectors->spine[i][o] =
                metric_resolve(spine, (const char *const[]){operation, outcomes[o]});
    }
}

static enum outcome outcome_label(const struct handoff_event *event)
{
    if (event->of.spine.failed)
        return OUTCOME_FAILED;
    return event->code == HANDOFF_OK ? OUTCOME_OK : OUTCOME_REFUSED;
}

static double event_seconds(int64_t nanoseconds)
{
    return (double)nanoseconds / 1e9;
}

static void observe_spine(struct collectors *collectors, const struct handoff_event *event)
{
    const struct handoff_spine_asked *asked = &event->of.spine;
    metric_observe(collectors->spine[asked->operation][outcome_label(event)],
                   event_seconds(asked->duration_ns));
    if (asked->cut)
        metric_add(collectors->single[COLLECTORS_SEARCHES_CUT], 1);
}

static void observe_cache(struct collectors *collectors, const struct handoff_event *event)
{
    const struct handoff_spine_cache_used *cache = &event->of.spine_cache;
    metric_add(collectors->spine_cache[COLLECTORS_CACHE_HIT], cache->used);
    metric_add(collectors->spine_cache[COLLECTORS_CACHE_MISS], cache->lacking);
    if (cache->used > 0)
        metric_observe(collectors->single[COLLECTORS_SPINE_CACHE_AGE],
                       event_seconds(cache->oldest_ns));
}

static void observe_commit(struct collectors *collectors, const struct handoff_event *event)
{
    metric_observe(collectors->single[COLLECTORS_STORE_COMMIT_DURATION],
                   event_seconds(event->of.committed.duration_ns));
    if (event->code != HANDOFF_OK)
        metric_add(collectors->single[COLLECTORS_STORE_COMMITS_FAILED], 1);
}

static void observe_assembled(struct collectors *collectors, const struct handoff_event *event)
{
    if (event->of.assembled.envelope_only)
        return;
    collectors_latency_assembled(collectors, event);
    collectors_completeness_assembled(collectors, event);
    collectors_tokens_assembled(collectors, event);
    collectors_hops_assembled(collectors, event);
    collectors_reliability_ended(collectors, event);
}

/* What was told of a handoff counts as if it had been one of ours; what was not told, not at all.
 */
static void observe_observed(struct collectors *collectors, const struct handoff_event *event)
{
    enum collectors_observation result = event->code != HANDOFF_OK     ? COLLECTORS_REJECTED
                                         : event->of.observed.repeated ? COLLECTORS_REPEATED
                                                                       : COLLECTORS_ACCEPTED;
    metric_add(collectors->observations[result], 1);
    if (result != COLLECTORS_ACCEPTED)
        return;
    collectors_latency_observed(collectors, event);
    collectors_completeness_observed(collectors, event);
    collectors_tokens_observed(collectors, event);
    collectors_hops_observed(collectors, event);
    collectors_reliability_observed(collectors, event);
}

void collectors_observe(void *observer, const struct handoff_event *event)
{
    struct collectors *collectors = observer;
    BASE_CHECK(collectors->magic == COLLECTORS_MAGIC);
    switch (event->kind) {
    case HANDOFF_EVENT_ASSEMBLED:
        observe_assembled(collectors, event);
        break;
    case HANDOFF_EVENT_COMMITTED:
        observe_commit(collectors, event);
        break;
    case HANDOFF_EVENT_SPINE:
        observe_spine(collectors, event);
        break;
    case HANDOFF_EVENT_SPINE_CACHE:
        observe_cache(collectors, event);
        break;
    case HANDOFF_EVENT_MOVED:
        collectors_latency_moved(collectors, event);
        collectors_reliability_moved(collectors, event);
        collectors_channels_moved(collectors, event);
        break;
    case HANDOFF_EVENT_REJECTED:
        collectors_reliability_ended(collectors, event);
        break;
    case HANDOFF_EVENT_CIRCUIT:
        collectors_reliability_circuit(collectors, event);
        break;
    case HANDOFF_EVENT_OBSERVED:
        observe_observed(collectors, event);
        break;
    case HANDOFF_EVENT_TASK_COMPLETED:
        collectors_hops_completed(collectors, event);
        break;
    case HANDOFF_EVENT_SHORTAGE:
        metric_add(collectors->shortages[event->of.shortage.resource], 1);
        break;
    case HANDOFF_EVENT_SECRETS:
        metric_add(collectors->secrets[event->of.secrets.kind][event->of.secrets.place],
                   event->of.secrets.count);
        break;
    case HANDOFF_EVENT_DECIDED:
        metric_add(collectors->decisions[event->of.decided.action], 1);
        break;
    case HANDOFF_EVENT_RECOVERY:
        collectors_completeness_recovered(collectors, event);
        break;
    case HANDOFF_EVENT_STORE_DISPLACED: /* a gauge, read with the next scrape */
    case HANDOFF_EVENT_STORE_UPGRADING: /* only logged */
        break;
    }
}

void collectors_watch_client(struct collectors *collectors, struct handoff_client *client)
{
    BASE_CHECK(collectors->magic == COLLECTORS_MAGIC);
    collectors->client = client;
}

void collectors_client_read(void *arg)
{
    struct collectors *collectors = arg;
    struct handoff_stats stats;
    BASE_CHECK(collectors->magic == COLLECTORS_MAGIC);
    if (collectors->client == NULL)
        return;
    handoff_client_stats(collectors->client, &stats);
    prom_gauge_set(collectors->metrics[COLLECTORS_STORE_BYTES], (double)stats.store_bytes, NULL);
    prom_gauge_set(collectors->metrics[COLLECTORS_STORE_DISPLACED],
                   stats.store_displaced != NULL ? 1 : 0, NULL);
    prom_gauge_set(collectors->metrics[COLLECTORS_STORE_DISK_FREE], (double)stats.disk_free_bytes,
                   NULL);
    prom_gauge_set(collectors->metrics[COLLECTORS_STORE_DISK_SIZE], (double)stats.disk_bytes, NULL);
    prom_gauge_set(collectors->metrics[COLLECTORS_SPINE_UP], stats.spine_up ? 1 : 0, NULL);
    prom_gauge_set(collectors->metrics[COLLECTORS_SPINE_COMPLETE], stats.spine_complete ? 1 : 0,
                   NULL);
    prom_gauge_set(collectors->metrics[COLLECTORS_SPINE_CACHE_BYTES],
                   (double)stats.spine_cache_bytes, NULL);
    prom_gauge_set(collectors->metrics[COLLECTORS_TOKENIZER_EXACT], stats.exact_tokens ? 1 : 0,
                   NULL);
    prom_gauge_set(collectors->metrics[COLLECTORS_OLDEST_OPEN_TASK],
                   event_seconds(stats.oldest_open_task_ns), NULL);
    prom_gauge_set(collectors->metrics[COLLECTORS_TASK_STALLED_AFTER],
                   (double)stats.task_stalled_after_ms / 1e3, NULL);
    collectors_retention_read(collectors, &stats.retention);
}
