/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host's loops, and what is done with all of them: taking up what was left, and draining. A loop
 * has a struct base_loop of its own, which the host drives through its descriptor, or is a guest on
 * the host's (host_loop.h). On the loop's thread, except for opening and closing (handoff.h).
 */
#include "client/client.h"
#include "client/host_loop.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum handoff_code handoff_loop_open_on(struct handoff_loop **loop, struct handoff_client *client,
                                       struct base_loop *host, struct handoff_error *error)
{
    BASE_CHECK_MAGIC(client, HANDOFF_CLIENT_MAGIC);
    *loop = NULL;
    struct handoff_loop *made = base_calloc(1, sizeof(*made));
    if (!made)
        return handoff_error_no_memory(error);
    made->magic = HANDOFF_LOOP_MAGIC;
    made->client = client;
    TAILQ_INIT(&made->assemblies);
    TAILQ_INIT(&made->followers);
    enum handoff_code code = handoff_lane_new(&made->lane, client->engine, host, error);
    if (code != HANDOFF_OK) {
        base_free(made);
        return code;
    }
    made->lane->host = made;
    handoff_spine_join(client->spine, made->lane->loop);
    *loop = made;
    return HANDOFF_OK;
}

enum handoff_code handoff_loop_open(struct handoff_loop **loop, struct handoff_client *client,
                                    struct handoff_error *error)
{
    return handoff_loop_open_on(loop, client, NULL, error);
}

static void run_host_work(struct base_work *work)
{
    struct handoff_host_work *host = BASE_CONTAINER_OF(work, struct handoff_host_work, work);
    host->run(host);
}

static void host_work_is_done(struct base_op *op)
{
    struct handoff_host_work *host = BASE_CONTAINER_OF(op, struct handoff_host_work, work.op);
    host->loop->pending--;
    host->done(host);
}

bool handoff_host_work_begin(struct handoff_host_work *work)
{
    BASE_CHECK_MAGIC(work->loop, HANDOFF_LOOP_MAGIC);
    if (!base_workers_submit(work->loop->client->workers, &work->work, work->loop->lane->loop, 0,
                             run_host_work, host_work_is_done))
        return false;
    work->loop->pending++;
    return true;
}

void handoff_host_free_arena(struct handoff_loop *loop, struct base_arena *arena)
{
    base_workers_free_arena(loop->client->workers, arena);
}

void handoff_loop_close(struct handoff_loop **loop)
{
    struct handoff_loop *dying = *loop;
    *loop = NULL;
    if (!dying)
        return;
    BASE_CHECK_MAGIC(dying, HANDOFF_LOOP_MAGIC);
    handoff_loop_stop(dying);
    handoff_spine_leave(dying->client->spine, dying->lane->loop);
    while (dying->pending > 0)
        base_mailbox_wait(dying->lane->mailbox, -1);
    handoff_lane_free(&dying->lane);
    while (dying->nspare > 0)
        base_arena_free(&dying->spare[--dying->nspare]);
    dying->magic = 0;
    base_free(dying);
}

void handoff_loop_stop(struct handoff_loop *loop)
{
    BASE_CHECK_MAGIC(loop, HANDOFF_LOOP_MAGIC);
    handoff_job_runs_end(loop);
    handoff_catch_ups_end(loop);
    handoff_client_cancel_assemblies(loop);
    handoff_followers_end(loop);
    handoff_lane_stop(loop->lane);
    handoff_spine_leave(loop->client->spine, loop->lane->loop); /* no answer is waited for */
}

/* Only a loop of its own is driven from outside. */
static struct base_loop *own_loop(const struct handoff_loop *loop)
{
    BASE_CHECK_MAGIC(loop, HANDOFF_LOOP_MAGIC);
    BASE_CHECK(loop->lane->loop == &loop->lane->own);
    return loop->lane->loop;
}

int handoff_loop_fd(const struct handoff_loop *loop)
{
    return base_loop_fd(own_loop(loop));
}

void handoff_loop_run(struct handoff_loop *loop)
{
    base_loop_turn(own_loop(loop), 0);
}

int64_t handoff_loop_wait_ms(const struct handoff_loop *loop)
{
    return base_loop_wait_ms(own_loop(loop));
}

void handoff_loop_wait(struct handoff_loop *loop, int64_t at_most_ms)
{
    base_loop_turn(own_loop(loop), at_most_ms);
}

size_t handoff_loop_pending(const struct handoff_loop *loop)
{
    return loop->pending;
}

/* ---- all of them ----------------------------------------------------------------------------- */

enum handoff_code handoff_client_resume(struct handoff_client *client, struct handoff_loop **loops,
                                        size_t count, struct handoff_error *error)
{
    struct handoff_lane **lanes = base_calloc(count, sizeof(struct handoff_lane *));
    if (!lanes)
        return handoff_error_no_memory(error);
    for (size_t i = 0; i < count; i++)
        lanes[i] = loops[i]->lane;
    enum handoff_code code = handoff_engine_resume(client->engine, lanes, count, error);
    base_free(lanes);
    if (code == HANDOFF_OK && count > 0)
        code = handoff_subscriptions_resume(loops[0], error);
    return code == HANDOFF_OK && count > 0 ? handoff_job_runs_resume(loops[0], error) : code;
}

void handoff_client_drain(struct handoff_client *client)
{
    handoff_engine_drain(client->engine);
}

void handoff_client_wind_down(struct handoff_client *client)
{
    handoff_engine_wind_down(client->engine);
}

size_t handoff_client_in_flight(const struct handoff_client *client)
{
    return handoff_engine_in_flight(client->engine);
}

size_t handoff_client_attempting(const struct handoff_client *client)
{
    return handoff_engine_attempting(client->engine);
}
