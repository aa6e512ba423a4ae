/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A receiving agent that does as the path says: "/503,silent,ack" answers the first attempt with
 * 503, the second not at all, and acknowledges the third and all that follow. Which attempt it is,
 * the Handoff-Attempt header tells, so the receiver remembers nothing.
 *
 *   ack        {"ack": id}              silent    reads on and never answers
 *   next       the same with a next     once      as ack when so many connections as `once_from`
 *              request                            have come, then reads on in silence
 *   header     204, Handoff-Ack: id     close     closes without an answer
 *   wrong      {"ack": another id}      break     half an answer, then closes
 *   bare       200 without a word       garbage   not HTTP
 *   nack       a nack for good          long      100 KB of body
 *   later      a nack for now           redirect  302 to /ack
 *   leave      as ack, then closes      early     413 before it has read the body
 *   half       half a head, then closes reset     resets the connection
 *   head       300 KB of head           chunk     a chunk without a size
 *   line       the same in one line
 *   hint       Handoff-Ack: id in a 103, and 200 without a word
 *   more       as ack, and another answer when `may_say_more` was set
 *   NNN        that status; "503wait=7.5" has Retry-After: 7.5, "503date" a date there
 *
 * One thread for each connection, started by tests only.
 */
#ifndef TESTS_SUPPORT_RECEIVER_H
#define TESTS_SUPPORT_RECEIVER_H

#include <arpa/inet.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct {
    int listener, port;
    pthread_t thread;
    atomic_int connections, requests, left, said_more, once_from;
    atomic_bool may_say_more;
    pthread_mutex_t lock;
    char last_head[4096]; /* lock */
} receiver = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct receiver_request {
    char path[128], id[64];
    int attempt;
};

/* The value of a header, or `otherwise`. */
static inline const char *receiver_header(const char *head, const char *name, const char *otherwise)
{
    const char *found = strcasestr(head, name);
    return found ? found + strlen(name) : otherwise;
}

static inline bool receiver_skip(int fd, long missing)
{
    char body[4096];
    while (missing > 0) {
        size_t want = missing < (long)sizeof body ? (size_t)missing : sizeof body;
        ssize_t got = read(fd, body, want);
        if (got <= 0)
            return false;
        missing -= got;
    }
    return true;
}

static inline bool receiver_read(int fd, struct receiver_request *request)
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
    long length = strtol(receiver_header(head, "\r\nContent-Length: ", "0"), NULL, 10);
    if (strncmp(head, "POST /early", 11) != 0 &&
        !receiver_skip(fd, length - (long)(head + size - end - 4)))
        return false;
    end[2] = '\0';
    if (sscanf(head, "POST /%127s ", request->path) != 1)
        request->path[0] = '\0';
    if (sscanf(receiver_header(head, "\r\nHandoff-Id: ", "x1"), "%63s", request->id) != 1)
        abort();
    request->attempt = (int)strtol(receiver_header(head, "\r\nHandoff-Attempt: ", "1"), NULL, 10);
    pthread_mutex_lock(&receiver.lock);
    memcpy(receiver.last_head, head, sizeof head);
    pthread_mutex_unlock(&receiver.lock);
    atomic_fetch_add(&receiver.requests, 1);
    return true;
}

