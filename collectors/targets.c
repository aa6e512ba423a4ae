/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of targets and the series of each, see targets.h. Lookups on any thread without a
 * lock; changes on any thread, one at a time.
 */
#include "collectors/targets.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "collectors/collectors.h"
#include "collectors/measures.h"
#include "collectors/rows.h"
#include "lib/base/check.h"

/* Open addressing, at most half full, so that a probe ends. */
struct collectors_table {
    struct collectors_table *previous;
    size_t mask;
    struct collectors_target *entries[];
};

/* ---- looking up ----------------------------------------------------------------------------- */

/* FNV-1a. The names in the table are the configuration's, so a client cannot make its runs long. */
static size_t hash_name(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return (size_t)(hash ^ hash >> 32);
}

static size_t target_slot(const struct collectors_table *table, const char *name)
{
    size_t i = hash_name(name) & table->mask;
    while (table->entries[i] != NULL && strcmp(table->entries[i]->name, name) != 0)
        i = (i + 1) & table->mask;
    return i;
}

struct collectors_target *collectors_target(const struct collectors_targets *targets,
                                            const char *name)
{
    const struct collectors_table *table =
        atomic_load_explicit(&targets->table, memory_order_acquire);
    struct collectors_target *target =
        name != NULL ? table->entries[target_slot(table, name)] : NULL;
    return target != NULL ? target : targets->other;
}

bool collectors_owns(const struct collectors_target *target, const struct metric_series *series)
{
    return strcmp(metric_label_value(series, 0), target->name) == 0;
}

/* ---- changing ------------------------------------------------------------------------------- */

/* NULL: out of memory. */
static struct collectors_table *table_new(size_t count)
{
    size_t size = 2;
    while (size < count * 2)
        size *= 2;
    struct collectors_table *table = calloc(1, sizeof *table + size * sizeof table->entries[0]);
    if (table != NULL)
        table->mask = size - 1;
    return table;
}

static void publish_table(struct collectors_targets *targets, struct collectors_table *table)
{
    table->previous = atomic_load_explicit(&targets->table, memory_order_relaxed);
    atomic_store_explicit(&targets->table, table, memory_order_release);
}

/* Once, before events can find it: what they read of a target never changes. */
static void resolve(struct collectors *collectors, struct collectors_target *target)
{
    collectors_latency_resolve(collectors, target);
    collectors_completeness_resolve(collectors, target);
    collectors_tokens_resolve(collectors, target);
    collectors_reliability_resolve(collectors, target);
    collectors_standing_resolve(collectors, target);
}

/* Without series yet. One that comes back is made anew, because events may still hold the old one;
 * its series are the same. NULL: out of memory. */
static struct collectors_target *make_target(struct collectors_targets *targets, const char *name)
{
    size_t size = strlen(name) + 1;
    struct collectors_target *target = calloc(1, sizeof *target + size);
    if (target == NULL)
        return NULL;
    memcpy(target->name, name, size);
    target->next = targets->all;
    targets->all = target;
    return target;
}

static bool fill_table(struct collectors_targets *targets, struct collectors_table *table,
                       const struct handoff_agent_options *agents, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *name = agents[i].name;
        struct collectors_target *target = collectors_target(targets, name);
        if (strcmp(name, handoff_reserved_name(HANDOFF_RESERVED_OTHER)) == 0)
            continue; /* is there anyway */
        if (target == targets->other)
            target = make_target(targets, name);
        if (target == NULL)
            return false;
        table->entries[target_slot(table, name)] = target;
    }
    return true;
}

static int compare_ended(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* Those whose agents are no longer named; in one walk, since there may be many. */
static void retire_ended(struct collectors *collectors)
{
    struct collectors_target *target;
    size_t count = 0, at = 0;
    for (target = collectors->targets.all; target; target = target->next)
        count += target->ended;
    const char **names = count > 0 ? calloc(count, sizeof *names) : NULL;
    for (target = collectors->targets.all; target; target = target->next) {
        if (target->ended && names != NULL)
            names[at++] = target->name;
        else if (target->ended)
            metric_retire(collectors->registry, "target_agent", target->name);
        target->ended = false;
    }
    if (names != NULL) {
        qsort(names, count, sizeof *names, compare_ended);
        metric_retire_all(collectors->registry, "target_agent", names, count);
    }
    free(names);
}

/* Under the lock. Series begin before events can find them, and end after none can. */
static void replace_table(struct collectors *collectors, struct collectors_table *table)
{
    struct collectors_targets *targets = &collectors->targets;
    for (size_t i = 0; i <= table->mask; i++) {
        if (table->entries[i] != NULL && !table->entries[i]->configured)
            resolve(collectors, table->entries[i]);
    }
    publish_table(targets, table);
    for (struct collectors_target *target = targets->all; target; target = target->next) {
        bool stays = collectors_target(targets, target->name) == target;
        target->ended = target->configured && !stays;
        target->configured = stays;
    }
    retire_ended(collectors);
}

bool collectors_configure(struct collectors *collectors, const struct handoff_agent_options *agents,
                          size_t count)
{
    BASE_CHECK(collectors->magic == COLLECTORS_MAGIC);
    struct collectors_table *table = table_new(count);
    if (table == NULL)
        return false;
    pthread_mutex_lock(&collectors->targets.lock);
    bool filled = fill_table(&collectors->targets, table, agents, count);
    if (filled)
        replace_table(collectors, table);
    else
        free(table);
    pthread_mutex_unlock(&collectors->targets.lock);
    return filled;
}

/* ---- beginning and end ---------------------------------------------------------------------- */

bool collectors_targets_init(struct collectors *collectors)
{
    struct collectors_targets *targets = &collectors->targets;
    struct collectors_table *table = table_new(0);
    if (table == NULL)
        return false;
    publish_table(targets, table);
    targets->other = make_target(targets, handoff_reserved_name(HANDOFF_RESERVED_OTHER));
    if (targets->other == NULL)
        return false;
    targets->other->configured = true;
    resolve(collectors, targets->other);
    return true;
}

void collectors_targets_free(struct collectors_targets *targets)
{
    struct collectors_table *table = atomic_load(&targets->table);
    while (table != NULL) {
        struct collectors_table *previous = table->previous;
        free(table);
        table = previous;
    }
    while (targets->all != NULL) {
        struct collectors_target *next = targets->all->next;
        free(targets->all);
        targets->all = next;
    }
    pthread_mutex_destroy(&targets->lock);
}
