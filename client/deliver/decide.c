/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions about parked handoffs. The row and envelope are read on a reader thread; everything
 * else runs on the deciding lane.
 *
 * A decision that finds the handoff claimed waits until the earlier one is written, so that its
 * caller is told who decided what.
 */
#include "client/deliver/decide.h"

#include "client/deliver/author.h"
#include "client/deliver/delivery.h"
#include "client/deliver/obstacle.h"
#include "client/model/model.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/rfc3339.h"

#include <stdio.h>

/* What has expired is over, but an edit makes a new one of it. */
static bool is_open_to(enum handoff_decision decision, enum handoff_state state)
{
    return state == HANDOFF_STATE_PARKED ||
           (state == HANDOFF_STATE_EXPIRED && decision == HANDOFF_DECISION_HOLD);
}

/* A decision as it is asked for, and what the reader found out about it. */
struct asked_decision {
    enum handoff_decision decision;
    struct handoff_author author;
    /* what was decided last, of one that is not open any more, or has been revived; else "" */
    char decided[HANDOFF_DECIDED_SIZE];
};

/* Who replays it for the fourth time should know that. */
static enum handoff_code check_replays(const struct handoff_stored *stored,
                                       const struct asked_decision *asked,
                                       struct handoff_error *error)
{
    if (asked->decision != HANDOFF_DECISION_REPLAY || asked->author.again ||
        stored->standing.replays < HANDOFF_REPLAYS_MAX)
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_CONFLICT,
                      "the handoff was replayed several times already, and came back each time; to "
                      "replay it all the same, repeat this with again",
                      "again", NULL);
    handoff_error_seen(error, "%u replays", stored->standing.replays);
    handoff_error_allow(error, "%d, or \"again\": true", HANDOFF_REPLAYS_MAX);
    return HANDOFF_ERR_CONFLICT;
}

static enum handoff_code refuse_not_open(const struct asked_decision *asked,
                                         enum handoff_state state, struct handoff_error *error)
{
    handoff_error_set(error, HANDOFF_ERR_CONFLICT,
                      is_open_to(asked->decision, state) ? "the handoff was revived already"
                      : asked->decision == HANDOFF_DECISION_HOLD
                          ? "only a parked or an expired handoff can be edited"
                          : "only a parked handoff can be replayed or discarded",
                      "state", handoff_state_name(state));
    if (asked->decided[0])
        handoff_error_seen(error, "%s; %s", handoff_state_name(state), asked->decided);
    return HANDOFF_ERR_CONFLICT;
}

static enum handoff_code check_parked(const struct handoff_lane *lane,
                                      const struct handoff_stored *stored,
                                      const struct asked_decision *asked,
                                      struct handoff_error *error)
{
    const struct base_clock *clock = lane->engine->options.clock;
    const enum handoff_decision decision = asked->decision;
    enum handoff_state state;
    if (!handoff_state_from_number(stored->standing.state, &state))
        return handoff_error_set(
            error, HANDOFF_ERR_STORE_NEWER,
            "the store holds a state known only to a newer version of this program; upgrade",
            "state", NULL);
    if (!is_open_to(decision, state) || asked->decided[0])
        return refuse_not_open(asked, state, error);
    if (decision == HANDOFF_DECISION_REPLAY && stored->deadline_ms &&
        stored->deadline_ms <= base_wall_ms(clock))
        return handoff_error_set(
            error, HANDOFF_ERR_CONFLICT,
            "the deadline has passed; discard the handoff, or replay it with an "
            "edit that has a later deadline",
            "constraints.deadline", NULL);
    return check_replays(stored, asked, error);
}

/* The agent that was named, otherwise the one it was parked for. */
static enum handoff_code find_agent(struct handoff_agents *agents,
                                    const struct handoff_stored *stored,
                                    enum handoff_decision decision, struct base_span target,
                                    struct handoff_agent **agent, struct handoff_error *error)
{
    struct base_span name = target.data ? target : stored->standing.target;
    *agent = decision == HANDOFF_DECISION_REPLAY ? handoff_agents_find(agents, name)
                                                 : handoff_agents_remember(agents, name);
    if (*agent)
        return HANDOFF_OK;
    if (decision != HANDOFF_DECISION_REPLAY)
        return handoff_error_no_memory(error);
    return handoff_agents_refuse_unknown(agents, name, "target_agent", error);
}

