/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server with four places, over real sockets: who gives way to a fifth client, and who never
 * does. A server runs on a thread of its own, the clients on the test's.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exporter/http/crowd.h"
#include "exporter/http/http.h"
#include "exporter/http/listener.h"
#include "exporter/http/server.h"
#include "exporter/http/worker.h"
#include "lib/base/container.h"
#include "tests/support/unit.h"
#include "tests/support/wait.h"

enum {
    PLACES = 4,
    LARGE = 4 << 20, /* more than the buffers of two sockets hold */
    DEADLINE_MS = 30000,
    LET_IN_AT_ONCE = PLACES + EXPORTER_ROOM_SPARE, /* before the kernel's queue is used */
};

struct crowd {
    struct exporter_route rows[3];
    struct exporter_routes routes;
    struct exporter_worker worker;
    struct exporter_room room;
    struct exporter_server *server;
    struct exporter_request *held[LET_IN_AT_ONCE]; /* the server thread's */
    size_t nheld;
    struct base_mail release;
    uint16_t port;
};

static char large[LARGE];

static void answer_text(struct exporter_request *request, const char *text, size_t length)
{
    const struct exporter_reply reply = {.status = 200,
                                         .content_type = "text/plain",
                                         .bytes = text,
                                         .length = length,
                                         .body = EXPORTER_BODY_STATIC};
    exporter_respond(request, &reply);
}

static void answer_probe(struct exporter_request *request, void *context)
{
    (void)context;
    answer_text(request, "alive", 5);
}

static void answer_large(struct exporter_request *request, void *context)
{
    (void)context;
    answer_text(request, large, sizeof large);
}

static void forget_held(void *arg)
{
    struct exporter_request **held = arg;
    *held = NULL;
}

static void hold_request(struct exporter_request *request, void *context)
{
    struct crowd *crowd = context;
    assert_true(crowd->nheld < LET_IN_AT_ONCE);
    struct exporter_request **held = &crowd->held[crowd->nheld++];
    *held = request;
    exporter_request_defer(request, forget_held, held);
}

static void release_held(struct base_mail *mail)
{
    struct crowd *crowd = BASE_CONTAINER_OF(mail, struct crowd, release);
    for (size_t i = 0; i < crowd->nheld; i++) {
        if (crowd->held[i] != NULL)
            answer_text(crowd->held[i], "at last", 7);
    }
    crowd->nheld = 0;
}

static void open_crowd(struct crowd *crowd, unsigned places, unsigned per_ip)
{
    struct exporter_error error;
    struct exporter_address address = {.host = "127.0.0.1"};
    struct exporter_listener listener;
    const struct exporter_server_options options = {
        .listener = "web",
        .loop = &crowd->worker.loop,
        .routes = &crowd->routes,
        .limits = {.room = &crowd->room,
                   .connections_per_ip = per_ip,
                   .header_bytes = 32 << 10,
                   .read_ms = 2 * DEADLINE_MS,
                   .idle_ms = 2 * DEADLINE_MS,
                   .write_ms = 2 * DEADLINE_MS},
    };
    exporter_room_init(&crowd->room, places, false);
    const int small = 16384; /* inherited by connections; else the kernel takes megabytes */
    assert_true(exporter_worker_prepare(&crowd->worker, "web", &error));
    assert_true(exporter_listener_open(&listener, &address, 1, "web", "test", &error));
    setsockopt(listener.fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    crowd->port = (uint16_t)atoi(strrchr(listener.name, ':') + 1);
    crowd->server = exporter_server_start(listener.fds[0], &options, &error);
    assert_non_null(crowd->server);
    listener.fds[0] = -1;
    exporter_listener_close(&listener);
    assert_true(exporter_worker_start(&crowd->worker, &error));
}

static struct crowd *new_crowd(unsigned places, unsigned per_ip)
{
    struct crowd *crowd = calloc(1, sizeof *crowd);
    assert_non_null(crowd);
    const enum handoff_call_access all = HANDOFF_FOR_ALL;
    crowd->release.deliver = release_held;
    crowd->rows[0] =
        (struct exporter_route){"GET", "/probe", answer_probe, NULL, 0, NULL, all, false};
    crowd->rows[1] =
        (struct exporter_route){"GET", "/large", answer_large, NULL, 0, NULL, all, false};
    crowd->rows[2] =
        (struct exporter_route){"GET", "/hold", hold_request, crowd, 0, NULL, all, false};
    crowd->routes = (struct exporter_routes){crowd->rows, 3};
    open_crowd(crowd, places, per_ip);
    return crowd;
}

static void free_crowd(struct crowd *crowd)
{
    exporter_worker_join(&crowd->worker);
    exporter_server_stop(&crowd->server);
    exporter_worker_free(&crowd->worker);
    free(crowd);
}

/* ---- clients -------------------------------------------------------------------------------- */

static int connect_from(const struct crowd *crowd, uint32_t last_byte)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {htonl(INADDR_LOOPBACK - 1 + last_byte)}};
    const int small = 4096;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small); /* so that it fills */
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    address.sin_port = htons(crowd->port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static int connect_to(const struct crowd *crowd)
{
    return connect_from(crowd, 1);
}

static void ask(int fd, const char *path)
{
    char request[256];
    int length = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);
    assert_int_equal(send(fd, request, (size_t)length, MSG_NOSIGNAL), length);
}

