/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out a bulk job, see jobs.h. The store has what is open, and is read a page at a time; a
 * decision that is carried out marks its handoff in the same commit (decision_rows.c), any other
 * handoff is marked here. So nothing of a run must survive.
 *
 * On its loop's thread, but for the pages, which a reader thread fills, and the flag that stops it.
 */
#include "client/calls/job_run.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "client/calls/clean_author.h"
#include "client/deliver/decide.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum {
    JOB_RUN_MAGIC = 0x6a6f6272,
    SLOTS = 32,          /* decisions on their way: at 500 a second, each may take 60 ms */
    JOB_PAGE = 256,      /* handoffs that are read at once */
    STEP_MS = 10,        /* it looks for what is due as often as that */
    LOOK_MS = 200,       /* and as often as that whether it is to stop */
    FULL_WAIT_MS = 1000, /* while the in-flight limit is reached */
};

struct job_slot {
    struct handoff_job_run *run;
    bool busy;
    struct base_uuid handoff;
    struct handoff_waiter waiter;
    struct base_timer again; /* the in-flight limit was reached */
    struct handoff_store_leave_out leave;
    char detail[512];
};

struct handoff_job_run {
    unsigned magic;
    TAILQ_ENTRY(handoff_job_run) entry; /* lock */
    struct base_uuid id;
    struct handoff_loop *loop;
    atomic_bool stop; /* any thread */

    /* the loop's */
    enum handoff_action action;
    char to[HANDOFF_NAME_MAX + 1];
    struct handoff_clean_author clean;
    uint32_t rate;
    bool waits_after_first;
    bool leaving; /* the process or the loop ends: nothing more begins */
    struct base_timer timer;
    int64_t began_ms; /* monotonic */
    int64_t begun;    /* decisions */
    size_t busy;
    struct job_slot slots[SLOTS];

    /* a page: the reader's while `reading` */
    bool reading, last_page;
    struct handoff_store_read read;
    struct handoff_error read_error;
    struct base_uuid page[JOB_PAGE], after;
    size_t npage, at;

    bool turning;
    struct handoff_store_turn_job turn;
};

static struct handoff_job_runs *runs_of(const struct handoff_job_run *run)
{
    return &run->loop->client->jobs;
}

static int64_t run_now_ms(const struct handoff_job_run *run)
{
    return handoff_lane_now_ms(run->loop->lane);
}

/* ---- its end -----------------------------------------------------------------------------------
 */

static bool is_idle(const struct handoff_job_run *run)
{
    return run->busy == 0 && !run->reading && !run->turning;
}

static void drop_run(struct handoff_job_run *run)
{
    struct handoff_job_runs *runs = runs_of(run);
    BASE_CHECK(is_idle(run));
    base_timers_stop(run->loop->lane->timers, &run->timer);
    pthread_mutex_lock(&runs->lock);
    TAILQ_REMOVE(&runs->list, run, entry);
    pthread_mutex_unlock(&runs->lock);
    run->magic = 0;
    base_free(run);
}

static void wake_run(struct handoff_job_run *run, int64_t wait_ms)
{
    base_timers_start(run->loop->lane->timers, &run->timer, run_now_ms(run) + wait_ms);
}

/* A disk that is full may have room later: the run looks again, and finds that it is over. */
static void job_turned(struct handoff_store_job *job)
{
    struct handoff_job_run *run = BASE_CONTAINER_OF(job, struct handoff_job_run, turn.job);
    BASE_CHECK_MAGIC(run, JOB_RUN_MAGIC);
    const enum handoff_code code = job->error.code;
    run->turning = false;
    run->loop->pending--;
    if (code == HANDOFF_OK || code == HANDOFF_ERR_CONFLICT || run->leaving)
        drop_run(run);
    else
        wake_run(run, FULL_WAIT_MS);
}

static void turn_run(struct handoff_job_run *run, enum handoff_run_state to)
{
    base_timers_stop(run->loop->lane->timers, &run->timer);
    run->turn = (struct handoff_store_turn_job){
        .job = {.mailbox = run->loop->lane->mailbox, .done = job_turned},
        .id = run->id,
        .from = HANDOFF_RUN_RUNNING,
        .to = to,
        .ended_ms = to == HANDOFF_RUN_WAITING ? 0 : base_wall_ms(&base_clock_system)};
    run->turning = true;
    run->loop->pending++;
    handoff_store_turn_job(run->loop->client->store, &run->turn);
}

