/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls about bulk jobs, see jobs.h. A call is one struct from the question to the answer: it reads
 * on a reader thread, writes by a job of the store, and answers on its loop. What carries a job out
 * is in job_run.c.
 */
#include "client/calls/jobs.h"

#include <string.h>

#include "client/calls/call.h"
#include "client/calls/clean_author.h"
#include "client/calls/filters.h"
#include "client/calls/job_run.h"
#include "client/calls/parked.h"
#include "client/calls/read.h"
#include "client/calls/render.h"
#include "client/calls/reply.h"
#include "client/model/model.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum {
    JOB_CALL_MAGIC = 0x6a6f6263,
    JOB_SIZE_MAX = 100000,
    JOB_ITEMS_LIMIT = 50,
    JOB_RATE = 10,
    JOB_SAMPLE = 20, /* handoffs that a dry run shows */
};

struct job_call {
    unsigned magic;
    struct handoff_loop *loop;
    handoff_answered *answered;
    void *context;
    struct base_arena arena;
    struct handoff_store_read read;
    void (*after_read)(struct job_call *call);

    struct base_uuid id; /* nil: all */
    struct handoff_job_item_filter items;
    struct handoff_store_turn_job turn;

    /* a new one */
    struct handoff_parked_filter filter;
    struct handoff_store_put_job put;
    struct handoff_clean_author clean;
    size_t limit;
    bool dry_run;

    /* the reader's, then the loop's */
    struct handoff_stored_job row; /* the job that was read; its texts are in the arena */
    bool found, no_memory;
    struct base_buffer out;
    struct handoff_error error;
};

static struct job_call *job_call_of(struct handoff_store_read *read)
{
    struct job_call *call = BASE_CONTAINER_OF(read, struct job_call, read);
    BASE_CHECK_MAGIC(call, JOB_CALL_MAGIC);
    return call;
}

/* If out of memory, answers with that and returns NULL. */
static struct job_call *make_job_call(struct handoff_loop *loop, handoff_answered *answered,
                                      void *context)
{
    struct job_call *call = base_calloc(1, sizeof *call);
    if (!call) {
        handoff_give_no_memory(answered, context);
        return NULL;
    }
    call->magic = JOB_CALL_MAGIC;
    call->loop = loop;
    call->answered = answered;
    call->context = context;
    base_arena_init(&call->arena, 0);
    loop->pending++;
    return call;
}

static void answer_job_call(struct job_call *call)
{
    struct handoff_result result = {.error = call->error};
    if (call->error.code == HANDOFF_OK && call->out.failed)
        handoff_error_no_memory(&result.error);
    result.body = result.error.code == HANDOFF_OK ? call->out.data : NULL;
    result.size = result.error.code == HANDOFF_OK ? call->out.size : 0;
    call->loop->pending--;
    call->answered(call->context, &result);
    base_buffer_free(&call->out);
    base_arena_free(&call->arena);
    call->magic = 0;
    base_free(call);
}

static void fail_job_call(struct job_call *call, const struct handoff_error *error)
{
    call->error = *error;
    answer_job_call(call);
}

static void job_was_read(struct handoff_store_read *read)
{
    struct job_call *call = job_call_of(read);
    if (call->error.code == HANDOFF_OK && call->after_read)
        call->after_read(call);
    else
        answer_job_call(call);
}

static void read_for_call(struct job_call *call, void (*run)(struct handoff_store_read *read),
                          void (*after_read)(struct job_call *call))
{
    call->after_read = after_read;
    call->read = (struct handoff_store_read){
        .mailbox = call->loop->lane->mailbox, .run = run, .done = job_was_read};
    handoff_store_submit_read(call->loop->client->store, &call->read);
}

/* ---- reading: on a reader thread --------------------------------------------------------------
 */

static bool keep_job_text(struct job_call *call, struct base_span from, struct base_span *to)
{
    *to = base_span(base_arena_copy(&call->arena, from.data, from.size), from.size);
    return to->data != NULL;
}

static void show_job(void *arg, const struct handoff_stored_job *row)
{
    struct job_call *call = arg;
    call->found = true;
    call->row = *row;
    call->no_memory |= !keep_job_text(call, row->to, &call->row.to) ||
                       !keep_job_text(call, row->who, &call->row.who) ||
                       !keep_job_text(call, row->by, &call->row.by) ||
                       !keep_job_text(call, row->reason, &call->row.reason);
    if (call->out.size > 0 && call->out.data[call->out.size - 1] == '}')
        base_buffer_byte(&call->out, ',');
    handoff_object_write_job(&call->out, row);
}

