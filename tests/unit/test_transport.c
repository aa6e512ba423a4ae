/* SPDX-License-Identifier: Apache-2.0 */
/* The transport against real sockets and a receiver that misbehaves: over connections of ours, and
   the same over curl, which gets what has a user in its URL. */
#include "tests/support/failing_memory.h"
#include "tests/support/receiver.h"
#include "tests/support/unit.h"

#include <dlfcn.h>
#include <netdb.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>

#include "client/transport/transport.h"

/* ---- a loop and its posts ---------------------------------------------------------------------
 */

struct loop {
    struct base_poller poller;
    struct base_timers timers;
    const struct base_clock *clock;
    struct base_quota quota;
    struct handoff_transport *transport;
};

struct probe {
    struct handoff_post post;
    char url[64];
    unsigned told;
    bool answered;
    int status;
    enum handoff_attempt_result failure;
    enum handoff_shortage shortage;
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
    probe->shortage = heard->shortage;
    probe->retry_after_ms = heard->retry_after_ms;
    probe->facts = *facts;
    snprintf(probe->ack, sizeof probe->ack, "%s", heard->ack_header ? heard->ack_header : "");
    snprintf(probe->body, sizeof probe->body, "%.*s", (int)heard->body_size,
             heard->body ? heard->body : "");
}

static void loop_open_by(struct loop *loop, const struct base_clock *clock)
{
    *loop = (struct loop){.clock = clock};
    assert_int_equal(base_poller_init(&loop->poller, NULL), HANDOFF_OK);
    assert_int_equal(handoff_transport_new(&loop->transport, &loop->poller, &loop->timers, clock,
                                           &loop->quota, NULL),
                     HANDOFF_OK);
}

static void loop_open(struct loop *loop)
{
    loop_open_by(loop, &base_clock_system);
}

static void loop_close(struct loop *loop)
{
    handoff_transport_free(&loop->transport);
    assert_null(loop->timers.first);
    base_poller_free(&loop->poller);
}

static int64_t now_ms(const struct loop *loop)
{
    return base_monotonic_ns(loop->clock) / 1000000;
}

static void turn(struct loop *loop)
{
    int64_t wait = base_timers_wait_ms(&loop->timers, now_ms(loop));
    struct pollfd ready = {.fd = loop->poller.fd, .events = POLLIN};
    poll(&ready, 1, wait < 0 || wait > 1000 ? 1000 : (int)wait);
    base_poller_run(&loop->poller, 0);
    base_timers_run(&loop->timers, now_ms(loop));
    handoff_transport_settle(loop->transport);
}

static const char *user = ""; /* "me:it@": over curl */

static void probe_init(struct probe *probe, const char *path, int64_t timeout_ms)
{
    *probe = (struct probe){0};
    snprintf(probe->url, sizeof probe->url, "http://%s127.0.0.1:%d%s", user, receiver.port, path);
    probe->post = (struct handoff_post){
        .url = probe->url, .body = "{}", .size = 2, .timeout_ms = timeout_ms, .done = told};
}

static void run_probe(struct loop *loop, struct probe *probe)
{
    assert_int_equal(handoff_transport_start(loop->transport, &probe->post), HANDOFF_OK);
    assert_int_equal(probe->told, 0); /* never from within */
    while (!probe->told)
        turn(loop);
}

static void run_in(struct loop *loop, const char *path, struct probe *probe)
{
    probe_init(probe, path, 15000);
    run_probe(loop, probe);
}

static void run_one(const char *path, int64_t timeout_ms, struct probe *probe)
{
    struct loop loop;
    loop_open(&loop);
    probe_init(probe, path, timeout_ms);
    run_probe(&loop, probe);
    loop_close(&loop);
}

