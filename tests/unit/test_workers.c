/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work handed to workers: it runs elsewhere and ends on its loop, once, whatever happens first; the
 * queue is bounded. A worker is kept busy by work that waits for the test.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "lib/base/container.h"
#include "lib/base/memory.h"
#include "lib/base/workers.h"
#include "tests/support/unit.h"

struct job {
    struct base_work work;
    pthread_t ran_on;
    bool ran, waits;
    sem_t started, may_end;
    int ended;
    enum base_op_verdict verdict;
};

static struct base_loop loop;
static struct base_workers *workers;
static atomic_uint releases; /* of memory */

static void release_counted(void *pointer)
{
    releases += pointer != NULL;
    free(pointer);
}

static void run_job(struct base_work *work)
{
    struct job *job = BASE_CONTAINER_OF(work, struct job, work);
    job->ran = true;
    job->ran_on = pthread_self();
    if (!job->waits)
        return;
    sem_post(&job->started);
    sem_wait(&job->may_end);
}

static void job_ended(struct base_op *op)
{
    struct job *job = BASE_CONTAINER_OF(op, struct job, work.op);
    job->ended++;
    job->verdict = atomic_load(&op->verdict);
}

static bool submit(struct job *job, int64_t deadline_ms)
{
    sem_init(&job->started, 0, 0);
    sem_init(&job->may_end, 0, 0);
    return base_workers_submit(workers, &job->work, &loop, deadline_ms, run_job, job_ended);
}

static void turn_until_ended(const struct job *job)
{
    while (job->ended == 0)
        base_loop_turn(&loop, -1);
}

/* The only worker has it, and keeps it until it is let go. */
static void occupy(struct job *job)
{
    job->waits = true;
    assert_true(submit(job, 0));
    sem_wait(&job->started);
}

static void let_go(struct job *job)
{
    sem_post(&job->may_end);
    turn_until_ended(job);
}

static int open_workers(void **state)
{
    struct handoff_error error;
    (void)state;
    return base_loop_init(&loop, &base_clock_system, &error) == HANDOFF_OK &&
                   base_workers_open(&workers, 1, 2, 1000, &error) == HANDOFF_OK
               ? 0
               : -1;
}

static int close_workers(void **state)
{
    (void)state;
    base_workers_close(&workers);
    base_workers_close(&workers); /* harmless */
    base_loop_free(&loop);
    return 0;
}

static void test_work_runs_elsewhere_and_ends_here(void **state)
{
    struct job job = {.ran = false};
    (void)state;
    assert_true(submit(&job, 60000));
    assert_int_equal(job.ended, 0);
    turn_until_ended(&job);
    assert_true(job.ran);
    assert_false(pthread_equal(job.ran_on, pthread_self()));
    assert_int_equal(job.verdict, BASE_OP_DONE);
    assert_int_equal(base_loop_wait_ms(&loop), -1); /* its deadline is gone with it */
}

static void test_the_queue_is_bounded(void **state)
{
    struct job busy = {.ran = false}, jobs[3] = {{.ran = false}};
    (void)state;
    occupy(&busy);
    assert_true(submit(&jobs[0], 0));
    assert_true(submit(&jobs[1], 0));
    assert_false(submit(&jobs[2], 0));
    let_go(&busy);
    turn_until_ended(&jobs[1]);
    assert_int_equal(jobs[0].ended, 1); /* in their order */
    assert_int_equal(jobs[2].ended, 0);
    assert_false(jobs[2].ran);
}

static void test_its_bytes_are_bounded(void **state)
{
    struct job busy = {.ran = false};
    struct job jobs[] = {{.work.bytes = 900}, {.work.bytes = 101}, {.work.bytes = 100}};
    (void)state;
    occupy(&busy);
    assert_true(submit(&jobs[0], 0));
    assert_false(submit(&jobs[1], 0));
    assert_true(submit(&jobs[2], 0));
    let_go(&busy);
    turn_until_ended(&jobs[2]);
    occupy(&busy);
    assert_true(submit(&jobs[1], 0)); /* they have left */
    let_go(&busy);
    turn_until_ended(&jobs[1]);
}

static void test_work_of_any_size_may_wait_alone(void **state)
{
    struct job busy = {.ran = false}, large = {.work.bytes = SIZE_MAX}, other = {.work.bytes = 0};
    (void)state;
    occupy(&busy);
    assert_true(submit(&large, 0));
    assert_false(submit(&other, 0));
    let_go(&busy);
    turn_until_ended(&large);
}

