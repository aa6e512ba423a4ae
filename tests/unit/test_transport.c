/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport against a real socket: a small server in a thread of its own, which answers by
 * path.
 *
 *   /ack /header   acknowledge         /silent  never answers     /garbage   not HTTP
 *   /break         half a body         /close   closes at once    /long      100 KB of body
 *   /redirect      302 to /ack         /later   503, Retry-After
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/deliver/transport.h"

/* ---- the server: one thread for each connection ---------------------------------------------- */

static int listener;
static int port;
static atomic_int connections;
static atomic_int requests;
static pthread_mutex_t head_lock = PTHREAD_MUTEX_INITIALIZER;
static char last_head[4096]; /* head_lock */

static bool read_request(int fd, char *path)
{
    char head[4096];
    size_t size = 0;
    char *end = NULL;
    while (!end) {
        ssize_t got = read(fd, head + size, sizeof head - 1 - size);
        if (got <= 0)
            return false;
        size += (size_t)got;
        head[size] = '\0';
        end = strstr(head, "\r\n\r\n");
    }
    const char *length = strstr(head, "Content-Length: ");
    long missing = strtol(length ? length + 16 : "0", NULL, 10) - (long)(head + size - end - 4);
    char body[4096];
    while (missing > 0) {
        ssize_t got = read(fd, body, missing < (long)sizeof body ? (size_t)missing : sizeof body);
        if (got <= 0)
            return false;
        missing -= got;
    }
    assert_int_equal(sscanf(head, "POST %31s ", path), 1);
    end[2] = '\0';
    pthread_mutex_lock(&head_lock);
    memcpy(last_head, head, sizeof last_head);
    pthread_mutex_unlock(&head_lock);
    atomic_fetch_add(&requests, 1);
    return true;
}

static void send_text(int fd, const char *text)
{
    size_t size = strlen(text);
    while (size > 0) {
        ssize_t sent = send(fd, text, size, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        text += sent;
        size -= (size_t)sent;
    }
}

static void wait_for_the_end(int fd)
{
    char byte;
    while (read(fd, &byte, 1) > 0)
        ;
}

/* false: the connection is over */
static bool answer(int fd, const char *path)
{
    if (strcmp(path, "/ack") == 0) {
        send_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{\"ack\":\"x1\"}");
        return true;
    }
    if (strcmp(path, "/header") == 0) {
        send_text(fd, "HTTP/1.1 204 No Content\r\nhandoff-ACK: \t x1 \r\n\r\n");
        return true;
    }
    if (strcmp(path, "/redirect") == 0)
        send_text(fd, "HTTP/1.1 302 Found\r\nLocation: /ack\r\nContent-Length: 0\r\n\r\n");
    else if (strcmp(path, "/later") == 0)
        send_text(fd, "HTTP/1.1 503 No\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n");
    else if (strcmp(path, "/garbage") == 0)
        send_text(fd, "\x16\x03\x01 what?\r\n\r\n");
    else if (strcmp(path, "/break") == 0)
        send_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{\"ack\"");
    else if (strcmp(path, "/silent") == 0)
        wait_for_the_end(fd);
    else if (strcmp(path, "/long") == 0) {
        send_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 102400\r\n\r\n");
        char line[1025] = {0};
        memset(line, 'x', 1024);
        for (int i = 0; i < 100; i++)
            send_text(fd, line);
    }
    return false;
}

static void *serve_one(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char path[32];
    while (read_request(fd, path) && answer(fd, path))
        ;
    close(fd);
    return NULL;
}

static void *serve(void *unused)
{
    (void)unused;
    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0;) {
        atomic_fetch_add(&connections, 1);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, serve_one, (void *)(intptr_t)fd), 0);
        pthread_detach(thread);
    }
    return NULL;
}

static pthread_t server;

static int start_server(void **state)
{
    (void)state;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 512) ||
        getsockname(listener, (struct sockaddr *)&address, &size))
        return -1;
    port = ntohs(address.sin_port);
    return pthread_create(&server, NULL, serve, NULL);
}

static int stop_server(void **state)
{
    (void)state;
    shutdown(listener, SHUT_RDWR);
    pthread_join(server, NULL);
    close(listener);
    return 0;
}

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
    while (handoff_timers_due(&loop->timers, now_ms()))
        handoff_transport_timer_fired(loop->transport);
    handoff_transport_settle(loop->transport);
}

static void probe_init(struct probe *probe, const char *path, int64_t timeout_ms)
{
    *probe = (struct probe){0};
    snprintf(probe->url, sizeof probe->url, "http://127.0.0.1:%d%s", port, path);
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
    snprintf(peer, sizeof peer, "127.0.0.1:%d", port);
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
    pthread_mutex_lock(&head_lock);
    assert_non_null(strstr(last_head, "\r\nHandoff-Id: x1\r\n"));
    assert_non_null(strstr(last_head, "\r\nHandoff-Attempt: 2\r\n"));
    assert_null(strstr(last_head, "Expect"));
    pthread_mutex_unlock(&head_lock);
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
    /* a port that was just ours and is closed again */
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    close(fd);

    struct loop loop;
    struct probe probe;
    loop_open(&loop);
    probe_init(&probe, "/ack", 15000);
    snprintf(probe.url, sizeof probe.url, "http://127.0.0.1:%d/", ntohs(address.sin_port));
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
    int before = atomic_load(&requests);
    run_one("/redirect", 15000, &probe);
    assert_int_equal(probe.status, 302);
    assert_int_equal(atomic_load(&requests) - before, 1);
}

static void test_retry_after_in_seconds(void **state)
{
    (void)state;
    struct probe probe;
    run_one("/later", 15000, &probe);
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
    int before = atomic_load(&connections);
    for (int i = 0; i < 20; i++) {
        probe_init(&probe, "/ack", 15000);
        assert_int_equal(handoff_transport_start(loop.transport, &probe.post), HANDOFF_OK);
        while (!probe.told)
            turn(&loop);
        assert_int_equal(probe.status, 200);
    }
    assert_int_equal(atomic_load(&connections) - before, 1);
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
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