static void assert_last_head_has(const char *text)
{
    pthread_mutex_lock(&receiver.lock);
    assert_non_null(strstr(receiver.last_head, text));
    pthread_mutex_unlock(&receiver.lock);
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

static void test_what_comes_before_the_answer_is_none(void **state)
{
    (void)state;
    struct probe probe;
    run_one("/hint", 15000, &probe);
    assert_int_equal(probe.status, 200);
    assert_string_equal(probe.ack, "");
}

static void test_sends_its_headers_and_no_expect(void **state)
{
    (void)state;
    struct loop loop;
    struct probe probe;
    enum { LARGE = 8 << 20 }; /* more than a socket takes at once */
    char *large = calloc(1, LARGE);
    const char *const headers[] = {"Handoff-Id: x1", "Handoff-Attempt: 2"};
    loop_open(&loop);
    probe_init(&probe, "/ack", 15000);
    probe.post.headers = headers;
    probe.post.nheaders = 2;
    probe.post.body = large;
    probe.post.size = LARGE;
    assert_int_equal(handoff_transport_start(loop.transport, &probe.post), HANDOFF_OK);
    while (!probe.told)
        turn(&loop);
    loop_close(&loop);
    free(large);
    assert_int_equal(probe.status, 200);
    assert_last_head_has("\r\nHandoff-Id: x1\r\n");
    assert_last_head_has("\r\nHandoff-Attempt: 2\r\n");
    pthread_mutex_lock(&receiver.lock);
    assert_null(strstr(receiver.last_head, "Expect"));
    pthread_mutex_unlock(&receiver.lock);
}

/* The same words for the same fault on both ways; over TLS they are in test_receivers.py. */
static void test_failures_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        enum handoff_attempt_result failure;
        const char *words; /* that it begins with */
    } rows[] = {
        {"/silent", HANDOFF_RESULT_TIMEOUT, "no answer within 50 ms"},
        {"/close", HANDOFF_RESULT_PROTOCOL, "the agent closed the connection without answering"},
        {"/reset", HANDOFF_RESULT_PROTOCOL, "connection reset by the agent"},
        {"/half", HANDOFF_RESULT_PROTOCOL, "the connection ended in the middle of the answer"},
        {"/break", HANDOFF_RESULT_PROTOCOL, "the connection ended in the middle of the answer"},
        {"/garbage", HANDOFF_RESULT_PROTOCOL, "the answer is not HTTP/1.1"},
        {"/chunk", HANDOFF_RESULT_PROTOCOL, "the answer is malformed: "},
        {"/long", HANDOFF_RESULT_PROTOCOL, "the answer is longer than 65536 bytes"},
        {"/head", HANDOFF_RESULT_PROTOCOL, "the answer's headers are too large"},
        {"/line", HANDOFF_RESULT_PROTOCOL, "the answer's headers are too large"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct probe probe;
        run_one(rows[i].path, i == 0 ? 50 : 15000, &probe);
        assert_false(probe.answered);
        assert_int_equal(probe.failure, rows[i].failure);
        assert_int_equal(strncmp(probe.facts.error, rows[i].words, strlen(rows[i].words)), 0);
    }
}

static void run_url(const char *url, int port, struct probe *probe)
{
    struct loop loop;
    loop_open(&loop);
    probe_init(probe, "", 15000);
    snprintf(probe->url, sizeof probe->url, url, user, port);
    run_probe(&loop, probe);
    loop_close(&loop);
}

static void test_nobody_listens(void **state)
{
    (void)state;
    struct probe probe;
    run_url("http://%s127.0.0.1:%d/", receiver_dead_port(), &probe);
    assert_false(probe.answered);
    assert_int_equal(probe.failure, HANDOFF_RESULT_CONNECT);
    assert_string_equal(probe.facts.error, "connect failed: Connection refused");
}

static void test_a_name_that_nobody_has(void **state)
{
    (void)state;
    struct probe probe;
    run_url("http://%snobody.test:%d/", receiver.port, &probe);
    assert_false(probe.answered);
    assert_int_equal(probe.failure, HANDOFF_RESULT_CONNECT);
    assert_string_equal(probe.facts.error, "name resolution failed");
}

