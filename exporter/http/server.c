/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP server: a libmicrohttpd daemon in external epoll mode as a source of one loop.
 *
 * libmicrohttpd's own time-out is about idling only: a client that sends a byte each second is
 * never idle. So every connection carries a deadline that moves with the phase it is in (receiving,
 * waiting for us, sending, kept alive), and a sweep shuts down the sockets that are past theirs;
 * libmicrohttpd then sees the end of the connection and cleans up as for any client that left. The
 * sweep looks at every connection, four times a second at most: 10,000 of them cost it about 0.1
 * ms.
 *
 * Thread: the loop's. in_flight is the exception, the control thread reads it while it drains.
 */
#include "exporter/http/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exporter/config/web_config.h"
#include "exporter/http/crowd.h"
#include "exporter/http/http_private.h"
#include "exporter/http/loopback.h"
#include "exporter/http/socket_pace.h"
#include "exporter/http/tls.h"
#include "exporter/log/log.h"
#include "lib/base/check.h"
#include "lib/base/container.h"

enum {
    SWEEP_INTERVAL_MS = 1000, /* how late a cut may come where nothing asks for it earlier */
    SWEEP_PAUSE_MS = 250,     /* how often the sweep runs at most */
    LAST_ANSWERS_MS = 500,    /* how long the end may wait for clients to read */
    LAST_ANSWERS_TURN_MS = 10,
};

/* ---- connections ---------------------------------------------------------------------------- */

static void join_phase(struct exporter_connection *connection, enum exporter_phase phase)
{
    struct exporter_server *server = connection->server;
    TAILQ_INSERT_TAIL(&server->connections[phase], connection, entry);
    server->counts[phase]++;
    connection->phase = phase;
}

static struct exporter_room *room_of(const struct exporter_server *server)
{
    return server->options.limits.room;
}

/* It holds a place in the room that another may have. */
static void leave_room(struct exporter_connection *connection)
{
    if (connection->phase != EXPORTER_PHASE_CUT)
        atomic_fetch_sub_explicit(&room_of(connection->server)->held, 1, memory_order_relaxed);
}

static void leave_phase(struct exporter_connection *connection)
{
    struct exporter_server *server = connection->server;
    TAILQ_REMOVE(&server->connections[connection->phase], connection, entry);
    BASE_CHECK(server->counts[connection->phase] > 0);
    server->counts[connection->phase]--;
}

void exporter_connection_enter(struct exporter_connection *connection, enum exporter_phase phase)
{
    if (connection->phase == phase || connection->phase == EXPORTER_PHASE_CUT)
        return;
    leave_phase(connection);
    join_phase(connection, phase);
}

/* What the client has not read is thrown away with the connection: it does not read. Who idles has
 * read everything, and is told of the end in order. */
void exporter_connection_cut(struct exporter_connection *connection, const char *reason)
{
    const struct linger none = {.l_onoff = 1, .l_linger = 0};
    if (connection->phase == EXPORTER_PHASE_CUT)
        return;
    if (reason == NULL)
        log_info("connection_timed_out", LOG_STR("listener", connection->server->options.listener),
                 LOG_STR("peer", connection->peer));
    else
        log_info("connection_evicted", LOG_STR("listener", connection->server->options.listener),
                 LOG_STR("peer", connection->peer), LOG_STR("reason", reason));
    if (connection->phase != EXPORTER_PHASE_IDLE)
        setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    shutdown(connection->fd, SHUT_RDWR);
    connection->deadline_ms = INT64_MAX;
    exporter_held_drop_all(connection);
    leave_room(connection);
    exporter_connection_enter(connection, EXPORTER_PHASE_CUT);
}

/* Whether a client that was idle has begun to send; it then has to be quick. Asked here and not
 * noted when it became idle: that would be a system call for each request. */
static void look_for_begin(struct exporter_connection *connection, int64_t now)
{
    if (connection->phase == EXPORTER_PHASE_IDLE &&
        exporter_socket_silence_ms(connection->fd) <
            now - connection->idle_since_ms - EXPORTER_SOCKET_SILENCE_TICK_MS)
        exporter_connection_wake(connection);
}

/* Answers when it has to be looked at again. */
static int64_t sweep_connection(struct exporter_connection *connection, int64_t now)
{
    look_for_begin(connection, now);
    exporter_crowd_sweep(connection, now);
    if (connection->deadline_ms <= now)
        exporter_connection_cut(connection, NULL);
    return connection->deadline_ms;
}

