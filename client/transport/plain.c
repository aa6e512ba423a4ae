/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests over plain HTTP, by an exchange of ours over connections that are dialled (dial.h). The
 * thread of the loop.
 *
 * Why not curl for everything: it took 20 us more CPU for each POST at 100 connections and 30 at
 * 1,000, because it walks the list of all connections to find an idle one. Here an idle one is the
 * first of its origin's list. docs/decisions.md, 84.
 *
 * A connection is dialled, carries one exchange at a time, and is kept idle in between. It stays
 * registered in epoll for input all the time, so an exchange costs one send and one receive; on an
 * idle one the only event is the agent closing it, and we close it then. One that has been idle
 * for as long as firewalls begin to forget it is closed as well.
 *
 * An agent may close a kept connection just as the next request is sent. So an exchange that was
 * sent over a kept connection and received no byte of an answer is sent again, once, over a new
 * one, as curl does. RFC 9112 9.3.1 requires that a repeat does no harm: receivers recognize a
 * handoff by its id.
 *
 * A connection that died silently (a firewall forgot it, the machine is gone) looks like a slow
 * agent. So an attempt after a time-out asks for a new connection (`fresh`).
 *
 * Only settle reports exchanges that ended, so no callback runs inside a start. It also frees
 * closed connections: the poller may still report one in the same turn.
 */
#include "client/transport/plain.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "client/transport/dial.h"
#include "client/transport/http_answer.h"
#include "client/transport/origin.h"
#include "client/transport/retry_after.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum {
    PLAIN_MAGIC = 0x706c6169u,
    CONNECTION_MAGIC = 0x636f6e6eu,
    EXCHANGE_MAGIC = 0x65786368u,
    RECEIVE_SIZE = 64 * 1024, /* nearly every answer in one piece, also a spine's */
    IDLE_MAX_MS = 118 * 1000, /* curl's own choice: some firewalls forget after two minutes */
};

struct exchange;

struct handoff_connection {
    struct base_watch watch;
    unsigned magic;
    struct handoff_plain *plain;
    struct handoff_origin *origin;
    int fd;                    /* -1: closed */
    uint32_t events;           /* as registered in epoll; 0: not registered */
    struct exchange *exchange; /* NULL: idle, or closed */
    bool used;                 /* it has carried an answer */
    int64_t idle_since_ms;
    char peer[sizeof((struct handoff_transport_facts *)0)->peer];
    TAILQ_ENTRY(handoff_connection) entry; /* idle: of its origin; closed: of all closed ones */
    TAILQ_ENTRY(handoff_connection) age;   /* idle: of all idle ones */
};

struct exchange {
    struct handoff_transfer transfer;
    unsigned magic;
    struct handoff_plain *plain;
    struct handoff_origin *origin;
    struct handoff_post *post;
    struct handoff_connection *connection; /* NULL: not yet, or no longer */
    struct handoff_dial *dial;             /* NULL: none in progress */
    struct base_timer timer;               /* the post's time-out */
    int64_t began_ns;
    size_t sent; /* of head and body */
    bool sent_all;
    struct handoff_http_answer answer;
    /* how it ended */
    bool ended, answered;
    enum handoff_fault fault;
    struct handoff_transport_facts facts;
    TAILQ_ENTRY(exchange) entry; /* of those that ended */
};

TAILQ_HEAD(exchanges, exchange);

struct handoff_plain {
    unsigned magic;
    const struct handoff_dialer *dialer;
    struct base_poller *poller;
    struct base_timers *timers;
    const struct base_clock *clock;
    struct handoff_origins origins;
    struct handoff_connections idle; /* the longest idle first */
    struct base_timer idle_timer;    /* for that one */
    struct handoff_connections closed;
    struct exchanges ended;
    size_t in_progress;
    struct base_buffer head; /* of the request that is being sent */
    char received[RECEIVE_SIZE];
};

/* ---- connections ---------------------------------------------------------------------------- */

static void connection_ready(struct base_watch *watch, uint32_t events);

static int64_t plain_now_ms(const struct handoff_plain *plain)
{
    return base_monotonic_ns(plain->clock) / 1000000;
}

/* Takes the descriptor over, also on failure. */
static struct handoff_connection *new_connection(struct handoff_plain *plain,
                                                 struct handoff_origin *origin, int fd)
{
    struct handoff_connection *connection = base_calloc(1, sizeof *connection);
    if (!connection) {
        handoff_dialled_close(plain->dialer, fd);
        return NULL;
    }
    connection->watch.ready = connection_ready;
    connection->magic = CONNECTION_MAGIC;
    connection->plain = plain;
    connection->origin = origin;
    origin->users++;
    connection->fd = fd;
    return connection;
}