static void read_one_job(struct handoff_store_read *read)
{
    struct job_call *call = job_call_of(read);
    char id[BASE_UUID_TEXT];
    handoff_error_clear(&call->error);
    if (handoff_store_visit_jobs(call->loop->client->store, &call->id, show_job, call,
                                 &call->error) != HANDOFF_OK)
        return;
    base_uuid_format(&call->id, id);
    if (!call->found)
        handoff_error_set(&call->error, HANDOFF_ERR_NOT_FOUND, "no job has this id", "id", id);
    else if (call->no_memory)
        handoff_error_no_memory(&call->error);
}

static void read_all_jobs(struct handoff_store_read *read)
{
    struct job_call *call = job_call_of(read);
    handoff_error_clear(&call->error);
    base_buffer_text(&call->out, "{\"items\":[");
    (void)!handoff_store_visit_jobs(call->loop->client->store, NULL, show_job, call, &call->error);
    base_buffer_text(&call->out, "],\"next\":null}");
}

struct item_page {
    struct base_buffer *out;
    size_t count;
    struct base_uuid last;
};

static void show_item(void *arg, const struct handoff_stored_job_item *row)
{
    struct item_page *page = arg;
    base_buffer_text(page->out, page->count++ ? "," : "");
    handoff_object_write_job_item(page->out, row);
    page->last = row->handoff;
}

static void read_job_items(struct handoff_store_read *read)
{
    struct job_call *call = job_call_of(read);
    struct item_page page = {.out = &call->out};
    char next[BASE_UUID_TEXT];
    read_one_job(read);
    if (call->error.code != HANDOFF_OK)
        return;
    call->out.size = 0;
    base_buffer_text(&call->out, "{\"items\":[");
    (void)!handoff_store_visit_job_items(call->loop->client->store, &call->items, show_item, &page,
                                         &call->error);
    base_uuid_format(&page.last, next);
    if (page.count == call->items.limit)
        base_buffer_printf(&call->out, "],\"next\":\"%s\"}", next);
    else
        base_buffer_text(&call->out, "],\"next\":null}");
}

static bool read_job_id_text(struct job_call *call, const char *id)
{
    struct handoff_error error;
    if (base_uuid_parse(id, strlen(id), &call->id))
        return true;
    handoff_error_set(&error, HANDOFF_ERR_NOT_FOUND, "no job has this id", "id", id);
    fail_job_call(call, &error);
    return false;
}

void handoff_job_get(struct handoff_loop *loop, const char *id, handoff_answered *answered,
                     void *context)
{
    struct job_call *call = make_job_call(loop, answered, context);
    if (call && read_job_id_text(call, id))
        read_for_call(call, read_one_job, NULL);
}

void handoff_job_list(struct handoff_loop *loop, handoff_answered *answered, void *context)
{
    struct job_call *call = make_job_call(loop, answered, context);
    if (call)
        read_for_call(call, read_all_jobs, NULL);
}

static const char known_fates[] =
#define HANDOFF_FATE(fate, number, text, ...) text ", "
#include "client/model/handoff_model.def"
    "or none for any";

static enum handoff_code read_items_query(const struct handoff_job_items_query *query,
                                          struct handoff_job_item_filter *filter,
                                          struct handoff_error *error)
{
    const size_t cursor_size = query->cursor ? strlen(query->cursor) : 0;
    filter->fates = query->result ? 0 : UINT32_MAX;
    filter->limit = query->limit > 0 ? (size_t)query->limit : JOB_ITEMS_LIMIT;
    for (int fate = 0; query->result && fate < HANDOFF_FATE_COUNT; fate++) {
        if (strcmp(query->result, handoff_fate_name((enum handoff_fate)fate)) == 0)
            filter->fates = 1u << fate;
    }
    if (filter->fates == 0) {
        handoff_error_set(error, HANDOFF_ERR_INVALID, "unknown result", "result", query->result);
        handoff_error_allow(error, "%s", known_fates);
        return HANDOFF_ERR_INVALID;
    }
    if (!query->cursor || base_uuid_parse(query->cursor, cursor_size, &filter->after))
        return HANDOFF_OK;
    return handoff_error_set(error, HANDOFF_ERR_INVALID_CURSOR,
                             "the cursor is not from this list; start again without one", "cursor",
                             query->cursor);
}

