/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to a remote spine that a loop makes itself (client/spine/remote/lane.c): what it finds,
 * how many run at once, what happens when the loop leaves, and how a server fails that does not
 * answer. The server is a thread for each connection; it holds its answers until it may give them.
 */
#include "tests/support/unit.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/spine/http/http_spine.h"
#include "client/spine/remote/exchange_internal.h"
#include "client/spine/remote/remote.h"
#include "client/spine/remote/remote_internal.h"
#include "lib/base/container.h"
#include "lib/base/loop.h"

enum { CONNECTIONS_MAX = 64, GETS = 10, LONG = 200 * 1024 };

#define GET_ROW "\"get\":{\"method\":\"GET\",\"path\":\"/one/{id}\"}"
#define MANY_ROW                                                                                   \
    "\"get_many\":{\"method\":\"POST\",\"path\":\"/many\",\"body\":{\"ids\":\"{ids}\"},"           \
    "\"memories\":\"/items\"}"
#define TABLE(rows) "{\"operations\":{" rows "}}"

/* ---- the server ------------------------------------------------------------------------------ */

static struct {
    int listener, port;
    pthread_t thread, threads[CONNECTIONS_MAX];
    int connections[CONNECTIONS_MAX], count; /* the accepting thread's, until it has ended */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool holds; /* lock, like all below */
    int busy, busy_most, requests;
    char last[2048];
} server = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void note_request(const char *text)
{
    pthread_mutex_lock(&server.lock);
    if (!strstr(text, "-probe")) {
        snprintf(server.last, sizeof server.last, "%s", text);
        server.requests++;
        server.busy++;
        if (server.busy > server.busy_most)
            server.busy_most = server.busy;
        pthread_cond_broadcast(&server.changed);
        while (server.holds)
            pthread_cond_wait(&server.changed, &server.lock);
        server.busy--;
    }
    pthread_mutex_unlock(&server.lock);
}

static size_t write_one(char *to, size_t room, const char *id, size_t content)
{
    size_t size = (size_t)snprintf(to, room, "{\"id\":\"%s\",\"content\":\"", id);
    memset(to + size, 'x', content);
    size += content;
    return size + (size_t)snprintf(to + size, room - size, "\"}");
}

static size_t write_body(char *to, size_t room, const char *request)
{
    char id[64] = "";
    if (sscanf(request, "GET /one/%63[^ ]", id) == 1)
        return write_one(to, room, id, strcmp(id, "long") == 0 ? LONG : 10);
    size_t size = (size_t)snprintf(to, room, "{\"items\":[");
    size += write_one(to + size, room - size, "m-1", 10);
    size += (size_t)snprintf(to + size, room - size, ",");
    size += write_one(to + size, room - size, "m-2", 10);
    return size + (size_t)snprintf(to + size, room - size, "]}");
}

static bool send_whole(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        size -= (size_t)sent;
    }
    return true;
}

static bool answer_request(int fd, const char *request)
{
    char *body = malloc(LONG + 1024), head[128];
    const size_t size = write_body(body, LONG + 1024, request);
    const int head_size =
        snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", size);
    const bool sent = send_whole(fd, head, (size_t)head_size) && send_whole(fd, body, size);
    free(body);
    return sent;
}

static bool read_request(int fd, char *request, size_t room)
{
    for (size_t size = 0; size < room - 1;) {
        const ssize_t got = recv(fd, request + size, room - 1 - size, 0);
        if (got <= 0)
            return false;
        size += (size_t)got;
        request[size] = '\0';
        const char *end = strstr(request, "\r\n\r\n"),
                   *length = strstr(request, "Content-Length: ");
        if (end && strlen(end + 4) >= (length ? strtoul(length + 16, NULL, 10) : 0))
            return true;
    }
    return false;
}

static void *serve_connection(void *argument)
{
    char request[2048];
    const int fd = *(int *)argument;
    while (read_request(fd, request, sizeof request)) {
        note_request(request);
        if (!answer_request(fd, request))
            break;
    }
    return NULL;
}

