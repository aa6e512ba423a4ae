/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop: mail from many threads, timers, watches, sources, guests, and its end. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "lib/base/container.h"
#include "lib/base/loop.h"
#include "tests/support/unit.h"

static struct base_loop loop;

static int open_loop(void **state)
{
    (void)state;
    assert_int_equal(base_loop_init(&loop, &base_clock_system, NULL), HANDOFF_OK);
    return 0;
}

static int close_loop(void **state)
{
    (void)state;
    base_loop_free(&loop);
    base_loop_free(&loop); /* harmless */
    return 0;
}

/* What was called, in its order, one letter each. */
static struct {
    char text[64];
    size_t length;
} trail;

static void note(char name)
{
    assert_true(trail.length < sizeof trail.text - 1);
    trail.text[trail.length++] = name;
    trail.text[trail.length] = '\0';
}

static void assert_trail(const char *expected)
{
    assert_string_equal(trail.text, expected);
    memset(&trail, 0, sizeof trail);
}

static void turn_at_once(void)
{
    base_loop_turn(&loop, 0);
}

/* ---- mail ----------------------------------------------------------------------------------- */

enum { POSTERS = 4, POSTS_EACH = 2000 };

struct numbered {
    struct base_mail mail;
    struct poster *poster;
    int number;
};

struct poster {
    pthread_t thread;
    struct numbered posts[POSTS_EACH];
    int seen; /* the loop's: the last number that ran */
    atomic_int *left;
};

static void take_numbered(struct base_mail *mail)
{
    struct numbered *numbered = BASE_CONTAINER_OF(mail, struct numbered, mail);
    assert_int_equal(numbered->number, numbered->poster->seen + 1); /* in the order of posting */
    numbered->poster->seen = numbered->number;
    if (atomic_fetch_sub(numbered->poster->left, 1) == 1)
        base_loop_stop(&loop);
}

static void *post_all(void *arg)
{
    struct poster *poster = arg;
    for (int i = 0; i < POSTS_EACH; i++) {
        poster->posts[i] = (struct numbered){{NULL, take_numbered}, poster, i + 1};
        base_loop_post(&loop, &poster->posts[i].mail);
    }
    return NULL;
}

static void test_mail_of_many_threads_is_delivered_in_order(void **state)
{
    (void)state;
    atomic_int left = POSTERS * POSTS_EACH;
    struct poster *posters = calloc(POSTERS, sizeof *posters);
    assert_non_null(posters);
    for (int i = 0; i < POSTERS; i++) {
        posters[i].left = &left;
        assert_int_equal(pthread_create(&posters[i].thread, NULL, post_all, &posters[i]), 0);
    }
    base_loop_run(&loop); /* a lost wake-up hangs here until the test's time limit */
    for (int i = 0; i < POSTERS; i++) {
        pthread_join(posters[i].thread, NULL);
        assert_int_equal(posters[i].seen, POSTS_EACH);
    }
    free(posters);
}

static void *stop_soon(void *arg)
{
    (void)arg;
    base_loop_stop(&loop);
    return NULL;
}

static void test_another_thread_stops_a_loop_that_sleeps(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, stop_soon, NULL), 0);
    base_loop_run(&loop);
    pthread_join(thread, NULL);
}

/* ---- timers --------------------------------------------------------------------------------- */

static struct base_timer timers[4];
static int64_t began_ms;
static bool fired_d;

static void fire_a(struct base_timer *timer)
{
    (void)timer;
    note('a');
    base_timers_stop(&loop.timers, &timers[1]); /* b is due in the same turn, maybe */
}

static void fire_b(struct base_timer *timer)
{
    (void)timer;
    note('b');
}

static void fire_c(struct base_timer *timer)
{
    (void)timer;
    note('c');
    assert_true(base_loop_now_ms(&loop) >= began_ms + 320);
    base_loop_stop(&loop);
}

static void fire_d(struct base_timer *timer)
{
    note('d');
    if (!fired_d)
        base_loop_start_timer(&loop, timer, 0);
    fired_d = true;
}

