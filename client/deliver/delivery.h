/* SPDX-License-Identifier: Apache-2.0 */
/* delivery.h - one handoff on its way, in memory. Shared by the files of this folder and by the
   protocols (protocol.h), which change nothing but their space. */
#ifndef HANDOFF_DELIVER_DELIVERY_H
#define HANDOFF_DELIVER_DELIVERY_H

#include "client/deliver/engine.h"
#include "client/deliver/live_index.h"
#include "client/protocol/protocol.h"
#include "lib/base/buffer.h"

enum { HANDOFF_DELIVERY_MAGIC = 0x64656c76u, HANDOFF_LANE_MAGIC = 0x6c616e65u };

enum { HANDOFF_DELIVERY_NAMES = 384 }; /* what names, ids and trace of most handoffs take */

struct handoff_engine {
    unsigned magic;
    struct handoff_engine_options options;                    /* never changes */
    struct handoff_live live;                                 /* has locks of its own */
    _Atomic(unsigned) max_in_flight, max_in_flight_per_agent; /* 0: any number */
    _Atomic(unsigned) in_flight;
    _Atomic(unsigned) attempting;  /* of these, with an attempt out */
    struct base_quota connections; /* of all lanes */
    _Atomic(bool) draining;        /* takes nothing new */
    _Atomic(bool) winding_down;    /* begins no attempt either */
};

/* An attempt as it is lent to the store. */
struct handoff_delivery_record {
    struct handoff_attempt_record record; /* first */
    char error[HANDOFF_SAID_SIZE], peer[HANDOFF_PEER_SIZE];
};

/* All of it belongs to the thread of its lane, and lies in its own arena. */
struct handoff_delivery {
    unsigned magic;
    struct base_arena arena;
    struct handoff_lane *lane;
    TAILQ_ENTRY(handoff_delivery) entry;
    struct handoff_live_entry live;

    /* what it is; never changes */
    struct base_uuid id;
    char id_text[BASE_UUID_TEXT];
    struct base_span envelope; /* empty where it cannot be read any more */
    struct base_span source, asked_target, task_id;
    struct base_span excerpt;             /* of the envelope; absent: look into it */
    const char *traceparent, *tracestate; /* whole headers, or NULL */
    struct base_span trace_id;
    enum handoff_pattern pattern;
    int64_t created_ms;       /* wall clock */
    int64_t deadline_mono_ms; /* monotonic clock; INT64_MAX: none */
    uint64_t tokens;

    /* where it stands */
    enum handoff_state state; /* changed by handoff_delivery_move alone */
    struct handoff_agent *agent;
    struct handoff_settings *settings; /* while an attempt or its acknowledgement is out */
    enum handoff_reason reason;
    const char *words; /* where that is OTHER; lives as long as the delivery */
    bool replaced;     /* discarded, because an edited one took its place */
    bool probe;        /* the attempt that is out is the breaker's probe */
    bool attempting;   /* an attempt of ours is out, which the end waits for */
    uint32_t attempts, failures, alternate, replays;
    int64_t due_mono_ms;      /* monotonic clock; 0: now */
    int64_t circuit_until_ms; /* the same; so long it waits for a circuit. 0: it has not yet */
    int64_t settled_ms;       /* wall clock */
    struct handoff_agent *parked_for; /* where it is parked: as it is noted there */
    int64_t parked_ms;
    int64_t began_ns; /* monotonic: accepted, resumed or replayed */
    struct handoff_waiter *waiter;

    /* how it reaches its agent; set when it is due, and NULL before */
    const struct handoff_protocol *protocol;
    _Alignas(int64_t) char space[HANDOFF_PROTOCOL_SPACE]; /* the protocol's */

    /* the attempt that is out, or was the last */
    struct base_timer timer;
    char attempt_error[HANDOFF_SAID_SIZE], attempt_peer[HANDOFF_PEER_SIZE];
    int64_t attempt_began_ns; /* monotonic */
    struct handoff_attempt attempt;
    const char *attempt_target;

    /* what the store is told: one write at a time, and once more if it changed meanwhile */
    union {
        struct handoff_store_accept accept;
        struct handoff_store_move move;
    } write;
    /* attempts that ended, and agents that were passed over, not recorded yet, oldest first; the
       first nlent are with the store, which does not look behind them */
    struct handoff_attempt_record *records, **last_record;
    size_t nrecords, nlent;
    struct handoff_delivery_record usual_record; /* more than one needs a disk that fails */
    int64_t seq;                                 /* 0: not accepted yet */
    /* callers of the API to be told when the next write is done, and when the present one is */
    struct handoff_replies replies, lent_replies;
    bool usual_record_used, has_attempt;
    bool writing;          /* the store has a write of it */
    bool changed;          /* since that write was asked for; or it failed */
    uint32_t attempt_told; /* number of the attempt that the observer heard of last */
    struct base_timer write_timer;
};

