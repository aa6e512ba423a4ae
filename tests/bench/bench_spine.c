/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a remote spine adds to the requests that it takes: 20 references to memories of 1 KB are
 * resolved from a server on the loopback device, in one request (get_many) and in 20 (get). The
 * times are those of the stage `resolve`, as the client tells its host, which the daemon shows as
 * handoff_stage_duration_seconds{stage="resolve"}; the last known copies are kept as they usually
 * are. In turns with it the same answers are fetched bare, over kept connections: by blocking
 * sockets and epoll, and by libcurl with handles that are kept. The ratio is the median of the
 * ratios within each round.
 *
 * The server is another process, which answers from memory. It has the last processor, and the
 * thread that asks the first one, whichever way it asks: left alone, the kernel now and then puts
 * both on one, which halves the time of a single bare request.
 *
 * usage: bench_spine [ROUNDS]
 */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <ftw.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/handoff.h"

enum { MEMORIES = 20, CONTENT = 1024, ROUNDS = 400, WARM_UP = 20, ROUNDS_MAX = 100000 };
enum { ANSWER_MAX = MEMORIES * (CONTENT + 256), REQUEST_MAX = 8192, EVENTS = 64 };

#define MUST(condition) ((condition) ? (void)0 : die(#condition))

static void die(const char *what)
{
    fprintf(stderr, "bench_spine: %s does not hold (errno: %s)\n", what, strerror(errno));
    exit(1);
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* The calling thread, and the threads that it makes. */
static void stay_on_processor(long number)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)number, &one);
    MUST(sched_setaffinity(0, sizeof one, &one) == 0);
}

/* ---- what the server has --------------------------------------------------------------------- */

struct text {
    char bytes[ANSWER_MAX + 256];
    size_t size;
};

static struct text answers[MEMORIES], answer_of_all, answer_of_none;

static size_t write_memory(char *to, size_t room, int number)
{
    char content[CONTENT + 1] = "";
    for (size_t size = 0; size < CONTENT;)
        size += (size_t)snprintf(content + size, sizeof content - size,
                                 "Step %d: the service answers, see line %zu. ", number, size);
    return (size_t)snprintf(to, room,
                            "{\"id\":\"m-%d\",\"content\":\"%s\",\"importance\":\"high\","
                            "\"tags\":[\"deploy\",\"service\"],"
                            "\"created_at\":\"2026-01-01T00:00:00.000Z\"}",
                            number, content);
}

static void write_answer(struct text *answer, const char *status, const char *body, size_t size)
{
    answer->size = (size_t)snprintf(answer->bytes, sizeof answer->bytes,
                                    "HTTP/1.1 %s\r\nContent-Type: application/json\r\n"
                                    "Content-Length: %zu\r\n\r\n",
                                    status, size);
    memcpy(answer->bytes + answer->size, body, size);
    answer->size += size;
}

static void write_answers(void)
{
    static char all[ANSWER_MAX], one[CONTENT + 256];
    size_t size = (size_t)snprintf(all, sizeof all, "{\"items\":[");
    for (int i = 0; i < MEMORIES; i++) {
        const size_t length = write_memory(one, sizeof one, i);
        write_answer(&answers[i], "200 OK", one, length);
        size += (size_t)snprintf(all + size, sizeof all - size, "%s%s", i > 0 ? "," : "", one);
    }
    size += (size_t)snprintf(all + size, sizeof all - size, "]}");
    write_answer(&answer_of_all, "200 OK", all, size);
    write_answer(&answer_of_none, "404 Not Found", "{}", 2);
}

/* ---- the server: a process ------------------------------------------------------------------- */

struct peer {
    int fd;
    char bytes[REQUEST_MAX];
    size_t size;
};

static size_t size_of_request(const char *bytes, size_t size)
{
    const char *end = memmem(bytes, size, "\r\n\r\n", 4);
    const char *length = end ? memmem(bytes, size, "Content-Length: ", 16) : NULL;
    if (!end)
        return 0;
    const size_t whole = (size_t)(end + 4 - bytes) +
                         (length && length < end ? (size_t)strtoul(length + 16, NULL, 10) : 0);
    return whole <= size ? whole : 0;
}

static const struct text *answer_to(const char *request)
{
    static const char batch[] = "POST /many ", get[] = "GET /memories/m-";
    const unsigned long number = strncmp(request, get, sizeof get - 1) == 0
                                     ? strtoul(request + sizeof get - 1, NULL, 10)
                                     : MEMORIES;
    if (strncmp(request, batch, sizeof batch - 1) == 0)
        return &answer_of_all;
    return number < MEMORIES ? &answers[number] : &answer_of_none;
}

