/* SPDX-License-Identifier: Apache-2.0 */
/* Names: one question for all that wait, few threads, answers that are remembered, and lookups that
   are cancelled at any moment. */
#include "tests/support/names.h"
#include "tests/support/unit.h"
#include "tests/support/wait.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/transport/resolver.h"
#include "lib/base/clock.h"

enum { MANY = 100 };

struct asker {
    struct handoff_lookup lookup;
    unsigned told;
};

static struct base_poller poller;
static struct handoff_resolver_port *port;

static void told(struct handoff_lookup *lookup)
{
    ((struct asker *)lookup)->told++;
}

static int open_port(void **state)
{
    (void)state;
    assert_int_equal(base_poller_init(&poller, NULL), HANDOFF_OK);
    assert_int_equal(handoff_resolver_port_open(&port, &poller, NULL), HANDOFF_OK);
    return 0;
}

static int close_port(void **state)
{
    (void)state;
    handoff_resolver_port_close(&port);
    base_poller_free(&poller);
    return 0;
}

static bool ask(struct asker *asker, const char *host)
{
    *asker = (struct asker){.lookup.done = told};
    return handoff_lookup_start(port, &asker->lookup, host);
}

static void await(const struct asker *asker)
{
    while (!asker->told)
        base_poller_run(&poller, -1);
}

/* "1.2.3.4,::1" and so on. */
static const char *text_of(const struct asker *asker)
{
    static char text[HANDOFF_ADDRESSES_MAX * INET6_ADDRSTRLEN];
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < asker->lookup.addresses.count; i++) {
        const struct handoff_address *address = &asker->lookup.addresses.list[i];
        const bool is_v6 = address->of.any.sa_family == AF_INET6;
        char one[INET6_ADDRSTRLEN];
        inet_ntop(address->of.any.sa_family,
                  is_v6 ? (const void *)&address->of.v6.sin6_addr : &address->of.v4.sin_addr, one,
                  sizeof one);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? "," : "", one);
    }
    return text;
}

static size_t threads(void)
{
    size_t count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (const struct dirent *task; (task = readdir(tasks)) != NULL;)
        count += task->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* ---- addresses --------------------------------------------------------------------------------
 */

static void test_addresses_need_no_lookup(void **state)
{
    (void)state;
    static const struct {
        const char *host, *found;
    } rows[] = {{"127.0.0.1", "127.0.0.1"},     {"::1", "::1"},
                {"fe80::1%1", "fe80::1"},       {"localhost", "::1,127.0.0.1"},
                {"LOCALHOST", "::1,127.0.0.1"}, {"agent.localhost", "::1,127.0.0.1"}};
    const size_t before = threads();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct asker asker;
        assert_true(ask(&asker, rows[i].host));
        assert_string_equal(text_of(&asker), rows[i].found);
        assert_int_equal(asker.told, 0);
    }
    assert_true(threads() <= before);
}

static void test_families_alternate(void **state)
{
    (void)state;
    struct asker asker;
    names_are("six.test", "::1", "::2", "::3", "10.0.0.1", "10.0.0.2");
    assert_false(ask(&asker, "a.six.test"));
    await(&asker);
    assert_string_equal(text_of(&asker), "::1,10.0.0.1,::2,10.0.0.2,::3");
    names_are("four.test", "10.0.0.1", "10.0.0.2", "10.0.0.3", "::1");
    assert_false(ask(&asker, "a.four.test"));
    await(&asker);
    assert_string_equal(text_of(&asker), "10.0.0.1,::1,10.0.0.2,10.0.0.3");
}

static void test_more_addresses_than_can_be_kept(void **state)
{
    (void)state;
    struct asker asker;
    names_are("many.test", "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6",
              "10.0.0.7", "10.0.0.8", "10.0.0.9", "10.0.0.10", "10.0.0.11", "10.0.0.12",
              "10.0.0.13", "10.0.0.14", "10.0.0.15", "10.0.0.16", "10.0.0.17", "10.0.0.18");
    assert_false(ask(&asker, "many.test"));
    await(&asker);
    assert_int_equal(asker.lookup.addresses.count, HANDOFF_ADDRESSES_MAX);
}

/* ---- questions --------------------------------------------------------------------------------
 */

static void test_one_question_for_all_that_wait(void **state)
{
    (void)state;
    static struct asker askers[MANY];
    names_are("one.test", "10.0.0.1");
    names_hold();
    const size_t before = threads();
    for (int i = 0; i < MANY; i++)
        assert_false(ask(&askers[i], i % 2 ? "ONE.TEST" : "one.test"));
    names_await(1);
    assert_true(threads() <= before + 1); /* one of a test before may be ending */
    names_release();
    for (int i = 0; i < MANY; i++) {
        await(&askers[i]);
        assert_int_equal(askers[i].told, 1);
        assert_string_equal(text_of(&askers[i]), "10.0.0.1");
    }
    assert_int_equal(names_asked(), 1);
}

static void test_slow_names_take_few_threads(void **state)
{
    (void)state;
    static struct asker askers[MANY];
    names_are("slow.test", "10.0.0.1");
    names_hold();
    const size_t before = threads();
    for (int i = 0; i < MANY; i++) {
        char host[32];
        snprintf(host, sizeof host, "%d.slow.test", i);
        assert_false(ask(&askers[i], host));
    }
    names_await(HANDOFF_RESOLVER_THREADS);
    assert_true(threads() <= before + HANDOFF_RESOLVER_THREADS);
    names_release();
    for (int i = 0; i < MANY; i++)
        await(&askers[i]);
    assert_int_equal(names_asked(), MANY);
    assert_int_equal(names.most_asking, HANDOFF_RESOLVER_THREADS);
}

