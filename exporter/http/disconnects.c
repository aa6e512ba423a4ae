/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that leave while their request waits, see disconnects.h. On the server's loop. */
#include "exporter/http/disconnects.h"

#include <poll.h>
#include <sys/epoll.h>

#include "exporter/http/http_private.h"
#include "exporter/log/log.h"
#include "lib/base/check.h"
#include "lib/base/container.h"

/* Nothing is freed from here: libmicrohttpd closes the connection when it runs next. */
static void note_disconnect(struct exporter_connection *connection)
{
    BASE_CHECK_MAGIC(connection, CONNECTION_MAGIC);
    connection->left = true;
    if (connection->waiting == NULL)
        return; /* it is told by what reads or writes there */
    log_debug("client_disconnected", LOG_STR("listener", connection->server->options.listener),
              LOG_STR("peer", connection->peer));
    if (connection->waiting->state == REQUEST_DEFERRED)
        exporter_request_cancel(connection->waiting);
    else
        exporter_request_wake_stream(connection->waiting);
}

static void ended(struct base_watch *watch, uint32_t events)
{
    (void)events;
    note_disconnect(BASE_CONTAINER_OF(watch, struct exporter_connection, end));
}

void exporter_connection_watch(struct exporter_connection *connection)
{
    connection->end.ready = ended;
    const int failed = base_poller_add(&connection->server->options.loop->poller, connection->fd,
                                       EPOLLRDHUP | EPOLLET, &connection->end);
    if (failed != 0)
        log_debug("disconnect_watch_failed", LOG_ERRNO("error", failed));
}

bool exporter_connection_has_left(const struct exporter_connection *connection)
{
    struct pollfd end = {.fd = connection->fd, .events = POLLRDHUP};
    return connection->left || (poll(&end, 1, 0) > 0 && end.revents != 0);
}

void exporter_connection_unwatch(const struct exporter_connection *connection)
{
    base_poller_forget(&connection->server->options.loop->poller, connection->fd, &connection->end);
}