static bool has_event(int fd, short events, int timeout_ms)
{
    struct pollfd waited = {.fd = fd, .events = events};
    return poll(&waited, 1, timeout_ms) == 1;
}

static void expect_answer(int fd, const char *text)
{
    char reply[4096] = "";
    size_t length = 0;
    while (strstr(reply, text) == NULL) {
        assert_true(has_event(fd, POLLIN, DEADLINE_MS));
        ssize_t got = recv(fd, reply + length, sizeof reply - 1 - length, 0);
        assert_true(got > 0);
        length += (size_t)got;
    }
}

static void expect_end(int fd)
{
    assert_true(has_event(fd, POLLRDHUP, DEADLINE_MS));
}

static bool has_ended(int fd)
{
    return has_event(fd, POLLRDHUP, 0);
}

static void close_all(int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
}

/* Requests that wait for us. */
static void await_in_flight(const struct crowd *crowd, unsigned count)
{
    WAIT_UNTIL(exporter_server_in_flight(crowd->server) >= count, "the server has these requests");
}

/* A client whose answer has begun, and who does not read it. */
static int stuck_client(const struct crowd *crowd)
{
    int fd = connect_to(crowd);
    ask(fd, "/large");
    assert_true(has_event(fd, POLLIN, DEADLINE_MS));
    return fd;
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void test_the_longest_idle_gives_way(void **state)
{
    (void)state;
    struct crowd *crowd = new_crowd(PLACES, 0);
    int clients[PLACES + 1];
    for (int i = 0; i < PLACES; i++) {
        clients[i] = connect_to(crowd);
        ask(clients[i], "/probe");
        expect_answer(clients[i], "alive");
    }
    ask(clients[0], "/probe"); /* so that the second is idle longest */
    expect_answer(clients[0], "alive");
    clients[PLACES] = connect_to(crowd);
    ask(clients[PLACES], "/probe");
    expect_answer(clients[PLACES], "alive");
    expect_end(clients[1]);
    for (int i = 0; i <= PLACES; i++)
        assert_true(has_ended(clients[i]) == (i == 1));
    close_all(clients, PLACES + 1);
    free_crowd(crowd);
}

static void test_the_longest_silent_gives_way(void **state)
{
    (void)state;
    struct crowd *crowd = new_crowd(PLACES, 0);
    int clients[PLACES + 1];
    for (int i = 0; i < PLACES; i++)
        clients[i] = connect_to(crowd);
    clients[PLACES] = connect_to(crowd);
    ask(clients[PLACES], "/probe");
    expect_answer(clients[PLACES], "alive");
    expect_end(clients[0]);
    for (int i = 1; i <= PLACES; i++)
        assert_false(has_ended(clients[i]));
    close_all(clients, PLACES + 1);
    free_crowd(crowd);
}

static void test_a_thousand_silent_ones_keep_nobody_out(void **state)
{
    (void)state;
    struct crowd *crowd = new_crowd(PLACES, 0);
    int clients[1000];
    for (int i = 0; i < 1000; i++)
        clients[i] = connect_to(crowd);
    int last = connect_to(crowd);
    ask(last, "/probe");
    expect_answer(last, "alive");
    close(last);
    close_all(clients, 1000);
    free_crowd(crowd);
}

static void test_who_waits_for_us_never_gives_way(void **state)
{
    (void)state;
    struct crowd *crowd = new_crowd(PLACES, 0);
    int clients[LET_IN_AT_ONCE];
    for (int i = 0; i < LET_IN_AT_ONCE; i++) {
        clients[i] = connect_to(crowd);
        ask(clients[i], "/hold");
        await_in_flight(crowd, (unsigned)i + 1);
    }
    int late = connect_to(crowd); /* waits in the kernel's queue */
    ask(late, "/probe");
    assert_false(has_event(late, POLLIN, 0));
    base_loop_post(&crowd->worker.loop, &crowd->release);
    for (int i = 0; i < LET_IN_AT_ONCE; i++)
        expect_answer(clients[i], "at last");
    expect_answer(late, "alive"); /* those who idle now give way, and nobody had to leave for it */
    close(late);
    close_all(clients, LET_IN_AT_ONCE);
    free_crowd(crowd);
}

static void test_who_does_not_read_gives_way_and_who_reads_does_not(void **state)
{
    (void)state;
    struct crowd *crowd = new_crowd(PLACES, 0);
    int stuck[PLACES - 1];
    char bytes[65536];
    int reader = stuck_client(crowd);
    for (int i = 0; i < PLACES - 1; i++)
        stuck[i] = stuck_client(crowd);
    /* It takes a sweep or two until they are known; newcomers are let in meanwhile. */
    size_t got = 0;
    bool ended = false;
    while (!ended) {
        int newcomer = connect_to(crowd);
        ask(newcomer, "/probe");
        expect_answer(newcomer, "alive");
        close(newcomer);
        if (got < LARGE / 2) /* 128 KiB a second at least: the loop does not take so long */
            got += (size_t)recv(reader, bytes, sizeof bytes, 0);
        for (int i = 0; i < PLACES - 1; i++)
            ended = ended || has_ended(stuck[i]);
        assert_true(has_event(reader, POLLIN, 0) || !has_ended(reader));
    }
    close(reader);
    close_all(stuck, PLACES - 1);
    free_crowd(crowd);
}

static void test_an_address_with_too_many_gives_way_to_itself(void **state)
{
    (void)state;
    struct crowd *crowd = new_crowd(PLACES, 2);
    int other = connect_from(crowd, 2);
    int clients[3];
    for (int i = 0; i < 3; i++) {
        clients[i] = connect_from(crowd, 3);
        ask(clients[i], "/probe");
        expect_answer(clients[i], "alive");
    }
    expect_end(clients[0]);
    assert_false(has_ended(other)); /* though it came first */
    assert_false(has_ended(clients[1]) || has_ended(clients[2]));
    ask(other, "/probe");
    expect_answer(other, "alive");
    close(other);
    close_all(clients, 3);
    free_crowd(crowd);
}

static void test_an_address_that_can_spare_none_is_turned_away(void **state)
{
    (void)state;
    struct crowd *crowd = new_crowd(PLACES, 2);
    int clients[3];
    for (int i = 0; i < 2; i++) {
        clients[i] = connect_to(crowd);
        ask(clients[i], "/hold");
    }
    await_in_flight(crowd, 2);
    clients[2] = connect_to(crowd);
    expect_end(clients[2]);
    int other = connect_from(crowd, 2);
    ask(other, "/probe");
    expect_answer(other, "alive");
    base_loop_post(&crowd->worker.loop, &crowd->release);
    for (int i = 0; i < 2; i++)
        expect_answer(clients[i], "at last");
    close(other);
    close_all(clients, 3);
    free_crowd(crowd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_longest_idle_gives_way),
        cmocka_unit_test(test_the_longest_silent_gives_way),
        cmocka_unit_test(test_a_thousand_silent_ones_keep_nobody_out),
        cmocka_unit_test(test_who_waits_for_us_never_gives_way),
        cmocka_unit_test(test_who_does_not_read_gives_way_and_who_reads_does_not),
        cmocka_unit_test(test_an_address_with_too_many_gives_way_to_itself),
        cmocka_unit_test(test_an_address_that_can_spare_none_is_turned_away),
    };
    return RUN_TESTS(tests);
}