void handoff_job_items(struct handoff_loop *loop, const char *id,
                       const struct handoff_job_items_query *query, handoff_answered *answered,
                       void *context)
{
    struct handoff_error error;
    struct job_call *call = make_job_call(loop, answered, context);
    if (!call || !read_job_id_text(call, id))
        return;
    if (read_items_query(query, &call->items, &error) != HANDOFF_OK) {
        fail_job_call(call, &error);
        return;
    }
    call->items.id = call->id;
    read_for_call(call, read_job_items, NULL);
}

/* ---- turning ----------------------------------------------------------------------------------
 */

static void turn_for_call(struct job_call *call, enum handoff_run_state to,
                          void (*done)(struct handoff_store_job *job))
{
    call->turn = (struct handoff_store_turn_job){
        .job = {.mailbox = call->loop->lane->mailbox, .done = done},
        .id = call->id,
        .from = HANDOFF_RUN_WAITING,
        .to = to,
        .goes_on = to == HANDOFF_RUN_RUNNING,
        .ended_ms = to == HANDOFF_RUN_RUNNING ? 0 : base_wall_ms(&base_clock_system)};
    handoff_store_turn_job(call->loop->client->store, &call->turn);
}

static struct job_call *call_of_turn(struct handoff_store_job *job)
{
    struct job_call *call = BASE_CONTAINER_OF(job, struct job_call, turn.job);
    BASE_CHECK_MAGIC(call, JOB_CALL_MAGIC);
    return call;
}

/* conflict: it has a run, which stops soon, or it has ended. */
static void stop_was_written(struct handoff_store_job *job)
{
    struct job_call *call = call_of_turn(job);
    if (job->error.code == HANDOFF_OK || job->error.code == HANDOFF_ERR_CONFLICT)
        read_for_call(call, read_one_job, NULL);
    else
        fail_job_call(call, &job->error);
}

void handoff_job_stop(struct handoff_loop *loop, const char *id, handoff_answered *answered,
                      void *context)
{
    struct job_call *call = make_job_call(loop, answered, context);
    if (!call || !read_job_id_text(call, id))
        return;
    handoff_job_run_stop(loop->client, &call->id);
    turn_for_call(call, HANDOFF_RUN_STOPPED, stop_was_written);
}

static void run_read_job(struct job_call *call)
{
    if (!handoff_job_run_begin(call->loop, &call->row))
        handoff_error_no_memory(&call->error);
    answer_job_call(call);
}

static void refuse_not_waiting(struct job_call *call)
{
    struct handoff_error error;
    handoff_error_set(&error, HANDOFF_ERR_CONFLICT,
                      "only a job that waits after its canary can go on", "state",
                      handoff_run_state_name(call->row.state));
    fail_job_call(call, &error);
}

static void continue_was_written(struct handoff_store_job *job)
{
    struct job_call *call = call_of_turn(job);
    if (job->error.code == HANDOFF_OK)
        read_for_call(call, read_one_job, run_read_job);
    else if (job->error.code == HANDOFF_ERR_CONFLICT)
        read_for_call(call, read_one_job, refuse_not_waiting);
    else
        fail_job_call(call, &job->error);
}

void handoff_job_continue(struct handoff_loop *loop, const char *id, handoff_answered *answered,
                          void *context)
{
    struct job_call *call = make_job_call(loop, answered, context);
    if (call && read_job_id_text(call, id))
        turn_for_call(call, HANDOFF_RUN_RUNNING, continue_was_written);
}

/* ---- beginning --------------------------------------------------------------------------------
 */

struct seq_list {
    int64_t *seqs;
    size_t count, limit;
};

static bool take_seq(void *arg, const struct handoff_parked_row *row)
{
    struct seq_list *list = arg;
    list->seqs[list->count++] = row->seq;
    return list->count < list->limit;
}

/* What would become of them, by the code of what is in the way; a discard is stopped by nothing. */
struct forecast {
    size_t of[HANDOFF_CODE_COUNT], total;
};

static void foresee(struct job_call *call, const struct handoff_stored *stored, size_t count,
                    struct forecast *forecast)
{
    const bool delivers = call->put.row.action != HANDOFF_ACTION_DISCARD;
    for (size_t i = 0; i < count; i++)
        forecast
            ->of[delivers ? handoff_prospect_of(call->loop->client, &stored[i], call->put.row.to)
                          : HANDOFF_OK]++;
    forecast->total += count;
}