static void test_queued_work_is_cancelled_at_once(void **state)
{
    struct job busy = {.ran = false}, job = {.ran = false};
    (void)state;
    occupy(&busy);
    assert_true(submit(&job, 60000));
    base_op_cancel(&job.work.op);
    assert_int_equal(job.ended, 1);
    assert_int_equal(job.verdict, BASE_OP_CANCELLED);
    base_op_cancel(&job.work.op); /* harmless: it has ended */
    let_go(&busy);
    assert_false(job.ran);
    assert_int_equal(job.ended, 1);
}

static void test_running_work_learns_that_it_is_unwanted(void **state)
{
    struct job busy = {.ran = false};
    (void)state;
    occupy(&busy);
    assert_false(base_op_is_unwanted(&busy.work.op));
    base_op_cancel(&busy.work.op);
    assert_int_equal(busy.ended, 0); /* the worker still has it */
    assert_true(base_op_is_unwanted(&busy.work.op));
    let_go(&busy);
    assert_int_equal(busy.verdict, BASE_OP_CANCELLED);
    assert_int_equal(busy.ended, 1);
}

static void test_work_that_waits_too_long_is_late(void **state)
{
    struct job busy = {.ran = false}, job = {.ran = false};
    (void)state;
    occupy(&busy);
    assert_true(submit(&job, 1));
    turn_until_ended(&job);
    assert_int_equal(job.verdict, BASE_OP_LATE);
    let_go(&busy);
    assert_false(job.ran);
}

/* What a loop would spend milliseconds on waits for a worker; closing waits for it too. */
static void test_arenas_are_freed_by_workers(void **state)
{
    struct job busy = {.ran = false};
    struct base_arena arenas[3] = {0};
    (void)state;
    occupy(&busy);
    const char *text = base_arena_strdup(&arenas[0], "still there");
    for (size_t i = 0; i < 3; i++) {
        assert_non_null(base_arena_alloc(&arenas[i], 1 << 20));
        base_workers_free_arena(workers, &arenas[i]);
        assert_null(arenas[i].blocks);
        assert_int_equal(arenas[i].held, 0);
    }
    assert_string_equal(text, "still there"); /* the sanitizer would tell */
    let_go(&busy);
    struct job next = {.ran = false};
    assert_true(submit(&next, 0)); /* work goes on beside it */
    turn_until_ended(&next);
}

/* Else those of all that was done would wait as long as work does. */
static void test_arenas_are_freed_before_more_work(void **state)
{
    struct job busy = {.ran = false}, next = {.waits = true};
    struct base_arena arena = {0};
    (void)state;
    occupy(&busy);
    assert_true(submit(&next, 0));
    assert_non_null(base_arena_alloc(&arena, 2 << 20)); /* more than is kept to be used again */
    base_workers_free_arena(workers, &arena);
    const unsigned before = releases;
    let_go(&busy);
    sem_wait(&next.started);
    const unsigned since = releases - before;
    let_go(&next);
    assert_true(since > 0);
}

int main(void)
{
    static const struct base_allocator counting = {realloc, release_counted};
    base_allocator_set(&counting);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_work_runs_elsewhere_and_ends_here, open_workers,
                                        close_workers),
        cmocka_unit_test_setup_teardown(test_the_queue_is_bounded, open_workers, close_workers),
        cmocka_unit_test_setup_teardown(test_its_bytes_are_bounded, open_workers, close_workers),
        cmocka_unit_test_setup_teardown(test_work_of_any_size_may_wait_alone, open_workers,
                                        close_workers),
        cmocka_unit_test_setup_teardown(test_queued_work_is_cancelled_at_once, open_workers,
                                        close_workers),
        cmocka_unit_test_setup_teardown(test_running_work_learns_that_it_is_unwanted, open_workers,
                                        close_workers),
        cmocka_unit_test_setup_teardown(test_work_that_waits_too_long_is_late, open_workers,
                                        close_workers),
        cmocka_unit_test_setup_teardown(test_arenas_are_freed_by_workers, open_workers,
                                        close_workers),
        cmocka_unit_test_setup_teardown(test_arenas_are_freed_before_more_work, open_workers,
                                        close_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