/* ---- one decision ------------------------------------------------------------------------------
 */

static void step_run(struct handoff_job_run *run);

static void free_slot(struct job_slot *slot)
{
    struct handoff_job_run *run = slot->run;
    slot->busy = false;
    run->busy--;
    run->loop->pending--;
    if (!run->leaving)
        step_run(run);
    else if (is_idle(run))
        drop_run(run);
}

static void leaving_out_done(struct handoff_store_job *job)
{
    free_slot(BASE_CONTAINER_OF(job, struct job_slot, leave.job));
}

static void leave_out(struct job_slot *slot, const struct handoff_error *error)
{
    struct handoff_job_run *run = slot->run;
    const bool is_skipped =
        error->code == HANDOFF_ERR_CONFLICT || error->code == HANDOFF_ERR_NOT_FOUND;
    handoff_error_text(error, slot->detail, sizeof slot->detail);
    slot->leave = (struct handoff_store_leave_out){
        .job = {.mailbox = run->loop->lane->mailbox,
                .batch = &run->loop->lane->writes,
                .done = leaving_out_done},
        .id = run->id,
        .handoff = slot->handoff,
        .fate = is_skipped ? HANDOFF_FATE_SKIPPED : HANDOFF_FATE_FAILED,
        .code = base_span_text(handoff_code_name(error->code)),
        .detail = base_span_text(slot->detail)};
    handoff_store_leave_out(run->loop->client->store, &slot->leave);
}

/* What the end of the process has kept from being decided stays open. */
static void slot_ended(struct job_slot *slot, const struct handoff_error *error)
{
    handoff_waiter_withdraw(&slot->waiter);
    if (error->code == HANDOFF_ERR_SHUTTING_DOWN) {
        slot->run->leaving = true;
        free_slot(slot);
    } else if (error->code == HANDOFF_ERR_TOO_MANY_IN_FLIGHT && !slot->run->leaving) {
        base_timers_start(slot->run->loop->lane->timers, &slot->again,
                          run_now_ms(slot->run) + FULL_WAIT_MS);
    } else if (error->code == HANDOFF_OK || slot->run->leaving) {
        free_slot(slot);
    } else {
        leave_out(slot, error);
    }
}

static void slot_decided(struct handoff_waiter *waiter, const struct handoff_error *error)
{
    if (error->code != HANDOFF_OK)
        slot_ended(BASE_CONTAINER_OF(waiter, struct job_slot, waiter), error);
}

static void slot_carried_out(struct handoff_waiter *waiter, const struct handoff_status *status)
{
    slot_ended(BASE_CONTAINER_OF(waiter, struct job_slot, waiter), &status->error);
}

static void decide_slot(struct job_slot *slot)
{
    const struct handoff_job_run *run = slot->run;
    slot->waiter = (struct handoff_waiter){
        .decided = slot_decided, .accepted = slot_carried_out, .settled = slot_carried_out};
    handoff_engine_decide(
        run->loop->lane, &slot->handoff,
        run->action == HANDOFF_ACTION_DISCARD ? HANDOFF_DECISION_DISCARD : HANDOFF_DECISION_REPLAY,
        base_span_text(run->to[0] ? run->to : NULL), &run->clean.author, &slot->waiter);
}

static void decide_again(struct base_timer *timer)
{
    decide_slot(BASE_CONTAINER_OF(timer, struct job_slot, again));
}

/* ---- a page ------------------------------------------------------------------------------------
 */

static void take_item(void *arg, const struct handoff_stored_job_item *row)
{
    struct handoff_job_run *run = arg;
    run->page[run->npage++] = row->handoff;
    run->after = row->handoff;
}

/* On a reader thread. */
static void read_job_page(struct handoff_store_read *read)
{
    struct handoff_job_run *run = BASE_CONTAINER_OF(read, struct handoff_job_run, read);
    const struct handoff_job_item_filter filter = {
        .id = run->id, .fates = 1u << HANDOFF_FATE_OPEN, .after = run->after, .limit = JOB_PAGE};
    run->npage = run->at = 0;
    handoff_error_clear(&run->read_error);
    if (handoff_store_visit_job_items(run->loop->client->store, &filter, take_item, run,
                                      &run->read_error) == HANDOFF_OK)
        run->last_page = run->npage < JOB_PAGE;
}

