/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays parked handoffs in bulk, see replay_many.h. A run is driven by its loop's thread; its
 * pages are read on a reader thread, which owns the page meanwhile.
 */
#include "client/calls/replay_many.h"

#include <stdio.h>
#include <string.h>

#include "client/assemble/request.h"
#include "client/calls/filters.h"
#include "client/client.h"
#include "client/deliver/decide.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/json.h"
#include "lib/base/memory.h"
#include "lib/base/rfc3339.h"

enum {
    RUN_MAGIC = 0x72756e21,
    RUNS_MAX = 16, /* kept in memory; a finished run makes room for a new one */
    PAGE = 64,
    RATE = 10, /* a second, unless requested otherwise */
    RATE_MAX = 1000,
    BUSY_WAIT_MS = 1000, /* if the in-flight limit is reached */
};

struct handoff_replay_run {
    unsigned magic;
    TAILQ_ENTRY(handoff_replay_run) entry; /* lock */

    /* never change */
    char id[BASE_UUID_TEXT];
    char target[HANDOFF_NAME_MAX + 1], reason[HANDOFF_NAME_MAX + 1], to[HANDOFF_NAME_MAX + 1];
    uint64_t limit; /* 0: none */
    unsigned rate;
    int64_t began_ms; /* wall clock */

    /* lock: */
    enum handoff_run_state state;
    bool stop; /* a stop was requested */
    uint64_t replayed, skipped, failed;
    int64_t ended_ms;           /* 0: still running */
    struct handoff_error error; /* why the run failed, or the last failed handoff */
    bool waits;                 /* for the store; then the run stays, even if it is over */

    struct handoff_loop *loop; /* NULL: the run is over. The loop's thread reads it unlocked. */

    /* its loop's, while it runs */
    struct base_timer timer;
    int64_t due_ms;             /* monotonic: when the next handoff is due */
    struct handoff_loop *asked; /* the loop on which the run waits */
    struct handoff_store_read read;
    struct handoff_error read_error;
    struct handoff_waiter waiter;
    struct base_uuid page[PAGE];
    size_t npage, at;
    int64_t after_seq;
    bool last_page;
};

static struct handoff_replays *table_of(const struct handoff_replay_run *run)
{
    return &run->loop->client->replays;
}

/* ---- showing --------------------------------------------------------------------------------- */

static void write_run_text(struct base_buffer *out, const char *key, const char *text)
{
    base_json_write_key(out, base_span_text(key));
    if (*text)
        base_json_write_string(out, base_span_text(text));
    else
        base_buffer_text(out, "null");
}

static void write_run_number(struct base_buffer *out, const char *key, uint64_t number)
{
    base_json_write_key(out, base_span_text(key));
    base_buffer_printf(out, "%llu", (unsigned long long)number);
}

static void write_run_time(struct base_buffer *out, const char *key, int64_t wall_ms)
{
    char text[BASE_RFC3339_SIZE] = "";
    if (wall_ms)
        base_rfc3339_format(wall_ms, text);
    write_run_text(out, key, text);
}

/* Under the lock. */
static void write_run(struct base_buffer *out, const struct handoff_replay_run *run)
{
    bool failed = run->error.code != HANDOFF_OK;
    base_buffer_byte(out, '{');
    write_run_text(out, "id", run->id);
    write_run_text(out, "state", handoff_run_state_name(run->state));
    write_run_text(out, "target", run->target);
    write_run_text(out, "reason", run->reason);
    write_run_text(out, "to", run->to);
    base_buffer_text(out, run->limit ? "" : ",\"limit\":null");
    if (run->limit)
        write_run_number(out, "limit", run->limit);
    write_run_number(out, "rate", run->rate);
    write_run_number(out, "replayed", run->replayed);
    write_run_number(out, "skipped", run->skipped);
    write_run_number(out, "failed", run->failed);
    write_run_time(out, "started_at", run->began_ms);
    write_run_time(out, "ended_at", run->ended_ms);
    write_run_text(out, "error", failed ? handoff_code_name(run->error.code) : "");
    base_buffer_byte(out, '}');
}