/* Not on a lane's list or in the live table yet; with room for texts that are so long together, so
   that all of it is one block. NULL: no memory. */
struct handoff_delivery *handoff_delivery_new(struct handoff_lane *lane, const struct base_uuid *id,
                                              size_t texts_size);
/* Copies into its arena; false: no memory. What is absent stays so. */
bool handoff_delivery_keep(struct handoff_delivery *delivery, struct base_span from,
                           struct base_span *to);
bool handoff_delivery_keep_trace(struct handoff_delivery *delivery, struct base_span traceparent,
                                 struct base_span tracestate);
/* Whatever state it is in; nothing of it may be out. */
void handoff_delivery_free(struct handoff_delivery *delivery);

/* Counts a live handoff; false where `limited` and a limit is reached. It is uncounted by itself
   when it leaves the live states. */
bool handoff_delivery_count(struct handoff_engine *engine, struct handoff_agent *agent,
                            bool limited);
void handoff_delivery_uncount(struct handoff_engine *engine, struct handoff_agent *agent);
/* too_many_in_flight: one of the limits is reached. */
enum handoff_code handoff_delivery_refuse_full(const struct handoff_agent *agent,
                                               struct handoff_error *error);

/* Claims it for its lane: from now on nobody else changes the handoff. false: some lane has it. */
bool handoff_delivery_claim(struct handoff_delivery *delivery);
/* Gives up the claim of one that was not entered, and frees it. */
void handoff_delivery_unclaim(struct handoff_delivery *delivery);

/* Fills in what the store has of it, claimed but not entered. out_of_memory, or a failure of the
   store: store_corrupt where the envelope cannot be read; then all else is filled in. */