static void test_timers_fire_once_in_the_order_of_their_time(void **state)
{
    (void)state;
    void (*const fire[])(struct base_timer *) = {fire_a, fire_b, fire_c, fire_d};
    began_ms = base_loop_now_ms(&loop);
    for (size_t i = 0; i < 4; i++)
        timers[i] = (struct base_timer){.fire = fire[i]};
    base_loop_start_timer(&loop, &timers[2], 5000);
    base_loop_start_timer(&loop, &timers[2], 320); /* moves it */
    base_loop_start_timer(&loop, &timers[1], 301);
    base_loop_start_timer(&loop, &timers[0], 300);
    base_loop_start_timer(&loop, &timers[3], -5); /* the past is now */
    base_loop_run(&loop);
    assert_trail("ddac");
    base_timers_stop(&loop.timers, &timers[0]); /* stopping what is not started is fine */
}

/* ---- watches -------------------------------------------------------------------------------- */

struct piped {
    struct base_watch watch;
    int ends[2];
    struct piped *victim;
    char name;
};

static void take_byte(struct base_watch *watch, uint32_t events)
{
    struct piped *piped = BASE_CONTAINER_OF(watch, struct piped, watch);
    char byte;
    assert_true(events & EPOLLIN);
    assert_int_equal(read(piped->ends[0], &byte, 1), 1);
    note(piped->name);
    if (piped->victim) {
        base_poller_forget(&loop.poller, piped->victim->ends[0], &piped->victim->watch);
        memset(&piped->victim->watch, 0, sizeof piped->victim->watch); /* as if it was freed */
    }
}

static void open_piped(struct piped *piped, char name)
{
    *piped = (struct piped){.watch = {take_byte}, .name = name};
    assert_int_equal(pipe(piped->ends), 0);
    assert_int_equal(base_poller_add(&loop.poller, piped->ends[0], EPOLLIN, &piped->watch), 0);
}

static void fill(struct piped *piped)
{
    assert_int_equal(write(piped->ends[1], "x", 1), 1);
}

static void close_piped(struct piped *piped)
{
    close(piped->ends[0]);
    close(piped->ends[1]);
}

static void test_a_watch_that_was_forgotten_is_not_called_for_what_was_received(void **state)
{
    (void)state;
    struct piped a, b;
    open_piped(&a, 'a');
    open_piped(&b, 'b');
    a.victim = &b;
    b.victim = &a; /* whichever comes first */
    fill(&a);
    fill(&b);
    turn_at_once();
    turn_at_once();
    assert_int_equal(trail.length, 1);
    memset(&trail, 0, sizeof trail);
    close_piped(&a);
    close_piped(&b);
}

static void test_an_edge_is_told_once(void **state)
{
    (void)state;
    struct piped a;
    open_piped(&a, 'a');
    assert_int_equal(base_poller_watch(&loop.poller, a.ends[0], EPOLLIN | EPOLLET, &a.watch), 0);
    fill(&a);
    fill(&a);
    turn_at_once();
    turn_at_once();
    assert_trail("a"); /* the second byte is not read */
    close_piped(&a);
}

static void test_a_watch_without_a_descriptor_is_rejected(void **state)
{
    (void)state;
    struct base_watch watch = {take_byte};
    struct base_source source = {.run = NULL};
    assert_int_equal(base_poller_add(&loop.poller, -1, EPOLLIN, &watch), EBADF);
    assert_int_equal(base_poller_watch(&loop.poller, -1, EPOLLIN, &watch), EBADF);
    assert_int_equal(base_loop_add(&loop, &source, -1), EBADF);
    base_loop_remove(&loop, &source); /* harmless */
}

/* ---- sources -------------------------------------------------------------------------------- */

/* As a library with an epoll instance does it: a pipe is its descriptor. */
struct library {
    struct base_source source;
    int ends[2];
    int64_t wait_ms;
    struct library *victim, *wakes;
    char name;
};

static int64_t library_wait_ms(struct base_source *source)
{
    return BASE_CONTAINER_OF(source, struct library, source)->wait_ms;
}

static void library_run(struct base_source *source)
{
    struct library *library = BASE_CONTAINER_OF(source, struct library, source);
    note(library->name);
    library->wait_ms = -1;
    if (library->victim)
        base_loop_remove(&loop, &library->victim->source);
    if (library->wakes)
        base_source_wake(&library->wakes->source);
    library->wakes = NULL;
}

static void open_library(struct library *library, char name)
{
    *library = (struct library){.wait_ms = -1, .name = name};
    library->source = (struct base_source){.wait_ms = library_wait_ms, .run = library_run};
    assert_int_equal(pipe(library->ends), 0);
    assert_int_equal(base_loop_add(&loop, &library->source, library->ends[0]), 0);
}