/* ---- running --------------------------------------------------------------------------------- */

static void end_run(struct handoff_replay_run *run, enum handoff_run_state state)
{
    struct handoff_replays *replays = table_of(run);
    base_timers_stop(run->loop->lane->timers, &run->timer);
    pthread_mutex_lock(&replays->lock);
    run->state = state;
    run->ended_ms = base_wall_ms(&base_clock_system);
    run->loop = NULL;
    pthread_mutex_unlock(&replays->lock);
}

/* At its next turn, at the earliest in `least_ms`. */
static void wake_in(struct handoff_replay_run *run, int64_t least_ms)
{
    struct handoff_lane *lane = run->loop->lane;
    int64_t earliest_ms = handoff_lane_now_ms(lane) + least_ms;
    base_timers_start(lane->timers, &run->timer,
                      earliest_ms > run->due_ms ? earliest_ms : run->due_ms);
}

/* From here to end_wait the run is not forgotten, and its loop stays open. */
static void begin_wait(struct handoff_replay_run *run)
{
    pthread_mutex_lock(&table_of(run)->lock);
    run->waits = true;
    pthread_mutex_unlock(&table_of(run)->lock);
    run->asked = run->loop;
    run->asked->pending++;
}

/* True: the run continues. Otherwise it may have been freed by now. */
static bool end_wait(struct handoff_replay_run *run)
{
    struct handoff_replays *replays = &run->asked->client->replays;
    run->asked->pending--;
    pthread_mutex_lock(&replays->lock);
    run->waits = false;
    bool goes_on = run->state == HANDOFF_RUN_RUNNING;
    pthread_mutex_unlock(&replays->lock);
    return goes_on;
}

/* Ids that were parked when the run began, up to a page of them. */
static void keep_ids(struct handoff_replay_run *run, const struct handoff_stored *list,
                     size_t count)
{
    int64_t now_ms = base_wall_ms(&base_clock_system);
    run->npage = run->at = 0;
    run->last_page = count < PAGE;
    for (size_t i = 0; i < count; i++) {
        int64_t parked_ms = list[i].standing.settled_ms;
        run->after_seq = list[i].seq;
        /* what was parked after now was parked before the clock was set back */
        if (parked_ms <= run->began_ms || parked_ms > now_ms)
            run->page[run->npage++] = list[i].id;
    }
}

static struct handoff_replay_run *run_of_read(struct handoff_store_read *read)
{
    struct handoff_replay_run *run = BASE_CONTAINER_OF(read, struct handoff_replay_run, read);
    BASE_CHECK_MAGIC(run, RUN_MAGIC);
    return run;
}

/* On a reader thread. */
static void read_run_page(struct handoff_store_read *read)
{
    struct handoff_replay_run *run = run_of_read(read);
    const struct handoff_store_filter filter = {
        .states = 1u << HANDOFF_STATE_PARKED,
        .target = base_span_text(*run->target ? run->target : NULL),
        .reason = base_span_text(*run->reason ? run->reason : NULL),
        .after_seq = run->after_seq,
        .limit = PAGE,
    };
    struct base_arena arena;
    struct handoff_stored *list;
    size_t count;
    handoff_error_clear(&run->read_error);
    base_arena_init(&arena, 0);
    if (handoff_store_list(run->asked->client->store, &filter, &arena, &list, &count,
                           &run->read_error) == HANDOFF_OK)
        keep_ids(run, list, count);
    base_arena_free(&arena);
}

static void step(struct handoff_replay_run *run);

static void page_was_read(struct handoff_store_read *read)
{
    struct handoff_replay_run *run = run_of_read(read);
    if (!end_wait(run))
        return;
    if (run->read_error.code == HANDOFF_OK) {
        step(run);
        return;
    }
    pthread_mutex_lock(&table_of(run)->lock);
    run->error = run->read_error;
    pthread_mutex_unlock(&table_of(run)->lock);
    end_run(run, HANDOFF_RUN_FAILED);
}