static enum handoff_code check_agent(const struct handoff_settings *settings,
                                     const struct handoff_delivery *delivery,
                                     struct handoff_error *error)
{
    const struct handoff_agent_options *options = &settings->options;
    if (delivery->tokens > options->token_budget) {
        handoff_error_set(error, HANDOFF_ERR_BUDGET_TOO_SMALL,
                          "the envelope exceeds the token budget of this agent; replay it with an "
                          "edit, which assembles a new envelope for the agent",
                          "token_budget", NULL);
        handoff_error_seen(error, "%llu", (unsigned long long)options->token_budget);
        error->needed = (int64_t)delivery->tokens;
        return HANDOFF_ERR_BUDGET_TOO_SMALL;
    }
    if (settings->protocol->obstacle(options, delivery->envelope) == HANDOFF_OBSTACLE_NONE)
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_INVALID,
                      "this agent needs both versions in one document, and the envelope has only "
                      "one; replay it with an edit, which assembles a new envelope for the agent",
                      "target_agent", options->name);
    handoff_error_allow(error, "an agent that accepts version 2");
    return HANDOFF_ERR_INVALID;
}

/* The envelope was made for the agent it was sent to; another agent may be unable to take it. */
static enum handoff_code check_other(struct handoff_agent *agent,
                                     const struct handoff_delivery *delivery,
                                     struct handoff_error *error)
{
    if (base_span_equal(base_span_text(agent->name), delivery->asked_target))
        return HANDOFF_OK;
    struct handoff_settings *settings = handoff_agent_settings(agent);
    enum handoff_code code = settings ? check_agent(settings, delivery, error) : HANDOFF_OK;
    handoff_settings_release(&settings);
    return code;
}

/* A replay needs room, as a new handoff does. */
static enum handoff_code count_in(struct handoff_engine *engine, struct handoff_agent *agent,
                                  enum handoff_decision decision, struct handoff_error *error)
{
    if (decision != HANDOFF_DECISION_REPLAY || handoff_delivery_count(engine, agent, true))
        return HANDOFF_OK;
    return handoff_delivery_refuse_full(agent, error);
}

static void carry_out(struct handoff_delivery *delivery, enum handoff_decision decision,
                      const char *words)
{
    switch (decision) {
    case HANDOFF_DECISION_REPLAY:
        handoff_delivery_replay(delivery);
        break;
    case HANDOFF_DECISION_DISCARD:
    case HANDOFF_DECISION_CANCEL:
        handoff_delivery_discard(delivery, words);
        break;
    case HANDOFF_DECISION_ACKNOWLEDGE:
        handoff_delivery_settle_late(delivery);
        break;
    case HANDOFF_DECISION_HOLD:
        break;
    }
}

/* The agent it is counted as parked for; a replay elsewhere does not change that. */
static enum handoff_code find_parking_agent(struct handoff_delivery *delivery,
                                            const struct handoff_stored *stored,
                                            struct handoff_error *error)
{
    struct handoff_agents *agents = delivery->lane->engine->options.agents;
    delivery->parked_for = handoff_agents_remember(agents, stored->standing.target);
    delivery->parked_ms = stored->standing.settled_ms;
    return delivery->parked_for ? HANDOFF_OK : handoff_error_no_memory(error);
}

/* Puts a claimed handoff on its lane, as the store has it. */
static enum handoff_code take_up(struct handoff_delivery *delivery,
                                 const struct handoff_stored *stored,
                                 const struct handoff_error *loaded,
                                 const struct asked_decision *asked, struct base_span target,
                                 struct handoff_error *error)
{
    struct handoff_engine *engine = delivery->lane->engine;
    const enum handoff_decision decision = asked->decision;
    struct handoff_agent *agent;
    enum handoff_code code = check_parked(delivery->lane, stored, asked, error);
    if (code == HANDOFF_OK)
        code = find_agent(engine->options.agents, stored, decision, target, &agent, error);
    if (code == HANDOFF_OK)
        code = find_parking_agent(delivery, stored, error);
    if (code == HANDOFF_OK && loaded->code != HANDOFF_OK) {
        *error = *loaded;
        code = loaded->code;
    }
    if (code == HANDOFF_OK && decision == HANDOFF_DECISION_REPLAY)
        code = check_other(agent, delivery, error);
    if (code == HANDOFF_OK)
        code = count_in(engine, agent, decision, error);
    if (code == HANDOFF_OK)
        handoff_delivery_enter(delivery, (enum handoff_state)stored->standing.state, agent);
    return code;
}

