/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that leave while their request waits, see disconnects.h. On the server's loop. */
#include "exporter/http/disconnects.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "exporter/http/http_private.h"
#include "exporter/log/log.h"
#include "lib/base/check.h"

enum { EVENTS_PER_TURN = 64 };

/* Nothing is freed from here: libmicrohttpd closes the connection when it runs next. */
static void note_departure(struct exporter_connection *connection)
{
    BASE_CHECK_MAGIC(connection, CONNECTION_MAGIC);
    connection->left = true;
    if (connection->waiting == NULL)
        return; /* it is told by what reads or writes there */
    log_debug("client_left", LOG_STR("listener", connection->server->options.listener),
              LOG_STR("peer", connection->peer));
    exporter_request_cancel(connection->waiting);
}

static void run(void *arg)
{
    struct exporter_departures *departures = arg;
    struct epoll_event events[EVENTS_PER_TURN];
    int count = epoll_wait(departures->source.fd, events, EVENTS_PER_TURN, 0);
    BASE_CHECK(count >= 0 || errno == EINTR);
    for (int i = 0; i < count; i++)
        note_departure(events[i].data.ptr);
}

bool exporter_departures_open(struct exporter_departures *departures, struct exporter_loop *loop)
{
    departures->source =
        (struct exporter_source){.fd = epoll_create1(EPOLL_CLOEXEC), .run = run, .arg = departures};
    if (departures->source.fd < 0)
        return false;
    if (exporter_loop_add(loop, &departures->source)) {
        departures->loop = loop;
        return true;
    }
    const int cause = errno;
    close(departures->source.fd);
    errno = cause;
    return false;
}

void exporter_departures_close(struct exporter_departures *departures)
{
    if (departures->loop == NULL)
        return;
    exporter_loop_remove(departures->loop, &departures->source);
    close(departures->source.fd);
    departures->loop = NULL;
}

void exporter_departures_watch(const struct exporter_departures *departures,
                               struct exporter_connection *connection)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = connection};
    if (epoll_ctl(departures->source.fd, EPOLL_CTL_ADD, connection->fd, &event) != 0)
        log_debug("client_not_watched", LOG_ERRNO("error", errno));
}

bool exporter_connection_has_left(const struct exporter_connection *connection)
{
    struct pollfd end = {.fd = connection->fd, .events = POLLRDHUP};
    return connection->left || (poll(&end, 1, 0) > 0 && end.revents != 0);
}

void exporter_departures_forget(const struct exporter_departures *departures,
                                const struct exporter_connection *connection)
{
    epoll_ctl(departures->source.fd, EPOLL_CTL_DEL, connection->fd, NULL);
}
