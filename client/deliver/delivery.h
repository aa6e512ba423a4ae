/* SPDX-License-Identifier: Apache-2.0 */
/* delivery.h - one in-progress handoff, in memory. Shared by this folder's files and the protocols
   (protocol.h), which may change only `space`. */
#ifndef HANDOFF_DELIVER_DELIVERY_H
#define HANDOFF_DELIVER_DELIVERY_H

#include <string.h>

#include "client/deliver/engine.h"
#include "client/deliver/live_index.h"
#include "client/deliver/shared_envelope.h"
#include "client/deliver/turns.h"
#include "client/protocol/protocol.h"
#include "lib/base/buffer.h"

enum { HANDOFF_DELIVERY_MAGIC = 0x64656c76u, HANDOFF_LANE_MAGIC = 0x6c616e65u };

enum { HANDOFF_DELIVERY_NAMES = 384 }; /* bytes for most handoffs' names, ids and trace */

struct handoff_engine {
    unsigned magic;
    struct handoff_engine_options options;                    /* never changes */
    struct handoff_live live;                                 /* has its own locks */
    struct handoff_turns turns;                               /* likewise */
    _Atomic(unsigned) max_in_flight, max_in_flight_per_agent; /* 0: any number */
    _Atomic(unsigned) in_flight;
    _Atomic(unsigned) attempting;  /* of these, with an attempt outstanding */
    struct base_quota connections; /* of all lanes */
    _Atomic(bool) draining;        /* accepts nothing new */
    _Atomic(bool) winding_down;    /* starts no attempt either */
};

/* An attempt as it is lent to the store. */
struct handoff_delivery_record {
    struct handoff_attempt_record record; /* first */
    char error[HANDOFF_SAID_SIZE], peer[HANDOFF_PEER_SIZE];
};

/* The write of a new one: large, and soon over. */
struct handoff_accepting {
    struct handoff_delivery *delivery;
    struct handoff_store_accept accept;
};

/* What its agent told of its work; base_free(). */
struct handoff_progress_note {
    int64_t at_ms; /* wall clock */
    size_t size;
    char text[];
};

/* Used only by its lane's thread, except what `live` publishes; lies in its own arena. */
struct handoff_delivery {
    unsigned magic;
    struct base_arena arena;
    struct handoff_lane *lane;
    TAILQ_ENTRY(handoff_delivery) entry;
    TAILQ_ENTRY(handoff_delivery) waits; /* of its lane's `waiting` (dormant.h) */
    struct handoff_live_entry live;
    struct handoff_turn turn; /* among those of its agent and task, while it is live */

    /* what it is; never changes */
    struct base_uuid id;
    enum handoff_pattern pattern;
    char id_text[BASE_UUID_TEXT];
    struct base_uuid publication; /* that it delivers; nil: none */
    bool late;                    /* to a subscriber that catches up */
    bool looked_at;               /* it is in `waiting` of its lane */
    bool loads_next;              /* when it is taken, the next rows are loaded (dormant.h) */
    struct handoff_held held;     /* while its feed is held (feeds.h) */
    struct base_span envelope;    /* empty if it can no longer be read */
    struct base_span source, asked_target, task_id;
    struct base_span excerpt;             /* absent: read the envelope */
    const char *traceparent, *tracestate; /* whole headers, or NULL */
    struct base_span trace_id;
    /* whole headers: Handoff-Task-Id, -Root-Id and -Previous-Id; NULL: there is none */
    const char *chain_headers[HANDOFF_CHAIN_HEADERS];
    int64_t created_ms;       /* wall clock */
    int64_t deadline_mono_ms; /* monotonic clock; INT64_MAX: none */
    uint64_t tokens;