static void job_page_was_read(struct handoff_store_read *read)
{
    struct handoff_job_run *run = BASE_CONTAINER_OF(read, struct handoff_job_run, read);
    BASE_CHECK_MAGIC(run, JOB_RUN_MAGIC);
    run->reading = false;
    run->loop->pending--;
    if (run->leaving && is_idle(run))
        drop_run(run);
    else if (!run->leaving && run->read_error.code == HANDOFF_OK)
        step_run(run);
    else if (!run->leaving)
        wake_run(run, FULL_WAIT_MS);
}

static void ask_for_job_page(struct handoff_job_run *run)
{
    run->reading = true;
    run->loop->pending++;
    run->read = (struct handoff_store_read){
        .mailbox = run->loop->lane->mailbox, .run = read_job_page, .done = job_page_was_read};
    handoff_store_submit_read(run->loop->client->store, &run->read);
}

/* ---- a step ------------------------------------------------------------------------------------
 */

static bool has_begun_its_canary(const struct handoff_job_run *run)
{
    return run->waits_after_first && run->begun > 0;
}

static struct job_slot *free_slot_of(struct handoff_job_run *run)
{
    for (size_t i = 0; i < SLOTS; i++) {
        if (!run->slots[i].busy)
            return &run->slots[i];
    }
    return NULL;
}

/* By the time since it began, so that a slow commit does not lower the rate. */
static bool is_next_due(const struct handoff_job_run *run)
{
    return (run_now_ms(run) - run->began_ms) * run->rate >= run->begun * 1000;
}

static void begin_due(struct handoff_job_run *run)
{
    struct job_slot *slot;
    while (!run->reading && run->at < run->npage && !run->leaving && is_next_due(run) &&
           !has_begun_its_canary(run) && (slot = free_slot_of(run))) {
        slot->busy = true;
        slot->handoff = run->page[run->at++];
        run->busy++;
        run->begun++;
        run->loop->pending++;
        decide_slot(slot);
    }
}

static void begin_what_is_next(struct handoff_job_run *run)
{
    begin_due(run);
    if (!run->reading && run->at == run->npage && !run->last_page && !run->leaving &&
        !has_begun_its_canary(run))
        ask_for_job_page(run);
}

static bool is_all_decided(const struct handoff_job_run *run)
{
    return run->at == run->npage && run->last_page;
}

/* Looks for what is to be done now. A run that has nothing more to do ends here. */
static void step_run(struct handoff_job_run *run)
{
    const bool is_to_stop = atomic_load(&run->stop);
    if (run->turning)
        return;
    if (handoff_engine_is_draining(run->loop->client->engine))
        run->leaving = true;
    if (!run->leaving && !is_to_stop)
        begin_what_is_next(run);
    if (!is_idle(run)) {
        if (!run->timer.link)
            wake_run(run, !run->reading && run->at < run->npage ? STEP_MS : LOOK_MS);
        return;
    }
    if (run->leaving)
        drop_run(run);
    else if (is_to_stop)
        turn_run(run, HANDOFF_RUN_STOPPED);
    else if (is_all_decided(run))
        turn_run(run, HANDOFF_RUN_DONE);
    else if (has_begun_its_canary(run))
        turn_run(run, HANDOFF_RUN_WAITING);
    else if (!run->timer.link)
        wake_run(run, STEP_MS);
}

static void run_timer_fired(struct base_timer *timer)
{
    struct handoff_job_run *run = BASE_CONTAINER_OF(timer, struct handoff_job_run, timer);
    BASE_CHECK_MAGIC(run, JOB_RUN_MAGIC);
    step_run(run);
}

/* ---- beginning ---------------------------------------------------------------------------------
 */

static void copy_job_text(char *to, size_t room, struct base_span from)
{
    snprintf(to, room, "%.*s", (int)from.size, from.data ? from.data : "");
}