/* The cut ones are libmicrohttpd's. One that changes its phase may be looked at twice. */
static int64_t sweep_all(struct exporter_server *server, int64_t now)
{
    int64_t next = now + SWEEP_INTERVAL_MS;
    for (unsigned phase = 0; phase < EXPORTER_PHASE_CUT; phase++) {
        struct exporter_connection *connection = TAILQ_FIRST(&server->connections[phase]);
        while (connection != NULL) {
            struct exporter_connection *after = TAILQ_NEXT(connection, entry);
            const int64_t due = sweep_connection(connection, now);
            next = due < next ? due : next;
            connection = after;
        }
    }
    return next;
}

static void sweep(struct base_timer *timer)
{
    struct exporter_server *server = BASE_CONTAINER_OF(timer, struct exporter_server, sweep);
    BASE_CHECK_MAGIC(server, SERVER_MAGIC);
    const int64_t now = base_monotonic_ms(&base_clock_system);
    const int64_t delay = sweep_all(server, now) - now;
    exporter_crowd_thin(server);
    if (server->open > 0)
        base_loop_start_timer(server->options.loop, &server->sweep,
                              delay < SWEEP_PAUSE_MS ? SWEEP_PAUSE_MS : delay);
}

void exporter_connection_deadline(struct exporter_connection *connection, int64_t deadline_ms)
{
    struct exporter_server *server = connection->server;
    connection->deadline_ms = deadline_ms;
    if (base_timer_started(&server->sweep) && server->sweep.due_ms <= deadline_ms)
        return;
    int64_t delay = deadline_ms - base_monotonic_ms(&base_clock_system);
    if (delay > SWEEP_INTERVAL_MS)
        delay = SWEEP_INTERVAL_MS;
    base_loop_start_timer(server->options.loop, &server->sweep, delay);
}

void exporter_connection_rest(struct exporter_connection *connection)
{
    const struct exporter_limits *limits = &connection->server->options.limits;
    exporter_connection_enter(connection, EXPORTER_PHASE_IDLE);
    connection->idle_since_ms = base_monotonic_ms(&base_clock_system);
    exporter_connection_deadline(connection,
                                 connection->idle_since_ms + limits->idle_ms + limits->read_ms);
    exporter_crowd_thin(connection->server);
}

void exporter_connection_wake(struct exporter_connection *connection)
{
    if (connection->phase != EXPORTER_PHASE_IDLE)
        return;
    exporter_connection_enter(connection, EXPORTER_PHASE_RECEIVING);
    exporter_connection_deadline(connection, base_monotonic_ms(&base_clock_system) +
                                                 connection->server->options.limits.read_ms);
}

static void write_peer(struct exporter_connection *connection, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info != NULL ? info->client_addr : NULL;
    const void *bytes = NULL;
    connection->is_local = address == NULL || exporter_is_loopback(address);
    if (address != NULL && address->sa_family == AF_INET)
        bytes = &((const struct sockaddr_in *)(const void *)address)->sin_addr;
    else if (address != NULL && address->sa_family == AF_INET6)
        bytes = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    if (bytes == NULL ||
        inet_ntop(address->sa_family, bytes, connection->peer, sizeof connection->peer) == NULL)
        snprintf(connection->peer, sizeof connection->peer, "unix");
    connection->has_ip = bytes != NULL;
}

/* Where TLS is on, the session gets today's credentials, so that files may rotate under way. */
static bool attach_tls(struct exporter_connection *connection, struct MHD_Connection *mhd)
{
    struct exporter_web_config *web_config = connection->server->options.web_config;
    if (web_config == NULL || !exporter_web_config_has_tls(web_config))
        return true;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    BASE_CHECK(info != NULL);
    exporter_web_config_refresh(web_config);
    connection->tls = exporter_tls_attach(exporter_web_config_tls(web_config), info->tls_session);
    return connection->tls != NULL;
}

/* A connection without its object (no memory) is shut at once; its requests are refused. */
static void connection_started(struct exporter_server *server, struct MHD_Connection *mhd,
                               void **context)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    BASE_CHECK(info != NULL);
    const int fd = info->connect_fd;
    struct exporter_connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL) {
        shutdown(fd, SHUT_RDWR);
        return;
    }
    connection->magic = CONNECTION_MAGIC;
    connection->server = server;
    connection->fd = fd;
    write_peer(connection, mhd);
    join_phase(connection, EXPORTER_PHASE_RECEIVING);
    server->open++;
    atomic_fetch_add_explicit(&room_of(server)->held, 1, memory_order_relaxed);
    *context = connection;
    exporter_connection_watch(connection);
    if (!attach_tls(connection, mhd))
        shutdown(fd, SHUT_RDWR);
    exporter_connection_deadline(connection, base_monotonic_ms(&base_clock_system) +
                                                 server->options.limits.read_ms);
    exporter_crowd_admit(connection);
}