    /* where it stands */
    enum handoff_state state; /* changed by handoff_delivery_move alone */
    enum handoff_reason reason;
    struct handoff_agent *agent;
    /* a counted reference, replaced by the next attempt; released when waiting for a circuit or for
       resources, when giving up on an agent, and with the delivery. NULL: none taken yet, as after
       a resume */
    struct handoff_settings *settings;
    const char *words; /* if `reason` is OTHER; lives as long as the delivery */
    bool replaced;     /* discarded, because an edited one took its place */
    bool replacing;    /* an edited one takes its place, and that is being written: nothing else
                          may happen to it until then */
    bool by_hand;      /* parked by hand; the reason is in somebody's words */
    bool probe;        /* the outstanding attempt is the breaker's probe */
    bool attempting;   /* an attempt of ours is outstanding, or it is handed on; shutdown
                          waits for it */
    uint32_t attempts, failures, alternate, replays;
    int64_t due_mono_ms;      /* monotonic clock; 0: now */
    int64_t circuit_until_ms; /* monotonic; end of its wait for a circuit. 0: not waiting yet */
    int64_t settled_ms;       /* wall clock */
    struct handoff_agent *parked_for; /* the agent under which it is counted as parked (parked.h) */
    int64_t parked_ms;
    int64_t began_ns; /* monotonic: accepted, resumed or replayed */
    struct handoff_waiter *waiter;
    struct handoff_hand_on *hand_on; /* acknowledged with a next request (hand_on.h): nothing else
                                        happens to it until that is stored. NULL: it is not */
    LIST_HEAD(handoff_watches, handoff_watch) watches; /* of callers on any lane (watch.h) */

    /* how it reaches its agent; set when it is due, and NULL before */
    const struct handoff_protocol *protocol;
    _Alignas(int64_t) char space[HANDOFF_PROTOCOL_SPACE]; /* the protocol's */

    /* the outstanding attempt, or the last one */
    struct base_timer timer;
    char attempt_error[HANDOFF_SAID_SIZE], attempt_peer[HANDOFF_PEER_SIZE];
    int64_t attempt_began_ns; /* monotonic */
    struct handoff_attempt attempt;
    const char *attempt_target;

    /* the write to the store: one at a time, then another if it changed meanwhile */
    struct handoff_accepting *accepting; /* until it is accepted; NULL: it was, or was loaded */
    struct handoff_store_move move;
    struct base_uuid *contribution; /* parents, then the text: until the handoff is accepted */
    /* of a long request, taken over from its assembly; NULL: copied. The contribution until the
       handoff is accepted, the envelope as long as the delivery */
    char *own_envelope, *own_contribution;
    struct handoff_shared_envelope
        *shared; /* of a publication: a reference; NULL: it has its own */
    /* ended attempts, passed-over agents and decisions, not yet recorded, oldest first; the store
       has the first nlent and reads no further */
    struct handoff_attempt_record *records, **last_record;
    size_t nrecords, nlent;
    struct handoff_delivery_record usual_record; /* a second is needed only while the disk fails. In
                                                    place: no attempt goes unrecorded for memory */
    int64_t seq;                                 /* 0: not accepted yet */
    struct handoff_progress_note *progress;      /* the newest; NULL: none was told */
    const struct handoff_progress_note *lent_progress; /* the store has it; NULL: none */
    bool progress_changed;                             /* it is not written yet */
    struct base_buffer gaps; /* memories that its receiver lacked (client/model/gaps.h), as the
                                sender is told; empty: none. The store gets them by a job of their
                                own (gaps.h). */
    /* API callers to answer after the next write, and after the current one */
    struct handoff_replies replies, lent_replies;
    bool usual_record_used, has_attempt;
    bool attempt_recorded; /* by the unit that has acknowledged it (hand_on.h) */
    bool writing;          /* a write is in progress */
    bool changed;          /* since that write was requested, or because it failed */
    uint32_t attempt_told; /* number of the last attempt reported to the observer */
    struct base_timer write_timer;
};

static inline bool handoff_delivery_is_of_publication(const struct handoff_delivery *delivery)
{
    static const struct base_uuid nil;
    return memcmp(&delivery->publication, &nil, sizeof nil) != 0;
}

/* Which receiver a publication is delivered to, whose envelope does not say it; absent: it is none.
 */