/* false: the kernel is out of memory, or of watches, which errno then calls the same. */
static bool watch_connection(struct handoff_connection *connection, uint32_t events)
{
    if (connection->events == events)
        return true;
    int failed =
        base_poller_watch(connection->plain->poller, connection->fd, events, &connection->watch);
    connection->events = failed ? 0 : events;
    errno = ENOMEM;
    return !failed;
}

static void leave_idle(struct handoff_connection *connection)
{
    TAILQ_REMOVE(&connection->origin->idle, connection, entry);
    TAILQ_REMOVE(&connection->plain->idle, connection, age);
}

static void close_connection(struct handoff_connection *connection)
{
    BASE_CHECK(connection->fd >= 0); /* or it would be queued twice */
    /* a child may hold it open */
    base_poller_forget(connection->plain->poller, connection->fd, &connection->watch);
    handoff_dialled_close(connection->plain->dialer, connection->fd);
    connection->fd = -1;
    connection->exchange = NULL;
    handoff_origin_leave(&connection->origin);
    TAILQ_INSERT_TAIL(&connection->plain->closed, connection, entry);
}

static void free_closed(struct handoff_plain *plain)
{
    struct handoff_connection *connection;
    while ((connection = TAILQ_FIRST(&plain->closed)) != NULL) {
        TAILQ_REMOVE(&plain->closed, connection, entry);
        connection->magic = 0;
        base_free(connection);
    }
}

static void keep_idle(struct handoff_connection *connection, int64_t since_ms)
{
    struct handoff_plain *plain = connection->plain;
    connection->exchange = NULL;
    connection->used = true;
    connection->idle_since_ms = since_ms;
    TAILQ_INSERT_HEAD(&connection->origin->idle, connection, entry);
    TAILQ_INSERT_TAIL(&plain->idle, connection, age);
    if (!base_timer_started(&plain->idle_timer))
        base_timers_start(plain->timers, &plain->idle_timer, since_ms + IDLE_MAX_MS);
}

static void close_idle_too_long(struct base_timer *timer)
{
    struct handoff_plain *plain = BASE_CONTAINER_OF(timer, struct handoff_plain, idle_timer);
    BASE_CHECK_MAGIC(plain, PLAIN_MAGIC);
    const int64_t since_ms = plain_now_ms(plain) - IDLE_MAX_MS;
    struct handoff_connection *oldest;
    while ((oldest = TAILQ_FIRST(&plain->idle)) != NULL && oldest->idle_since_ms <= since_ms) {
        leave_idle(oldest);
        close_connection(oldest);
    }
    if (oldest)
        base_timers_start(plain->timers, timer, oldest->idle_since_ms + IDLE_MAX_MS);
}

/* ---- how an exchange ends ------------------------------------------------------------------- */

static void end_exchange(struct exchange *exchange)
{
    struct handoff_plain *plain = exchange->plain;
    BASE_CHECK(!exchange->ended); /* or it would be queued twice */
    exchange->ended = true;
    exchange->connection = NULL;
    exchange->facts.duration_us = (base_monotonic_ns(plain->clock) - exchange->began_ns) / 1000;
    base_timers_stop(plain->timers, &exchange->timer);
    TAILQ_INSERT_TAIL(&plain->ended, exchange, entry);
}

/* Cancels the dial, or closes the connection, whichever it has. */
static void drop_connection(struct exchange *exchange)
{
    handoff_dial_cancel(&exchange->dial);
    if (exchange->connection)
        close_connection(exchange->connection);
    exchange->connection = NULL;
}

static void fail_exchange(struct exchange *exchange, struct handoff_failure failure)
{
    drop_connection(exchange);
    exchange->fault = failure.fault;
    handoff_failure_write(&failure, exchange->facts.error, sizeof exchange->facts.error);
    end_exchange(exchange);
}

static void fail_out_of_memory(struct exchange *exchange)
{
    fail_exchange(exchange, (struct handoff_failure){.fault = HANDOFF_FAULT_MEMORY});
}

static void finish_exchange(struct exchange *exchange, bool keeps)
{
    struct handoff_connection *connection = exchange->connection;
    exchange->answered = true;
    end_exchange(exchange);
    /* idle ones must not be in the way of new ones */
    if (keeps && !base_quota_is_half_taken(exchange->plain->dialer->quota))
        keep_idle(connection, (exchange->began_ns + exchange->facts.duration_us * 1000) / 1000000);
    else
        close_connection(connection);
}