/* A failure is told as what it is, whatever failed before it. */
static void test_one_failure_after_another(void **state)
{
    (void)state;
    struct loop loop;
    struct probe probe;
    loop_open(&loop);
    run_in(&loop, "/reset", &probe);
    assert_string_equal(probe.facts.error, "connection reset by the agent");
    run_in(&loop, "/chunk", &probe);
    assert_non_null(strstr(probe.facts.error, "malformed"));
    run_in(&loop, "/ack", &probe);
    assert_string_equal(probe.facts.error, "");
    loop_close(&loop);
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

/* What a value means is in test_retry_after.c. */
static void test_retry_after(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        int64_t wait_ms;
    } rows[] = {
        {"/503wait=7", 7000}, {"/503wait=7.5", 7000}, {"/503wait=99999999999999", 3600000},
        {"/503wait=-5", 0},   {"/503wait=soon", 0},   {"/503date", 3600000},
        {"/503", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct probe probe;
        run_one(rows[i].path, 15000, &probe);
        assert_int_equal(probe.status, 503);
        assert_int_equal(probe.retry_after_ms, rows[i].wait_ms);
    }
}

static void test_what_a_url_becomes(void **state)
{
    (void)state;
    static const struct {
        const char *url; /* %d: the port */
        const char *head;
    } rows[] = {
        {"http://127.0.0.1:%d/ack", "POST /ack HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"},
        {"HTTP://localhost:%d/ack,?a=%%20b&c",
         "POST /ack,?a=%%20b&c HTTP/1.1\r\nHost: localhost:%d\r\n"},
        {"http://127.0.0.1:%d/ack,#part", "POST /ack, HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"},
        {"http://127.0.0.1:%d/x/../ack", "POST /ack HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"},
        {"http://me:it@127.0.0.1:%d/ack", "\r\nAuthorization: Basic bWU6aXQ=\r\n"},
    };
    struct loop loop;
    loop_open(&loop);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct probe probe;
        char head[128];
        probe_init(&probe, "", 15000);
        snprintf(probe.url, sizeof probe.url, rows[i].url, receiver.port);
        snprintf(head, sizeof head, rows[i].head, receiver.port);
        run_probe(&loop, &probe);
        assert_true(probe.answered);
        assert_last_head_has(head);
    }
    loop_close(&loop);
}

static void test_the_url_chooses_the_driver(void **state)
{
    (void)state;
    static const struct {
        const char *url, *driver;
    } rows[] = {
        {"http://127.0.0.1:%d/ack", "plain"},     {"HTTP://localhost:%d/ack", "plain"},
        {"https://127.0.0.1:%d/ack", "curl"},     {"http://me:it@127.0.0.1:%d/ack", "curl"},
        {"http://127.0.0.1:%d/x/../ack", "curl"}, {"ftp://127.0.0.1:%d/ack", "curl"},
    };
    struct loop loop;
    loop_open(&loop);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct probe probe;
        probe_init(&probe, "", 15000);
        snprintf(probe.url, sizeof probe.url, rows[i].url, receiver.port);
        assert_int_equal(handoff_transport_start(loop.transport, &probe.post), HANDOFF_OK);
        assert_string_equal(probe.post.transfer->driver->name, rows[i].driver);
        handoff_transport_cancel(loop.transport, &probe.post);
        assert_null(probe.post.transfer);
    }
    loop_close(&loop);
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

/* ---- a name server that does not answer --------------------------------------------------------
 */

enum { PATIENCE_S = 60 };
static sem_t name_answer;
static atomic_int names_unanswered;