static inline struct base_span handoff_delivery_receiver(const struct handoff_delivery *delivery)
{
    return handoff_delivery_is_of_publication(delivery) ? delivery->asked_target
                                                        : base_span(NULL, 0);
}

/* Absent for NULL. */
static inline struct handoff_told_progress
handoff_progress_told(const struct handoff_progress_note *progress)
{
    return (struct handoff_told_progress){
        .text = progress ? base_span(progress->text, progress->size) : base_span(NULL, 0),
        .at_ms = progress ? progress->at_ms : 0};
}

/* Not yet on a lane's list or in the live table. Has room for texts_size bytes of text in the same
   block. NULL: out of memory. */
struct handoff_delivery *handoff_delivery_new(struct handoff_lane *lane, const struct base_uuid *id,
                                              size_t texts_size);
/* Copies a text into its arena; an absent text stays absent. false: out of memory. */
bool handoff_delivery_keep(struct handoff_delivery *delivery, struct base_span from,
                           struct base_span *to);
bool handoff_delivery_keep_trace(struct handoff_delivery *delivery, struct base_span traceparent,
                                 struct base_span tracestate);
/* What a receiver is told of the chain; once the store has it. An absent name is left out where
   there is no memory for it. */
void handoff_delivery_name_chain(struct handoff_delivery *delivery, const struct base_uuid *root,
                                 const struct base_uuid *previous);
/* In any state; no attempt, write or reply may be outstanding. */
void handoff_delivery_free(struct handoff_delivery *delivery);

/* The same with all that was submitted. */
struct handoff_delivery *handoff_delivery_make(struct handoff_lane *lane,
                                               const struct handoff_submission *submission);
/* Those of publications have a feed, from before they are entered. false: out of memory. */
bool handoff_delivery_join_feed(struct handoff_delivery *delivery, struct base_span channel);
/* Gives its feed back, if it has one; no other thread can reach that through the delivery. */
void handoff_delivery_leave_feed(struct handoff_delivery *delivery);
/* Accepts the delivery of a publication, to be delivered or as parked; its write joins the unit. */
void handoff_delivery_start_of_publication(struct handoff_delivery *delivery,
                                           struct handoff_agent *agent,
                                           struct handoff_store_unit *unit,
                                           struct handoff_waiter *waiter);

/* Counts a live handoff. false: `limited`, and a limit has been reached. Leaving the live states
   uncounts it. */
bool handoff_delivery_count(struct handoff_engine *engine, struct handoff_agent *agent,
                            bool limited);
void handoff_delivery_uncount(struct handoff_engine *engine, struct handoff_agent *agent);
/* too_many_in_flight: one of the limits has been reached. */
enum handoff_code handoff_delivery_refuse_full(const struct handoff_agent *agent,
                                               struct handoff_error *error);

enum handoff_code handoff_delivery_refuse_shutting_down(struct handoff_error *error);

/* Claims it for its lane: from now on nobody else changes the handoff. false: some lane has it. */
bool handoff_delivery_claim(struct handoff_delivery *delivery);
/* Before anybody is told how it ended: who hears it may decide about the handoff at once. Does
   nothing where the claim was given up before. */
void handoff_delivery_give_up_claim(struct handoff_delivery *delivery);
/* Gives up the claim on one that was not entered, and frees it. */
void handoff_delivery_unclaim(struct handoff_delivery *delivery);

/* Loads a claimed handoff, not yet entered, from its row. Fails with out_of_memory or a store
   error; on store_corrupt (unreadable envelope) everything else is filled in. `last` is what the
   delivery of a publication that was loaded before shares, a reference of the caller's, and is
   replaced where this one is of another; NULL: the envelope is loaded for this one alone. */
enum handoff_code handoff_delivery_load(struct handoff_delivery *delivery,
                                        const struct handoff_stored *stored,
                                        struct handoff_shared_envelope **last,
                                        struct handoff_error *error) HANDOFF_MUST_CHECK;

