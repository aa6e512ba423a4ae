/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failures.h - the last failures, remembered for the status page.
 *
 * A ring in memory, fed by the client's events. It holds what a person needs to look further (when,
 * which agent, how it ended, in whose words) and nothing of what was handed over.
 */
#ifndef EXPORTER_STATUS_FAILURES_H
#define EXPORTER_STATUS_FAILURES_H

#include <stddef.h>
#include <stdint.h>

#include "client/handoff.h"

enum {
    EXPORTER_FAILURES_KEPT = 20,
    EXPORTER_FAILURE_WORDS_MAX = 240, /* more than a nack's reason may have */
};

/* One failure, or several of one kind. Texts are valid UTF-8 without control characters; they come
 * from outside, so they must be escaped when shown. */
struct exporter_failure {
    int64_t at_ms;                /* the last time; wall clock */
    uint64_t times;               /* since it was first remembered */
    char id[40];                  /* of the handoff, the last one; "": it was not accepted */
    char source[136];             /* the agent that handed off; "": unknown */
    char target[136];             /* "": it is about no agent */
    enum handoff_outcome outcome; /* NONE: it could not be stored */
    unsigned attempts;
    int status; /* what the agent answered last; 0: nothing, or it was no attempt */
    char words[EXPORTER_FAILURE_WORDS_MAX];
};

/* The outcome's name, or "not_stored"; static. */
const char *exporter_failure_name(const struct exporter_failure *failure);

struct exporter_failures;

/* NULL: out of memory. */
struct exporter_failures *exporter_failures_new(void);
void exporter_failures_free(struct exporter_failures **freeing);

/* Remembers the event if it is a failure. Any thread, no allocation; the lock in it is
 * held for the copy of one entry, or of all of them by a page. */
void exporter_failures_note(struct exporter_failures *failures, const struct handoff_event *event);

/* Copies what is remembered, the latest first; answers how many there are, and sets *total to the
 * number of failures since the start. Any thread. */
size_t exporter_failures_read(struct exporter_failures *failures,
                              struct exporter_failure entries[EXPORTER_FAILURES_KEPT],
                              uint64_t *total);

#endif
