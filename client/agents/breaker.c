/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The circuit breaker's state machine, see breaker.h. Pure: the caller holds the agent's lock and
 * passes the time.
 */
#include "client/agents/breaker.h"

/* The one place where the circuit changes. */
static bool turn(struct handoff_breaker *breaker, enum handoff_circuit circuit)
{
    bool changed = breaker->circuit != circuit;
    breaker->circuit = circuit;
    return changed;
}

static bool open_now(struct handoff_breaker *breaker, int64_t now_ms)
{
    breaker->open_until_ms = now_ms + breaker->cooldown_ms;
    breaker->opened = true;
    return turn(breaker, HANDOFF_CIRCUIT_OPEN);
}

enum handoff_admission handoff_breaker_admit(struct handoff_breaker *breaker, int64_t now_ms,
                                             int64_t *wait_ms)
{
    *wait_ms = 0;
    switch (breaker->circuit) {
    case HANDOFF_CIRCUIT_CLOSED:
        return HANDOFF_ADMIT;
    case HANDOFF_CIRCUIT_HALF_OPEN:
        return HANDOFF_ADMIT_LATER;
    case HANDOFF_CIRCUIT_OPEN:
        break;
    }
    if (handoff_breaker_is_open(breaker, now_ms, wait_ms))
        return HANDOFF_ADMIT_LATER;
    turn(breaker, HANDOFF_CIRCUIT_HALF_OPEN);
    return HANDOFF_ADMIT_PROBE;
}

bool handoff_breaker_is_open(const struct handoff_breaker *breaker, int64_t now_ms,
                             int64_t *wait_ms)
{
    *wait_ms = 0;
    if (breaker->circuit != HANDOFF_CIRCUIT_OPEN || now_ms >= breaker->open_until_ms)
        return false;
    *wait_ms = breaker->open_until_ms - now_ms;
    return true;
}

enum handoff_circuit handoff_breaker_shown(const struct handoff_breaker *breaker, int64_t now_ms)
{
    int64_t wait_ms;
    bool refuses = handoff_breaker_is_open(breaker, now_ms, &wait_ms);
    return breaker->circuit == HANDOFF_CIRCUIT_OPEN && !refuses ? HANDOFF_CIRCUIT_HALF_OPEN
                                                                : breaker->circuit;
}

bool handoff_breaker_answered(struct handoff_breaker *breaker)
{
    breaker->consecutive_failures = 0;
    breaker->closed = turn(breaker, HANDOFF_CIRCUIT_CLOSED);
    return breaker->closed;
}

bool handoff_breaker_took(struct handoff_breaker *breaker)
{
    /* an attempt from before it opened tells nothing new */
    return breaker->circuit == HANDOFF_CIRCUIT_HALF_OPEN && turn(breaker, HANDOFF_CIRCUIT_CLOSED);
}

bool handoff_breaker_probe_failed(struct handoff_breaker *breaker, int64_t now_ms)
{
    /* a reset by hand, or another handoff's answer, may have overtaken the probe */
    if (breaker->circuit != HANDOFF_CIRCUIT_HALF_OPEN)
        return false;
    return open_now(breaker, now_ms);
}

bool handoff_breaker_probe_abandoned(struct handoff_breaker *breaker, int64_t now_ms)
{
    if (breaker->circuit != HANDOFF_CIRCUIT_HALF_OPEN)
        return false;
    breaker->open_until_ms = now_ms;
    return turn(breaker, HANDOFF_CIRCUIT_OPEN);
}

bool handoff_breaker_exhausted(struct handoff_breaker *breaker, int64_t now_ms)
{
    if (breaker->consecutive_failures < UINT32_MAX)
        breaker->consecutive_failures++;
    if (breaker->circuit != HANDOFF_CIRCUIT_CLOSED || breaker->threshold == 0 ||
        breaker->consecutive_failures < breaker->threshold)
        return false;
    return open_now(breaker, now_ms);
}

bool handoff_breaker_reset(struct handoff_breaker *breaker)
{
    return handoff_breaker_answered(breaker);
}