static void ask_for_page(struct handoff_replay_run *run)
{
    begin_wait(run);
    run->read.mailbox = run->asked->lane->mailbox;
    run->read.run = read_run_page;
    run->read.done = page_was_read;
    handoff_store_submit_read(run->asked->client->store, &run->read);
}

static void count_decision(struct handoff_replays *replays, struct handoff_replay_run *run,
                           const struct handoff_error *error)
{
    pthread_mutex_lock(&replays->lock);
    if (error->code == HANDOFF_OK)
        run->replayed++;
    else if (error->code == HANDOFF_ERR_CONFLICT || error->code == HANDOFF_ERR_NOT_FOUND)
        run->skipped++; /* replayed or discarded by another caller meanwhile, or expired */
    else {
        run->failed++;
        run->error = *error;
    }
    pthread_mutex_unlock(&replays->lock);
}

static struct handoff_replay_run *run_of_waiter(struct handoff_waiter *waiter)
{
    struct handoff_replay_run *run = BASE_CONTAINER_OF(waiter, struct handoff_replay_run, waiter);
    BASE_CHECK_MAGIC(run, RUN_MAGIC);
    return run;
}

/* Done with this handoff; a run does not track what it replayed. */
static void replay_ended(struct handoff_replay_run *run, const struct handoff_error *error)
{
    const bool is_full = error->code == HANDOFF_ERR_TOO_MANY_IN_FLIGHT;
    handoff_waiter_withdraw(&run->waiter);
    if (!is_full)
        count_decision(&run->asked->client->replays, run, error);
    if (!end_wait(run))
        return;
    run->at += !is_full;
    wake_in(run, is_full ? BUSY_WAIT_MS : 0);
}

/* If the handoff can be replayed, it is counted once that is written. */
static void replay_decided(struct handoff_waiter *waiter, const struct handoff_error *error)
{
    if (error->code != HANDOFF_OK)
        replay_ended(run_of_waiter(waiter), error);
}

static void replay_written(struct handoff_waiter *waiter, const struct handoff_status *status)
{
    replay_ended(run_of_waiter(waiter), &status->error);
}

static void replay_next(struct handoff_replay_run *run)
{
    begin_wait(run);
    run->waiter = (struct handoff_waiter){
        .decided = replay_decided, .accepted = replay_written, .settled = replay_written};
    handoff_engine_decide(run->loop->lane, &run->page[run->at], HANDOFF_DECISION_REPLAY,
                          base_span_text(*run->to ? run->to : NULL), NULL, &run->waiter);
}

/* Replays the next handoff, reads the next page, or ends the run. */
static void step(struct handoff_replay_run *run)
{
    if (run->at < run->npage)
        replay_next(run);
    else if (!run->last_page)
        ask_for_page(run);
    else
        end_run(run, HANDOFF_RUN_DONE);
}

static bool is_to_stop(struct handoff_replay_run *run)
{
    pthread_mutex_lock(&table_of(run)->lock);
    bool stop = run->stop;
    pthread_mutex_unlock(&table_of(run)->lock);
    return stop || handoff_engine_is_draining(run->loop->client->engine);
}