static void close_library(struct library *library)
{
    base_loop_remove(&loop, &library->source);
    close(library->ends[0]);
    close(library->ends[1]);
}

static void test_a_source_runs_when_ready_due_or_woken_and_else_not(void **state)
{
    (void)state;
    struct library a;
    open_library(&a, 'a');
    turn_at_once();
    assert_trail("");
    assert_int_equal(base_loop_wait_ms(&loop), -1);
    assert_int_equal(write(a.ends[1], "x", 1), 1);
    turn_at_once();
    turn_at_once(); /* level-triggered: the byte is still there */
    assert_trail("aa");
    char byte;
    assert_int_equal(read(a.ends[0], &byte, 1), 1);
    base_source_wake(&a.source);
    assert_int_equal(base_loop_wait_ms(&loop), 0);
    turn_at_once();
    turn_at_once();
    assert_trail("a");
    a.wait_ms = 5; /* a time-out, and nothing else that could end the turn */
    base_loop_turn(&loop, -1);
    assert_trail("a");
    close_library(&a);
}

static void test_a_time_out_that_is_always_the_same_comes_due(void **state)
{
    (void)state;
    struct library a;
    open_library(&a, 'a');
    a.wait_ms = 3;
    const int64_t until = base_loop_now_ms(&loop) + 3;
    while (trail.length == 0)
        base_loop_turn(&loop, -1);
    assert_true(base_loop_now_ms(&loop) >= until);
    assert_trail("a");
    close_library(&a);
}

static void test_a_source_may_remove_or_wake_another(void **state)
{
    (void)state;
    struct library a, b, c;
    open_library(&a, 'a');
    open_library(&b, 'b');
    open_library(&c, 'c');
    base_source_wake(&a.source);
    base_source_wake(&b.source);
    a.victim = &b; /* which is the next one to run, and ready */
    a.wakes = &c;
    turn_at_once();
    assert_trail("ac");
    c.wakes = &a; /* which had its turn */
    base_source_wake(&c.source);
    turn_at_once();
    assert_trail("c");
    turn_at_once();
    assert_trail("a");
    close_library(&a);
    close_library(&b);
    close_library(&c);
}

/* ---- guests --------------------------------------------------------------------------------- */

static int64_t guest_wait;

static int64_t guest_wait_ms(struct base_guest *guest)
{
    (void)guest;
    return guest_wait;
}

static void guest_settle(struct base_guest *guest)
{
    (void)guest;
    note('s');
}

static void guest_finish(struct base_guest *guest)
{
    (void)guest;
    note('f');
    guest_wait = -1;
}

static void deliver(struct base_mail *mail)
{
    (void)mail;
    note('m');
}

static void test_a_turn_has_its_order(void **state)
{
    (void)state;
    struct library a;
    struct base_guest guest = {guest_wait_ms, guest_settle, guest_finish, {0}};
    struct base_mail mail = {NULL, deliver};
    timers[0] = (struct base_timer){.fire = fire_b};
    open_library(&a, 'a');
    base_loop_invite(&loop, &guest);
    base_source_wake(&a.source);
    base_loop_start_timer(&loop, &timers[0], 0);
    base_loop_post(&loop, &mail);
    turn_at_once();
    assert_trail("mbsaf");
    guest_wait = 0;
    base_loop_turn(&loop, -1); /* does not sleep */
    assert_trail("sf");
    base_loop_dismiss(&loop, &guest);
    turn_at_once();
    assert_trail("");
    close_library(&a);
}

/* ---- driven from outside, and the end ------------------------------------------------------- */

static bool is_readable(void)
{
    struct pollfd poller = {.fd = base_loop_fd(&loop), .events = POLLIN};
    return poll(&poller, 1, 0) == 1;
}

static void test_a_host_can_drive_it_by_its_descriptor(void **state)
{
    (void)state;
    struct base_mail mail = {NULL, deliver};
    assert_int_equal(base_loop_wait_ms(&loop), -1);
    assert_false(is_readable());
    base_loop_post(&loop, &mail);
    assert_true(is_readable());
    turn_at_once();
    assert_false(is_readable());
    assert_trail("m");
    timers[0] = (struct base_timer){.fire = fire_b};
    base_loop_start_timer(&loop, &timers[0], 60000);
    assert_in_range(base_loop_wait_ms(&loop), 59000, 60000);
    base_timers_stop(&loop.timers, &timers[0]);
}