static void exchange_timed_out(struct base_timer *timer)
{
    struct exchange *exchange = BASE_CONTAINER_OF(timer, struct exchange, timer);
    BASE_CHECK_MAGIC(exchange, EXCHANGE_MAGIC);
    if (exchange->ended)
        return;
    const int64_t within_ms = exchange->post->timeout_ms;
    fail_exchange(exchange, exchange->dial ? handoff_dial_timeout(exchange->dial, within_ms)
                                           : (struct handoff_failure){.fault = HANDOFF_FAULT_TIME,
                                                                      .within_ms = within_ms});
}

static void free_exchange(struct exchange *exchange)
{
    BASE_CHECK(exchange->plain->in_progress > 0);
    base_timers_stop(exchange->plain->timers, &exchange->timer);
    exchange->plain->in_progress--;
    handoff_origin_leave(&exchange->origin);
    handoff_http_answer_free(&exchange->answer);
    exchange->magic = 0;
    base_free(exchange);
}

/* ---- sending -------------------------------------------------------------------------------- */

static bool dial_origin(struct exchange *exchange);

/* Written again for every piece that is sent; nearly always that is one. */
static struct base_span write_request_head(struct exchange *exchange)
{
    const struct handoff_post *post = exchange->post;
    const struct handoff_post_variant *variant = post->variant;
    struct base_buffer *head = &exchange->plain->head;
    base_buffer_clear(head);
    handoff_origin_write(exchange->origin, variant ? variant->method : "POST", post->url, head);
    base_buffer_text(head, variant ? variant->accept : "Accept: */*");
    base_buffer_append(head, "\r\n", 2);
    for (size_t i = 0; i < post->nheaders; i++) {
        base_buffer_text(head, post->headers[i]);
        base_buffer_append(head, "\r\n", 2);
    }
    if (post->size > 0 || !variant) {
        base_buffer_text(head, "Content-Length: ");
        base_buffer_number(head, (int64_t)post->size);
        base_buffer_append(head, "\r\n", 2);
    }
    base_buffer_append(head, "\r\n", 2);
    return base_buffer_span(head);
}

/* The unsent part of `whole`, of which `sent` bytes are sent; `sent` may exceed its size. */
static struct iovec rest_of(struct base_span whole, size_t sent)
{
    size_t done = sent < whole.size ? sent : whole.size;
    return (struct iovec){(char *)(uintptr_t)whole.data + done, whole.size - done};
}

