/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last failures, see failures.h.
 *
 * An agent that is down fails every handoff in the same way, and twenty lines of that would push
 * out the one line that is different. So what is alike in agent, outcome and words is one entry
 * that counts and moves to the front.
 *
 * Any thread: a lock protects the entries.
 */
#include "exporter/status/failures.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/check.h"
#include "lib/base/utf8.h"

enum { FAILURES_MAGIC = 0xfa117e5 };

struct exporter_failures {
    unsigned magic;
    pthread_mutex_t lock;
    /* under the lock; the latest first */
    struct exporter_failure entries[EXPORTER_FAILURES_KEPT];
    size_t count;
    uint64_t total;
};

struct exporter_failures *exporter_failures_new(void)
{
    struct exporter_failures *failures = calloc(1, sizeof *failures);
    if (failures == NULL)
        return NULL;
    failures->magic = FAILURES_MAGIC;
    pthread_mutex_init(&failures->lock, NULL);
    return failures;
}

void exporter_failures_free(struct exporter_failures **freeing)
{
    struct exporter_failures *failures = *freeing;
    if (failures == NULL)
        return;
    *freeing = NULL;
    BASE_CHECK_MAGIC(failures, FAILURES_MAGIC);
    pthread_mutex_destroy(&failures->lock);
    failures->magic = 0;
    free(failures);
}

/* ---- texts from outside --------------------------------------------------------------------- */

/* Would it move the cursor, or mean something to a terminal? C0, DEL and C1. */
static bool is_control(uint32_t character)
{
    return character < 0x20 || (character >= 0x7f && character <= 0x9f);
}

/* Copies as many whole characters as fit. What is not text becomes a question mark. */
static void copy_bounded(char *to, size_t size, const char *from)
{
    size_t used = 0;
    size_t left = from != NULL ? strlen(from) : 0;
    while (left > 0) {
        uint32_t character;
        const size_t length = base_utf8_next(from, left, &character);
        if (used + length >= size)
            break;
        if (character == BASE_UTF8_INVALID || is_control(character)) {
            to[used++] = character == BASE_UTF8_INVALID ? '?' : ' ';
        } else {
            memcpy(to + used, from, length);
            used += length;
        }
        from += length;
        left -= length;
    }
    to[used] = '\0';
}

/* ---- what counts as a failure --------------------------------------------------------------- */

static bool is_failure(enum handoff_outcome outcome)
{
    return outcome != HANDOFF_OUTCOME_NONE && outcome != HANDOFF_OUTCOME_ACKNOWLEDGED;
}

/* Whether it failed, and how. */
static bool ended_badly(const struct handoff_event *event, enum handoff_outcome *outcome)
{
    *outcome = HANDOFF_OUTCOME_NONE;
    switch (event->kind) {
    case HANDOFF_EVENT_MOVED:
        *outcome = event->of.moved.outcome;
        return is_failure(*outcome);
    case HANDOFF_EVENT_REJECTED:
        *outcome = HANDOFF_OUTCOME_CIRCUIT_OPEN;
        return true;
    case HANDOFF_EVENT_OBSERVED: /* refused ones are the reporter's fault, and it was told */
        *outcome = event->of.observed.outcome;
        return event->code == HANDOFF_OK && !event->of.observed.repeated && is_failure(*outcome);
    case HANDOFF_EVENT_ASSEMBLED:
        *outcome = HANDOFF_OUTCOME_HOP_LIMIT;
        return event->code == HANDOFF_ERR_HOP_LIMIT && !event->of.assembled.envelope_only;
    case HANDOFF_EVENT_COMMITTED:
        return event->code != HANDOFF_OK && !event->of.committed.probe;
    case HANDOFF_EVENT_SPINE:
    case HANDOFF_EVENT_CIRCUIT:
    case HANDOFF_EVENT_TASK_COMPLETED:
    case HANDOFF_EVENT_SHORTAGE:
    case HANDOFF_EVENT_SECRETS:
    case HANDOFF_EVENT_SPINE_CACHE:
    case HANDOFF_EVENT_DECIDED:
    case HANDOFF_EVENT_RECOVERY:
    case HANDOFF_EVENT_STORE_DISPLACED:
    case HANDOFF_EVENT_STORE_UPGRADING:
        break; /* no failures, or shown by how it stands */
    }
    return false;
}

static const char *words_of(const struct handoff_event *event)
{
    const char *said = event->kind == HANDOFF_EVENT_MOVED      ? event->of.moved.said
                       : event->kind == HANDOFF_EVENT_OBSERVED ? "as reported by its source"
                                                               : NULL;
    if (said != NULL && *said != '\0')
        return said;
    return event->code != HANDOFF_OK ? handoff_code_meaning(event->code) : "";
}

static void describe_failure(struct exporter_failure *entry, const struct handoff_event *event,
                             enum handoff_outcome outcome)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    entry->at_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    entry->times = 1;
    entry->outcome = outcome;
    entry->attempts = event->kind == HANDOFF_EVENT_MOVED ? event->of.moved.attempts : 0;
    entry->status = event->kind == HANDOFF_EVENT_MOVED ? event->of.moved.status : 0;
    copy_bounded(entry->id, sizeof entry->id, event->who.id);
    copy_bounded(entry->source, sizeof entry->source, event->who.source_agent);
    copy_bounded(entry->target, sizeof entry->target, event->who.target_agent);
    copy_bounded(entry->words, sizeof entry->words, words_of(event));
}

const char *exporter_failure_name(const struct exporter_failure *failure)
{
    return failure->outcome == HANDOFF_OUTCOME_NONE ? "not_stored"
                                                    : handoff_outcome_name(failure->outcome);
}

/* ---- the ring ------------------------------------------------------------------------------- */

static bool alike(const struct exporter_failure *a, const struct exporter_failure *b)
{
    return a->outcome == b->outcome && strcmp(a->target, b->target) == 0 &&
           strcmp(a->words, b->words) == 0;
}

static void put_first(struct exporter_failures *failures, struct exporter_failure *entry)
{
    size_t at = 0;
    while (at < failures->count && !alike(&failures->entries[at], entry))
        at++;
    if (at < failures->count)
        entry->times += failures->entries[at].times;
    else if (failures->count < EXPORTER_FAILURES_KEPT)
        failures->count++;
    else
        at--; /* the oldest goes */
    memmove(&failures->entries[1], &failures->entries[0], at * sizeof failures->entries[0]);
    failures->entries[0] = *entry;
}

void exporter_failures_note(struct exporter_failures *failures, const struct handoff_event *event)
{
    BASE_CHECK_MAGIC(failures, FAILURES_MAGIC);
    enum handoff_outcome outcome;
    if (!ended_badly(event, &outcome))
        return;
    struct exporter_failure entry;
    describe_failure(&entry, event, outcome);
    pthread_mutex_lock(&failures->lock);
    failures->total++;
    put_first(failures, &entry);
    pthread_mutex_unlock(&failures->lock);
}

size_t exporter_failures_read(struct exporter_failures *failures,
                              struct exporter_failure entries[EXPORTER_FAILURES_KEPT],
                              uint64_t *total)
{
    BASE_CHECK_MAGIC(failures, FAILURES_MAGIC);
    pthread_mutex_lock(&failures->lock);
    const size_t count = failures->count;
    memcpy(entries, failures->entries, count * sizeof entries[0]);
    *total = failures->total;
    pthread_mutex_unlock(&failures->lock);
    return count;
}
