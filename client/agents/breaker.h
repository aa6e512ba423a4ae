/* SPDX-License-Identifier: Apache-2.0 */
/*
 * breaker.h - stops sending to an agent that keeps failing, and finds out when it is back.
 *
 *            threshold exhausted in a row              cooldown over
 *   CLOSED ------------------------------> OPEN ------------------------> HALF_OPEN
 *      ^                                    ^                                |
 *      |                                    +--- the probe's attempt failed -+
 *      +-------------------- the probe was answered, or a reset by hand -----+
 *
 * One breaker for each agent, so that one that is down does not stop the others. What counts is a
 * handoff that used up all its attempts, or was rejected, not each attempt. Half open lets exactly
 * one attempt through, the probe; all others wait for what it finds.
 *
 * A pure state machine: it knows no thread and reads no clock. Its owner (agents.c) holds a lock
 * around each call and tells the time. Functions return what changed, so that the owner can tell
 * the world after it let go of the lock.
 */
#ifndef HANDOFF_AGENTS_BREAKER_H
#define HANDOFF_AGENTS_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#include "client/model/handoff_model.h"

struct handoff_breaker {
    enum handoff_circuit circuit;
    unsigned consecutive_failures; /* exhausted or rejected handoffs since the last final answer */
    int64_t open_until_ms;         /* while OPEN; on the clock of the caller's `now_ms` */
    bool opened; /* it opened with the last thing it was told, maybe not for the first time */
    bool closed; /* it was not, before the last thing it was told */
    unsigned threshold; /* 0: never opens */
    int64_t cooldown_ms;
};

enum handoff_admission {
    HANDOFF_ADMIT,       /* go ahead */
    HANDOFF_ADMIT_PROBE, /* go ahead, and report what this attempt finds as the probe's */
    HANDOFF_ADMIT_LATER, /* open, or a probe is out: not now */
};

/* May an attempt start? When not, *wait_ms says how long the cooldown still takes: 0 where only the
   probe's answer is waited for. An open circuit whose cooldown is over becomes half open here. */
enum handoff_admission handoff_breaker_admit(struct handoff_breaker *breaker, int64_t now_ms,
                                             int64_t *wait_ms);

/* Would an attempt be refused for good reason now? Changes nothing. */
bool handoff_breaker_is_open(const struct handoff_breaker *breaker, int64_t now_ms,
                             int64_t *wait_ms);

/* What there is to show: an open circuit whose cooldown is over refuses nothing any more, so it is
   half open, whether or not a probe is out. */
enum handoff_circuit handoff_breaker_shown(const struct handoff_breaker *breaker, int64_t now_ms);

/* The agent answered: it acknowledged, or refused with its own words. Each returns whether the
   circuit changed. */
bool handoff_breaker_answered(struct handoff_breaker *breaker);
/* It took a handoff and owes the acknowledgement: a probe has found it there, but the failures in a
   row stay, or an agent that takes everything and finishes nothing would never be cut off. */
bool handoff_breaker_took(struct handoff_breaker *breaker);
/* The probe's attempt failed. */
bool handoff_breaker_probe_failed(struct handoff_breaker *breaker, int64_t now_ms);
/* The probe ended without a finding (its handoff expired, or the process stops): the next may
 * probe. */
bool handoff_breaker_probe_abandoned(struct handoff_breaker *breaker, int64_t now_ms);
/* A handoff used up its attempts, or was rejected. */
bool handoff_breaker_exhausted(struct handoff_breaker *breaker, int64_t now_ms);
/* By hand: closed, nothing remembered. */
bool handoff_breaker_reset(struct handoff_breaker *breaker);

#endif
