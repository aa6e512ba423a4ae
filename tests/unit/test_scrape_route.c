/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large scrapes over a real socket: a scraper that does not read holds its slot and nothing else,
 * until the time it allowed is over. The other scenarios are in tests/scenario; this one needs more
 * series than a daemon without agents has.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "collectors/collectors.h"
#include "exporter/http/listener.h"
#include "exporter/http/server.h"
#include "exporter/http/worker.h"
#include "exporter/routes/metrics.h"
#include "tests/support/unit.h"

enum {
    SERIES = 10000,
    WIDTH = 200, /* of a label's value: 2 MB in all, more than the buffers of two sockets hold */
    REPLY_ROOM = 16 << 20,
    DEADLINE_MS = 30000,
};

struct fixture {
    struct collectors *collectors;
    struct exporter_metrics_page page;
    struct exporter_route rows[2];
    struct exporter_routes routes;
    struct exporter_worker worker;
    struct exporter_server *server;
    uint16_t port;
};

static void respond_probe(struct exporter_request *request, void *context)
{
    (void)context;
    const struct exporter_reply reply = {.status = 200,
                                         .content_type = "text/plain",
                                         .bytes = "alive",
                                         .length = 5,
                                         .body = EXPORTER_BODY_STATIC};
    exporter_respond(request, &reply);
}

static void add_series(struct collectors *collectors)
{
    const struct metric_desc desc = {.name = "test_events_total",
                                     .type = METRIC_COUNTER,
                                     .unit = "",
                                     .help = "Many.",
                                     .labels = {"number"}};
    struct metric_family *family = metric_register(collectors_registry(collectors), &desc, NULL);
    assert_non_null(family);
    for (int i = 0; i < SERIES; i++) {
        char number[WIDTH + 1];
        snprintf(number, sizeof number, "%0*d", WIDTH, i);
        metric_add(metric_resolve(family, (const char *[]){number}), 1);
    }
}

static void start_server(struct fixture *fixture)
{
    struct exporter_error error;
    struct exporter_address address = {.host = "127.0.0.1"};
    struct exporter_listener listener;
    static struct exporter_room room = {.places.most = 64, .most = 64};
    const struct exporter_server_options options = {
        .listener = "web",
        .loop = &fixture->worker.loop,
        .routes = &fixture->routes,
        .limits = {.room = &room,
                   .header_bytes = 32 << 10,
                   .read_ms = DEADLINE_MS,
                   .idle_ms = DEADLINE_MS,
                   .write_ms = 2 * DEADLINE_MS},
    };
    const int small = 16384; /* inherited by connections; else the kernel takes megabytes */
    assert_true(exporter_listener_open(&listener, &address, 1, "web", "test", &error));
    setsockopt(listener.fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    fixture->port = (uint16_t)atoi(strrchr(listener.name, ':') + 1);
    fixture->server = exporter_server_start(listener.fds[0], &options, &error);
    assert_non_null(fixture->server);
    listener.fds[0] = -1;
    exporter_listener_close(&listener);
}

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct exporter_error error;
    assert_non_null(fixture);
    const struct collectors_options options = {
        .version = "test", .threads = 2, .max_series = SERIES + 1};
    fixture->collectors = collectors_new(&options);
    assert_non_null(fixture->collectors);
    add_series(fixture->collectors);
    fixture->page.collectors = fixture->collectors;
    exporter_slots_init(&fixture->page.slots);
    atomic_store(&fixture->page.scrapes_max, 1);
    fixture->rows[0] = (struct exporter_route){
        "GET", "/metrics", exporter_route_metrics, &fixture->page, 0, NULL, HANDOFF_FOR_ALL, false};
    fixture->rows[1] = (struct exporter_route){"GET", "/probe", respond_probe,   NULL,
                                               0,     NULL,     HANDOFF_FOR_ALL, false};
    fixture->routes = (struct exporter_routes){fixture->rows, 2};
    assert_true(exporter_worker_prepare(&fixture->worker, "web", &error));
    start_server(fixture);
    assert_true(exporter_worker_start(&fixture->worker, &error));
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    exporter_worker_join(&fixture->worker);
    exporter_server_stop(&fixture->server);
    assert_int_equal(fixture->page.slots.taken, 0); /* every slot was given back */
    exporter_worker_free(&fixture->worker);
    collectors_free(&fixture->collectors);
    free(fixture);
    return 0;
}

/* ---- a client ------------------------------------------------------------------------------- */

static int send_request(const struct fixture *fixture, const char *path, const char *headers)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons(fixture->port),
                                        .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int small = 4096;
    char request[2048];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small); /* so that it fills */
    assert_int_equal(connect(fd, (const struct sockaddr *)(const void *)&address, sizeof address),
                     0);
    int length =
        snprintf(request, sizeof request,
                 "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s\r\n", path, headers);
    assert_int_equal(send(fd, request, (size_t)length, MSG_NOSIGNAL), length);
    return fd;
}