/* The same of what was read into the arena of the delivery. */
enum handoff_code handoff_delivery_load_whole(struct handoff_delivery *delivery,
                                              const struct handoff_stored_whole *whole,
                                              struct handoff_error *error) HANDOFF_MUST_CHECK;
/* The same without the envelope. */
enum handoff_code handoff_delivery_load_row(struct handoff_delivery *delivery,
                                            const struct handoff_stored *stored,
                                            struct handoff_error *error) HANDOFF_MUST_CHECK;
/* An unreadable handoff cannot be sent; it is parked for an operator, and does not stop the
   others. */
void handoff_delivery_park_unreadable(struct handoff_delivery *delivery);

/* Puts a claimed one on its lane, in the state in which it starts there. */
void handoff_delivery_enter(struct handoff_delivery *delivery, enum handoff_state state,
                            struct handoff_agent *agent);
/* As it is to be stored now. */
void handoff_delivery_standing(const struct handoff_delivery *delivery,
                               struct handoff_standing *standing);
/* One that was accepted as parked: counts it as such. */
void handoff_delivery_note_parked(struct handoff_delivery *delivery);
/* Reports it to the observer. */
void handoff_delivery_observe_start(struct handoff_delivery *delivery, bool resumed);

/* Takes the next step that its state and clocks call for. */
void handoff_delivery_advance(struct handoff_delivery *delivery);
/* The engine is winding down: answers the waiter, or does so later if an attempt or a write is
   outstanding. */
void handoff_delivery_wind_down(struct handoff_delivery *delivery);

/* The agent that pulled it for this attempt never received it: it is offered again, and the attempt
   is not counted. false: no longer leased for this attempt. */
bool handoff_delivery_return(struct handoff_delivery *delivery, uint32_t number);
/* The agent that holds it wants more time. `progress` is taken over and set to NULL, where it is
   not NULL. false: no agent holds it. */
bool handoff_delivery_extend(struct handoff_delivery *delivery,
                             struct handoff_progress_note **progress);
/* NULL: out of memory. */
struct handoff_progress_note *handoff_progress_note_new(struct base_span text, int64_t at_ms);

/* An operator's decision on a parked one. */
void handoff_delivery_replay(struct handoff_delivery *delivery);
/* `words` live as long as the delivery; "": none. */
void handoff_delivery_discard(struct handoff_delivery *delivery, const char *words);
void handoff_delivery_settle_late(struct handoff_delivery *delivery);
/* Its sender, or an operator, takes back a live one. Breaks off what is outstanding. */
void handoff_delivery_cancel(struct handoff_delivery *delivery, const char *words);
void handoff_delivery_park(struct handoff_delivery *delivery, const char *words);

/* Breaks off the outstanding attempt or withdraws the offer, if there is one. */
void handoff_delivery_break_off(struct handoff_delivery *delivery);

/* What an agent said about it, in an answer or through the API. */
void handoff_delivery_judged(struct handoff_delivery *delivery,
                             const struct handoff_finding *finding);
/* Its attempt as the finding ends it, for a unit that stores it with something else. False: there
   is none, or it was recorded before. */
bool handoff_delivery_make_record(const struct handoff_delivery *delivery,
                                  const struct handoff_finding *finding,
                                  struct handoff_delivery_record *made);
/* It acknowledged with a next request, and we could not store that: an agent that holds it keeps
   it, for another lease; what it was sent is sent again. Nothing of it counts as the agent's
   failure. */
void handoff_delivery_not_acknowledged(struct handoff_delivery *delivery,
                                       const struct handoff_finding *finding);

/* It was not accepted: tells the waiter why, and releases it. Nothing is outstanding. */
void handoff_delivery_drop(struct handoff_delivery *delivery, const struct handoff_error *error);

/* Tells the waiter that this process is ending and the next one will continue. */
void handoff_delivery_postpone(struct handoff_delivery *delivery);

/* Breaks off whatever is outstanding and releases it; the store keeps it for the next start. */
void handoff_delivery_abandon(struct handoff_delivery *delivery);