static void test_what_is_posted_around_the_end_is_delivered(void **state)
{
    (void)state;
    struct base_mail before = {NULL, deliver}, after = {NULL, deliver};
    base_loop_stop(&loop);
    base_loop_post(&loop, &before);
    base_loop_run(&loop);
    assert_trail("m");
    base_loop_post(&loop, &after);
    assert_trail("");
    base_loop_settle(&loop);
    assert_trail("m");
    struct base_loop never = {0};
    base_loop_settle(&never);
    base_loop_free(&never);
}

#define LOOP_TEST(function) cmocka_unit_test_setup_teardown(function, open_loop, close_loop)

/* ---- how long turns take ----------------------------------------------------------------------
 */

static struct base_manual_clock manual;

static int open_manual_loop(void **state)
{
    (void)state;
    base_manual_clock_init(&manual, 0);
    base_manual_clock_advance(&manual, 1000);
    assert_int_equal(base_loop_init(&loop, &manual.clock, NULL), HANDOFF_OK);
    return 0;
}

static int64_t seen_meanwhile_ns;

static void take_a_while(struct base_timer *timer)
{
    (void)timer;
    base_manual_clock_advance(&manual, 250);
    seen_meanwhile_ns = base_loop_longest_turn_ns(&loop);
}

static void test_the_longest_turn_is_told_for_a_minute_or_two(void **state)
{
    (void)state;
    struct base_timer slow = {.fire = take_a_while};
    const int64_t took_ns = INT64_C(250000000);
    turn_at_once();
    assert_int_equal(base_loop_longest_turn_ns(&loop), 0);
    base_loop_start_timer(&loop, &slow, 0);
    turn_at_once();
    assert_int_equal(seen_meanwhile_ns, took_ns);
    assert_int_equal(base_loop_longest_turn_ns(&loop), took_ns);
    base_manual_clock_advance(&manual, 59000); /* asleep, which is no turn */
    assert_int_equal(base_loop_longest_turn_ns(&loop), took_ns);
    turn_at_once();
    base_manual_clock_advance(&manual, 2000); /* the next minute */
    turn_at_once();
    assert_int_equal(base_loop_longest_turn_ns(&loop), took_ns);
    base_manual_clock_advance(&manual, 60000);
    turn_at_once();
    assert_int_equal(base_loop_longest_turn_ns(&loop), 0);
}

static void test_a_loop_that_sleeps_forgets_its_longest_turn(void **state)
{
    (void)state;
    struct base_timer slow = {.fire = take_a_while};
    base_loop_start_timer(&loop, &slow, 0);
    turn_at_once();
    base_manual_clock_advance(&manual, 130000);
    assert_int_equal(base_loop_longest_turn_ns(&loop), 0);
    turn_at_once();
    assert_int_equal(base_loop_longest_turn_ns(&loop), 0);
}

#define MANUAL_LOOP_TEST(test) cmocka_unit_test_setup_teardown(test, open_manual_loop, close_loop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOP_TEST(test_mail_of_many_threads_is_delivered_in_order),
        LOOP_TEST(test_another_thread_stops_a_loop_that_sleeps),
        LOOP_TEST(test_timers_fire_once_in_the_order_of_their_time),
        LOOP_TEST(test_a_watch_that_was_forgotten_is_not_called_for_what_was_received),
        LOOP_TEST(test_an_edge_is_told_once),
        LOOP_TEST(test_a_watch_without_a_descriptor_is_rejected),
        LOOP_TEST(test_a_source_runs_when_ready_due_or_woken_and_else_not),
        LOOP_TEST(test_a_time_out_that_is_always_the_same_comes_due),
        LOOP_TEST(test_a_source_may_remove_or_wake_another),
        LOOP_TEST(test_a_turn_has_its_order),
        LOOP_TEST(test_a_host_can_drive_it_by_its_descriptor),
        LOOP_TEST(test_what_is_posted_around_the_end_is_delivered),
        MANUAL_LOOP_TEST(test_the_longest_turn_is_told_for_a_minute_or_two),
        MANUAL_LOOP_TEST(test_a_loop_that_sleeps_forgets_its_longest_turn),
    };
    return RUN_TESTS(tests);
}