static void serve_peer(struct peer *peer)
{
    const ssize_t got = recv(peer->fd, peer->bytes + peer->size, REQUEST_MAX - 1 - peer->size, 0);
    if (got <= 0) {
        close(peer->fd);
        free(peer);
        return;
    }
    peer->size += (size_t)got;
    peer->bytes[peer->size] = '\0';
    for (size_t size; (size = size_of_request(peer->bytes, peer->size)) > 0;) {
        const struct text *answer = answer_to(peer->bytes);
        MUST(send(peer->fd, answer->bytes, answer->size, MSG_NOSIGNAL) == (ssize_t)answer->size);
        peer->size -= size;
        memmove(peer->bytes, peer->bytes + size, peer->size);
    }
}

static void accept_peer(int epoll, int listener)
{
    static const int on = 1;
    struct peer *peer = calloc(1, sizeof *peer);
    MUST(peer && (peer->fd = accept(listener, NULL, NULL)) >= 0);
    setsockopt(peer->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};
    MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, peer->fd, &event) == 0);
}

static void serve(int listener)
{
    struct epoll_event event = {.events = EPOLLIN}, ready[EVENTS];
    const int epoll = epoll_create1(0);
    MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) == 0);
    for (;;) {
        const int count = epoll_wait(epoll, ready, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            if (ready[i].data.ptr)
                serve_peer(ready[i].data.ptr);
            else
                accept_peer(epoll, listener);
        }
    }
}

static struct sockaddr_in address;
static char base_url[64];

static pid_t start_server(void)
{
    socklen_t size = sizeof address;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    MUST(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 64) == 0);
    MUST(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    snprintf(base_url, sizeof base_url, "http://127.0.0.1:%d", ntohs(address.sin_port));
    const pid_t server = fork();
    MUST(server >= 0);
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        stay_on_processor(sysconf(_SC_NPROCESSORS_ONLN) - 1);
        serve(listener);
    }
    close(listener);
    return server;
}

/* ---- bare, by sockets ------------------------------------------------------------------------ */

static int sockets[MEMORIES], sockets_epoll;

static void open_sockets(void)
{
    static const int on = 1;
    sockets_epoll = epoll_create1(0);
    for (int i = 0; i < MEMORIES; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        sockets[i] = socket(AF_INET, SOCK_STREAM, 0);
        MUST(connect(sockets[i], (struct sockaddr *)&address, sizeof address) == 0);
        setsockopt(sockets[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        MUST(epoll_ctl(sockets_epoll, EPOLL_CTL_ADD, sockets[i], &event) == 0);
    }
}

static const char ids_body[] =
    "{\"ids\":[\"m-0\",\"m-1\",\"m-2\",\"m-3\",\"m-4\",\"m-5\",\"m-6\",\"m-7\",\"m-8\",\"m-9\","
    "\"m-10\",\"m-11\",\"m-12\",\"m-13\",\"m-14\",\"m-15\",\"m-16\",\"m-17\",\"m-18\",\"m-19\"]}";

static void send_text(int fd, const char *text)
{
    MUST(send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text));
}

static void socket_asks_for_all(void)
{
    static char got[sizeof answer_of_all.bytes];
    char request[1024];
    snprintf(request, sizeof request,
             "POST /many HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
             "Content-Length: %zu\r\n\r\n%s",
             sizeof ids_body - 1, ids_body);
    send_text(sockets[0], request);
    for (size_t size = 0; size < answer_of_all.size;) {
        const ssize_t some = recv(sockets[0], got + size, sizeof got - size, 0);
        MUST(some > 0);
        size += (size_t)some;
    }
}

/* Whether its answer is whole. */
static bool take_answer(int number, size_t *size)
{
    static char got[MEMORIES][CONTENT + 1024];
    const ssize_t some =
        recv(sockets[number], got[number] + *size, sizeof got[number] - *size, MSG_DONTWAIT);
    MUST(some > 0);
    *size += (size_t)some;
    return *size == answers[number].size;
}

static void sockets_ask_for_each(void)
{
    struct epoll_event ready[MEMORIES];
    size_t sizes[MEMORIES] = {0};
    char request[128];
    for (int i = 0; i < MEMORIES; i++) {
        snprintf(request, sizeof request, "GET /memories/m-%d HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
                 i);
        send_text(sockets[i], request);
    }
    for (int left = MEMORIES; left > 0;) {
        const int count = epoll_wait(sockets_epoll, ready, MEMORIES, -1);
        for (int i = 0; i < count; i++)
            left -= take_answer((int)ready[i].data.u32, &sizes[ready[i].data.u32]);
    }
}

/* ---- bare, by libcurl ------------------------------------------------------------------------ */

static CURL *handles[MEMORIES], *handle_of_all;
static CURLM *multi;
static struct curl_slist *json_headers;
static size_t curl_got;

static size_t count_bytes(char *bytes, size_t size, size_t count, void *context)
{
    (void)bytes, (void)context;
    curl_got += size * count;
    return size * count;
}

static CURL *make_handle(const char *path, int number)
{
    char url[128];
    CURL *easy = curl_easy_init();
    snprintf(url, sizeof url, "%s%s%d", base_url, path, number);
    MUST(easy && curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, count_bytes);
    return easy;
}

static void open_handles(void)
{
    MUST(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK && (multi = curl_multi_init()));
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)MEMORIES);
    for (int i = 0; i < MEMORIES; i++)
        handles[i] = make_handle("/memories/m-", i);
    json_headers = curl_slist_append(NULL, "Content-Type: application/json");
    handle_of_all = make_handle("/many ", 0);
    char url[128];
    snprintf(url, sizeof url, "%s/many", base_url);
    curl_easy_setopt(handle_of_all, CURLOPT_URL, url);
    curl_easy_setopt(handle_of_all, CURLOPT_POSTFIELDS, ids_body);
    curl_easy_setopt(handle_of_all, CURLOPT_HTTPHEADER, json_headers);
}

