/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h - delivery: a handoff that was accepted is acknowledged, or parked.
 *
 *     accept ─▶ READY ─▶ IN_FLIGHT ─▶ ACKNOWLEDGED
 *                 ▲          │  │
 *                 └─ retry ──┘  ├─▶ AWAITING_ACK ─▶ ...
 *                               └─▶ PARKED, EXPIRED              (all moves: handoff_model.def)
 *
 * Told means durable: what a sender, an agent or an operator is answered was committed before. The
 * envelope and its standing before the first attempt and the 202, the end before the sender is told
 * of it, and what an agent says by the API before that is confirmed. That an attempt is out is in
 * memory alone, since after a crash it is repeated either way.
 *
 * Threads: the engine's own state is the table of live handoffs and some counts. Everything else
 * belongs to a lane or to an agent (agents.h).
 */
#ifndef HANDOFF_DELIVER_ENGINE_H
#define HANDOFF_DELIVER_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/agents/agents.h"
#include "client/agents/circuit.h"
#include "client/deliver/lane.h"
#include "client/deliver/live_index.h"
#include "client/envelope/excerpt.h"
#include "client/envelope/inheritance.h"
#include "client/handoff.h"
#include "client/store/handoffs.h"
#include "lib/base/clock.h"
#include "lib/base/random.h"
#include "lib/base/uuid.h"

struct handoff_engine;

struct handoff_engine_options {
    struct handoff_store *store;
    struct handoff_agents *agents;
    const struct base_clock *clock;
    const struct base_random *random;
    unsigned connections_max; /* to agents, at once; 0: any number */
    /* Told of what happens, on the thread on which it happens, between two steps of delivery, so it
       must be quick and may not block. NULL: there is none. */
    void (*observe)(void *observer, const struct handoff_event *event);
    void *observer;
};

enum handoff_code handoff_engine_new(struct handoff_engine **engine,
                                     const struct handoff_engine_options *options,
                                     struct handoff_error *error) HANDOFF_MUST_CHECK;
/* All lanes are gone. */
void handoff_engine_free(struct handoff_engine **engine);