/* The resolver calls this one. */
int getaddrinfo(const char *restrict name, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict found)
{
    struct timespec until;
    if (name && strcmp(name, "nobody.test") == 0)
        return EAI_NONAME;
    if (!name || strcmp(name, "unanswered.test") != 0) {
        int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
        *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
        return real(name, service, hints, found);
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    if (sem_timedwait(&name_answer, &until) != 0)
        atomic_fetch_add(&names_unanswered, 1);
    return EAI_AGAIN;
}

/* The time-out, and a cancel, end the wait for a name: nobody else's posts wait with it. */
static void test_a_name_that_is_not_answered_holds_up_nobody(void **state)
{
    (void)state;
    struct loop loop;
    struct probe probes[2];
    while (sem_trywait(&name_answer) == 0) /* of a test before, where nobody asked */
        ;
    loop_open(&loop);
    for (int i = 0; i < 2; i++) {
        probe_init(&probes[i], "", 50);
        snprintf(probes[i].url, sizeof probes[i].url, "http://%sunanswered.test/", user);
    }
    assert_int_equal(handoff_transport_start(loop.transport, &probes[1].post), HANDOFF_OK);
    run_probe(&loop, &probes[0]);
    assert_int_equal(probes[0].failure, HANDOFF_RESULT_CONNECT);
    assert_string_equal(probes[0].facts.error, "name resolution timed out after 50 ms");
    handoff_transport_cancel(loop.transport, &probes[1].post);
    loop_close(&loop);
    assert_int_equal(atomic_load(&names_unanswered), 0);
    sem_post(&name_answer);
    sem_post(&name_answer);
}

/* Whichever allocation fails: the posts under way end in time, and the next one is answered. */
static void test_no_memory_ends_nobody_elses_posts(void **state)
{
    (void)state;
    bool reached = true;
    for (long n = 1; reached; n++) {
        struct loop loop;
        struct probe waiting, failing, next;
        loop_open(&loop);
        probe_init(&waiting, "/silent", 100);
        assert_int_equal(handoff_transport_start(loop.transport, &waiting.post), HANDOFF_OK);
        probe_init(&failing, "", 50);
        snprintf(failing.url, sizeof failing.url, "http://%sunanswered.test/", user);
        failing_memory_at(n);
        enum handoff_code code = handoff_transport_start(loop.transport, &failing.post);
        while (!waiting.told || (code == HANDOFF_OK && !failing.told))
            turn(&loop);
        reached = atomic_load(&failing_memory_hit);
        failing_memory_at(0);
        assert_false(waiting.answered || failing.answered);
        run_in(&loop, "/ack", &next);
        assert_int_equal(next.status, 200);
        loop_close(&loop);
        sem_post(&name_answer);
    }
    failing_memory_at(0);
}

/* ---- connections that end ------------------------------------------------------------------- */

static void await_left(int count)
{
    while (atomic_load(&receiver.left) < count)
        sched_yield();
}

/* The agent closes behind its answer, without a word in it; whether the loop has seen that or not,
   the next one is delivered, over another connection. */
static void test_an_agent_that_leaves_is_dialled_again(void **state)
{
    (void)state;
    for (int seen = 0; seen < 2; seen++) {
        struct loop loop;
        struct probe probe;
        loop_open(&loop);
        int connections = atomic_load(&receiver.connections), left = atomic_load(&receiver.left);
        run_in(&loop, "/leave", &probe);
        assert_int_equal(probe.status, 200);
        await_left(left + 1);
        if (seen) {
            base_poller_run(&loop.poller, 0);
            handoff_transport_settle(loop.transport);
        }
        run_in(&loop, "/ack", &probe);
        assert_int_equal(probe.status, 200);
        assert_int_equal(atomic_load(&receiver.connections) - connections, 2);
        loop_close(&loop);
    }
}

/* What comes behind an answer, and is seen before the next request, is not that one's answer. */
static void test_an_answer_that_was_not_asked_for_is_none(void **state)
{
    (void)state;
    struct loop loop;
    struct probe probe;
    loop_open(&loop);
    int said = atomic_load(&receiver.said_more);
    run_in(&loop, "/more", &probe);
    assert_int_equal(probe.status, 200);
    atomic_store(&receiver.may_say_more, true);
    while (atomic_load(&receiver.said_more) == said)
        sched_yield();
    base_poller_run(&loop.poller, 0);
    run_in(&loop, "/ack", &probe);
    assert_int_equal(probe.status, 200);
    loop_close(&loop);
}

/* Over a kept connection it may be the agent's time-out, so it is sent again, once; over a new one
   it is the agent's answer. */
static void test_a_request_without_an_answer_is_sent_again_once(void **state)
{
    (void)state;
    struct loop loop;
    struct probe probe;
    loop_open(&loop);
    run_in(&loop, "/ack", &probe);
    for (int kept = 1; kept >= 0; kept--) {
        int requests = atomic_load(&receiver.requests);
        run_in(&loop, "/close", &probe);
        assert_false(probe.answered);
        assert_int_equal(probe.failure, HANDOFF_RESULT_PROTOCOL);
        assert_true(probe.facts.error[0] != '\0');
        assert_int_equal(atomic_load(&receiver.requests) - requests, 1 + kept);
    }
    run_in(&loop, "/ack", &probe); /* a broken answer is one, and is not asked for again */
    int requests = atomic_load(&receiver.requests);
    run_in(&loop, "/break", &probe);
    assert_false(probe.answered);
    assert_int_equal(atomic_load(&receiver.requests) - requests, 1);
    loop_close(&loop);
}

/* Kept connections may be dead without a word, all of them. */
static void test_a_fresh_post_trusts_no_kept_connection(void **state)
{
    (void)state;
    enum { KEPT = 3 };
    struct loop loop;
    struct probe first[KEPT], probe;
    loop_open(&loop);
    atomic_store(&receiver.once_from, atomic_load(&receiver.connections) + KEPT);
    for (int i = 0; i < KEPT; i++) {
        probe_init(&first[i], "/once", 15000);
        assert_int_equal(handoff_transport_start(loop.transport, &first[i].post), HANDOFF_OK);
    }
    for (int i = 0; i < KEPT; i++)
        while (!first[i].told)
            turn(&loop);
    probe_init(&probe, "/ack", 100);
    run_probe(&loop, &probe);
    assert_int_equal(probe.failure, HANDOFF_RESULT_TIMEOUT);
    probe_init(&probe, "/ack", 15000);
    probe.post.fresh = true;
    run_probe(&loop, &probe);
    assert_int_equal(probe.status, 200);
    loop_close(&loop);
}

/* A body that is not wanted is not sent to its end. */
static void test_an_early_answer_counts(void **state)
{
    (void)state;
    enum { LARGE = 64 << 20 };
    struct loop loop;
    struct probe probe;
    char *large = calloc(1, LARGE);
    loop_open(&loop);
    int connections = atomic_load(&receiver.connections);
    probe_init(&probe, "/early", 15000);
    probe.post.body = large;
    probe.post.size = LARGE;
    run_probe(&loop, &probe);
    assert_int_equal(probe.status, 413);
    run_in(&loop, "/ack", &probe);
    assert_int_equal(probe.status, 200);
    assert_int_equal(atomic_load(&receiver.connections) - connections, 2);
    loop_close(&loop);
    free(large);
}

/* An agent on this thread, so that it acts at a known moment. */
struct agent {
    struct base_watch watch;
    int event, fd;
};

static void read_all(int fd)
{
    char bytes[65536];
    while (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
}

static void refuse_and_reset(struct base_watch *watch, uint32_t events)
{
    (void)events;
    struct agent *agent = (struct agent *)watch;
    const struct linger reset = {.l_onoff = 1};
    eventfd_t count;
    eventfd_read(agent->event, &count);
    receiver_send(agent->fd, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n");
    setsockopt(agent->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(agent->fd);
}

/* The answer comes when the turn has begun, and is not known of; the next send fails. */
static void test_a_refusal_counts_when_the_rest_cannot_be_sent(void **state)
{
    (void)state;
    enum { LARGE = 64 << 20 };
    struct agent agent = {{refuse_and_reset}, eventfd(0, EFD_CLOEXEC), -1};
    struct loop loop;
    struct probe probe;
    int port, listener = receiver_bind(&port);
    char *large = calloc(1, LARGE);
    assert_int_equal(listen(listener, 1), 0);
    loop_open(&loop);
    assert_int_equal(base_poller_watch(&loop.poller, agent.event, EPOLLIN, &agent.watch), 0);
    probe_init(&probe, "", 15000);
    snprintf(probe.url, sizeof probe.url, "http://127.0.0.1:%d/", port);
    probe.post.body = large;
    probe.post.size = LARGE;
    assert_int_equal(handoff_transport_start(loop.transport, &probe.post), HANDOFF_OK);
    struct pollfd asked = {.fd = listener, .events = POLLIN};
    while (poll(&asked, 1, 0) == 0)
        turn(&loop);
    agent.fd = accept(listener, NULL, NULL);
    asked.fd = agent.fd;
    while (poll(&asked, 1, 0) == 0)
        turn(&loop);
    eventfd_write(agent.event, 1); /* told of before the connection, which is writable after it */
    read_all(agent.fd);
    while (!probe.told)
        turn(&loop);
    assert_int_equal(probe.status, 413);
    loop_close(&loop);
    close(agent.event);
    close(listener);
    free(large);
}

enum { IDLE_MAX_MS = 118000 };

static void pass(struct loop *loop, struct base_manual_clock *manual, int64_t ms)
{
    base_manual_clock_advance(manual, ms);
    base_timers_run(&loop->timers, now_ms(loop));
    handoff_transport_settle(loop->transport);
}

static void test_an_idle_connection_is_closed_in_time(void **state)
{
    (void)state;
    struct base_manual_clock manual;
    struct loop loop;
    struct probe probe;
    int connections = atomic_load(&receiver.connections), left = atomic_load(&receiver.left);
    base_manual_clock_init(&manual, 0);
    loop_open_by(&loop, &manual.clock);
    run_in(&loop, "/ack", &probe);
    pass(&loop, &manual, IDLE_MAX_MS - 1);
    run_in(&loop, "/ack", &probe);
    assert_int_equal(atomic_load(&receiver.connections) - connections, 1);
    pass(&loop, &manual, IDLE_MAX_MS);
    await_left(left + 1);
    loop_close(&loop);
}

/* ---- many ----------------------------------------------------------------------------------- */

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

/* The quota stands for every shortage of descriptors: both end as EMFILE. */
static void test_a_shortage_of_ours_is_no_fault_of_the_agent(void **state)
{
    (void)state;
    struct loop loop;
    struct probe probe;
    loop_open(&loop);
    loop.quota.most = 4;
    for (int i = 0; i < 4; i++)
        assert_true(base_quota_take(&loop.quota));
    run_in(&loop, "/ack", &probe);
    assert_false(probe.answered);
    assert_int_equal(probe.shortage, HANDOFF_SHORTAGE_DESCRIPTORS);
    assert_string_equal(probe.facts.error, "out of file descriptors");
    for (int i = 0; i < 4; i++)
        base_quota_give_back(&loop.quota);
    run_in(&loop, "/ack", &probe);
    assert_true(probe.answered);
    assert_int_equal(probe.shortage, HANDOFF_SHORTAGE_NONE);
    loop_close(&loop);
    assert_int_equal(atomic_load(&loop.quota.taken), 0); /* all were given back */
}

int main(void)
{
    failing_memory_install();
    const struct CMUnitTest both[] = {
        cmocka_unit_test(test_reads_body_and_facts),
        cmocka_unit_test(test_reads_the_header),
        cmocka_unit_test(test_what_comes_before_the_answer_is_none),
        cmocka_unit_test(test_sends_its_headers_and_no_expect),
        cmocka_unit_test(test_failures_are_told_apart),
        cmocka_unit_test(test_nobody_listens),
        cmocka_unit_test(test_a_name_that_nobody_has),
        cmocka_unit_test(test_one_failure_after_another),
        cmocka_unit_test(test_redirects_are_not_followed),
        cmocka_unit_test(test_retry_after),
        cmocka_unit_test(test_a_warm_connection_is_used_again),
        cmocka_unit_test(test_a_name_that_is_not_answered_holds_up_nobody),
        cmocka_unit_test(test_no_memory_ends_nobody_elses_posts),
        cmocka_unit_test(test_an_agent_that_leaves_is_dialled_again),
        cmocka_unit_test(test_a_request_without_an_answer_is_sent_again_once),
        cmocka_unit_test(test_a_fresh_post_trusts_no_kept_connection),
        cmocka_unit_test(test_an_early_answer_counts),
        cmocka_unit_test(test_many_at_once_and_some_cancelled),
        cmocka_unit_test(test_a_shortage_of_ours_is_no_fault_of_the_agent),
    };
    const struct CMUnitTest ours[] = {
        cmocka_unit_test(test_what_a_url_becomes),
        cmocka_unit_test(test_the_url_chooses_the_driver),
        cmocka_unit_test(test_only_http),
        cmocka_unit_test(test_a_refusal_counts_when_the_rest_cannot_be_sent),
        cmocka_unit_test(test_an_answer_that_was_not_asked_for_is_none),
        cmocka_unit_test(test_an_idle_connection_is_closed_in_time),
    };
    sem_init(&name_answer, 0, 0);
    int failed = cmocka_run_group_tests(both, receiver_start, receiver_stop) +
                 cmocka_run_group_tests(ours, receiver_start, receiver_stop);
    user = "me:it@";
    return failed + cmocka_run_group_tests_name("over curl", both, receiver_start, receiver_stop);
}
