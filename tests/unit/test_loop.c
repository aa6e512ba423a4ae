/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop: posted work from many threads, timers, sources, and its end. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "exporter/http/loop.h"
#include "tests/support/unit.h"

enum { POSTERS = 4, POSTS_EACH = 2000 };

struct numbered {
    struct exporter_post post;
    struct poster *poster;
    int number;
};

struct poster {
    struct exporter_loop *loop;
    pthread_t thread;
    struct numbered posts[POSTS_EACH];
    int seen; /* the loop's: the last number that ran */
    atomic_int *left;
};

static void take_numbered(void *arg)
{
    struct numbered *numbered = arg;
    assert_int_equal(numbered->number, numbered->poster->seen + 1); /* in the order of posting */
    numbered->poster->seen = numbered->number;
    if (atomic_fetch_sub(numbered->poster->left, 1) == 1)
        exporter_loop_stop(numbered->poster->loop);
}

static void *post_all(void *arg)
{
    struct poster *poster = arg;
    for (int i = 0; i < POSTS_EACH; i++) {
        poster->posts[i].poster = poster;
        poster->posts[i].number = i + 1;
        exporter_loop_post(poster->loop, &poster->posts[i].post, take_numbered, &poster->posts[i]);
    }
    return NULL;
}

static void test_posts_of_many_threads_all_run_in_order(void **state)
{
    (void)state;
    struct exporter_loop *loop = exporter_loop_new("test");
    assert_non_null(loop);
    atomic_int left = POSTERS * POSTS_EACH;
    struct poster *posters = calloc(POSTERS, sizeof *posters);
    assert_non_null(posters);
    for (int i = 0; i < POSTERS; i++) {
        posters[i].loop = loop;
        posters[i].left = &left;
        assert_int_equal(pthread_create(&posters[i].thread, NULL, post_all, &posters[i]), 0);
    }
    exporter_loop_run(loop);
    for (int i = 0; i < POSTERS; i++) {
        pthread_join(posters[i].thread, NULL);
        assert_int_equal(posters[i].seen, POSTS_EACH);
    }
    free(posters);
    exporter_loop_free(&loop);
    assert_null(loop);
}

/* ---- timers --------------------------------------------------------------------------------- */

struct timed {
    struct exporter_loop *loop;
    struct exporter_timer timers[4];
    char order[8];
    size_t fired;
    int64_t began_ms;
};

static void note(struct timed *timed, char name)
{
    timed->order[timed->fired++] = name;
}

static void fire_a(void *arg)
{
    struct timed *timed = arg;
    note(timed, 'a');
    exporter_timer_stop(timed->loop, &timed->timers[1]); /* b is due in the same turn, maybe */
}

static void fire_b(void *arg)
{
    note(arg, 'b');
}

static void fire_c(void *arg)
{
    struct timed *timed = arg;
    note(timed, 'c');
    assert_true(exporter_loop_now_ms(timed->loop) >= timed->began_ms + 320);
    exporter_loop_stop(timed->loop);
}

static void fire_d(void *arg)
{
    struct timed *timed = arg;
    note(timed, 'd');
    if (timed->fired < 2)
        exporter_timer_start(timed->loop, &timed->timers[3], 0);
}

static void test_timers_fire_once_in_the_order_of_their_time(void **state)
{
    (void)state;
    struct timed timed = {.loop = exporter_loop_new("test"), .began_ms = exporter_monotonic_ms()};
    void (*const fire[])(void *) = {fire_a, fire_b, fire_c, fire_d};
    for (size_t i = 0; i < 4; i++)
        timed.timers[i] = (struct exporter_timer){.fire = fire[i], .arg = &timed};
    exporter_timer_start(timed.loop, &timed.timers[2], 5000);
    exporter_timer_start(timed.loop, &timed.timers[2], 320); /* moves it */
    exporter_timer_start(timed.loop, &timed.timers[1], 301);
    exporter_timer_start(timed.loop, &timed.timers[0], 300);
    exporter_timer_start(timed.loop, &timed.timers[3], -5); /* the past is now */
    exporter_loop_run(timed.loop);
    assert_string_equal(timed.order, "ddac");
    exporter_timer_stop(timed.loop, &timed.timers[0]); /* stopping what is not armed is fine */
    exporter_loop_free(&timed.loop);
}

/* ---- sources -------------------------------------------------------------------------------- */

struct piped {
    struct exporter_loop *loop;
    struct exporter_source source;
    struct exporter_source *victim;
    int runs;
};