static void *accept_connections(void *unused)
{
    (void)unused;
    for (int fd; (fd = accept(server.listener, NULL, NULL)) >= 0;) {
        const int at = server.count++;
        assert_true(at < CONNECTIONS_MAX);
        server.connections[at] = fd;
        pthread_create(&server.threads[at], NULL, serve_connection, &server.connections[at]);
    }
    return NULL;
}

static void start_server(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    server.listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(server.listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(server.listener, CONNECTIONS_MAX), 0);
    assert_int_equal(getsockname(server.listener, (struct sockaddr *)&address, &size), 0);
    server.port = ntohs(address.sin_port);
    server.count = server.busy = server.busy_most = server.requests = 0;
    server.holds = false;
    pthread_create(&server.thread, NULL, accept_connections, NULL);
}

static void hold_answers(bool holds)
{
    pthread_mutex_lock(&server.lock);
    server.holds = holds;
    pthread_mutex_unlock(&server.lock);
    pthread_cond_broadcast(&server.changed);
}

static int count_of(const int *number)
{
    pthread_mutex_lock(&server.lock);
    const int value = *number;
    pthread_mutex_unlock(&server.lock);
    return value;
}

static void stop_server(void)
{
    hold_answers(false);
    shutdown(server.listener, SHUT_RDWR);
    pthread_join(server.thread, NULL);
    close(server.listener);
    for (int i = 0; i < server.count; i++) {
        shutdown(server.connections[i], SHUT_RDWR);
        pthread_join(server.threads[i], NULL);
        close(server.connections[i]);
    }
}

/* ---- the spine, and loops that ask it -------------------------------------------------------- */

static struct handoff_spine *spine;
static struct base_loop loops[2];

struct asking {
    struct handoff_spine_resolve resolve;
    struct base_arena arena;
    struct base_span ids[GETS];
    char texts[GETS][16];
    bool done;
};

