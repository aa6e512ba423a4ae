/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h - delivery: every accepted handoff ends up acknowledged, parked or expired.
 *
 *     accept ─▶ READY ─▶ IN_FLIGHT ─▶ ACKNOWLEDGED
 *                 ▲          │  │
 *                 └─ retry ──┘  ├─▶ AWAITING_ACK ─▶ ...
 *                               └─▶ PARKED, EXPIRED              (all moves: handoff_model.def)
 *
 * An answer is durable: whatever a sender, an agent or an operator is told was committed first. The
 * envelope and its standing, before the first attempt and the 202; the outcome, before the sender
 * hears of it; an agent's API call, before it is confirmed. An outstanding attempt is known only in
 * memory, since after a crash it is repeated anyway.
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
#include "client/channels/feeds.h"
#include "client/deliver/lane.h"
#include "client/deliver/live_index.h"
#include "client/envelope/excerpt.h"
#include "client/handoff.h"
#include "client/store/handoffs.h"
#include "lib/base/clock.h"
#include "lib/base/random.h"
#include "lib/base/uuid.h"

struct handoff_engine;
struct handoff_hand_on;
struct handoff_shared_envelope;

struct handoff_engine_options {
    struct handoff_store *store;
    struct handoff_agents *agents;
    struct handoff_open_tasks *open_tasks; /* told of moves; NULL: not watched */
    struct handoff_feeds *feeds;           /* of all channels; NULL: deliveries of publications
                                              have none */
    const struct base_clock *clock;
    const struct base_random *random;
    unsigned connections_max;   /* to agents, at once; 0: any number */
    unsigned waiting_in_memory; /* for one agent; those behind are rows (dormant.h) */
    /* Called with each event, on the thread where it happens, between two steps of delivery; must
       be quick and must not block. NULL: no observer. */
    void (*observe)(void *observer, const struct handoff_event *event);
    void *observer;
    /* An acknowledgement brought the next request (hand_on.h): assembles it. On its lane. NULL:
       such requests are ignored. */
    void (*hand_on)(void *host, struct handoff_hand_on *on);
    void *hand_on_host;
};