static void connection_closed(void **context)
{
    struct exporter_connection *connection = *context;
    if (connection == NULL)
        return;
    *context = NULL;
    BASE_CHECK_MAGIC(connection, CONNECTION_MAGIC);
    exporter_connection_unwatch(connection);
    exporter_tls_unref(&connection->tls);
    BASE_CHECK(connection->held == 0);
    leave_room(connection);
    leave_phase(connection);
    connection->server->open--;
    connection->magic = 0;
    free(connection);
}

static void notify_connection(void *arg, struct MHD_Connection *mhd, void **context,
                              enum MHD_ConnectionNotificationCode what)
{
    struct exporter_server *server = arg;
    BASE_CHECK_MAGIC(server, SERVER_MAGIC);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        server->took = true;
        connection_started(server, mhd, context);
    } else {
        connection_closed(context);
        exporter_acceptor_left(&server->acceptor);
    }
}

/* ---- clients ----------------------------------------------------------------------------------
 */

/* One that libmicrohttpd refuses (no memory) is closed there, and not told of. */
static void client_accepted(void *arg, int fd, const struct sockaddr *address, socklen_t size)
{
    struct exporter_server *server = arg;
    BASE_CHECK_MAGIC(server, SERVER_MAGIC);
    server->took = false;
    if (MHD_add_connection(server->daemon, fd, address, size) != MHD_YES && !server->took)
        exporter_acceptor_left(&server->acceptor);
    base_source_wake(&server->source);
}

static void accepting_hindered(void *arg, int error)
{
    struct exporter_server *server = arg;
    BASE_CHECK_MAGIC(server, SERVER_MAGIC);
    const struct exporter_server_options *options = &server->options;
    log_debug("not_accepting", LOG_STR("listener", options->listener), LOG_ERRNO("error", error));
    if (handoff_shortage_of_errno(error) == HANDOFF_SHORTAGE_DESCRIPTORS)
        exporter_crowd_spare_descriptor(server);
    if (options->on_shortage != NULL)
        options->on_shortage(options->on_shortage_arg, error, options->listener);
}

/* ---- the daemon as a source of the loop ----------------------------------------------------- */

static int64_t daemon_timeout_ms(struct base_source *source)
{
    struct exporter_server *server = BASE_CONTAINER_OF(source, struct exporter_server, source);
    MHD_UNSIGNED_LONG_LONG timeout;
    if (MHD_get_timeout(server->daemon, &timeout) != MHD_YES)
        return -1;
    return timeout > INT32_MAX ? INT32_MAX : (int64_t)timeout;
}

static void daemon_run(struct base_source *source)
{
    struct exporter_server *server = BASE_CONTAINER_OF(source, struct exporter_server, source);
    BASE_CHECK_MAGIC(server, SERVER_MAGIC);
    MHD_run(server->daemon);
}

/* libmicrohttpd would decode a path before it can be cut at its slashes; the router does it. */
static size_t leave_encoded(void *arg, struct MHD_Connection *mhd, char *text)
{
    (void)arg;
    (void)mhd;
    return strlen(text);
}

static void daemon_log(void *arg, const char *format, va_list arguments)
{
    struct exporter_server *server = arg;
    char text[256];
    vsnprintf(text, sizeof text, format, arguments);
    text[strcspn(text, "\r\n")] = '\0';
    log_debug("http_library", LOG_STR("listener", server->options.listener),
              LOG_STR("message", text));
}

/* libmicrohttpd asks for a certificate when it starts; sessions get theirs from attach_tls(). */
static int no_certificate(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
                          gnutls_pcert_st **certificates, unsigned *count,
                          gnutls_ocsp_data_st **ocsp, unsigned *ocsp_count, gnutls_privkey_t *key,
                          unsigned *flags)
{
    (void)session, (void)info, (void)certificates, (void)ocsp, (void)key;
    *count = 0;
    *ocsp_count = 0;
    *flags = 0;
    return -1;
}

/* Without a socket: the acceptor gives it its clients. */
static struct MHD_Daemon *start_daemon(struct exporter_server *server)
{
    const struct exporter_limits *limits = &server->options.limits;
    const bool has_tls = server->options.web_config != NULL &&
                         exporter_web_config_has_tls(server->options.web_config);
    const unsigned flags = MHD_USE_EPOLL | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME |
                           MHD_USE_NO_LISTEN_SOCKET | (has_tls ? (unsigned)MHD_USE_TLS : 0);
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, (void *)(uintptr_t)no_certificate},
        {MHD_OPTION_END, 0, NULL}};
    return MHD_start_daemon(
        flags, 0, NULL, NULL, exporter_request_handle, server, /* the logger goes first */
        MHD_OPTION_EXTERNAL_LOGGER, daemon_log, server, MHD_OPTION_CONNECTION_LIMIT,
        limits->room->places.most, MHD_OPTION_CONNECTION_MEMORY_LIMIT, limits->header_bytes,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)((limits->idle_ms + 999) / 1000),
        MHD_OPTION_NOTIFY_CONNECTION, notify_connection, server, MHD_OPTION_NOTIFY_COMPLETED,
        exporter_request_completed, server, MHD_OPTION_UNESCAPE_CALLBACK, leave_encoded, NULL,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_ARRAY,
        has_tls ? tls : tls + 1, MHD_OPTION_END);
}