/* A few at a time, so that memory does not grow with their number. */
static enum handoff_code foresee_all(struct job_call *call, const struct seq_list *list,
                                     struct forecast *forecast)
{
    enum { AT_ONCE = 64 };
    struct handoff_store *store = call->loop->client->store;
    enum handoff_code code = HANDOFF_OK;
    for (size_t at = 0; at < list->count && code == HANDOFF_OK; at += AT_ONCE) {
        const size_t left = list->count - at;
        struct handoff_stored *stored = NULL;
        struct base_arena arena;
        size_t count = 0;
        base_arena_init(&arena, 0);
        code = handoff_store_get_numbered(store, list->seqs + at, left < AT_ONCE ? left : AT_ONCE,
                                          &arena, &stored, &count, &call->error);
        if (code == HANDOFF_OK)
            foresee(call, stored, count, forecast);
        base_arena_free(&arena);
    }
    return code;
}

static void write_forecast(struct base_buffer *out, const struct forecast *forecast)
{
    size_t written = 0;
    base_buffer_printf(out, "{\"count\":%zu,\"deliverable\":%zu,\"obstacles\":[", forecast->total,
                       forecast->of[HANDOFF_OK]);
    for (size_t code = HANDOFF_OK + 1; code < HANDOFF_CODE_COUNT; code++) {
        if (forecast->of[code] > 0)
            base_buffer_printf(out, "%s{\"code\":\"%s\",\"count\":%zu}", written++ ? "," : "",
                               handoff_code_name((enum handoff_code)code), forecast->of[code]);
    }
    base_buffer_text(out, "],\"items\":[");
}

static void forecast_job(struct job_call *call, const struct seq_list *list)
{
    struct handoff_client *client = call->loop->client;
    struct forecast forecast = {.total = 0};
    struct handoff_stored *shown = NULL;
    size_t count = 0;
    enum handoff_code code = foresee_all(call, list, &forecast);
    if (code == HANDOFF_OK)
        code = handoff_store_get_numbered(client->store, list->seqs,
                                          list->count < JOB_SAMPLE ? list->count : JOB_SAMPLE,
                                          &call->arena, &shown, &count, &call->error);
    write_forecast(&call->out, &forecast);
    if (code == HANDOFF_OK)
        (void)!handoff_read_write_items(client, &call->out, shown, count, true, &call->error);
    base_buffer_text(&call->out, "]}");
}

static void note_handoffs(struct job_call *call, const struct seq_list *list)
{
    struct base_uuid *ids = base_arena_calloc(&call->arena, list->count + 1, sizeof *ids);
    call->put.handoffs = ids;
    if (!ids)
        handoff_error_no_memory(&call->error);
    else
        (void)!handoff_store_get_ids(call->loop->client->store, list->seqs, list->count, ids,
                                     &call->put.count, &call->error);
}

static enum handoff_code check_job_filter(struct job_call *call)
{
    const struct handoff_filtered filtered = {.target = call->filter.target.data,
                                              .source = call->filter.source.data,
                                              .reason = call->filter.reason.data};
    return handoff_check_filters(call->loop->client, &filtered, &call->error);
}

/* On a reader thread. */
static void read_new_job(struct handoff_store_read *read)
{
    struct job_call *call = job_call_of(read);
    struct seq_list list = {.limit = call->limit};
    handoff_error_clear(&call->error);
    list.seqs = base_arena_calloc(&call->arena, call->limit, sizeof *list.seqs);
    if (!list.seqs)
        handoff_error_no_memory(&call->error);
    else if (handoff_store_find_parked(call->loop->client->store, &call->filter, take_seq, &list,
                                       &call->error) != HANDOFF_OK ||
             (list.count == 0 && check_job_filter(call) != HANDOFF_OK))
        return;
    else if (call->dry_run)
        forecast_job(call, &list);
    else
        note_handoffs(call, &list);
}

static void job_was_put(struct handoff_store_job *job)
{
    struct job_call *call = BASE_CONTAINER_OF(job, struct job_call, put.job);
    BASE_CHECK_MAGIC(call, JOB_CALL_MAGIC);
    if (job->error.code == HANDOFF_OK)
        read_for_call(call, read_one_job, run_read_job);
    else
        fail_job_call(call, &job->error);
}

