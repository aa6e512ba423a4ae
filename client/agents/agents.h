/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agents.h - the agents that handoffs can be sent to: what is configured, and what was learnt.
 *
 * Two things lie under one name and live differently. The settings are a snapshot of the
 * configuration: immutable, counted, replaced as a whole by a reload, and kept by each user until
 * it is done. The agent itself stays for the life of the table, so that its breaker and its counts
 * survive a reload, and a handoff on its way to a removed agent is still counted.
 */
#ifndef HANDOFF_AGENTS_AGENTS_H
#define HANDOFF_AGENTS_AGENTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "client/agents/breaker.h"
#include "client/agents/parked.h"
#include "client/handoff.h"
#include "client/protocol/protocol.h"
#include "client/protocol/pull/inbox.h"
#include "lib/base/arena.h"
#include "lib/base/span.h"

/* Shared by counting; never changes. All strings lie in the arena. */
struct handoff_settings {
    _Atomic(unsigned) references;
    struct base_arena arena;
    struct handoff_agent_options options;
    const struct handoff_protocol *protocol; /* how handoffs reach it */
    const char *authorization;               /* "Authorization: Bearer ...", or NULL */
};

struct handoff_agent {
    unsigned magic;

    /* never change */
    const char *name;
    size_t name_size;

    _Atomic(bool) ordered; /* as the settings have it */

    /* lock: */
    pthread_mutex_t lock;
    struct handoff_settings *settings; /* NULL: no longer in the configuration */
    struct handoff_breaker breaker;
    unsigned in_flight;         /* handoffs on their way to it, in whatever live state */
    unsigned observed_failures; /* in a row, of handoffs that others made and told of */
    unsigned refusals;          /* in a row, since it last acknowledged; observed ones too */
    struct handoff_parked parked;

    /* of the visitor in snapshot.c, under its lock */
    int64_t oldest_live_ns; /* monotonic; INT64_MAX: none */

    struct handoff_inbox inbox; /* has its own lock */
};

struct handoff_agents;

enum handoff_code handoff_agents_new(struct handoff_agents **agents,
                                     struct handoff_error *error) HANDOFF_MUST_CHECK;
void handoff_agents_free(struct handoff_agents **agents);

/* Says what a host's options cannot be: invalid_request, with the field and the agent. */
enum handoff_code handoff_agent_options_check(const struct handoff_agent_options *options,
                                              size_t count,
                                              struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Applies the configuration: all of it or, on failure, nothing. The options were checked, and
   each name is there once. An agent that is no longer
   named keeps its place but cannot be found. */
enum handoff_code handoff_agents_configure(struct handoff_agents *agents,
                                           const struct handoff_agent_options *options,
                                           size_t count,
                                           struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Any thread. NULL where none of this name is configured. Valid as long as the table. */
struct handoff_agent *handoff_agents_find(struct handoff_agents *agents, struct base_span name);

/* unknown_agent; `field` is where the request names the agent. */
enum handoff_code handoff_agents_refuse_unknown(struct handoff_agents *agents,
                                                struct base_span name, const char *field,
                                                struct handoff_error *error);

/* For a filter, `target`, that finds nothing; NULL: there is none. unknown_agent: no agent of this
   name is configured, or was, with handoffs that are live or parked. Any thread. */
enum handoff_code handoff_agents_check_filter(struct handoff_agents *agents, const char *target,
                                              struct handoff_error *error);

/* As handoff_agents_find, but also one that was configured once: for handoffs that a restart finds.
   It is made, without settings, where it is new. NULL: out of memory. */
struct handoff_agent *handoff_agents_remember(struct handoff_agents *agents, struct base_span name);

/* Calls `visit` for every agent, configured or not, by name. No lock is held during a call. */
void handoff_agents_each(struct handoff_agents *agents,
                         void (*visit)(struct handoff_agent *agent, void *arg), void *arg);

/* Whether `source` may hand off to an agent with these options. Any thread. */
bool handoff_agent_takes_from(const struct handoff_agent_options *options, struct base_span source);

/* Events of the breaker. */
enum handoff_breaker_event {
    HANDOFF_BREAKER_ANSWERED,        /* it acknowledged: it is there, and works */
    HANDOFF_BREAKER_REFUSED,         /* as far as the circuit goes, the same */
    HANDOFF_BREAKER_DEFERRED,        /* it will acknowledge later, it says */
    HANDOFF_BREAKER_PROBE_FAILED,    /* the probe's attempt failed */
    HANDOFF_BREAKER_PROBE_ABANDONED, /* the probe found nothing out */
    HANDOFF_BREAKER_EXHAUSTED,       /* a handoff used up its attempts, or was rejected */
    HANDOFF_BREAKER_RESET,           /* by hand */
};

/* Reports an event to the breaker; any thread. true: the circuit or the count of failures changed,
   and *after is the breaker as it is now. */
bool handoff_agent_learn(struct handoff_agent *agent, enum handoff_breaker_event event,
                         int64_t now_ms, struct handoff_breaker *after);
/* May an attempt start? As handoff_breaker_admit; any thread. *after is filled where the circuit
   went from open to half open, which is when the answer is HANDOFF_ADMIT_PROBE. */
enum handoff_admission handoff_agent_admit(struct handoff_agent *agent, int64_t now_ms,
                                           int64_t *wait_ms, struct handoff_breaker *after);
/* Is the circuit open now, and for how long? Any thread; changes nothing. */
bool handoff_agent_is_open(struct handoff_agent *agent, int64_t now_ms, int64_t *wait_ms);
/* An agent reported how its own handoff to this agent ended. The breaker ignores it. Any
   thread. */
void handoff_agent_note_observed(struct handoff_agent *agent, enum handoff_outcome outcome);

/* The current settings, to be given back; NULL if the agent is no longer configured. Any
   thread. */
struct handoff_settings *handoff_agent_settings(struct handoff_agent *agent);
/* Gives it back and sets *settings to NULL; harmless on NULL. */
void handoff_settings_release(struct handoff_settings **settings);

#endif