/* ---- from the protocol ---------------------------------------------------------------------- */

/* The agent to which it was offered has pulled it, and has time_ms to process it. */
void handoff_delivery_taken(struct handoff_delivery *delivery, int64_t time_ms);
/* The outstanding attempt has ended. */
void handoff_delivery_attempt_ended(struct handoff_delivery *delivery,
                                    const struct handoff_finding *finding);
/* We ran out of a resource before the agent saw it: this does not count as an attempt, and another
   follows shortly. */
void handoff_delivery_not_attempted(struct handoff_delivery *delivery,
                                    enum handoff_shortage shortage);

/* ---- between the files of a delivery ----------------------------------------------------------
 */

/* delivery.c: waits are measured on the monotonic clock, so setting the wall clock does not change
   them. The store keeps wall-clock times, which the next process can use. */
int64_t handoff_delivery_wall_ms(const struct handoff_delivery *delivery);
int64_t handoff_delivery_now_ns(const struct handoff_delivery *delivery); /* monotonic */
/* Converts a time from one clock to the other, by their current offset. */
int64_t handoff_delivery_from_wall_ms(const struct handoff_delivery *delivery, int64_t wall_ms);
int64_t handoff_delivery_to_wall_ms(const struct handoff_delivery *delivery, int64_t mono_ms);
/* Wall clock; 0: none. */
void handoff_delivery_set_deadline(struct handoff_delivery *delivery, int64_t wall_ms);
/* Makes it due in wait_ms. */
void handoff_delivery_set_due_in(struct handoff_delivery *delivery, int64_t wait_ms);
/* Milliseconds until the deadline, INT64_MAX if there is none. */
int64_t handoff_delivery_until_deadline(const struct handoff_delivery *delivery);
/* Wakes it in `wait_ms`, or at its deadline if that is earlier. */
void handoff_delivery_wake_in(struct handoff_delivery *delivery, int64_t wait_ms);
void handoff_delivery_timer_fired(struct base_timer *timer);

/* move.c: the one place where a handoff changes its state */
void handoff_delivery_move(struct handoff_delivery *delivery, enum handoff_state to);
/* Hands it to another agent, and counts it there from now on. */
void handoff_delivery_hand_to(struct handoff_delivery *delivery, struct handoff_agent *agent);
/* It is over and written: removes it from its lane and frees it. */
void handoff_delivery_leave(struct handoff_delivery *delivery);
void handoff_delivery_set_attempting(struct handoff_delivery *delivery, bool attempting);

/* persist.c */
void handoff_delivery_write(struct handoff_delivery *delivery);
/* Queues a reply before the change that it answers; sent once the change is written, or with the
   store's error if it cannot be. */
void handoff_delivery_take_reply(struct handoff_delivery *delivery, struct handoff_reply *reply);
/* Call after the change: if nothing is left to write, the reply is sent now. */
void handoff_delivery_send_written_replies(struct handoff_delivery *delivery);
void handoff_delivery_write_timer_fired(struct base_timer *timer);

/* Goes with the next write; lives as long as the delivery. */
void handoff_delivery_append_record(struct handoff_delivery *delivery,
                                    struct handoff_attempt_record *record);
/* Records that the agent was passed over, and why; if out of memory, nothing. */
void handoff_delivery_pass_over(struct handoff_delivery *delivery, const char *agent,
                                enum handoff_obstacle why);

/* dormant.c: */
/* It waits for others from now on, perhaps for long: the end of the turn looks at it. Harmless
   where it does not. */
void handoff_delivery_waits(struct handoff_delivery *delivery);

/* An agent has taken it: those that it takes next are loaded ahead, where it is time for that. */
void handoff_delivery_load_next(struct handoff_delivery *delivery);

enum handoff_lookup {
    HANDOFF_LOOKUP_FOUND,
    HANDOFF_LOOKUP_ABSENT, /* it is not on this lane, or not any more */
    HANDOFF_LOOKUP_LATER,  /* the mail is delivered again, perhaps before the return */
    HANDOFF_LOOKUP_FAILED, /* it could not be loaded, and the error says why */
};