static void tick(struct base_timer *timer)
{
    struct handoff_replay_run *run = BASE_CONTAINER_OF(timer, struct handoff_replay_run, timer);
    BASE_CHECK_MAGIC(run, RUN_MAGIC);
    if (is_to_stop(run))
        end_run(run, HANDOFF_RUN_STOPPED);
    else if (run->limit && run->replayed == run->limit) /* counted by this thread alone */
        end_run(run, HANDOFF_RUN_DONE);
    else {
        run->due_ms = handoff_lane_now_ms(run->loop->lane) + (1000 + run->rate - 1) / run->rate;
        step(run);
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

void handoff_replays_init(struct handoff_replays *replays)
{
    pthread_mutex_init(&replays->lock, NULL);
    TAILQ_INIT(&replays->runs);
}

static void forget(struct handoff_replays *replays, struct handoff_replay_run *run)
{
    TAILQ_REMOVE(&replays->runs, run, entry);
    replays->count--;
    run->magic = 0;
    base_free(run);
}

void handoff_replays_free(struct handoff_replays *replays)
{
    struct handoff_replay_run *run;
    while ((run = TAILQ_FIRST(&replays->runs))) {
        BASE_CHECK(run->state != HANDOFF_RUN_RUNNING && !run->waits);
        forget(replays, run);
    }
    pthread_mutex_destroy(&replays->lock);
}

static struct handoff_replay_run *find_on(struct handoff_replays *replays,
                                          const struct handoff_loop *loop)
{
    pthread_mutex_lock(&replays->lock);
    struct handoff_replay_run *run = TAILQ_FIRST(&replays->runs);
    while (run && run->loop != loop)
        run = TAILQ_NEXT(run, entry);
    pthread_mutex_unlock(&replays->lock);
    return run;
}

void handoff_replays_end(struct handoff_loop *loop)
{
    struct handoff_replay_run *run;
    while ((run = find_on(&loop->client->replays, loop)))
        end_run(run, HANDOFF_RUN_STOPPED);
}

/* Under the lock. false: RUNS_MAX runs are still running. */
static bool make_room_for_run(struct handoff_replays *replays)
{
    struct handoff_replay_run *run = TAILQ_FIRST(&replays->runs);
    if (replays->count < RUNS_MAX)
        return true;
    while (run && (run->state == HANDOFF_RUN_RUNNING || run->waits))
        run = TAILQ_NEXT(run, entry);
    if (run)
        forget(replays, run);
    return run != NULL;
}

/* Under the lock. */
static struct handoff_replay_run *find_run(struct handoff_replays *replays, const char *id)
{
    struct handoff_replay_run *run = TAILQ_FIRST(&replays->runs);
    while (run && strcmp(run->id, id) != 0)
        run = TAILQ_NEXT(run, entry);
    return run;
}

static enum handoff_code show_replay_run(struct handoff_client *client, const char *id, bool stop,
                                         struct handoff_text *text, struct handoff_error *error)
{
    struct handoff_replays *replays = &client->replays;
    struct base_buffer out = {0};
    *text = (struct handoff_text){0};
    pthread_mutex_lock(&replays->lock);
    struct handoff_replay_run *run = find_run(replays, id);
    if (run) {
        run->stop |= stop;
        write_run(&out, run);
    }
    pthread_mutex_unlock(&replays->lock);
    if (run)
        return handoff_client_give(&out, text, error);
    return handoff_error_set(error, HANDOFF_ERR_NOT_FOUND,
                             "no replay run has this id; runs are forgotten some time after they "
                             "end and when the process restarts; handoffs not yet replayed stay "
                             "parked",
                             "id", id);
}

enum handoff_code handoff_replay_get(struct handoff_client *client, const char *id,
                                     struct handoff_text *text, struct handoff_error *error)
{
    return show_replay_run(client, id, false, text, error);
}

enum handoff_code handoff_replay_stop(struct handoff_client *client, const char *id,
                                      struct handoff_text *text, struct handoff_error *error)
{
    return show_replay_run(client, id, true, text, error);
}

enum handoff_code handoff_replay_list(struct handoff_client *client, struct handoff_text *text,
                                      struct handoff_error *error)
{
    struct handoff_replays *replays = &client->replays;
    struct handoff_replay_run *run;
    struct base_buffer out = {0};
    base_buffer_text(&out, "{\"items\":[");
    pthread_mutex_lock(&replays->lock);
    for (run = TAILQ_FIRST(&replays->runs); run; run = TAILQ_NEXT(run, entry)) {
        base_buffer_text(&out, run == TAILQ_FIRST(&replays->runs) ? "" : ",");
        write_run(&out, run);
    }
    pthread_mutex_unlock(&replays->lock);
    base_buffer_text(&out, "],\"next\":null}");
    return handoff_client_give(&out, text, error);
}

/* ---- beginning ------------------------------------------------------------------------------- */

static bool keep_name(char to[HANDOFF_NAME_MAX + 1], const char *name)
{
    return snprintf(to, HANDOFF_NAME_MAX + 1, "%s", name ? name : "") <= HANDOFF_NAME_MAX;
}

static enum handoff_code check(const struct handoff_loop *loop,
                               const struct handoff_replay_query *query,
                               struct handoff_error *error)
{
    if (handoff_agents_check_filter(loop->client->agents, query->target, error) != HANDOFF_OK)
        return error->code;
    if (handoff_check_reason(query->reason, error) != HANDOFF_OK)
        return error->code;
    if (query->to && !handoff_agents_find(loop->client->agents, base_span_text(query->to)))
        return handoff_agents_refuse_unknown(loop->client->agents, base_span_text(query->to), "to",
                                             error);
    if (query->rate > RATE_MAX) {
        handoff_error_set(error, HANDOFF_ERR_INVALID, "rate is out of range", "rate", NULL);
        handoff_error_seen(error, "%u", query->rate);
        handoff_error_allow(error, "1 to %d", RATE_MAX);
        return HANDOFF_ERR_INVALID;
    }
    if (handoff_engine_is_draining(loop->client->engine))
        return handoff_error_set(error, HANDOFF_ERR_SHUTTING_DOWN,
                                 "the process is shutting down; retry after the restart", NULL,
                                 NULL);
    return HANDOFF_OK;
}

static bool fill_run(struct handoff_replay_run *run, struct handoff_loop *loop,
                     const struct handoff_replay_query *query)
{
    struct base_uuid id = base_uuid_make(&loop->client->uuids);
    run->magic = RUN_MAGIC;
    base_uuid_format(&id, run->id);
    run->limit = query->limit;
    run->rate = query->rate ? query->rate : RATE;
    run->began_ms = base_wall_ms(&base_clock_system);
    run->state = HANDOFF_RUN_RUNNING;
    handoff_error_clear(&run->error);
    run->loop = loop;
    run->timer.fire = tick;
    return keep_name(run->target, query->target) && keep_name(run->reason, query->reason) &&
           keep_name(run->to, query->to);
}

/* NULL: the limit of concurrent replays is reached. Fills `out` while nothing else can change the
 * run. */
static bool enter(struct handoff_replays *replays, struct handoff_replay_run *run,
                  struct base_buffer *out)
{
    pthread_mutex_lock(&replays->lock);
    bool room = make_room_for_run(replays);
    if (room) {
        TAILQ_INSERT_TAIL(&replays->runs, run, entry);
        replays->count++;
        write_run(out, run);
    }
    pthread_mutex_unlock(&replays->lock);
    return room;
}

enum handoff_code handoff_replay_many(struct handoff_loop *loop,
                                      const struct handoff_replay_query *query,
                                      struct handoff_text *text, struct handoff_error *error)
{
    struct base_buffer out = {0};
    *text = (struct handoff_text){0};
    enum handoff_code code = check(loop, query, error);
    if (code != HANDOFF_OK)
        return code;
    struct handoff_replay_run *run = base_calloc(1, sizeof *run);
    if (!run)
        return handoff_error_no_memory(error);
    if (!fill_run(run, loop, query))
        code = handoff_error_set(error, HANDOFF_ERR_INVALID, "the name is too long",
                                 "target, reason or to", NULL);
    else if (!enter(&loop->client->replays, run, &out))
        code = handoff_error_set(
            error, HANDOFF_ERR_TOO_MANY_IN_FLIGHT,
            "concurrent replay limit reached; wait for one to end, or stop one", NULL, NULL);
    if (code != HANDOFF_OK) {
        base_free(run);
        return code;
    }
    wake_in(run, 0);
    return handoff_client_give(&out, text, error);
}