static void test_a_slow_name_holds_up_no_other(void **state)
{
    (void)state;
    struct asker slow, other;
    names_are("held.test", "10.0.0.1");
    names_hold();
    assert_false(ask(&slow, "held.test"));
    names_await(1);
    assert_false(ask(&other, "unknown.invalid"));
    await(&other);
    assert_int_equal(other.lookup.addresses.count, 0);
    assert_int_equal(other.lookup.own, HANDOFF_FAULT_NONE);
    assert_int_equal(slow.told, 0);
    names_release();
    await(&slow);
}

static void test_answers_are_remembered(void **state)
{
    (void)state;
    struct asker asker;
    names_are("known.test", "10.0.0.1");
    assert_false(ask(&asker, "known.test"));
    await(&asker);
    assert_true(ask(&asker, "known.test"));
    assert_true(ask(&asker, "Known.Test"));
    assert_string_equal(text_of(&asker), "10.0.0.1");
    assert_int_equal(names_asked(), 1);
}

/* ... and a failure only for a second. */
static void test_a_failure_is_asked_again(void **state)
{
    (void)state;
    struct asker asker;
    static const char *const none[] = {NULL};
    names_set("later.test", none);
    assert_false(ask(&asker, "later.test"));
    await(&asker);
    assert_int_equal(asker.lookup.addresses.count, 0);
    assert_true(ask(&asker, "later.test"));
    names_are("later.test", "10.0.0.1");
    WAIT_UNTIL(!ask(&asker, "later.test"), "the name is looked up again");
    await(&asker);
    assert_string_equal(text_of(&asker), "10.0.0.1");
}

/* ---- cancelling -------------------------------------------------------------------------------
 */

static void test_a_name_that_nothing_waits_for_is_not_asked(void **state)
{
    (void)state;
    static struct asker askers[HANDOFF_RESOLVER_THREADS + 1];
    names_are("busy.test", "10.0.0.1");
    names_hold();
    for (int i = 0; i <= HANDOFF_RESOLVER_THREADS; i++) {
        char host[32];
        snprintf(host, sizeof host, "%d.busy.test", i);
        assert_false(ask(&askers[i], host));
    }
    names_await(HANDOFF_RESOLVER_THREADS);
    handoff_lookup_cancel(&askers[HANDOFF_RESOLVER_THREADS].lookup); /* it waits for a thread */
    handoff_lookup_cancel(&askers[HANDOFF_RESOLVER_THREADS].lookup);
    names_release();
    for (int i = 0; i < HANDOFF_RESOLVER_THREADS; i++)
        await(&askers[i]);
    assert_int_equal(names_asked(), HANDOFF_RESOLVER_THREADS);
    assert_int_equal(askers[HANDOFF_RESOLVER_THREADS].told, 0);
}

static void test_a_cancelled_lookup_is_not_told(void **state)
{
    (void)state;
    struct asker asked, answered;
    names_are("gone.test", "10.0.0.1");
    names_hold();
    assert_false(ask(&asked, "gone.test"));
    assert_false(ask(&answered, "gone.test"));
    names_await(1);
    handoff_lookup_cancel(&asked.lookup); /* while a thread asks */
    names_release();
    struct pollfd ready = {.fd = poller.fd, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, -1), 1);
    handoff_lookup_cancel(&answered.lookup); /* when the answer is there */
    base_poller_run(&poller, 0);
    assert_int_equal(asked.told + answered.told, 0);
    assert_true(ask(&asked, "gone.test"));
}

/* The port, and with it the resolver, is closed while a thread asks; another one opens meanwhile.
 */
static void test_a_question_outlives_its_port(void **state)
{
    struct asker asker;
    names_are("hanging.test", "10.0.0.1");
    names_hold();
    assert_false(ask(&asker, "hanging.test"));
    names_await(1);
    handoff_lookup_cancel(&asker.lookup);
    close_port(state);
    open_port(state);
    assert_false(ask(&asker, "hanging.test"));
    names_await(2);
    names_release();
    await(&asker);
    assert_string_equal(text_of(&asker), "10.0.0.1");
}

int main(void)
{
#define WITH_PORT(test) cmocka_unit_test_setup_teardown(test, open_port, close_port)
    const struct CMUnitTest tests[] = {
        WITH_PORT(test_addresses_need_no_lookup),
        WITH_PORT(test_families_alternate),
        WITH_PORT(test_more_addresses_than_can_be_kept),
        WITH_PORT(test_one_question_for_all_that_wait),
        WITH_PORT(test_slow_names_take_few_threads),
        WITH_PORT(test_a_slow_name_holds_up_no_other),
        WITH_PORT(test_answers_are_remembered),
        WITH_PORT(test_a_failure_is_asked_again),
        WITH_PORT(test_a_name_that_nothing_waits_for_is_not_asked),
        WITH_PORT(test_a_cancelled_lookup_is_not_told),
        WITH_PORT(test_a_question_outlives_its_port),
    };
    return RUN_TESTS(tests);
}