static void curl_asks_for_all(void)
{
    curl_got = 0;
    MUST(curl_easy_perform(handle_of_all) == CURLE_OK && curl_got > MEMORIES * CONTENT);
}

static void curl_asks_for_each(void)
{
    struct CURLMsg *message;
    int running, left;
    curl_got = 0;
    for (int i = 0; i < MEMORIES; i++)
        MUST(curl_multi_add_handle(multi, handles[i]) == CURLM_OK);
    do {
        MUST(curl_multi_perform(multi, &running) == CURLM_OK);
        if (running)
            curl_multi_poll(multi, NULL, 0, 1000, NULL);
    } while (running);
    while ((message = curl_multi_info_read(multi, &left)))
        MUST(message->data.result == CURLE_OK);
    MUST(curl_got > MEMORIES * CONTENT);
    for (int i = 0; i < MEMORIES; i++)
        curl_multi_remove_handle(multi, handles[i]);
}

/* ---- resolved -------------------------------------------------------------------------------- */

#define GET_ROW "\"get\":{\"method\":\"GET\",\"path\":\"/memories/{id}\"}"
#define MANY_ROW                                                                                   \
    "\"get_many\":{\"method\":\"POST\",\"path\":\"/many\",\"body\":{\"ids\":\"{ids}\"},"           \
    "\"memories\":\"/items\"}"

struct host {
    const char *table;
    char directory[512];
    struct handoff_client *client;
    struct handoff_loop *loop;
    int64_t resolve_ns;
};

static struct host with_many = {.table = "{\"operations\":{" GET_ROW "," MANY_ROW "}}"};
static struct host without_many = {.table = "{\"operations\":{" GET_ROW "}}"};

static void observe(void *observer, const struct handoff_event *event)
{
    struct host *host = observer;
    if (event->kind == HANDOFF_EVENT_ASSEMBLED)
        host->resolve_ns = event->of.assembled.resolve_ns;
}

static void answered(void *context, const struct handoff_result *result)
{
    char content[64];
    (void)context;
    if (result->error.code != HANDOFF_OK)
        die(result->error.message);
    for (int i = 0; i < MEMORIES; i++) {
        const int size = snprintf(content, sizeof content, "\"Step %d: the service answers", i);
        if (!memmem(result->body, result->size, content, (size_t)size))
            die("all memories are in the envelope");
    }
}