enum handoff_code handoff_delivery_load(struct handoff_delivery *delivery,
                                        const struct handoff_stored *stored,
                                        struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Puts one that was claimed on its lane, in the state in which it begins there. */
void handoff_delivery_enter(struct handoff_delivery *delivery, enum handoff_state state,
                            struct handoff_agent *agent);
/* Tells the observer that it is there. */
void handoff_delivery_observe_start(struct handoff_delivery *delivery, bool resumed);

/* Its next step, whatever that is by its state and its clocks. */
void handoff_delivery_advance(struct handoff_delivery *delivery);
/* The engine has begun to wind down: the waiter is answered, unless an attempt is out or a write is
   under way; then that happens afterwards. */
void handoff_delivery_wind_down(struct handoff_delivery *delivery);

/* The agent that took it for this attempt never saw it: it is offered again, and no attempt is
   counted. false: it is not taken for this attempt any more. */
bool handoff_delivery_return(struct handoff_delivery *delivery, uint32_t number);
/* Whoever has it wants more time. false: nobody has it. */
bool handoff_delivery_extend(struct handoff_delivery *delivery);

/* A person's decision on a parked one. */
void handoff_delivery_replay(struct handoff_delivery *delivery);
/* `words` live as long as the delivery; "": none. */
void handoff_delivery_discard(struct handoff_delivery *delivery, const char *words);
void handoff_delivery_settle_late(struct handoff_delivery *delivery);

/* Breaks off the attempt that is out, or withdraws the offer, if one is. */
void handoff_delivery_break_off(struct handoff_delivery *delivery);

/* What an agent said of it, by an answer or by the API. */
void handoff_delivery_judged(struct handoff_delivery *delivery,
                             const struct handoff_finding *finding);

/* It was not accepted: tells the waiter why, and releases it. Nothing is out. */
void handoff_delivery_drop(struct handoff_delivery *delivery, const struct handoff_error *error);

/* Tells the waiter that the process ends and the next one goes on. */
void handoff_delivery_postpone(struct handoff_delivery *delivery);

/* Breaks off what is out and releases it; the store keeps it for the next start. */
void handoff_delivery_abandon(struct handoff_delivery *delivery);

/* ---- from the protocol ---------------------------------------------------------------------- */

/* The agent that it was offered to has taken it, and has so much time for it. */
void handoff_delivery_taken(struct handoff_delivery *delivery, int64_t time_ms);
/* The attempt that was out has ended. */
void handoff_delivery_attempt_ended(struct handoff_delivery *delivery,
                                    const struct handoff_finding *finding);
/* The same where we ran out of something before the agent saw it: no attempt was made, and another
 * one follows shortly. */
void handoff_delivery_not_attempted(struct handoff_delivery *delivery,
                                    enum handoff_shortage shortage);

/* ---- between the files of a delivery ----------------------------------------------------------
 */

/* delivery.c: what is waited for is counted on the monotonic clock, so that setting the wall clock
   neither lengthens nor shortens it. The store has moments of the wall clock, which mean something
   to the next process, too. */
int64_t handoff_delivery_wall_ms(const struct handoff_delivery *delivery);
int64_t handoff_delivery_now_ns(const struct handoff_delivery *delivery); /* monotonic */
/* A moment of the one clock on the other, as the two stand now. */
int64_t handoff_delivery_from_wall_ms(const struct handoff_delivery *delivery, int64_t wall_ms);
int64_t handoff_delivery_to_wall_ms(const struct handoff_delivery *delivery, int64_t mono_ms);
/* Wall clock; 0: none. */
void handoff_delivery_set_deadline(struct handoff_delivery *delivery, int64_t wall_ms);
/* In so long it is due. */
void handoff_delivery_set_due_in(struct handoff_delivery *delivery, int64_t wait_ms);
/* Milliseconds until the deadline, INT64_MAX where there is none. */
int64_t handoff_delivery_until_deadline(const struct handoff_delivery *delivery);
/* Wakes it in `wait_ms`, or at its deadline if that is earlier. */
void handoff_delivery_wake_in(struct handoff_delivery *delivery, int64_t wait_ms);
void handoff_delivery_timer_fired(struct base_timer *timer);

/* move.c: the one place where a handoff changes its state */
void handoff_delivery_move(struct handoff_delivery *delivery, enum handoff_state to);
/* To another agent, for which it is counted from now on. */
void handoff_delivery_hand_to(struct handoff_delivery *delivery, struct handoff_agent *agent);
/* It is over and written: gone from its lane, and freed. */
void handoff_delivery_leave(struct handoff_delivery *delivery);
void handoff_delivery_set_attempting(struct handoff_delivery *delivery, bool attempting);

/* persist.c */
void handoff_delivery_write(struct handoff_delivery *delivery);
/* Taken before what is replied to changes the delivery, and sent when that is written; where it
   cannot be, with the store's error. */
void handoff_delivery_take_reply(struct handoff_delivery *delivery, struct handoff_reply *reply);
/* Afterwards: where nothing is left to be written, the reply is sent now. */
void handoff_delivery_send_written_replies(struct handoff_delivery *delivery);
void handoff_delivery_write_timer_fired(struct base_timer *timer);

/* A record that the agent was not given the handoff, and why. Without memory there is none. */
void handoff_delivery_pass_over(struct handoff_delivery *delivery, const char *agent,
                                enum handoff_obstacle why);

/* alternates.c: this agent is done with; the next alternate has it, or the people */
void handoff_delivery_give_up(struct handoff_delivery *delivery, enum handoff_reason reason);
/* The same for one that was not tried, or not as often as it might have been: that is recorded. */
void handoff_delivery_give_up_untried(struct handoff_delivery *delivery,
                                      enum handoff_obstacle obstacle);
/* The next alternate of the agent that was asked for that can be given the handoff now, or NULL. It
   is used up, and so are those that are passed over. */
struct handoff_agent *handoff_delivery_next_alternate(struct handoff_delivery *delivery);
void handoff_delivery_learn(struct handoff_delivery *delivery, enum handoff_breaker_event event);
/* The attempt that was out has been answered, or has failed. */
void handoff_delivery_report_probe(struct handoff_delivery *delivery,
                                   enum handoff_breaker_event event);

/* attempt.c: READY and due, and the settings are in force. Offers it to an agent that pulls, where
   again is harmless; false: the agent does not. */
bool handoff_delivery_offer(struct handoff_delivery *delivery);
/* After that was false: begins an attempt. */
void handoff_delivery_attempt(struct handoff_delivery *delivery, bool probe);
/* IN_FLIGHT with an agent that pulled it: delivery keeps the time. */
bool handoff_delivery_is_taken(const struct handoff_delivery *delivery);
/* Frees what its protocol keeps; nothing is out. */
void handoff_delivery_clear_protocol(struct handoff_delivery *delivery);

/* deferred_ack.c: back to the caller's lane, from whichever thread this is */
void handoff_reply_send(struct handoff_reply *reply);

/* notify.c */
void handoff_delivery_status(const struct handoff_delivery *delivery,
                             struct handoff_status *status);
void handoff_delivery_view(const struct handoff_delivery *delivery, struct handoff_live_view *view);
/* For one that was replayed; who waits for the end of a sending has been told of its acceptance.
   error: it could not be written; NULL: it is. */
void handoff_delivery_tell_ready(struct handoff_delivery *delivery,
                                 const struct handoff_error *error);
/* error: it was not accepted, its end could not be written, or the process ends first; then a
   handoff that was accepted is told of as it is shown. */
void handoff_delivery_tell_settled(struct handoff_delivery *delivery,
                                   const struct handoff_error *error);
void handoff_delivery_observe_move(struct handoff_delivery *delivery, enum handoff_state from,
                                   bool resumed);
void handoff_delivery_observe_circuit(struct handoff_delivery *delivery,
                                      const struct handoff_breaker *breaker);
void handoff_delivery_observe_shortage(struct handoff_delivery *delivery,
                                       enum handoff_shortage shortage);

#endif