/* A lane has the handoff: it is being delivered, or an earlier decision is not through yet. */
static enum handoff_code refuse_claimed(const struct handoff_lane *lane,
                                        const struct handoff_stored *stored,
                                        const struct asked_decision *asked,
                                        struct handoff_error *error)
{
    char id[BASE_UUID_TEXT];
    enum handoff_code code = check_parked(lane, stored, asked, error);
    if (code != HANDOFF_OK)
        return code;
    base_uuid_format(&stored->id, id);
    return handoff_error_set(error, HANDOFF_ERR_CONFLICT, "concurrent replay or discard; retry",
                             "id", id);
}

/* ---- from the decision to its being carried out --------------------------------------------- */

enum {
    EARLIER_MS = 5000, /* an earlier decision is waited for; an edit assembles an envelope */
    FIRST_LOOK_MS = 5, /* about a commit */
    LONGEST_LOOK_MS = 160,
};

/* In the arena of the delivery, which is not on a lane yet. */
struct handoff_pending_decision {
    struct handoff_store_read read;
    struct handoff_delivery *delivery;
    bool claimed;

    /* while an earlier decision is waited for */
    TAILQ_ENTRY(handoff_pending_decision) contender; /* of the lane's */
    struct base_timer look;
    int64_t look_ms; /* to the next look; 0: it has not waited yet */
    int64_t waits_until_ms;

    struct base_span target;
    struct asked_decision asked; /* but for `decided`, which the reader fills in */
    struct handoff_decision_note note;

    /* the reader's, then the lane's */
    struct handoff_stored stored;
    struct handoff_error error;  /* from reading the row */
    struct handoff_error loaded; /* from loading the delivery */
};

static struct handoff_pending_decision *pending_of(struct handoff_store_read *read)
{
    return BASE_CONTAINER_OF(read, struct handoff_pending_decision, read);
}

/* To discard or acknowledge a handoff, its envelope need not be readable. */
static enum handoff_code load(struct handoff_delivery *delivery,
                              const struct handoff_stored *stored, enum handoff_decision decision,
                              struct handoff_error *error)
{
    enum handoff_code code = handoff_delivery_load(delivery, stored, NULL, error);
    bool is_needed = decision == HANDOFF_DECISION_REPLAY || decision == HANDOFF_DECISION_HOLD;
    if (code == HANDOFF_ERR_STORE_CORRUPT && !is_needed)
        return handoff_error_clear(error);
    return code;
}

/* "replay by @operator (alice) at 2030-01-31T18:00:00Z: it is back" */
static void describe_decision(void *arg, const struct handoff_stored_decision *row)
{
    char *text = arg, at[BASE_RFC3339_SIZE];
    base_rfc3339_format(row->at_ms, at);
    snprintf(text, HANDOFF_DECIDED_SIZE, "%s by %.*s%s%.*s%s at %s: %.*s",
             handoff_action_name(row->action), (int)row->who.size, row->who.data,
             row->by.size ? " (" : "", (int)row->by.size, row->by.data, row->by.size ? ")" : "", at,
             (int)row->reason.size, row->reason.data);
}

void handoff_read_decided(struct handoff_store *store, const struct base_uuid *id, uint32_t actions,
                          char text[HANDOFF_DECIDED_SIZE])
{
    const struct handoff_decision_filter last = {.handoff = *id, .actions = actions, .limit = 1};
    text[0] = '\0';
    (void)!handoff_store_visit_decisions(store, &last, describe_decision, text, NULL);
}

/* Who decides in vain is told who was first. What has expired stays so when it is revived. */
static void read_last_decision(struct handoff_store *store, const struct handoff_stored *stored,
                               struct asked_decision *asked)
{
    const enum handoff_state state = (enum handoff_state)stored->standing.state;
    if (!is_open_to(asked->decision, state))
        handoff_read_decided(store, &stored->id, UINT32_MAX, asked->decided);
    else if (state == HANDOFF_STATE_EXPIRED)
        handoff_read_decided(store, &stored->id, 1u << HANDOFF_ACTION_REVIVE, asked->decided);
}

enum handoff_code handoff_check_can_be_edited(struct handoff_store *store,
                                              const struct handoff_stored *stored,
                                              struct handoff_error *error)
{
    struct asked_decision asked = {.decision = HANDOFF_DECISION_HOLD};
    const enum handoff_state state = (enum handoff_state)stored->standing.state;
    read_last_decision(store, stored, &asked);
    return is_open_to(asked.decision, state) && !asked.decided[0]
               ? HANDOFF_OK
               : refuse_not_open(&asked, state, error);
}