static void open_host(struct host *host)
{
    const char *base = getenv("TMPDIR");
    struct handoff_error error;
    snprintf(host->directory, sizeof host->directory, "%s/bench-spine-XXXXXX",
             base ? base : "/tmp");
    MUST(mkdtemp(host->directory));
    const struct handoff_spine_options spine = {.kind = HANDOFF_SPINE_KIND_HTTP,
                                                .url = base_url,
                                                .table = host->table,
                                                .cache_bytes = 64 * 1024 * 1024};
    const struct handoff_options options = {.storage_path = host->directory,
                                            .durability_none = true,
                                            .spine = &spine,
                                            .observe = observe,
                                            .observer = host};
    struct handoff_agent_options agent = handoff_agent_defaults("coder", NULL);
    agent.token_budget = 100000;
    const struct handoff_configuration configuration = {.agents = &agent, .nagents = 1};
    if (handoff_start(&host->client, &host->loop, &options, &configuration, &error) != HANDOFF_OK)
        die(error.message);
}

static void resolve_all(struct host *host)
{
    char body[1024];
    const int size = snprintf(body, sizeof body,
                              "{\"source_agent\":\"analyst\",\"target_agent\":\"coder\","
                              "\"task_summary\":\"s\",\"memory_%s}",
                              strchr(ids_body, 'i'));
    const struct handoff_ask ask = {.body = body, .size = (size_t)size - 1};
    handoff_envelope_assemble(host->loop, &ask, answered, host);
    while (handoff_loop_pending(host->loop) > 0)
        handoff_loop_wait(host->loop, -1);
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status, (void)kind, (void)walk;
    return remove(path);
}

static void close_host(struct host *host)
{
    handoff_finish(&host->client, &host->loop, 0);
    nftw(host->directory, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- measuring ------------------------------------------------------------------------------- */

enum way { RESOLVED, BY_SOCKETS, BY_CURL, WAYS };

static struct measure {
    const char *name;
    struct host *host;
    void (*bare[WAYS])(void);
    double us[WAYS][ROUNDS_MAX], ratios[WAYS][ROUNDS_MAX];
} measures[] = {
    {.name = "20 of 1 KB, get_many",
     .host = &with_many,
     .bare = {NULL, socket_asks_for_all, curl_asks_for_all}},
    {.name = "20 of 1 KB, 20 GETs",
     .host = &without_many,
     .bare = {NULL, sockets_ask_for_each, curl_asks_for_each}},
};

/* What was begun before, such as the writing of copies, is over. */
static void wait_until_quiet(void)
{
    const struct timespec while_ = {.tv_nsec = 1000000};
    for (double before = -1e9, now = 0; now - before > 2e-4;) {
        struct timespec cpu;
        before = now;
        nanosleep(&while_, NULL);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
        now = (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9;
    }
}

static double time_way(const struct measure *measure, enum way way)
{
    wait_until_quiet();
    const double begun = now_us();
    if (way != RESOLVED) {
        measure->bare[way]();
        return now_us() - begun;
    }
    resolve_all(measure->host);
    return (double)measure->host->resolve_ns / 1e3;
}

static void run_round(struct measure *measure, int round)
{
    for (int i = 0; i < WAYS; i++) { /* another one is the first each time */
        const enum way way = (enum way)((i + round) % WAYS);
        measure->us[way][round] = time_way(measure, way);
    }
    for (int way = 0; way < WAYS; way++)
        measure->ratios[way][round] = measure->us[RESOLVED][round] / measure->us[way][round];
}

static int compare(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

static void print_measure(struct measure *measure, int rounds)
{
    static const char *const names[] = {"resolved", "by sockets", "by libcurl"};
    for (int way = 0; way < WAYS; way++) {
        const double us = median(measure->us[way], rounds);
        printf("%-22s %-11s p50 %7.1f us", measure->name, names[way], us);
        if (way != RESOLVED)
            printf("   resolved to this: %5.2f", median(measure->ratios[way], rounds));
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : ROUNDS;
    MUST(rounds > 0 && rounds <= ROUNDS_MAX);
    write_answers();
    const pid_t server = start_server();
    open_sockets();
    open_handles();
    open_host(&with_many);
    open_host(&without_many);
    stay_on_processor(0);                     /* but not the threads of the client */
    for (int i = -WARM_UP; i < rounds; i++) { /* the first rounds do not count */
        for (size_t m = 0; m < sizeof measures / sizeof *measures; m++)
            run_round(&measures[m], i < 0 ? i + WARM_UP : i);
    }
    for (size_t m = 0; m < sizeof measures / sizeof *measures; m++)
        print_measure(&measures[m], rounds);
    close_host(&with_many);
    close_host(&without_many);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    return 0;
}