/* false: errno has the reason. */
static bool send_some(struct exchange *exchange)
{
    struct base_span head = write_request_head(exchange);
    struct base_span body = base_span(exchange->post->body, exchange->post->size);
    if (exchange->plain->head.failed) {
        errno = ENOMEM;
        return false;
    }
    size_t body_sent = exchange->sent > head.size ? exchange->sent - head.size : 0;
    struct iovec rest[] = {rest_of(head, exchange->sent), rest_of(body, body_sent)};
    const struct msghdr message = {.msg_iov = rest, .msg_iovlen = 2};
    ssize_t sent;
    do {
        sent = sendmsg(exchange->connection->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0 && errno != EAGAIN)
        return false;
    exchange->sent += sent > 0 ? (size_t)sent : 0;
    exchange->sent_all = exchange->sent == head.size + body.size;
    return watch_connection(exchange->connection,
                            exchange->sent_all ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

/* The connection ended during the exchange: sends it again if that is allowed. */
static void connection_broke(struct exchange *exchange, struct handoff_failure failure)
{
    bool again = exchange->connection->used && !exchange->answer.begun;
    if (!again) {
        fail_exchange(exchange, failure);
        return;
    }
    drop_connection(exchange);
    exchange->sent = 0;
    exchange->facts.peer[0] = '\0';
    if (!dial_origin(exchange))
        fail_out_of_memory(exchange);
}

static void connection_broke_by_errno(struct exchange *exchange, int error)
{
    connection_broke(exchange, handoff_failure_of_errno(error, exchange->answer.begun));
}

static void send_over(struct exchange *exchange, struct handoff_connection *connection)
{
    BASE_CHECK(!connection->exchange && connection->fd >= 0);
    exchange->connection = connection;
    connection->exchange = exchange;
    memcpy(exchange->facts.peer, connection->peer, sizeof exchange->facts.peer);
    if (!send_some(exchange))
        connection_broke_by_errno(exchange, errno);
}

static void origin_dialled(void *arg, const struct handoff_dialled *dialled)
{
    struct exchange *exchange = arg;
    BASE_CHECK_MAGIC(exchange, EXCHANGE_MAGIC);
    exchange->dial = NULL;
    if (dialled->fd < 0) {
        fail_exchange(exchange, dialled->failure);
        return;
    }
    struct handoff_connection *connection =
        new_connection(exchange->plain, exchange->origin, dialled->fd);
    if (!connection) {
        fail_out_of_memory(exchange);
        return;
    }
    snprintf(connection->peer, sizeof connection->peer, "%s", dialled->peer);
    send_over(exchange, connection);
}

static bool dial_origin(struct exchange *exchange)
{
    const int64_t timeout_ms = exchange->post->timeout_ms < HANDOFF_TRANSPORT_CONNECT_MS
                                   ? exchange->post->timeout_ms
                                   : HANDOFF_TRANSPORT_CONNECT_MS;
    const struct handoff_origin *origin = exchange->origin;
    exchange->dial = handoff_dial_start(exchange->plain->dialer, origin->host, origin->port,
                                        timeout_ms, origin_dialled, exchange);
    return exchange->dial != NULL;
}

/* ---- receiving ------------------------------------------------------------------------------ */

/* `clean`: no bytes followed the answer. */
static void answer_ended(struct exchange *exchange, enum handoff_http_progress progress, bool clean)
{
    const struct handoff_http_answer *answer = &exchange->answer;
    if (progress == HANDOFF_HTTP_WHOLE)
        finish_exchange(exchange, answer->keep && clean && exchange->sent_all);
    else
        connection_broke(
            exchange, (struct handoff_failure){.fault = answer->fault, .detail = answer->detail});
}

static void receive_answer(struct exchange *exchange)
{
    struct handoff_plain *plain = exchange->plain;
    for (;;) {
        ssize_t got =
            recv(exchange->connection->fd, plain->received, sizeof plain->received, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            if (errno != EAGAIN)
                connection_broke_by_errno(exchange, errno);
            return;
        }
        size_t used = 0;
        enum handoff_http_progress progress =
            got > 0
                ? handoff_http_answer_read(&exchange->answer, plain->received, (size_t)got, &used)
                : handoff_http_answer_end(&exchange->answer);
        if (progress != HANDOFF_HTTP_MORE) {
            answer_ended(exchange, progress, got > 0 && used == (size_t)got);
            return;
        }
        if ((size_t)got < sizeof plain->received)
            return;
    }
}

/* An agent that rejects a request before reading all of it may already have answered and closed. */
static void send_failed(struct exchange *exchange, int error)
{
    struct handoff_connection *connection = exchange->connection;
    receive_answer(exchange);
    if (connection->exchange == exchange)
        connection_broke_by_errno(exchange, error);
}

static void connection_ready(struct base_watch *watch, uint32_t events)
{
    struct handoff_connection *connection = (struct handoff_connection *)watch;
    BASE_CHECK_MAGIC(connection, CONNECTION_MAGIC);
    struct exchange *exchange = connection->exchange;
    if (connection->fd < 0)
        return;
    if (!exchange) { /* the agent closed it, or sent bytes that nothing asked for */
        leave_idle(connection);
        close_connection(connection);
        return;
    }
    if (events & ~(uint32_t)EPOLLOUT) /* first: an agent may answer before reading it all */
        receive_answer(exchange);
    if (connection->exchange == exchange && events & EPOLLOUT && !send_some(exchange))
        send_failed(exchange, errno);
}

/* ---- reporting ------------------------------------------------------------------------------ */

static void read_plain_answer(struct exchange *exchange, struct handoff_answer *told)
{
    struct handoff_http_answer *answer = &exchange->answer;
    *told = (struct handoff_answer){.answered = exchange->answered,
                                    .failure = handoff_fault_result(exchange->fault),
                                    .fault = exchange->fault,
                                    .shortage = handoff_fault_shortage(exchange->fault)};
    if (!exchange->answered)
        return;
    told->status = answer->status;
    told->ack_header = answer->has_ack ? answer->ack : NULL;
    told->body = answer->body.data;
    told->body_size = answer->body.size;
    told->keep = &answer->body;
    told->retry_after_ms =
        handoff_retry_after_ms(answer->retry_after, base_wall_ms(exchange->plain->clock));
}

static void settle_plain(void *state)
{
    struct handoff_plain *plain = state;
    BASE_CHECK_MAGIC(plain, PLAIN_MAGIC);
    struct exchange *exchange;
    while ((exchange = TAILQ_FIRST(&plain->ended)) != NULL) {
        struct handoff_post *post = exchange->post;
        struct handoff_answer answer;
        TAILQ_REMOVE(&plain->ended, exchange, entry);
        read_plain_answer(exchange, &answer);
        post->transfer = NULL; /* `done` may start it again */
        post->done(post, &answer, &exchange->facts);
        free_exchange(exchange);
    }
    free_closed(plain);
}

/* ---- starting ------------------------------------------------------------------------------- */

static void cancel_exchange(struct handoff_transfer *transfer)
{
    struct exchange *exchange = (struct exchange *)transfer;
    BASE_CHECK_MAGIC(exchange, EXCHANGE_MAGIC);
    drop_connection(exchange);
    if (exchange->ended)
        TAILQ_REMOVE(&exchange->plain->ended, exchange, entry);
    exchange->post->transfer = NULL;
    free_exchange(exchange);
}

/* Takes the use of the origin over. */
static struct exchange *new_exchange(struct handoff_plain *plain, struct handoff_origin *origin,
                                     struct handoff_post *post)
{
    struct exchange *exchange = base_calloc(1, sizeof *exchange);
    if (!exchange) {
        handoff_origin_leave(&origin);
        return NULL;
    }
    exchange->transfer.driver = &handoff_plain_driver;
    exchange->magic = EXCHANGE_MAGIC;
    exchange->plain = plain;
    exchange->origin = origin;
    exchange->post = post;
    exchange->timer.fire = exchange_timed_out;
    exchange->began_ns = base_monotonic_ns(plain->clock);
    handoff_http_answer_begin(&exchange->answer);
    if (post->variant)
        exchange->answer.body.limit = post->variant->answer_max;
    plain->in_progress++;
    return exchange;
}

static enum handoff_post_start start_exchange(void *state, struct handoff_post *post)
{
    struct handoff_plain *plain = state;
    BASE_CHECK_MAGIC(plain, PLAIN_MAGIC);
    struct handoff_origin *origin = handoff_origin_use(&plain->origins, post->url);
    if (!origin)
        return HANDOFF_POST_DECLINED;
    struct exchange *exchange = new_exchange(plain, origin, post);
    if (!exchange)
        return HANDOFF_POST_NO_MEMORY;
    struct handoff_connection *kept = post->fresh ? NULL : TAILQ_FIRST(&origin->idle);
    if (!kept && !dial_origin(exchange)) {
        free_exchange(exchange);
        return HANDOFF_POST_NO_MEMORY;
    }
    if (kept) {
        leave_idle(kept);
        send_over(exchange, kept);
    }
    /* one that failed at once is reported in the next turn, which the timer triggers */
    const int64_t wait_ms = exchange->ended ? 0 : post->timeout_ms;
    base_timers_start(plain->timers, &exchange->timer, exchange->began_ns / 1000000 + wait_ms);
    post->transfer = &exchange->transfer;
    return HANDOFF_POST_STARTED;
}

/* ---- the driver ----------------------------------------------------------------------------- */

static void *open_plain(const struct handoff_transport_loop *loop)
{
    struct handoff_plain *plain = base_calloc(1, sizeof *plain);
    if (!plain)
        return NULL;
    plain->magic = PLAIN_MAGIC;
    plain->dialer = loop->dialer;
    plain->poller = loop->poller;
    plain->timers = loop->timers;
    plain->clock = loop->clock;
    plain->idle_timer.fire = close_idle_too_long;
    TAILQ_INIT(&plain->idle);
    TAILQ_INIT(&plain->closed);
    TAILQ_INIT(&plain->ended);
    return plain;
}

static void close_plain(void *state)
{
    struct handoff_plain *dying = state;
    BASE_CHECK_MAGIC(dying, PLAIN_MAGIC);
    BASE_CHECK(dying->in_progress == 0);
    struct handoff_connection *connection;
    while ((connection = TAILQ_FIRST(&dying->idle)) != NULL) {
        leave_idle(connection);
        close_connection(connection);
    }
    free_closed(dying);
    base_timers_stop(dying->timers, &dying->idle_timer);
    base_buffer_free(&dying->head);
    dying->magic = 0;
    base_free(dying);
}

const struct handoff_transport_driver handoff_plain_driver = {
    .name = "plain",
    .open = open_plain,
    .start = start_exchange,
    .cancel = cancel_exchange,
    .settle = settle_plain,
    .close = close_plain,
};