/* Breakers, and what is parked, as the store remembers them. Before the first lane. */
enum handoff_code handoff_engine_restore(struct handoff_engine *engine,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Takes up what was live when the last process ended, spread over the lanes. Once, before the lanes
   run. */
enum handoff_code handoff_engine_resume(struct handoff_engine *engine, struct handoff_lane **lanes,
                                        size_t count,
                                        struct handoff_error *error) HANDOFF_MUST_CHECK;

/* How many handoffs may be in live states, in all and of one agent; 0: any number, which is so
   until it is said. What is beyond a new limit goes on. Any thread. */
void handoff_engine_limit(struct handoff_engine *engine, unsigned all, unsigned per_agent);

/* No new handoffs from now on; those that live go on. Any thread. */
void handoff_engine_drain(struct handoff_engine *engine);
/* A drain that also begins no attempt. Each lane learns of it when it runs next: it answers the
   waiters of handoffs that have no attempt out. Any thread. */
void handoff_engine_wind_down(struct handoff_engine *engine);
/* Any thread. */
bool handoff_engine_is_draining(const struct handoff_engine *engine);
/* Which handoffs are in memory, for those who ask from other threads. */
struct handoff_live *handoff_engine_live(struct handoff_engine *engine);
/* Handoffs in live states. Any thread. */
unsigned handoff_engine_in_flight(const struct handoff_engine *engine);
/* Of these, those with an attempt out: what the end waits for. Any thread. */
unsigned handoff_engine_attempting(const struct handoff_engine *engine);

/* The id of a trace, out of a traceparent, which it lends from; absent where that has none. */
struct base_span handoff_trace_id(struct base_span traceparent);
/* "" for an absent one. */
void handoff_copy_trace_id(char to[33], struct base_span trace_id);

/* ---- handing over --------------------------------------------------------------------------- */

/* An assembled envelope on its way in. Everything is copied. */
struct handoff_submission {
    struct base_uuid id;
    struct base_span envelope;
    uint8_t digest[BASE_SHA256_BYTES];
    uint32_t cut_at, cut_size; /* where the envelope names its digest */
    struct handoff_excerpt excerpt;
    struct handoff_inheritance inheritance;
    struct base_span task_id, source, target;
    enum handoff_pattern pattern;
    int64_t created_ms;
    int64_t deadline_ms; /* wall clock; 0: none */
    uint64_t tokens;     /* an alternate with a smaller budget is passed over */
    struct base_span traceparent, tracestate;
    struct base_span idempotency_key; /* absent: none */
    uint8_t request_digest[BASE_SHA256_BYTES];
};

/* What is known of a handoff without its envelope. */
struct handoff_label {
    char id[BASE_UUID_TEXT];
    enum handoff_pattern pattern;
    struct base_span source, task_id;
    int64_t created_ms;
};

/* How it stands with a handoff, as the sender is told. */
struct handoff_status {
    struct handoff_label label;
    struct base_span envelope; /* as it was assembled; empty where it cannot be read any more */
    struct base_span excerpt;  /* of the envelope (excerpt.h); absent: look into the envelope */
    enum handoff_state state;
    const char *target;
    enum handoff_reason reason; /* why it was parked */
    const char *words;          /* where the reason is OTHER: what it was, else "" */
    uint32_t attempts;
    int64_t settled_ms; /* 0: it goes on */
    /* of the store, where what came of it could not be written; then the rest is as before */
    struct handoff_error error;
};

/* Why it was parked, or what was said when it was discarded; "" for neither. */
static inline const char *handoff_status_reason(const struct handoff_status *status)
{
    return status->reason == HANDOFF_REASON_OTHER ? status->words
                                                  : handoff_reason_name(status->reason);
}

/* Puts in what memory knows better than the row. */
void handoff_status_overlay(struct handoff_status *status, const struct handoff_live_view *view);

/* Who wants to know. Embedded in its owner, who keeps it until `settled` was called, or until it
   withdrew it. Told on the lane's thread, and never from within the call that handed it over. */
struct handoff_waiter {
    /* Of a decision (decide.h) alone: whether it can be carried out. Where not, it is the last
       call. */
    void (*decided)(struct handoff_waiter *waiter, const struct handoff_error *error);
    /* It is durable; of a replay, or that could not be written. May be NULL. */
    void (*accepted)(struct handoff_waiter *waiter, const struct handoff_status *status);
    /* Acknowledged, parked or expired, and that is durable; or the error says why it was not
       accepted, or what kept it from being written. The last call. */
    void (*settled)(struct handoff_waiter *waiter, const struct handoff_status *status);
    struct handoff_delivery *delivery; /* the engine's */
};

/* Takes it in, on the lane's thread. OK: the waiter will be told. Otherwise nothing was stored:
   unknown_agent, circuit_open (error->needed: milliseconds until it is worth another try),
   too_many_in_flight, shutting_down, out_of_memory. The waiter may be NULL. */
enum handoff_code handoff_engine_deliver(struct handoff_lane *lane,
                                         const struct handoff_submission *submission,
                                         struct handoff_waiter *waiter,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

/* The sender no longer waits; the handoff goes on. On the lane's thread. */
void handoff_waiter_withdraw(struct handoff_waiter *waiter);

/* ---- the receiver's word, by the API --------------------------------------------------------- */

enum handoff_word {
    HANDOFF_WORD_ACK,
    HANDOFF_WORD_NACK_RETRY,
    HANDOFF_WORD_NACK_FINAL,
    HANDOFF_WORD_EXTEND, /* more time, for a lease or an announced acknowledgement */
    HANDOFF_WORD_RETURN, /* the poller left before it got what it had leased */
};

/* Embedded in its owner, who keeps it until `told`. */
struct handoff_reply {
    struct base_mail mail; /* the engine's, like the entry */
    STAILQ_ENTRY(handoff_reply) entry;
    struct handoff_lane *lane; /* of the caller; `told` is called there */
    void (*told)(struct handoff_reply *reply);
    struct base_uuid id;
    enum handoff_word word;
    char said[200];         /* the nack's reason, or "" */
    struct base_span agent; /* who speaks; absent: anybody. Lent until `told`. */
    uint32_t attempt;       /* of a return: which lease */

    /* answers: OK (also for a repeated acknowledgement): it is written; not_found, forbidden,
       conflict, shutting_down; the store's: it counts, but a crash now would undo it */
    struct handoff_error error;
    struct handoff_live_view view; /* what it came to, where OK; NONE: the store's row has it */

    /* the engine's */
    struct handoff_lane *owner;
    struct handoff_waiter waiter;
    struct handoff_store_read read;
    bool late; /* an acknowledgement of one that is parked */
};

STAILQ_HEAD(handoff_replies, handoff_reply);

void handoff_engine_reply(struct handoff_engine *engine, struct handoff_reply *reply);

/* Closes a breaker by hand, on the lane's thread. OK: `saved` is called when that is written.
   Otherwise it is not: unknown_agent, out_of_memory. */
enum handoff_code handoff_engine_reset(struct handoff_engine *engine, struct handoff_lane *lane,
                                       const char *name, handoff_circuit_saved *saved,
                                       void *context,
                                       struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
