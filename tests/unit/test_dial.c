/* SPDX-License-Identifier: Apache-2.0 */
/* Dialling hosts with several addresses, on real sockets and by a clock that stands still: one that
   refuses costs no time, one that drops packets exactly the delay. */
#include "tests/support/names.h"
#include "tests/support/receiver.h"
#include "tests/support/unit.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "client/transport/dial.h"

enum { TIMEOUT_MS = 5000 };

struct dialled {
    unsigned told;
    int fd;
    char peer[72];
    struct handoff_failure failure;
};

static struct {
    struct base_poller poller;
    struct base_timers timers;
    struct base_manual_clock clock;
    struct base_quota quota;
    struct handoff_dialer dialer;
    int listener, port;         /* on 127.0.0.1, and on nothing else */
    int dropping, filling[128]; /* on 127.0.0.2, at the same port */
    size_t nfilling;
} fixture;

static void told(void *arg, const struct handoff_dialled *dialled)
{
    struct dialled *to = arg;
    to->told++;
    to->fd = dialled->fd;
    to->failure = dialled->failure;
    snprintf(to->peer, sizeof to->peer, "%s", dialled->peer);
}

static struct sockaddr_in at(const char *address)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)fixture.port)};
    assert_int_equal(inet_pton(AF_INET, address, &at.sin_addr), 1);
    return at;
}

static bool connects(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    return poll(&ready, 1, 100) == 1;
}

/* A listener whose queue is full: Linux drops what else would connect. */
static void drop_at(const char *address)
{
    const struct sockaddr_in to = at(address);
    fixture.dropping = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fixture.dropping, (const struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(listen(fixture.dropping, 0), 0);
    int fd;
    do {
        assert_true(fixture.nfilling < sizeof fixture.filling / sizeof *fixture.filling);
        fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        assert_true(fd >= 0);
        fixture.filling[fixture.nfilling++] = fd;
        assert_true(connect(fd, (const struct sockaddr *)&to, sizeof to) == 0 ||
                    errno == EINPROGRESS);
    } while (connects(fd));
}

static int set_up(void **state)
{
    (void)state;
    memset(&fixture, 0, sizeof fixture);
    fixture.dropping = -1;
    assert_int_equal(base_poller_init(&fixture.poller, NULL), HANDOFF_OK);
    base_manual_clock_init(&fixture.clock, 0);
    fixture.dialer = (struct handoff_dialer){.poller = &fixture.poller,
                                             .timers = &fixture.timers,
                                             .clock = &fixture.clock.clock,
                                             .quota = &fixture.quota};
    assert_int_equal(handoff_resolver_port_open(&fixture.dialer.port, &fixture.poller, NULL),
                     HANDOFF_OK);
    fixture.listener = receiver_bind(&fixture.port);
    return listen(fixture.listener, 16);
}

static int tear_down(void **state)
{
    (void)state;
    handoff_resolver_port_close(&fixture.dialer.port);
    assert_null(fixture.timers.first);
    base_poller_free(&fixture.poller);
    close(fixture.listener);
    close(fixture.dropping);
    while (fixture.nfilling > 0)
        close(fixture.filling[--fixture.nfilling]);
    return 0;
}

static struct handoff_dial *dial(const char *host, struct dialled *dialled)
{
    *dialled = (struct dialled){.fd = -1};
    struct handoff_dial *begun = handoff_dial_start(&fixture.dialer, host, (uint16_t)fixture.port,
                                                    TIMEOUT_MS, told, dialled);
    assert_non_null(begun);
    assert_int_equal(dialled->told, 0); /* never from within */
    return begun;
}

static void fire_timers(void)
{
    base_timers_run(&fixture.timers, base_monotonic_ms(&fixture.clock.clock));
}

/* What is ready, and what is due: no time passes. */
static void await(const struct dialled *dialled)
{
    while (!dialled->told) {
        fire_timers();
        if (!dialled->told)
            base_poller_run(&fixture.poller, -1);
    }
}

static void assert_connected(struct dialled *dialled)
{
    char peer[72];
    snprintf(peer, sizeof peer, "127.0.0.1:%d", fixture.port);
    assert_int_equal(dialled->told, 1);
    assert_true(dialled->fd >= 0);
    assert_string_equal(dialled->peer, peer);
    close(dialled->fd);
}

/* ---- tests ------------------------------------------------------------------------------------
 */

static void test_an_address_that_refuses_costs_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *host, *addresses[4];
    } rows[] = {{"a.refusing.test", {"::1", "127.0.0.1"}},
                {"b.refusing.test", {"127.0.0.3", "127.0.0.1"}},
                {"c.refusing.test", {"127.0.0.3", "127.0.0.5", "127.0.0.1"}},
                {"d.refusing.test", {"::1", "::1", "127.0.0.1"}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dialled dialled;
        names_set("refusing.test", rows[i].addresses);
        dial(rows[i].host, &dialled);
        await(&dialled);
        assert_connected(&dialled);
    }
}

