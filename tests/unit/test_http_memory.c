/* SPDX-License-Identifier: Apache-2.0 */
/* links: exporter_core */
/* wraps: malloc MHD_create_response_from_buffer */
/*
 * The HTTP server without memory: a parameter of the query is never taken for one that was not
 * sent, and a handler learns whether its answer is on its way.
 *
 * The real server on a loopback port; its loop is turned by the test, so nothing waits.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exporter/http/server.h"
#include "tests/support/unit.h"

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
struct MHD_Response *__real_MHD_create_response_from_buffer(size_t size, void *bytes,
                                                            enum MHD_ResponseMemoryMode mode);
struct MHD_Response *__wrap_MHD_create_response_from_buffer(size_t size, void *bytes,
                                                            enum MHD_ResponseMemoryMode mode);

static int malloc_fails_at;   /* counted from 1; 0: none, or it has */
static int response_fails_at; /* likewise */

static bool fails(int *at)
{
    return *at > 0 && (*at)-- == 1;
}

void *__wrap_malloc(size_t size)
{
    return fails(&malloc_fails_at) ? NULL : __real_malloc(size);
}

struct MHD_Response *__wrap_MHD_create_response_from_buffer(size_t size, void *bytes,
                                                            enum MHD_ResponseMemoryMode mode)
{
    return fails(&response_fails_at) ? NULL
                                     : __real_MHD_create_response_from_buffer(size, bytes, mode);
}

/* ---- the server ------------------------------------------------------------------------------ */

enum { LARGE = 40 << 20 }; /* two of them are more than a server holds for its clients */

static struct base_loop loop;
static struct exporter_server *server;
static struct exporter_room room;
static in_port_t port;
static bool is_on_its_way; /* what the last handler was told */

/* Answers with what it sees of a filter. */
static void show_filter(struct exporter_request *request, void *context)
{
    static char seen[64];
    const char *value = exporter_request_query(request, "task");
    const char *values[4];
    (void)context;
    (void)snprintf(seen, sizeof seen, "%s, %zu of all", value != NULL ? value : "everything",
                   exporter_request_query_all(request, "name[]", values, 4));
    is_on_its_way = exporter_respond(request, &(struct exporter_reply){.status = 200,
                                                                       .content_type = "text/plain",
                                                                       .bytes = seen,
                                                                       .length = strlen(seen)});
}

static void give_much(struct exporter_request *request, void *context)
{
    (void)context;
    is_on_its_way =
        exporter_respond(request, &(struct exporter_reply){.status = 200,
                                                           .content_type = "text/plain",
                                                           .bytes = calloc(1, LARGE),
                                                           .length = LARGE,
                                                           .body = EXPORTER_BODY_GIVEN});
}

static const struct exporter_route table[] = {
    {.method = "GET", .pattern = "/filter", .handle = show_filter},
    {.method = "GET", .pattern = "/much", .handle = give_much},
};
static const struct exporter_routes routes = {table, 2};

static int begin(void **state)
{
    static const _Atomic(uint64_t) body_limit = 1024;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    struct exporter_error error;
    (void)state;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    port = address.sin_port;
    exporter_room_init(&room, 100, false);
    room.servers = 1;
    assert_int_equal(base_loop_init(&loop, &base_clock_system, NULL), HANDOFF_OK);
    const struct exporter_server_options options = {.listener = "api",
                                                    .loop = &loop,
                                                    .routes = &routes,
                                                    .body_limit = &body_limit,
                                                    .limits = {.room = &room,
                                                               .header_bytes = 16384,
                                                               .read_ms = 60000,
                                                               .idle_ms = 60000,
                                                               .write_ms = 60000}};
    server = exporter_server_start(fd, &options, &error);
    assert_non_null(server);
    return 0;
}

static int end(void **state)
{
    (void)state;
    exporter_server_unhook(server);
    exporter_server_stop(&server);
    base_loop_free(&loop);
    return 0;
}

/* ---- its clients ----------------------------------------------------------------------------- */

static int ask(const char *path)
{
    char request[256];
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(client, (const struct sockaddr *)&address, sizeof address), 0);
    (void)snprintf(request, sizeof request,
                   "GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", path);
    assert_int_equal(send(client, request, strlen(request), 0), strlen(request));
    return client;
}

/* Turns the loop until the connection is over, or, of a long answer, has begun. */
static void read_answer(int client, char *answer, size_t size)
{
    size_t length = 0;
    ssize_t got = -1;
    while (got != 0 && length + 1 < size) {
        base_loop_turn(&loop, 10);
        got = recv(client, answer + length, size - 1 - length, MSG_DONTWAIT);
        length += got > 0 ? (size_t)got : 0;
        if (got < 0 && errno != EAGAIN)
            break; /* it was reset */
    }
    answer[length] = '\0';
}

static void get(const char *path, char *answer, size_t size)
{
    const int client = ask(path);
    read_answer(client, answer, size);
    close(client);
}

static bool begins_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_a_parameter_is_never_taken_for_one_that_was_not_sent(void **state)
{
    static const char path[] = "/filter?name%5B%5D=a&task=b%6Cue&name[]=c&task=red";
    char answer[1024];
    int failed = 0;
    (void)state;
    for (;; failed++) {
        malloc_fails_at = failed + 1;
        get(path, answer, sizeof answer);
        if (malloc_fails_at > 0)
            break; /* there was no such call any more */
        if (*answer != '\0' && !begins_with(answer, "HTTP/1.1 503 "))
            assert_non_null(strstr(answer, "blue, 2 of all"));
    }
    malloc_fails_at = 0;
    assert_non_null(strstr(answer, "blue, 2 of all"));
    assert_true(failed >= 1);
    malloc_fails_at = 1;
    get(path, answer, sizeof answer);
    assert_true(begins_with(answer, "HTTP/1.1 503 "));
    assert_non_null(strstr(answer, "\"code\":\"out_of_memory\""));
}

static void test_a_handler_learns_that_its_answer_cannot_be_made(void **state)
{
    char answer[1024];
    (void)state;
    get("/filter", answer, sizeof answer);
    assert_non_null(strstr(answer, "everything, 0 of all"));
    assert_true(is_on_its_way);
    response_fails_at = 1;
    get("/filter", answer, sizeof answer);
    assert_string_equal(answer, "");
    assert_false(is_on_its_way);
}

/* Others hold what there is, and have just begun to read it: on a machine that stands still for
   long, they are taken for slow ones, and give way. */
static void test_a_handler_learns_that_its_answer_gives_way(void **state)
{
    enum { ATTEMPTS = 100 };
    char answer[1024] = "";
    (void)state;
    for (int i = 0; i < ATTEMPTS && !begins_with(answer, "HTTP/1.1 503 "); i++) {
        const int first = ask("/much");
        read_answer(first, answer, 64);
        assert_true(begins_with(answer, "HTTP/1.1 200 "));
        assert_true(is_on_its_way);
        get("/much", answer, sizeof answer);
        close(first);
    }
    assert_true(begins_with(answer, "HTTP/1.1 503 "));
    assert_false(is_on_its_way);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_parameter_is_never_taken_for_one_that_was_not_sent,
                                        begin, end),
        cmocka_unit_test_setup_teardown(test_a_handler_learns_that_its_answer_cannot_be_made, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_a_handler_learns_that_its_answer_gives_way, begin,
                                        end),
    };
    return RUN_TESTS(tests);
}
