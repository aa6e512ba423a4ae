/* SPDX-License-Identifier: Apache-2.0 */
/* The transport against real sockets and a receiver that misbehaves. */
#include "tests/support/receiver.h"
#include "tests/support/unit.h"

#include <poll.h>

#include "client/deliver/transport.h"

/* ---- a loop and its posts ---------------------------------------------------------------------
 */

struct loop {
    struct handoff_poller poller;
    struct handoff_timers timers;
    struct handoff_transport *transport;
};

struct probe {
    struct handoff_post post;
    char url[64];
    unsigned told;
    bool answered;
    int status;
    enum handoff_attempt_result failure;
    char ack[40], body[40];
    int64_t retry_after_ms;
    struct handoff_transport_facts facts;
};

static void told(struct handoff_post *post, const struct handoff_answer *heard,
                 const struct handoff_transport_facts *facts)
{
    struct probe *probe = (struct probe *)post;
    probe->told++;
    probe->answered = heard->answered;
    probe->status = heard->status;
    probe->failure = heard->failure;
    probe->retry_after_ms = heard->retry_after_ms;
    probe->facts = *facts;
    snprintf(probe->ack, sizeof probe->ack, "%s", heard->ack_header ? heard->ack_header : "");
    snprintf(probe->body, sizeof probe->body, "%.*s", (int)heard->body_size,
             heard->body ? heard->body : "");
}

static void loop_open(struct loop *loop)
{
    *loop = (struct loop){0};
    assert_int_equal(handoff_poller_init(&loop->poller, NULL), HANDOFF_OK);
    assert_int_equal(handoff_transport_new(&loop->transport, &loop->poller, &loop->timers,
                                           &handoff_clock_system, NULL),
                     HANDOFF_OK);
}

static void loop_close(struct loop *loop)
{
    handoff_transport_free(&loop->transport);
    assert_null(loop->timers.first);
    handoff_poller_free(&loop->poller);
}

static int64_t now_ms(void)
{
    return handoff_monotonic_ns(&handoff_clock_system) / 1000000;
}

static void turn(struct loop *loop)
{
    int64_t wait = handoff_timers_wait_ms(&loop->timers, now_ms());
    struct pollfd ready = {.fd = loop->poller.fd, .events = POLLIN};
    poll(&ready, 1, wait < 0 || wait > 1000 ? 1000 : (int)wait);
    handoff_poller_run(&loop->poller);
    handoff_timers_run(&loop->timers, now_ms());
    handoff_transport_settle(loop->transport);
}

static void probe_init(struct probe *probe, const char *path, int64_t timeout_ms)
{
    *probe = (struct probe){0};
    snprintf(probe->url, sizeof probe->url, "http://127.0.0.1:%d%s", receiver.port, path);
    probe->post = (struct handoff_post){
        .url = probe->url, .body = "{}", .size = 2, .timeout_ms = timeout_ms, .done = told};
}

static void run_one(const char *path, int64_t timeout_ms, struct probe *probe)
{
    struct loop loop;
    loop_open(&loop);
    probe_init(probe, path, timeout_ms);
    assert_int_equal(handoff_transport_start(loop.transport, &probe->post), HANDOFF_OK);
    while (!probe->told)
        turn(&loop);
    loop_close(&loop);
}

/* ---- tests ------------------------------------------------------------------------------------
 */

static void test_reads_body_and_facts(void **state)
{
    (void)state;
    struct probe probe;
    run_one("/ack", 15000, &probe);
    assert_true(probe.answered);
    assert_int_equal(probe.status, 200);
    assert_string_equal(probe.body, "{\"ack\":\"x1\"}");
    char peer[32];
    snprintf(peer, sizeof peer, "127.0.0.1:%d", receiver.port);
    assert_string_equal(probe.facts.peer, peer);
    assert_true(probe.facts.duration_us > 0);
    assert_string_equal(probe.facts.error, "");
}

static void test_reads_the_header(void **state)
{
    (void)state;
    struct probe probe;
    run_one("/header", 15000, &probe);
    assert_int_equal(probe.status, 204);
    assert_int_equal(strncmp(probe.ack, "x1", 2), 0);
}

static void test_sends_its_headers_and_no_expect(void **state)
{
    (void)state;
    struct loop loop;
    struct probe probe;
    char *large = calloc(1, 100000); /* past the size from which curl would ask first */
    const char *const headers[] = {"Handoff-Id: x1", "Handoff-Attempt: 2", "Expect:"};
    loop_open(&loop);
    probe_init(&probe, "/ack", 15000);
    probe.post.headers = headers;
    probe.post.nheaders = 3;
    probe.post.body = large;
    probe.post.size = 100000;
    assert_int_equal(handoff_transport_start(loop.transport, &probe.post), HANDOFF_OK);
    while (!probe.told)
        turn(&loop);
    loop_close(&loop);
    free(large);
    assert_int_equal(probe.status, 200);
    pthread_mutex_lock(&receiver.lock);
    assert_non_null(strstr(receiver.last_head, "\r\nHandoff-Id: x1\r\n"));
    assert_non_null(strstr(receiver.last_head, "\r\nHandoff-Attempt: 2\r\n"));
    assert_null(strstr(receiver.last_head, "Expect"));
    pthread_mutex_unlock(&receiver.lock);
}