static void await_bytes(int fd)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&readable, 1, DEADLINE_MS), 1);
}

/* Everything until the connection ends; the caller frees. */
static char *read_all(int fd, size_t *length)
{
    char *reply = malloc(REPLY_ROOM + 1);
    ssize_t got = 1;
    assert_non_null(reply);
    *length = 0;
    while (got > 0) {
        await_bytes(fd);
        got = recv(fd, reply + *length, REPLY_ROOM - *length, 0);
        *length += got > 0 ? (size_t)got : 0;
    }
    reply[*length] = '\0';
    close(fd);
    return reply;
}

static char *fetch(const struct fixture *fixture, const char *path, const char *headers)
{
    size_t length;
    return read_all(send_request(fixture, path, headers), &length);
}

static bool contains(const struct fixture *fixture, const char *path, const char *text)
{
    char *reply = fetch(fixture, path, "");
    const bool found = strstr(reply, text) != NULL;
    free(reply);
    return found;
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void test_a_large_scrape_is_whole(void **state)
{
    const struct fixture *fixture = *state;
    char *reply = fetch(fixture, "/metrics", "");
    size_t lines = 0;
    for (const char *at = reply; (at = strstr(at, "test_events_total{number=\"")) != NULL; at++)
        lines++;
    /* a line may be cut by the frame of a chunk, so a few are not found */
    assert_true(lines <= SERIES && lines > SERIES - 1000);
    assert_string_equal(reply + strlen(reply) - 5, "0\r\n\r\n");
    free(reply);
    assert_true(contains(fixture, "/metrics?name%5B%5D=handoff_exporter_scrapes_total",
                         "handoff_exporter_scrapes_total{code=\"200\"} 1\n"));
}

static void test_one_that_does_not_read_holds_one_slot_and_nobody_up(void **state)
{
    struct fixture *fixture = *state;
    int slow = send_request(fixture, "/metrics", "");
    await_bytes(slow); /* its answer has begun, and cannot end */
    char *refused = fetch(fixture, "/metrics", "");
    assert_non_null(strstr(refused, "HTTP/1.1 503 "));
    assert_non_null(strstr(refused, "Retry-After: 1\r\n"));
    free(refused);
    assert_true(contains(fixture, "/probe", "alive"));
    atomic_store(&fixture->page.scrapes_max, 2); /* as a reload does */
    assert_true(contains(fixture, "/metrics?name[]=handoff_exporter_scrapes_total",
                         "handoff_exporter_scrapes_total{code=\"503\"} 1\n"));
    size_t length;
    char *whole = read_all(slow, &length);
    assert_string_equal(whole + length - 5, "0\r\n\r\n");
    free(whole);
}

static void test_the_time_a_scraper_allows_ends_its_scrape(void **state)
{
    const struct fixture *fixture = *state;
    const int64_t began = base_monotonic_ms(&base_clock_system);
    int slow = send_request(fixture, "/metrics", "X-Prometheus-Scrape-Timeout-Seconds: 0.5\r\n");
    struct pollfd hung_up = {.fd = slow, .events = POLLRDHUP};
    assert_int_equal(poll(&hung_up, 1, DEADLINE_MS), 1);
    assert_true(base_monotonic_ms(&base_clock_system) - began >= 500);
    size_t length;
    char *part = read_all(slow, &length);
    assert_true(length < 5 || strcmp(part + length - 5, "0\r\n\r\n") != 0);
    free(part);
    assert_true(contains(fixture, "/metrics?name[]=handoff_exporter_scrapes_total",
                         "handoff_exporter_scrapes_total{code=\"499\"} 1\n"));
}

static void test_one_that_leaves_gives_its_slot_back(void **state)
{
    const struct fixture *fixture = *state;
    for (int i = 0; i < 20; i++) {
        int fd = send_request(fixture, "/metrics", i % 2 != 0 ? "Accept-Encoding: gzip\r\n" : "");
        if (i % 3 != 0)
            await_bytes(fd);
        close(fd);
    }
    const int64_t until = base_monotonic_ms(&base_clock_system) + DEADLINE_MS;
    while (!contains(fixture, "/metrics?name[]=process_threads", "\nprocess_threads "))
        assert_true(base_monotonic_ms(&base_clock_system) < until);
}

static void test_too_many_names_are_refused(void **state)
{
    const struct fixture *fixture = *state;
    char path[1024] = "/metrics?";
    for (int i = 0; i < 64; i++)
        strcat(path, "name[]=a&");
    assert_true(contains(fixture, path, "HTTP/1.1 200 "));
    strcat(path, "name[]=a");
    assert_true(contains(fixture, path, "HTTP/1.1 400 "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_large_scrape_is_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_that_does_not_read_holds_one_slot_and_nobody_up,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_time_a_scraper_allows_ends_its_scrape, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_one_that_leaves_gives_its_slot_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_many_names_are_refused, setup, teardown),
    };
    return RUN_TESTS(tests);
}