/* On a reader thread, which owns the delivery until parked_was_read. */
static void read_parked(struct handoff_store_read *read)
{
    struct handoff_pending_decision *pending = pending_of(read);
    struct handoff_delivery *delivery = pending->delivery;
    const enum handoff_decision decision = pending->asked.decision;
    handoff_error_clear(&pending->loaded);
    struct handoff_store *store = delivery->lane->engine->options.store;
    if (handoff_store_get_handoff(store, &delivery->id, &delivery->arena, &pending->stored,
                                  &pending->error) != HANDOFF_OK)
        return;
    read_last_decision(store, &pending->stored, &pending->asked);
    if (pending->claimed && !pending->asked.decided[0] &&
        is_open_to(decision, (enum handoff_state)pending->stored.standing.state))
        (void)!load(delivery, &pending->stored, decision, &pending->loaded);
}

static enum handoff_code judge_decision(struct handoff_pending_decision *pending,
                                        struct handoff_error *error)
{
    struct handoff_delivery *delivery = pending->delivery;
    *error = pending->error;
    if (error->code != HANDOFF_OK)
        return error->code;
    if (delivery->lane->closing)
        return handoff_error_set(error, HANDOFF_ERR_SHUTTING_DOWN,
                                 "the process is shutting down; retry after the restart", NULL,
                                 NULL);
    if (!pending->claimed)
        return refuse_claimed(delivery->lane, &pending->stored, &pending->asked, error);
    return take_up(delivery, &pending->stored, &pending->loaded, &pending->asked, pending->target,
                   error);
}

static void tell_decided(struct handoff_delivery *delivery, const struct handoff_error *error)
{
    struct handoff_waiter *waiter = delivery->waiter;
    if (!waiter)
        return;
    if (error->code != HANDOFF_OK)
        handoff_waiter_withdraw(waiter);
    waiter->decided(waiter, error);
}

static bool goes_elsewhere(const struct handoff_pending_decision *pending)
{
    return pending->target.data &&
           !base_span_equal(pending->target, pending->stored.standing.target);
}

static enum handoff_action action_of(const struct handoff_pending_decision *pending)
{
    if (pending->asked.decision == HANDOFF_DECISION_REPLAY)
        return goes_elsewhere(pending) ? HANDOFF_ACTION_REDIRECT : HANDOFF_ACTION_REPLAY;
    return pending->asked.decision == HANDOFF_DECISION_CANCEL ? HANDOFF_ACTION_CANCEL
                                                              : HANDOFF_ACTION_DISCARD;
}

/* A late acknowledgement is no decision. */
static void note_decided(struct handoff_pending_decision *pending)
{
    const struct handoff_standing *standing = &pending->stored.standing;
    if (pending->asked.decision == HANDOFF_DECISION_ACKNOWLEDGE)
        return;
    pending->note.row.target = standing->target;
    pending->note.row.cause = standing->reason == HANDOFF_REASON_OTHER
                                  ? standing->words
                                  : base_span_text(handoff_reason_name(standing->reason));
    if (goes_elsewhere(pending))
        pending->note.row.to = pending->target;
    handoff_delivery_note_decision(pending->delivery, &pending->note, &pending->asked.author,
                                   action_of(pending));
}

static void conclude_decision(struct handoff_pending_decision *pending)
{
    struct handoff_delivery *delivery = pending->delivery;
    struct handoff_error error;
    enum handoff_code code = judge_decision(pending, &error);
    const enum handoff_decision decision = pending->asked.decision;
    if (code == HANDOFF_OK && decision == HANDOFF_DECISION_HOLD) {
        delivery->reason = pending->stored.standing.reason;
        delivery->words = pending->stored.standing.words.data;
        tell_decided(delivery, &error); /* the waiter may release it at once */
        return;
    }
    if (pending->claimed && code != HANDOFF_OK)
        handoff_delivery_give_up_claim(delivery);
    tell_decided(delivery, &error);
    if (code == HANDOFF_OK) {
        note_decided(pending);
        carry_out(delivery, decision, pending->asked.author.reason);
    } else if (pending->claimed)
        handoff_delivery_unclaim(delivery);
    else
        handoff_delivery_free(delivery);
}