static void open_spine(const char *table, unsigned connections, int64_t timeout_ms)
{
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d", server.port);
    const struct handoff_spine_options options = {.kind = HANDOFF_SPINE_KIND_HTTP,
                                                  .url = url,
                                                  .connections = connections,
                                                  .timeout_ms = timeout_ms};
    struct handoff_spine_options with_table = options;
    with_table.table = table;
    assert_int_equal(
        handoff_remote_spine_open(&spine, &handoff_http_wire, &with_table, NULL, NULL, NULL),
        HANDOFF_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(base_loop_init(&loops[i], &base_clock_system, NULL), HANDOFF_OK);
    handoff_spine_join(spine, &loops[0]);
}

static int set_up(void **unused)
{
    (void)unused;
    start_server();
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    hold_answers(false);
    for (int i = 0; i < 2; i++)
        handoff_spine_leave(spine, &loops[i]);
    handoff_spine_close(&spine);
    for (int i = 0; i < 2; i++)
        base_loop_free(&loops[i]);
    stop_server();
    return 0;
}

static void was_answered(struct handoff_spine_call *call)
{
    struct asking *asking = (struct asking *)(void *)call;
    assert_false(asking->done);
    asking->done = true;
}

/* Never done here, even where it is over at once. */
static void ask(struct asking *asking, struct base_mailbox *mailbox, int count, const char *first)
{
    *asking = (struct asking){0};
    base_arena_init(&asking->arena, 0);
    asking->resolve =
        (struct handoff_spine_resolve){.call = {.mailbox = mailbox, .done = was_answered},
                                       .arena = &asking->arena,
                                       .scopes = {.all = true},
                                       .ids = asking->ids,
                                       .id_count = (size_t)count};
    for (int i = 0; i < count; i++) {
        if (i > 0)
            snprintf(asking->texts[i], sizeof asking->texts[i], "m-%d", i + 1);
        else
            snprintf(asking->texts[i], sizeof asking->texts[i], "%s", first);
        asking->ids[i] = base_span_text(asking->texts[i]);
    }
    assert_int_equal(handoff_spine_resolve(spine, &asking->resolve), HANDOFF_SPINE_PENDING);
    assert_false(asking->done);
}

static void run_until_done(struct asking *asking, struct base_loop *loop)
{
    while (!asking->done)
        base_loop_turn(loop, -1);
}

static void forget(struct asking *asking)
{
    base_arena_free(&asking->arena);
}

static void run_until_busy(int busy)
{
    while (count_of(&server.busy) < busy) {
        base_loop_turn(&loops[0], 1);
        base_loop_turn(&loops[1], 1);
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_one_request_finds_all_and_says_what_is_missing(void **unused)
{
    (void)unused;
    struct asking asking;
    open_spine(TABLE(GET_ROW "," MANY_ROW), 0, 0);
    ask(&asking, &loops[0].mailbox, 3, "m-1");
    run_until_done(&asking, &loops[0]);
    assert_int_equal(asking.resolve.call.error.code, HANDOFF_OK);
    assert_int_equal(asking.resolve.found_count, 2);
    assert_int_equal(asking.resolve.missing_count, 1);
    assert_true(base_span_equal(asking.resolve.missing[0], base_span_text("m-3")));
    assert_int_equal(count_of(&server.requests), 1);
    assert_memory_equal(server.last, "POST /many HTTP/1.1\r\n", 21);
    assert_non_null(strstr(server.last, "\r\nAccept: application/json\r\n"));
    assert_non_null(strstr(server.last, "\r\nContent-Type: application/json\r\n"));
    assert_non_null(strstr(server.last, "\r\n\r\n{\"ids\":[\"m-1\",\"m-2\",\"m-3\"]}"));
    forget(&asking);
}

static void test_a_get_has_no_body(void **unused)
{
    (void)unused;
    struct asking asking;
    open_spine(TABLE(GET_ROW), 0, 0);
    ask(&asking, &loops[0].mailbox, 1, "m-1");
    run_until_done(&asking, &loops[0]);
    assert_int_equal(asking.resolve.found_count, 1);
    assert_memory_equal(server.last, "GET /one/m-1 HTTP/1.1\r\n", 23);
    assert_null(strstr(server.last, "Content-"));
    forget(&asking);
}

static void test_a_long_answer_is_read_elsewhere_and_comes_as_mail(void **unused)
{
    (void)unused;
    struct asking asking;
    open_spine(TABLE(GET_ROW), 0, 10000);
    ask(&asking, &loops[0].mailbox, 1, "long");
    run_until_done(&asking, &loops[0]);
    assert_int_equal(asking.resolve.call.error.code, HANDOFF_OK);
    assert_int_equal(asking.resolve.found_count, 1);
    assert_int_equal(asking.resolve.found[0].memory.content.size, LONG);
    forget(&asking);
}

struct late_call {
    struct handoff_remote_call call;
    struct handoff_remote_request request;
    const char *failure;
    size_t left;
    bool given;
};

static bool late_call_ended(struct handoff_remote_call *call)
{
    struct late_call *late = (struct late_call *)(void *)call;
    late->failure = late->request.failure;
    late->left = late->request.answer.size;
    call->failed = late->failure != NULL;
    return false;
}

static void late_call_was_given(struct base_mail *mail)
{
    BASE_CONTAINER_OF(mail, struct late_call, call.mail)->given = true;
}

/* As a lane hands it over when the thread has others to read. */
static void give_to_be_read(struct late_call *late, size_t size, int64_t left_ms)
{
    *late = (struct late_call){.call = {.requests = &late->request,
                                        .count = 1,
                                        .ended = late_call_ended,
                                        .mail.deliver = late_call_was_given,
                                        .mailbox = &loops[0].mailbox,
                                        .answered = true}};
    late->request.call = &late->call;
    late->call.deadline_ns = handoff_remote_now_ns() + left_ms * 1000000;
    for (size_t i = 0; i < size; i++)
        base_buffer_byte(&late->request.answer, 'x');
    handoff_remote_send_home(handoff_remote_spine_of(spine)->exchange, &late->call);
    while (!late->given)
        base_loop_turn(&loops[0], -1);
    handoff_remote_request_free(&late->request);
}

static void test_a_long_answer_is_not_read_after_its_time(void **unused)
{
    (void)unused;
    struct late_call late;
    open_spine(TABLE(GET_ROW), 0, 10000);
    give_to_be_read(&late, LONG, 10000);
    assert_null(late.failure);
    for (int i = 0; i < HANDOFF_SPINE_DOWN_AFTER; i++) {
        give_to_be_read(&late, LONG, -10);
        assert_non_null(late.failure);
        assert_non_null(strstr(late.failure, "too late"));
        assert_int_equal(late.left, 0);
    }
    assert_true(handoff_spine_is_up(spine, 0)); /* it is not the server that was late */
    give_to_be_read(&late, 10, -10);
    assert_null(late.failure);
}

/* Two loops and the thread, which makes the requests of a mailbox whose loop has not joined. */
static void test_no_more_run_at_once_than_may(void **unused)
{
    (void)unused;
    struct asking asking[3];
    struct base_loop stranger;
    open_spine(TABLE(GET_ROW), 5, 20000);
    handoff_spine_join(spine, &loops[1]);
    assert_int_equal(base_loop_init(&stranger, &base_clock_system, NULL), HANDOFF_OK);
    hold_answers(true);
    ask(&asking[0], &loops[0].mailbox, GETS, "m-1");
    ask(&asking[1], &loops[1].mailbox, GETS, "m-1");
    ask(&asking[2], &stranger.mailbox, GETS, "m-1");
    run_until_busy(5);
    hold_answers(false);
    while (!asking[0].done || !asking[1].done || !asking[2].done) {
        base_loop_turn(&loops[0], 1);
        base_loop_turn(&loops[1], 1);
        base_loop_turn(&stranger, 1);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(asking[i].resolve.found_count, GETS);
        forget(&asking[i]);
    }
    assert_int_equal(count_of(&server.busy_most), 5);
    assert_int_equal(count_of(&server.requests), 3 * GETS);
    base_loop_free(&stranger);
}

static void test_what_a_leaving_loop_has_asked_for_ends_without_an_answer(void **unused)
{
    (void)unused;
    struct asking asking[2];
    open_spine(TABLE(GET_ROW), 4, 20000);
    hold_answers(true);
    ask(&asking[0], &loops[0].mailbox, GETS, "m-1"); /* of which some wait */
    ask(&asking[1], &loops[0].mailbox, 1, "m-1");
    run_until_busy(2);
    handoff_spine_leave(spine, &loops[0]);
    while (!asking[0].done || !asking[1].done)
        base_mailbox_wait(&loops[0].mailbox, -1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(asking[i].resolve.call.error.code, HANDOFF_ERR_SPINE_UNAVAILABLE);
        forget(&asking[i]);
    }
    assert_true(handoff_spine_is_up(spine, 0)); /* it is not to blame */
    hold_answers(false);
}

static void test_what_waits_ends_in_time_too_and_then_it_is_left_alone(void **unused)
{
    (void)unused;
    struct asking asking;
    open_spine(TABLE(GET_ROW), 2, 150); /* one for the loop, one for the thread */
    hold_answers(true);
    for (int i = 0; i < HANDOFF_SPINE_DOWN_AFTER; i++) {
        ask(&asking, &loops[0].mailbox, 3, "m-1");
        run_until_done(&asking, &loops[0]);
        assert_int_equal(asking.resolve.call.error.code, HANDOFF_ERR_SPINE_UNAVAILABLE);
        assert_non_null(strstr(asking.resolve.call.error.seen, "did not answer in time"));
        forget(&asking);
    }
    struct handoff_spine_resolve again = {.call = {.mailbox = &loops[0].mailbox},
                                          .arena = &asking.arena,
                                          .scopes = {.all = true},
                                          .ids = asking.ids,
                                          .id_count = 1};
    assert_int_equal(handoff_spine_resolve(spine, &again), HANDOFF_SPINE_DONE);
    assert_false(handoff_spine_is_up(spine, 0));
    assert_non_null(strstr(again.call.error.seen, "left alone"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_one_request_finds_all_and_says_what_is_missing),
        TEST(test_a_get_has_no_body),
        TEST(test_a_long_answer_is_read_elsewhere_and_comes_as_mail),
        TEST(test_a_long_answer_is_not_read_after_its_time),
        TEST(test_no_more_run_at_once_than_may),
        TEST(test_what_a_leaving_loop_has_asked_for_ends_without_an_answer),
        TEST(test_what_waits_ends_in_time_too_and_then_it_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