static inline void receiver_send(int fd, const char *text)
{
    for (size_t size = strlen(text); size > 0;) {
        ssize_t sent = send(fd, text, size, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        text += sent;
        size -= (size_t)sent;
    }
}

static inline void receiver_send_body(int fd, int status, const char *headers, const char *body)
{
    char answer[1024];
    snprintf(answer, sizeof answer, "HTTP/1.1 %d Status\r\n%sContent-Length: %zu\r\n\r\n%s", status,
             headers, strlen(body), body);
    receiver_send(fd, answer);
}

/* The word of the path that is for this attempt. */
static inline void receiver_word(const struct receiver_request *request, char word[32])
{
    const char *at = request->path;
    for (int i = 1; i < request->attempt && strchr(at, ','); i++)
        at = strchr(at, ',') + 1;
    size_t size = strcspn(at, ",");
    if (size >= 32)
        abort();
    memcpy(word, at, size);
    word[size] = '\0';
}

static inline void receiver_send_long(int fd)
{
    receiver_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 102400\r\n\r\n");
    char line[1025] = {0};
    memset(line, 'x', 1024);
    for (int i = 0; i < 100; i++)
        receiver_send(fd, line);
}

static inline void receiver_send_long_head(int fd)
{
    receiver_send(fd, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < 300 * 64; i++)
        receiver_send(fd, "X-Sixteen: 56\r\n");
    receiver_send(fd, "\r\n");
}

static inline void receiver_send_long_line(int fd)
{
    receiver_send(fd, "HTTP/1.1 200 OK\r\nX-Long: ");
    for (int i = 0; i < 300 * 64; i++)
        receiver_send(fd, "sixteen times 16");
    receiver_send(fd, "\r\n\r\n");
}

/* What close then does. */
static inline void receiver_reset(int fd)
{
    const struct linger at_once = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

/* false: the connection is over */
static inline bool receiver_answer(int fd, const struct receiver_request *request)
{
    char word[32], text[256], byte;
    receiver_word(request, word);
#define IS(what) (strcmp(word, what) == 0)
    if (IS("ack") || IS("leave")) {
        snprintf(text, sizeof text, "{\"ack\":\"%s\"}", request->id);
        receiver_send_body(fd, 200, "", text);
        return IS("ack");
    } else if (IS("next")) {
        snprintf(text, sizeof text, "{\"ack\":\"%s\",\"next\":{\"n\":1}}", request->id);
        receiver_send_body(fd, 200, "", text);
    } else if (IS("once")) {
        while (atomic_load(&receiver.connections) < atomic_load(&receiver.once_from))
            sched_yield();
        snprintf(text, sizeof text, "{\"ack\":\"%s\"}", request->id);
        receiver_send_body(fd, 200, "", text);
        receiver_skip(fd, INT_MAX);
        return false;
    } else if (IS("more")) {
        snprintf(text, sizeof text, "{\"ack\":\"%s\"}", request->id);
        receiver_send_body(fd, 200, "", text);
        while (!atomic_exchange(&receiver.may_say_more, false))
            sched_yield();
        receiver_send_body(fd, 418, "", "");
        atomic_fetch_add(&receiver.said_more, 1);
    } else if (IS("header")) {
        snprintf(text, sizeof text, "HTTP/1.1 204 No Content\r\nhandoff-ACK: \t %s \r\n\r\n",
                 request->id);
        receiver_send(fd, text);
    } else if (IS("hint")) {
        snprintf(text, sizeof text, "HTTP/1.1 103 Early Hints\r\nHandoff-Ack: %s\r\n\r\n",
                 request->id);
        receiver_send(fd, text);
        receiver_send_body(fd, 200, "", "");
    } else if (IS("wrong")) {
        receiver_send_body(fd, 200, "", "{\"ack\":\"00000000-0000-7000-8000-000000000000\"}");
    } else if (IS("bare")) {
        receiver_send_body(fd, 200, "", "");
    } else if (IS("nack") || IS("later")) {
        snprintf(text, sizeof text, "{\"nack\":\"%s\",\"reason\":\"no room\",\"retry\":%s}",
                 request->id, IS("later") ? "true" : "false");
        receiver_send_body(fd, 200, "", text);
    } else if (IS("redirect")) {
        receiver_send_body(fd, 302, "Location: /ack\r\n", "");
    } else if (strncmp(word, "503wait=", 8) == 0) {
        snprintf(text, sizeof text, "retry-after: \t%s \r\n", word + 8);
        receiver_send_body(fd, 503, text, "");
    } else if (IS("503date")) {
        receiver_send_body(fd, 503, "Retry-After: Fri, 31 Dec 2100 23:59:59 GMT\r\n", "");
    } else if (strtol(word, NULL, 10) > 0) {
        receiver_send_body(fd, (int)strtol(word, NULL, 10), "", "");
    } else {
        if (IS("garbage"))
            receiver_send(fd, "\x16\x03\x01 what?\r\n\r\n");
        else if (IS("break"))
            receiver_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{\"ack\"");
        else if (IS("half"))
            receiver_send(fd, "HTTP/1.1 200 OK\r\nX-A");
        else if (IS("chunk"))
            receiver_send(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n");
        else if (IS("long"))
            receiver_send_long(fd);
        else if (IS("head"))
            receiver_send_long_head(fd);
        else if (IS("line"))
            receiver_send_long_line(fd);
        else if (IS("reset"))
            receiver_reset(fd);
        else if (IS("early")) { /* or the reset could overtake the answer */
            receiver_send_body(fd, 413, "", "");
            shutdown(fd, SHUT_WR);
            receiver_skip(fd, INT_MAX);
        } else if (IS("silent"))
            while (read(fd, &byte, 1) > 0)
                ;
        else if (!IS("close"))
            abort();
        return false;
    }
#undef IS
    return true;
}

static inline void *receiver_serve_one(void *arg)
{
    int fd = (int)(intptr_t)arg;
    struct receiver_request request;
    while (receiver_read(fd, &request) && receiver_answer(fd, &request))
        ;
    close(fd);
    atomic_fetch_add(&receiver.left, 1);
    return NULL;
}

static inline void *receiver_serve(void *unused)
{
    (void)unused;
    for (int fd; (fd = accept(receiver.listener, NULL, NULL)) >= 0;) {
        pthread_t thread;
        atomic_fetch_add(&receiver.connections, 1);
        if (pthread_create(&thread, NULL, receiver_serve_one, (void *)(intptr_t)fd) != 0)
            abort();
        pthread_detach(thread);
    }
    return NULL;
}

/* A socket that is bound to a port of the system's choice. */
static inline int receiver_bind(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) ||
        getsockname(fd, (struct sockaddr *)&address, &size))
        abort();
    *port = ntohs(address.sin_port);
    return fd;
}

static inline int receiver_start(void **state)
{
    (void)state;
    receiver.listener = receiver_bind(&receiver.port);
    if (listen(receiver.listener, 512))
        return -1;
    return pthread_create(&receiver.thread, NULL, receiver_serve, NULL);
}

static inline int receiver_stop(void **state)
{
    (void)state;
    shutdown(receiver.listener, SHUT_RDWR);
    pthread_join(receiver.thread, NULL);
    close(receiver.listener);
    return 0;
}

/* A port on which nobody listens, nor will: the socket stays bound until the program ends. */
static inline int receiver_dead_port(void)
{
    int port;
    receiver_bind(&port);
    return port;
}

#endif