static void take_decision(struct handoff_pending_decision *pending)
{
    struct handoff_lane *lane = pending->delivery->lane;
    pending->claimed = handoff_delivery_claim(pending->delivery);
    lane->awaited++;
    handoff_store_submit_read(lane->engine->options.store, &pending->read);
}

/* ---- waiting for an earlier decision -------------------------------------------------------- */

/* Another decision has the handoff and is not written yet. Once it is, the row says who made it;
   if it came to nothing, this one can claim the handoff. */
static bool is_contended(const struct handoff_pending_decision *pending)
{
    return !pending->claimed && pending->error.code == HANDOFF_OK && !pending->asked.decided[0] &&
           is_open_to(pending->asked.decision, (enum handoff_state)pending->stored.standing.state);
}

static void look_again(struct base_timer *timer)
{
    struct handoff_pending_decision *pending =
        BASE_CONTAINER_OF(timer, struct handoff_pending_decision, look);
    TAILQ_REMOVE(&pending->delivery->lane->contenders, pending, contender);
    take_decision(pending);
}

static void wait_for_earlier(struct handoff_pending_decision *pending)
{
    struct handoff_lane *lane = pending->delivery->lane;
    const int64_t now_ms = handoff_lane_now_ms(lane);
    if (pending->look_ms == 0) {
        pending->look_ms = FIRST_LOOK_MS;
        pending->waits_until_ms = now_ms + EARLIER_MS;
    }
    pending->look.fire = look_again;
    base_timers_start(lane->timers, &pending->look, now_ms + pending->look_ms);
    TAILQ_INSERT_TAIL(&lane->contenders, pending, contender);
    if (pending->look_ms < LONGEST_LOOK_MS)
        pending->look_ms *= 2;
}

static bool may_look_again(const struct handoff_pending_decision *pending)
{
    const struct handoff_lane *lane = pending->delivery->lane;
    return !lane->closing &&
           (pending->look_ms == 0 || handoff_lane_now_ms(lane) < pending->waits_until_ms);
}

void handoff_engine_end_contenders(struct handoff_lane *lane)
{
    struct handoff_pending_decision *pending;
    while ((pending = TAILQ_FIRST(&lane->contenders))) {
        TAILQ_REMOVE(&lane->contenders, pending, contender);
        base_timers_stop(lane->timers, &pending->look);
        conclude_decision(pending);
    }
}

/* On the lane. */
static void parked_was_read(struct handoff_store_read *read)
{
    struct handoff_pending_decision *pending = pending_of(read);
    pending->delivery->lane->awaited--;
    if (is_contended(pending) && may_look_again(pending))
        wait_for_earlier(pending);
    else
        conclude_decision(pending);
}

/* NULL: no memory. */
static struct handoff_pending_decision *
make_decision(struct handoff_lane *lane, const struct base_uuid *id, enum handoff_decision decision,
              struct base_span target, const struct handoff_author *author)
{
    struct handoff_delivery *delivery = handoff_delivery_new(
        lane, id, HANDOFF_DELIVERY_NAMES + sizeof(struct handoff_pending_decision));
    struct handoff_pending_decision *pending =
        delivery ? base_arena_calloc(&delivery->arena, 1, sizeof *pending) : NULL;
    if (pending) {
        pending->delivery = delivery;
        pending->asked.decision = decision;
        pending->read.mailbox = lane->mailbox;
        pending->read.run = read_parked;
        pending->read.done = parked_was_read;
        if (handoff_delivery_keep_author(delivery, author, &pending->asked.author) &&
            handoff_delivery_keep(delivery, target, &pending->target))
            return pending;
    }
    if (delivery)
        handoff_delivery_free(delivery);
    return NULL;
}

void handoff_engine_decide(struct handoff_lane *lane, const struct base_uuid *id,
                           enum handoff_decision decision, struct base_span target,
                           const struct handoff_author *author, struct handoff_waiter *waiter)
{
    BASE_CHECK_MAGIC(lane, HANDOFF_LANE_MAGIC);
    struct handoff_pending_decision *pending = make_decision(lane, id, decision, target, author);
    if (!pending) {
        struct handoff_error error;
        handoff_error_no_memory(&error);
        waiter->decided(waiter, &error);
        return;
    }
    pending->delivery->waiter = waiter;
    waiter->delivery = pending->delivery;
    take_decision(pending);
}

/* ---- replacing it with an edited handoff ---------------------------------------------------- */