static void drain_and_remove_other(void *arg)
{
    struct piped *piped = arg;
    char byte;
    assert_int_equal(read(piped->source.fd, &byte, 1), 1);
    piped->runs++;
    if (piped->victim != NULL)
        exporter_loop_remove(piped->loop, piped->victim);
    exporter_loop_stop(piped->loop);
}

static void test_a_source_may_remove_another_that_is_ready(void **state)
{
    (void)state;
    int first[2];
    int second[2];
    assert_int_equal(pipe(first), 0);
    assert_int_equal(pipe(second), 0);
    struct exporter_loop *loop = exporter_loop_new("test");
    struct piped a = {.loop = loop};
    struct piped b = {.loop = loop};
    a.source = (struct exporter_source){.fd = first[0], .run = drain_and_remove_other, .arg = &a};
    b.source = (struct exporter_source){.fd = second[0], .run = drain_and_remove_other, .arg = &b};
    a.victim = &b.source;
    assert_true(exporter_loop_add(loop, &a.source));
    assert_true(exporter_loop_add(loop, &b.source));
    assert_int_equal(write(first[1], "x", 1), 1);
    assert_int_equal(write(second[1], "x", 1), 1);
    exporter_loop_run(loop);
    assert_int_equal(a.runs, 1);
    assert_int_equal(b.runs, 0);
    exporter_loop_remove(loop, &a.source);
    exporter_loop_free(&loop);
    for (int i = 0; i < 2; i++) {
        close(first[i]);
        close(second[i]);
    }
}

struct silent {
    struct exporter_loop *loop;
    struct exporter_source source;
    int64_t timeout_ms;
    int runs;
};

static int64_t silent_timeout(void *arg)
{
    return ((struct silent *)arg)->timeout_ms;
}

static void silent_run(void *arg)
{
    struct silent *silent = arg;
    silent->runs++;
    silent->timeout_ms = -1;
    if (silent->runs == 1)
        exporter_source_wake(&silent->source);
    else
        exporter_loop_stop(silent->loop);
}

static void test_a_silent_source_runs_when_due_and_when_woken(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    struct silent silent = {.loop = exporter_loop_new("test"), .timeout_ms = 5};
    silent.source = (struct exporter_source){
        .fd = ends[0], .timeout_ms = silent_timeout, .run = silent_run, .arg = &silent};
    assert_true(exporter_loop_add(silent.loop, &silent.source));
    exporter_loop_run(silent.loop);
    assert_int_equal(silent.runs, 2);
    exporter_loop_remove(silent.loop, &silent.source);
    exporter_loop_free(&silent.loop);
    close(ends[0]);
    close(ends[1]);
}

static void test_a_source_without_a_descriptor_is_refused(void **state)
{
    (void)state;
    struct exporter_loop *loop = exporter_loop_new("test");
    struct exporter_source source = {.fd = -1};
    assert_false(exporter_loop_add(loop, &source));
    assert_int_equal(errno, EBADF);
    exporter_loop_free(&loop);
}

/* ---- the end -------------------------------------------------------------------------------- */

struct late {
    struct exporter_post post;
    bool ran;
};

static void run_late(void *arg)
{
    ((struct late *)arg)->ran = true;
}

static void test_what_is_posted_around_the_end_still_runs(void **state)
{
    (void)state;
    struct exporter_loop *loop = exporter_loop_new("test");
    struct late before = {.ran = false};
    struct late after = {.ran = false};
    exporter_loop_stop(loop);
    exporter_loop_post(loop, &before.post, run_late, &before);
    exporter_loop_run(loop);
    assert_true(before.ran);
    exporter_loop_post(loop, &after.post, run_late, &after);
    assert_false(after.ran);
    exporter_loop_settle(loop);
    assert_true(after.ran);
    exporter_loop_free(&loop);
    exporter_loop_free(&loop); /* NULL by now */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_posts_of_many_threads_all_run_in_order),
        cmocka_unit_test(test_timers_fire_once_in_the_order_of_their_time),
        cmocka_unit_test(test_a_source_may_remove_another_that_is_ready),
        cmocka_unit_test(test_a_silent_source_runs_when_due_and_when_woken),
        cmocka_unit_test(test_a_source_without_a_descriptor_is_refused),
        cmocka_unit_test(test_what_is_posted_around_the_end_still_runs),
    };
    return RUN_TESTS(tests);
}