static bool watch_daemon(struct exporter_server *server)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (info == NULL)
        return false;
    server->source = (struct base_source){.wait_ms = daemon_timeout_ms, .run = daemon_run};
    errno = base_loop_add(server->options.loop, &server->source, info->epoll_fd);
    return errno == 0;
}

struct exporter_server *exporter_server_start(int fd, const struct exporter_server_options *options,
                                              struct exporter_error *error)
{
    struct exporter_server *server = calloc(1, sizeof *server);
    if (server == NULL)
        goto failed;
    server->magic = SERVER_MAGIC;
    server->options = *options;
    for (unsigned phase = 0; phase < EXPORTER_PHASES; phase++)
        TAILQ_INIT(&server->connections[phase]);
    LIST_INIT(&server->deferred);
    LIST_INIT(&server->streams);
    exporter_polls_init(&server->polls);
    exporter_held_init(&server->held);
    server->sweep = (struct base_timer){.fire = sweep};
    server->acceptor = (struct exporter_acceptor){.room = options->limits.room,
                                                  .accepted = client_accepted,
                                                  .hindered = accepting_hindered,
                                                  .arg = server};
    server->daemon = start_daemon(server);
    if (server->daemon == NULL)
        goto failed;
    if (watch_daemon(server) &&
        (errno = exporter_acceptor_open(&server->acceptor, options->loop, fd)) == 0) {
        options->limits.room->servers++;
        return server;
    }
    base_loop_remove(options->loop, &server->source);
    MHD_stop_daemon(server->daemon);
failed:
    exporter_error_set(error, "cannot start the %s listener: %s", options->listener,
                       errno != 0 ? strerror(errno) : "libmicrohttpd rejected its options");
    if (fd >= 0)
        close(fd);
    free(server);
    return NULL;
}

void exporter_server_quiesce(struct exporter_server *server)
{
    BASE_CHECK_MAGIC(server, SERVER_MAGIC);
    if (server->quiesced)
        return;
    exporter_acceptor_quiesce(&server->acceptor);
    MHD_run(server->daemon); /* those it still took are heard */
    server->quiesced = true;
}

/* What was answered after the loop had ended is still to be sent: libmicrohttpd sends nothing more
 * once it is stopped. Whoever does not read is not waited for. */
static void send_answers(struct exporter_server *server)
{
    const int64_t until = base_monotonic_ms(&base_clock_system) + LAST_ANSWERS_MS;
    struct exporter_request *stream;
    server->ending = true;
    LIST_FOREACH (stream, &server->streams, entry) {
        exporter_request_wake_stream(stream);
    }
    while (server->sending > 0 && base_monotonic_ms(&base_clock_system) < until) {
        struct pollfd readable = {.fd = server->source.fd, .events = POLLIN};
        MHD_run(server->daemon);
        if (server->sending > 0 && daemon_timeout_ms(&server->source) != 0)
            poll(&readable, 1, LAST_ANSWERS_TURN_MS);
    }
}

void exporter_server_unhook(struct exporter_server *server)
{
    BASE_CHECK_MAGIC(server, SERVER_MAGIC);
    base_loop_remove(server->options.loop, &server->source);
    exporter_acceptor_close(&server->acceptor);
}

void exporter_server_stop(struct exporter_server **server_pointer)
{
    struct exporter_server *server = *server_pointer;
    if (server == NULL)
        return;
    *server_pointer = NULL;
    BASE_CHECK_MAGIC(server, SERVER_MAGIC);
    exporter_server_unhook(server);
    struct exporter_request *request;
    while ((request = LIST_FIRST(&server->deferred)) != NULL)
        exporter_request_cancel(request);
    send_answers(server);
    MHD_stop_daemon(server->daemon);
    base_timers_stop(&server->options.loop->timers, &server->sweep);
    BASE_CHECK(server->open == 0);
    free(server->spare.bytes);
    server->magic = 0;
    free(server);
}

unsigned exporter_server_in_flight(const struct exporter_server *server)
{
    return atomic_load(&server->in_flight);
}