static void test_failures_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        enum handoff_attempt_result failure;
    } rows[] = {
        {"/silent", HANDOFF_RESULT_TIMEOUT}, {"/garbage", HANDOFF_RESULT_PROTOCOL},
        {"/break", HANDOFF_RESULT_PROTOCOL}, {"/close", HANDOFF_RESULT_PROTOCOL},
        {"/long", HANDOFF_RESULT_PROTOCOL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct probe probe;
        run_one(rows[i].path, i == 0 ? 50 : 15000, &probe);
        assert_false(probe.answered);
        assert_int_equal(probe.failure, rows[i].failure);
        assert_true(probe.facts.error[0] != '\0');
    }
}

static void test_nobody_listens(void **state)
{
    (void)state;
    struct loop loop;
    struct probe probe;
    loop_open(&loop);
    probe_init(&probe, "/ack", 15000);
    snprintf(probe.url, sizeof probe.url, "http://127.0.0.1:%d/", receiver_dead_port());
    assert_int_equal(handoff_transport_start(loop.transport, &probe.post), HANDOFF_OK);
    while (!probe.told)
        turn(&loop);
    loop_close(&loop);
    assert_false(probe.answered);
    assert_int_equal(probe.failure, HANDOFF_RESULT_CONNECT);
}

static void test_redirects_are_not_followed(void **state)
{
    (void)state;
    struct probe probe;
    int before = atomic_load(&receiver.requests);
    run_one("/redirect", 15000, &probe);
    assert_int_equal(probe.status, 302);
    assert_int_equal(atomic_load(&receiver.requests) - before, 1);
}

static void test_retry_after_in_seconds(void **state)
{
    (void)state;
    struct probe probe;
    run_one("/503wait", 15000, &probe);
    assert_int_equal(probe.status, 503);
    assert_int_equal(probe.retry_after_ms, 7000);
}

static void test_only_http(void **state)
{
    (void)state;
    struct loop loop;
    struct probe probe;
    loop_open(&loop);
    probe_init(&probe, "/ack", 1000);
    snprintf(probe.url, sizeof probe.url, "file:///etc/hostname");
    assert_int_equal(handoff_transport_start(loop.transport, &probe.post), HANDOFF_OK);
    while (!probe.told)
        turn(&loop);
    loop_close(&loop);
    assert_false(probe.answered);
}

static void test_a_warm_connection_is_used_again(void **state)
{
    (void)state;
    struct loop loop;
    struct probe probe;
    loop_open(&loop);
    int before = atomic_load(&receiver.connections);
    for (int i = 0; i < 20; i++) {
        probe_init(&probe, "/ack", 15000);
        assert_int_equal(handoff_transport_start(loop.transport, &probe.post), HANDOFF_OK);
        while (!probe.told)
            turn(&loop);
        assert_int_equal(probe.status, 200);
    }
    assert_int_equal(atomic_load(&receiver.connections) - before, 1);
    loop_close(&loop);
}

enum { MANY = 200 };

static void test_many_at_once_and_some_cancelled(void **state)
{
    (void)state;
    static struct probe probes[MANY];
    struct loop loop;
    loop_open(&loop);
    for (int i = 0; i < MANY; i++) {
        probe_init(&probes[i], i % 4 == 0 ? "/silent" : "/ack", 15000);
        assert_int_equal(handoff_transport_start(loop.transport, &probes[i].post), HANDOFF_OK);
    }
    unsigned answered = 0;
    while (answered < MANY - MANY / 4) {
        turn(&loop);
        answered = 0;
        for (int i = 0; i < MANY; i++)
            answered += probes[i].told;
    }
    for (int i = 0; i < MANY; i += 4) {
        handoff_transport_cancel(loop.transport, &probes[i].post);
        handoff_transport_cancel(loop.transport, &probes[i].post); /* harmless when idle */
    }
    loop_close(&loop);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(probes[i].told, i % 4 != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_body_and_facts),
        cmocka_unit_test(test_reads_the_header),
        cmocka_unit_test(test_sends_its_headers_and_no_expect),
        cmocka_unit_test(test_failures_are_told_apart),
        cmocka_unit_test(test_nobody_listens),
        cmocka_unit_test(test_redirects_are_not_followed),
        cmocka_unit_test(test_retry_after_in_seconds),
        cmocka_unit_test(test_only_http),
        cmocka_unit_test(test_a_warm_connection_is_used_again),
        cmocka_unit_test(test_many_at_once_and_some_cancelled),
    };
    return cmocka_run_group_tests(tests, receiver_start, receiver_stop);
}