static void fill_job_run(struct handoff_job_run *run, struct handoff_loop *loop,
                         const struct handoff_stored_job *job)
{
    struct handoff_clean_author *clean = &run->clean;
    run->magic = JOB_RUN_MAGIC;
    run->id = job->id;
    run->loop = loop;
    run->action = job->action;
    run->rate = job->rate ? job->rate : 1;
    run->began_ms = handoff_lane_now_ms(loop->lane);
    run->waits_after_first = job->canary;
    if (job->canary) /* its canary may have been decided before a restart */
        run->begun = job->of[HANDOFF_FATE_SUCCEEDED] + job->of[HANDOFF_FATE_SKIPPED] +
                     job->of[HANDOFF_FATE_FAILED];
    run->timer.fire = run_timer_fired;
    copy_job_text(run->to, sizeof run->to, job->to);
    clean->author = (struct handoff_author){
        .who = clean->who, .by = clean->by, .reason = clean->reason, .job = clean->job};
    copy_job_text(clean->who, sizeof clean->who, job->who);
    copy_job_text(clean->by, sizeof clean->by, job->by);
    copy_job_text(clean->reason, sizeof clean->reason, job->reason);
    base_uuid_format(&job->id, clean->job);
    for (size_t i = 0; i < SLOTS; i++) {
        run->slots[i].run = run;
        run->slots[i].again.fire = decide_again;
    }
}

bool handoff_job_run_begin(struct handoff_loop *loop, const struct handoff_stored_job *job)
{
    struct handoff_job_runs *runs = &loop->client->jobs;
    struct handoff_job_run *run = base_calloc(1, sizeof *run);
    if (!run)
        return false;
    fill_job_run(run, loop, job);
    pthread_mutex_lock(&runs->lock);
    TAILQ_INSERT_TAIL(&runs->list, run, entry);
    pthread_mutex_unlock(&runs->lock);
    wake_run(run, 0);
    return true;
}

bool handoff_job_run_stop(struct handoff_client *client, const struct base_uuid *id)
{
    struct handoff_job_run *run;
    bool found = false;
    pthread_mutex_lock(&client->jobs.lock);
    TAILQ_FOREACH (run, &client->jobs.list, entry) {
        if (memcmp(&run->id, id, sizeof *id) != 0)
            continue;
        atomic_store(&run->stop, true);
        found = true;
    }
    pthread_mutex_unlock(&client->jobs.lock);
    return found;
}

/* ---- the table ---------------------------------------------------------------------------------
 */

void handoff_job_runs_init(struct handoff_job_runs *runs)
{
    pthread_mutex_init(&runs->lock, NULL);
    TAILQ_INIT(&runs->list);
}

void handoff_job_runs_free(struct handoff_job_runs *runs)
{
    BASE_CHECK(TAILQ_EMPTY(&runs->list));
    pthread_mutex_destroy(&runs->lock);
}

struct resuming_jobs {
    struct handoff_loop *loop;
    bool no_memory;
};

static void resume_job(void *arg, const struct handoff_stored_job *row)
{
    struct resuming_jobs *resuming = arg;
    if (row->state == HANDOFF_RUN_RUNNING && !handoff_job_run_begin(resuming->loop, row))
        resuming->no_memory = true;
}

enum handoff_code handoff_job_runs_resume(struct handoff_loop *loop, struct handoff_error *error)
{
    struct resuming_jobs resuming = {.loop = loop};
    enum handoff_code code =
        handoff_store_visit_jobs(loop->client->store, NULL, resume_job, &resuming, error);
    return code == HANDOFF_OK && resuming.no_memory ? handoff_error_no_memory(error) : code;
}

static struct handoff_job_run *job_run_on(struct handoff_job_runs *runs,
                                          const struct handoff_loop *loop)
{
    struct handoff_job_run *run;
    pthread_mutex_lock(&runs->lock);
    TAILQ_FOREACH (run, &runs->list, entry) {
        if (run->loop == loop && !run->leaving)
            break;
    }
    pthread_mutex_unlock(&runs->lock);
    return run;
}

/* What waits for room does not wait any longer. */
static void leave_slots(struct handoff_job_run *run)
{
    for (size_t i = 0; i < SLOTS; i++) {
        struct job_slot *slot = &run->slots[i];
        if (!slot->again.link)
            continue;
        base_timers_stop(run->loop->lane->timers, &slot->again);
        slot->busy = false;
        run->busy--;
        run->loop->pending--;
    }
}

void handoff_job_runs_end(struct handoff_loop *loop)
{
    struct handoff_job_run *run;
    while ((run = job_run_on(&loop->client->jobs, loop))) {
        run->leaving = true;
        base_timers_stop(loop->lane->timers, &run->timer);
        leave_slots(run);
        if (is_idle(run))
            drop_run(run);
    }
}