enum handoff_code handoff_engine_new(struct handoff_engine **engine,
                                     const struct handoff_engine_options *options,
                                     struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Call once all lanes are freed. */
void handoff_engine_free(struct handoff_engine **engine);

/* Restores the breakers and the counts of parked handoffs from the store. Call before the first
   lane is made. */
enum handoff_code handoff_engine_restore(struct handoff_engine *engine,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Resumes what was live when the last process ended, spread over the lanes. Call once, before the
   lanes run. */
enum handoff_code handoff_engine_resume(struct handoff_engine *engine, struct handoff_lane **lanes,
                                        size_t count,
                                        struct handoff_error *error) HANDOFF_MUST_CHECK;

/* How many handoffs may be in live states, in total and per agent; 0: no limit (the default).
   Handoffs beyond a lowered limit continue. Any thread. */
void handoff_engine_limit(struct handoff_engine *engine, unsigned all, unsigned per_agent);

/* No new handoffs from now on; live ones continue. Any thread. */
void handoff_engine_drain(struct handoff_engine *engine);
/* A drain that also starts no attempts. Each lane notices when it next runs, and answers the
   waiters of handoffs without an outstanding attempt. Any thread. */
void handoff_engine_wind_down(struct handoff_engine *engine);
/* Any thread. */
bool handoff_engine_is_draining(const struct handoff_engine *engine);
/* The index of handoffs in memory, for other threads. */
struct handoff_live *handoff_engine_live(struct handoff_engine *engine);
/* Handoffs in live states. Any thread. */
unsigned handoff_engine_in_flight(const struct handoff_engine *engine);
/* Of these, those with an attempt outstanding; shutdown waits for these. Any thread. */
unsigned handoff_engine_attempting(const struct handoff_engine *engine);

/* The trace id in a traceparent, lent from it; absent if there is none. */
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
    struct base_span contribution; /* absent: the envelope stands for it */
    char **own_envelope;     /* the same bytes in memory that delivery takes over instead of */
    char **own_contribution; /* copying them, and sets to NULL; NULL: there is none */
    const struct base_uuid *parents; /* the newest first */
    size_t nparents;
    int64_t hop;
    struct base_uuid replaces; /* nil: nothing */
    struct base_span task_id, source, target;
    struct base_span summary; /* of the request; its beginning is kept for lists. Absent: unknown */
    enum handoff_pattern pattern;
    int64_t created_ms;
    int64_t deadline_ms;            /* wall clock; 0: none */
    uint64_t tokens;                /* an alternate with a smaller budget is passed over */
    enum handoff_reason parked_for; /* it is stored as parked, for an operator to decide about;
                                       OTHER: by hand; NONE: it is delivered */
    struct base_span traceparent, tracestate;
    struct base_span idempotency_key; /* absent: none */
    struct base_span park_reason;     /* what was said when it was parked by hand */
    bool stored;                      /* its envelope is in the store, and has no handoff */
    struct base_span excerpt_lines;   /* of such an envelope, instead of `excerpt` */
    uint8_t request_digest[BASE_SHA256_BYTES];
    /* of a publication: in the place of envelope, excerpt, contribution and parents; lent. NULL: it
       has its own */
    struct handoff_shared_envelope *shared;
    struct base_uuid publication; /* that it delivers with an envelope that is not the shared one;
                                     nil: none */
    bool late;                    /* that was made by an earlier commit */
    struct handoff_store_unit *unit;                /* which its write joins; NULL: none */
    const struct handoff_stored_decision *decision; /* it takes the place of another handoff by this
                                                       decision, whose `target` had that; NULL: it
                                                       does not */
};

/* What is known about a handoff without its envelope. */
struct handoff_label {
    char id[BASE_UUID_TEXT];
    enum handoff_pattern pattern;
    struct base_span source, task_id;
    int64_t created_ms;
};

/* The status of a handoff, as its sender is told. */
struct handoff_status {
    struct handoff_label label;
    struct base_span envelope; /* as it was assembled; empty if it can no longer be read */
    struct base_span excerpt;  /* excerpt.h; absent: read the envelope */
    enum handoff_state state;
    const char *target;
    enum handoff_reason reason; /* why it was parked */
    const char *words;          /* if the reason is OTHER: what it was, else "" */
    uint32_t attempts;
    int64_t hop, hop_max; /* of its envelope; 0: not read */
    int64_t settled_ms;   /* 0: not settled */
    struct handoff_told_progress progress;
    struct base_span
        gaps; /* memories that its receiver lacked (client/model/gaps.h); absent: none */
    /* of a row that was read; absent: not */
    struct base_span summary, error_said; /* of its request; of its last attempt */
    uint32_t replays;
    struct base_uuid previous;    /* that it continues; nil: none */
    struct base_uuid replaced_by; /* the edited one that took its place; nil: none */
    /* the store's, if the result could not be written; the rest is then as last written */
    struct handoff_error error;
};

/* Why it was parked, or what was said when it was discarded; "" for neither. */
static inline const char *handoff_status_reason(const struct handoff_status *status)
{
    return status->reason == HANDOFF_REASON_OTHER ? status->words
                                                  : handoff_reason_name(status->reason);
}

/* Overlays what memory knows more recently than the row. */
void handoff_status_overlay(struct handoff_status *status, const struct handoff_live_view *view);

/* A caller that waits for the outcome. Embedded in its owner, which keeps it until `settled` is
   called or it is withdrawn. Called on the lane's thread, never from within the call that submitted
   it. */
struct handoff_waiter {
    /* For a decision (decide.h) only: whether it can be carried out. If not, the last call. */
    void (*decided)(struct handoff_waiter *waiter, const struct handoff_error *error);
    /* It is accepted and durable, or a replay of it could not be written. May be NULL. */
    void (*accepted)(struct handoff_waiter *waiter, const struct handoff_status *status);
    /* Acknowledged, parked or expired, durably; or the error says why it was not accepted or could
       not be written. The last call. */
    void (*settled)(struct handoff_waiter *waiter, const struct handoff_status *status);
    struct handoff_delivery *delivery; /* the engine's */
};

/* Accepts it, on the lane's thread. OK: the waiter will be told. Otherwise nothing was stored:
   unknown_agent, circuit_open (error->needed: milliseconds until a retry is worthwhile),
   too_many_in_flight, shutting_down, out_of_memory; of a `stored` one also conflict, if it has a
   handoff already, which may be the error of `settled` too. The waiter may be NULL. */
enum handoff_code handoff_engine_deliver(struct handoff_lane *lane,
                                         const struct handoff_submission *submission,
                                         struct handoff_waiter *waiter,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

/* The status as it was last written, of a handoff that has been accepted. On the lane's thread. */
void handoff_waiter_status(const struct handoff_waiter *waiter, struct handoff_status *status);

/* The successor of a handoff that is acknowledged: the same, for nobody that waits, whatever limits
   and circuits say; its write joins the unit. unknown_agent, shutting_down, out_of_memory. */
enum handoff_code handoff_engine_deliver_next(struct handoff_lane *lane,
                                              const struct handoff_submission *submission,
                                              struct handoff_store_unit *unit,
                                              struct handoff_error *error) HANDOFF_MUST_CHECK;

/* The sender no longer waits; the handoff continues. On the lane's thread. */
void handoff_waiter_withdraw(struct handoff_waiter *waiter);

/* ---- what a receiver or a sender says through the API ---------------------------------------- */

enum handoff_word {
    HANDOFF_WORD_ACK,
    HANDOFF_WORD_NACK_RETRY,
    HANDOFF_WORD_NACK_FINAL,
    HANDOFF_WORD_EXTEND, /* more time, for a lease or an announced acknowledgement; with progress */
    HANDOFF_WORD_LACKS,  /* it lacks memories, which the caller has stored once that is told */
    HANDOFF_WORD_RETURN, /* the poller left before it got what it had leased */
    /* the sender's: */
    HANDOFF_WORD_CANCEL, /* it takes back what is not acknowledged */
    HANDOFF_WORD_PARK,   /* it leaves the rest to an operator */
};

/* Embedded in its owner, who keeps it until `told`. */
/* What an acknowledgement handed on. */
struct handoff_successor {
    bool exists;
    struct base_uuid id;
    enum handoff_reason parked_for; /* NONE: it is on its way */
};

struct handoff_reply {
    struct base_mail mail; /* the engine's, like the entry */
    STAILQ_ENTRY(handoff_reply) entry;
    struct handoff_lane *lane; /* of the caller; `told` is called there */
    void (*told)(struct handoff_reply *reply);
    struct base_uuid id;
    enum handoff_word word;
    char said[200];               /* the nack's reason, without credentials, or "" */
    const char *words;            /* the reason of a sender, or "". Lent until `told`. */
    struct handoff_author author; /* likewise: who cancels or parks. Lent until `told`. */
    struct base_span agent;       /* the calling agent; absent: anyone. Lent until `told`. */
    struct base_span progress;    /* of an extension; absent: none is told. Lent until `told`. */
    struct base_span lacking; /* of an acknowledgement, or of LACKS: ids of memories, one on each
                                 line; absent: none. Lent until `told`. */
    uint32_t attempt;         /* of a return: which lease */
    struct base_span next;    /* of an acknowledgement: the next request; absent: none. Lent */
    const char *scopes;       /* of the calling agent, as in handoff_ask; of `next`. Lent */

    /* result: OK (also for a repeated acknowledgement): written; not_found, forbidden, conflict,
       shutting_down; a store error: it counts, but a crash now would undo it */
    struct handoff_error error;
    struct handoff_error
        next_problem;  /* it was acknowledged, and this is why there is no successor */
    bool next_ignored; /* it was acknowledged before, and nothing more is handed on */
    bool replaced;     /* with a conflict: an edit took the handoff's place */
    struct handoff_successor successor;
    struct handoff_live_view view; /* the resulting status, if OK; NONE: read the store's row */

    /* the engine's */
    struct handoff_lane *owner;
    struct handoff_waiter waiter;
    struct handoff_store_read read;
    bool late; /* decides about a parked one: an acknowledgement, or a cancel */
    bool live; /* its row says so, but it was on no lane */
    unsigned looks;
};

STAILQ_HEAD(handoff_replies, handoff_reply);

/* Then the handoff names its successor. */
static inline bool handoff_reply_is_about_replaced(const struct handoff_reply *reply)
{
    return reply->replaced && reply->error.code == HANDOFF_ERR_CONFLICT;
}

void handoff_engine_reply(struct handoff_engine *engine, struct handoff_reply *reply);

/* Closes a breaker by hand, on the lane's thread. OK: `saved` is called once that is written; on
   failure it is not called: unknown_agent, out_of_memory. */
enum handoff_code handoff_engine_reset(struct handoff_engine *engine, struct handoff_lane *lane,
                                       const char *name, handoff_circuit_saved *saved,
                                       void *context,
                                       struct handoff_error *error) HANDOFF_MUST_CHECK;

/* The one that has waited longest goes on, where the feed is not held. Any thread. */
void handoff_engine_call_up_held(struct handoff_feed *feed);

#endif