static void test_all_that_refuse_are_tried_at_once(void **state)
{
    (void)state;
    struct dialled dialled;
    names_are("all.test", "::1", "127.0.0.3", "127.0.0.5", "127.0.0.6");
    dial("all.test", &dialled);
    await(&dialled);
    assert_int_equal(dialled.fd, -1);
    assert_int_equal(dialled.failure.fault, HANDOFF_FAULT_CONNECTION);
    assert_string_equal(dialled.failure.detail, strerror(ECONNREFUSED));
}

/* What another address answered says more than that there is no way to one. */
static void test_the_failure_is_the_most_telling(void **state)
{
    (void)state;
    struct dialled dialled;
    names_are("telling.test", "240.0.0.1", "127.0.0.3", "240.0.0.2");
    dial("telling.test", &dialled);
    await(&dialled);
    assert_int_equal(dialled.fd, -1);
    assert_string_equal(dialled.failure.detail, strerror(ECONNREFUSED));
}

static void pump(int64_t ms)
{
    base_manual_clock_advance(&fixture.clock, ms);
    fire_timers();
    for (int i = 0; i < 20; i++)
        base_poller_run(&fixture.poller, 1);
}

/* Until the lookup was answered: only then is there a timer for the next address. */
static void await_first_address(void)
{
    while (base_timers_wait_ms(&fixture.timers, base_monotonic_ms(&fixture.clock.clock)) >
           HANDOFF_DIAL_DELAY_MS)
        base_poller_run(&fixture.poller, -1);
}

static void test_an_address_that_drops_costs_the_delay(void **state)
{
    (void)state;
    struct dialled dialled;
    drop_at("127.0.0.2");
    names_are("dropping.test", "127.0.0.2", "127.0.0.1");
    dial("dropping.test", &dialled);
    await_first_address();
    pump(HANDOFF_DIAL_DELAY_MS - 1);
    assert_int_equal(dialled.told, 0);
    base_manual_clock_advance(&fixture.clock, 1);
    await(&dialled);
    assert_connected(&dialled);
}

static void test_it_goes_on_with_an_address_that_is_slow(void **state)
{
    (void)state;
    struct dialled dialled;
    drop_at("127.0.0.2");
    names_are("slow.test", "127.0.0.2", "127.0.0.3"); /* drops, refuses */
    dial("slow.test", &dialled);
    await_first_address();
    pump(HANDOFF_DIAL_DELAY_MS);
    assert_int_equal(dialled.told, 0); /* the first may still answer */
    base_manual_clock_advance(&fixture.clock, TIMEOUT_MS - HANDOFF_DIAL_DELAY_MS);
    await(&dialled);
    assert_int_equal(dialled.failure.fault, HANDOFF_FAULT_CONNECTION);
    assert_int_equal(dialled.failure.within_ms, TIMEOUT_MS);
}

static void test_a_name_that_takes_too_long(void **state)
{
    (void)state;
    struct dialled dialled;
    names_are("late.test", "127.0.0.1");
    names_hold();
    dial("late.test", &dialled);
    base_manual_clock_advance(&fixture.clock, TIMEOUT_MS);
    await(&dialled);
    assert_int_equal(dialled.failure.fault, HANDOFF_FAULT_NAME);
    assert_int_equal(dialled.failure.within_ms, TIMEOUT_MS);
    names_release();
}

static void test_cancelled_at_any_moment(void **state)
{
    (void)state;
    struct dialled dialled;
    drop_at("127.0.0.2");
    names_are("cancel.test", "127.0.0.2", "127.0.0.3", "127.0.0.1");
    struct handoff_dial *begun = dial("cancel.test", &dialled); /* the name is being asked */
    handoff_dial_cancel(&begun);
    assert_null(begun);
    begun = dial("cancel.test", &dialled);
    await_first_address();
    handoff_dial_cancel(&begun); /* an address is being tried */
    begun = dial("240.0.0.1", &dialled);
    handoff_dial_cancel(&begun); /* it has failed, and not told yet */
    handoff_dial_cancel(&begun);
    pump(TIMEOUT_MS);
    assert_int_equal(dialled.told, 0);
}

int main(void)
{
#define WITH_DIALER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_DIALER(test_an_address_that_refuses_costs_nothing),
        WITH_DIALER(test_all_that_refuse_are_tried_at_once),
        WITH_DIALER(test_the_failure_is_the_most_telling),
        WITH_DIALER(test_an_address_that_drops_costs_the_delay),
        WITH_DIALER(test_it_goes_on_with_an_address_that_is_slow),
        WITH_DIALER(test_a_name_that_takes_too_long),
        WITH_DIALER(test_cancelled_at_any_moment),
    };
    return RUN_TESTS(tests);
}