static void put_new_job(struct job_call *call)
{
    if (call->dry_run) {
        answer_job_call(call);
        return;
    }
    call->put.job.mailbox = call->loop->lane->mailbox;
    call->put.job.done = job_was_put;
    handoff_store_put_job(call->loop->client->store, &call->put);
}

static enum handoff_code read_job_action(struct job_call *call,
                                         const struct handoff_job_query *query,
                                         struct handoff_error *error)
{
    struct handoff_agents *agents = call->loop->client->agents;
    struct handoff_stored_job *row = &call->put.row;
    if (strcmp(query->action, handoff_action_name(HANDOFF_ACTION_DISCARD)) == 0)
        row->action = HANDOFF_ACTION_DISCARD;
    else if (strcmp(query->action, handoff_action_name(HANDOFF_ACTION_REPLAY)) == 0)
        row->action = query->to ? HANDOFF_ACTION_REDIRECT : HANDOFF_ACTION_REPLAY;
    else {
        handoff_error_set(error, HANDOFF_ERR_INVALID, "unknown action", "action", query->action);
        handoff_error_allow(error, "%s or %s", handoff_action_name(HANDOFF_ACTION_REPLAY),
                            handoff_action_name(HANDOFF_ACTION_DISCARD));
        return HANDOFF_ERR_INVALID;
    }
    if (query->to && !handoff_agents_find(agents, base_span_text(query->to)))
        return handoff_agents_refuse_unknown(agents, base_span_text(query->to), "to", error);
    if (row->action == HANDOFF_ACTION_DISCARD && (!query->author.reason || !*query->author.reason))
        return handoff_error_set(error, HANDOFF_ERR_INVALID, "a discard needs a reason", "reason",
                                 NULL);
    return HANDOFF_OK;
}

/* Copies what the host lent. false: out of memory. */
static bool keep_job_query(struct job_call *call, const struct handoff_job_query *query,
                           struct handoff_parked_query *kept)
{
    const char **const texts[] = {&kept->target, &kept->source, &kept->task,  &kept->reason,
                                  &kept->error,  &kept->query,  &kept->since, &kept->until};
    *kept = query->filter;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (*texts[i] && !(*texts[i] = base_arena_strdup(&call->arena, *texts[i])))
            return false;
    }
    const char *to = query->to ? base_arena_strdup(&call->arena, query->to) : "";
    call->put.row.to = base_span_text(to);
    return to != NULL;
}

static enum handoff_code read_job_query(struct job_call *call,
                                        const struct handoff_job_query *query,
                                        struct handoff_error *error)
{
    struct handoff_parked_query kept;
    struct handoff_stored_job *row = &call->put.row;
    handoff_clean_author(call->loop->client, &query->author, &call->clean);
    row->id = call->id = base_uuid_make(&call->loop->client->uuids);
    row->state = HANDOFF_RUN_RUNNING;
    row->who = base_span_text(call->clean.who);
    row->by = base_span_text(call->clean.by);
    row->reason = base_span_text(call->clean.reason);
    row->rate = query->rate > 0 ? (uint32_t)query->rate : JOB_RATE;
    row->canary = query->canary;
    row->began_ms = base_wall_ms(&base_clock_system);
    call->dry_run = query->dry_run;
    call->limit =
        query->limit > 0 && query->limit < JOB_SIZE_MAX ? (size_t)query->limit : JOB_SIZE_MAX;
    enum handoff_code code = read_job_action(call, query, error);
    if (code == HANDOFF_OK && handoff_engine_is_draining(call->loop->client->engine))
        return handoff_error_set(error, HANDOFF_ERR_SHUTTING_DOWN,
                                 "the process is shutting down; retry after the restart", NULL,
                                 NULL);
    if (code == HANDOFF_OK && !keep_job_query(call, query, &kept))
        code = handoff_error_no_memory(error);
    return code == HANDOFF_OK ? handoff_read_parked_filter(&kept, &call->filter, error) : code;
}

void handoff_job_begin(struct handoff_loop *loop, const struct handoff_job_query *query,
                       handoff_answered *answered, void *context)
{
    struct handoff_error error;
    struct job_call *call = make_job_call(loop, answered, context);
    if (!call)
        return;
    if (read_job_query(call, query, &error) == HANDOFF_OK)
        read_for_call(call, read_new_job, put_new_job);
    else
        fail_job_call(call, &error);
}