void handoff_engine_hold(struct handoff_lane *lane, const struct base_uuid *id,
                         struct handoff_waiter *waiter)
{
    const struct base_span none = base_span(NULL, 0);
    handoff_engine_decide(lane, id, HANDOFF_DECISION_HOLD, none, NULL, waiter);
}

void handoff_engine_held(const struct handoff_waiter *waiter, struct handoff_status *status)
{
    handoff_delivery_status(waiter->delivery, status);
}

/* False while an acknowledgement is being written, which ends the handoff. */
static bool is_held(const struct handoff_delivery *delivery)
{
    return delivery && is_open_to(HANDOFF_DECISION_HOLD, delivery->state);
}

void handoff_engine_let_go(struct handoff_waiter *waiter)
{
    struct handoff_delivery *delivery = waiter->delivery;
    handoff_waiter_withdraw(waiter);
    if (is_held(delivery))
        handoff_delivery_leave(delivery);
}

static enum handoff_code refuse_ended(const struct handoff_lane *lane, struct handoff_error *error)
{
    if (lane->closing)
        return handoff_error_set(error, HANDOFF_ERR_SHUTTING_DOWN,
                                 "the process is shutting down; retry after the restart", NULL,
                                 NULL);
    return handoff_error_set(error, HANDOFF_ERR_CONFLICT,
                             "the handoff was acknowledged or cancelled meanwhile", NULL, NULL);
}

/* The unit was committed, or nothing of it was. The store has it as discarded then; the write that
   follows repeats this, and reports it. */
static void replacement_written(struct handoff_store_job *job)
{
    struct handoff_delivery *delivery = BASE_CONTAINER_OF(job, struct handoff_delivery, move.job);
    BASE_CHECK_MAGIC(delivery, HANDOFF_DELIVERY_MAGIC);
    BASE_CHECK(delivery->writing);
    BASE_CHECK(is_held(delivery) && !delivery->changed); /* nobody could do anything about it */
    delivery->lane->awaited--;
    delivery->writing = delivery->replacing = false;
    if (job->error.code != HANDOFF_OK)
        return;
    delivery->replaced = true;
    carry_out(delivery, HANDOFF_DECISION_DISCARD, delivery->move.standing.words.data);
}

static void put_discarded(struct handoff_delivery *delivery, struct base_span words,
                          struct handoff_store_unit *unit)
{
    struct handoff_store_move *move = &delivery->move;
    *move = (struct handoff_store_move){
        .job = {.mailbox = delivery->lane->mailbox, .done = replacement_written, .unit = unit},
        .seq = delivery->seq,
        .over = true,
        .of_publication = handoff_delivery_is_of_publication(delivery)};
    handoff_delivery_standing(delivery, &move->standing);
    move->standing.state = HANDOFF_STATE_DISCARDED;
    move->standing.reason = HANDOFF_REASON_OTHER;
    move->standing.words = words;
    move->standing.settled_ms = handoff_delivery_wall_ms(delivery);
    handoff_store_move(delivery->lane->engine->options.store, move);
}

/* The old one comes first in the unit, so it has heard of a failure before the sender of the new
   one does, who lets it go. */
enum handoff_code handoff_engine_replace(struct handoff_lane *lane, struct handoff_waiter *held,
                                         const struct handoff_submission *submission,
                                         struct handoff_waiter *waiter, struct handoff_error *error)
{
    struct handoff_delivery *delivery = held->delivery;
    struct handoff_submission together = *submission;
    struct handoff_store_unit unit = {0};
    char id[BASE_UUID_TEXT];
    if (!is_held(delivery))
        return refuse_ended(lane, error);
    BASE_CHECK(!delivery->writing && delivery->lane == lane);
    if (delivery->state == HANDOFF_STATE_EXPIRED)
        return handoff_engine_deliver(lane, submission, waiter, error);
    base_uuid_format(&submission->id, id);
    const char *words = base_arena_printf(&delivery->arena, "replaced by %s", id);
    if (!words)
        return handoff_error_no_memory(error);
    together.unit = &unit;
    put_discarded(delivery, base_span_text(words), &unit);
    enum handoff_code code = handoff_engine_deliver(lane, &together, waiter, error);
    if (code != HANDOFF_OK)
        return code; /* nothing of the unit was submitted */
    delivery->writing = delivery->replacing = true;
    lane->awaited++;
    handoff_store_submit_unit(lane->engine->options.store, &unit, &lane->writes);
    return HANDOFF_OK;
}