/* The delivery with this id, for the mail that is being delivered. */
enum handoff_lookup handoff_lane_find(struct handoff_lane *lane, const struct base_uuid *id,
                                      struct base_mail *mail, struct handoff_delivery **delivery,
                                      struct handoff_error *error);

/* order.c: takes a place behind the others of its agent and task; gives it up, so that the next has
   its turn. */
void handoff_delivery_join(struct handoff_delivery *delivery);
void handoff_delivery_quit(struct handoff_delivery *delivery);
/* READY and due, with settings in force. false: another one is before it; it will be woken. */
bool handoff_delivery_has_turn(struct handoff_delivery *delivery);
/* It waits for no feed any more. */
void handoff_delivery_stop_waiting(struct handoff_delivery *delivery);

/* alternates.c: gives up on this agent; the next alternate gets it, or it is parked */
void handoff_delivery_give_up(struct handoff_delivery *delivery, enum handoff_reason reason);
/* The same for an agent that was not tried, or not as often as allowed, which is recorded. */
void handoff_delivery_give_up_untried(struct handoff_delivery *delivery,
                                      enum handoff_obstacle obstacle);
/* The requested agent's next alternate that can take the handoff now, or NULL. Uses up that one and
   all it passes over. */
struct handoff_agent *handoff_delivery_next_alternate(struct handoff_delivery *delivery);
void handoff_delivery_learn(struct handoff_delivery *delivery, enum handoff_breaker_event event);
/* The outstanding attempt has been answered, or has failed. */
void handoff_delivery_report_probe(struct handoff_delivery *delivery,
                                   enum handoff_breaker_event event);

/* attempt.c: READY and due, with settings in force. Offers it to an agent that pulls; harmless if
   repeated. false: the agent does not pull. */
bool handoff_delivery_offer(struct handoff_delivery *delivery);
/* It is in an inbox, or on its way from there to a poller. */
bool handoff_delivery_is_offered(const struct handoff_delivery *delivery);
/* Begins an attempt, after handoff_delivery_offer returned false. */
void handoff_delivery_attempt(struct handoff_delivery *delivery, bool probe);
/* IN_FLIGHT with an agent that pulled it: delivery runs the timeout. */
bool handoff_delivery_is_taken(const struct handoff_delivery *delivery);
/* Frees what its protocol keeps; nothing is outstanding. */
void handoff_delivery_clear_protocol(struct handoff_delivery *delivery);

/* watch.c: lets go of those that wait until it is accepted, or, where it has ended, of all */
void handoff_delivery_tell_watches(struct handoff_delivery *delivery, bool ended);

/* deferred_ack.c: posts the reply to the caller's lane; any thread */
void handoff_reply_send(struct handoff_reply *reply);

/* notify.c */
void handoff_delivery_status(const struct handoff_delivery *delivery,
                             struct handoff_status *status);
void handoff_delivery_view(const struct handoff_delivery *delivery, struct handoff_live_view *view);
/* Tells the waiter of a replay that it was accepted; a sender was told already. error: why that
   could not be written, or NULL. */
void handoff_delivery_tell_ready(struct handoff_delivery *delivery,
                                 const struct handoff_error *error);
/* error: it was not accepted, its end could not be written, or the process is ending; an accepted
   handoff is then reported as last published. */
void handoff_delivery_tell_settled(struct handoff_delivery *delivery,
                                   const struct handoff_error *error);
void handoff_delivery_observe_move(struct handoff_delivery *delivery, enum handoff_state from,
                                   bool resumed);
void handoff_delivery_observe_circuit(struct handoff_delivery *delivery,
                                      const struct handoff_breaker *breaker);
void handoff_delivery_observe_shortage(struct handoff_delivery *delivery,
                                       enum handoff_shortage shortage);
void handoff_delivery_observe_secrets(struct handoff_delivery *delivery, handoff_secret_set kinds);

#endif
