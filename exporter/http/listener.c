/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening sockets.
 *
 * SO_REUSEPORT alone would let a second daemon of the same user take half of the connections
 * without a word. So the first socket binds without it, which fails where anyone listens already,
 * and gets it afterwards, which lets our further sockets join it.
 *
 * A unix socket outlives its process as a file. It is stale when a connect fails; then,
 * and only then, it is removed.
 *
 * Control thread, before the loops start and after they have ended.
 */
#include "exporter/http/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "exporter/http/loopback.h"
#include "lib/base/check.h"

enum {
    LISTEN_BACKLOG = 4096, /* cut to net.core.somaxconn by the kernel, which has the same default */
    UNIX_SOCKET_UMASK = 0117, /* mode 0660: the daemon's user and group */
};

static void set_listener_error(struct exporter_error *error, const char *what, const char *name,
                               const char *why, const char *option)
{
    exporter_error_set(error, "cannot open the %s listener on %s: %s (%s)", what, name, why,
                       option);
}

/* What a person can do about an errno of bind or listen. */
static const char *advice(int cause)
{
    switch (cause) {
    case EADDRINUSE:
        return "address in use; stop the process listening on it or choose another address";
    case EACCES:
        return "permission denied; ports below 1024 need CAP_NET_BIND_SERVICE";
    case EADDRNOTAVAIL:
        return "no interface of this host has the address";
    default:
        return strerror(cause);
    }
}

static bool set_socket_flag(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof value) == 0;
}

/* ---- names ---------------------------------------------------------------------------------- */

/* Fills in what the kernel knows of the socket: its address and who can reach it. */
static void describe_bound(struct exporter_listener *listener)
{
    char *name = listener->name;
    struct sockaddr_storage bound = {0};
    socklen_t length = sizeof bound;
    char host[INET6_ADDRSTRLEN] = "";
    BASE_CHECK(getsockname(listener->fds[0], (struct sockaddr *)&bound, &length) == 0);
    listener->is_local = exporter_is_loopback((const struct sockaddr *)&bound);
    if (bound.ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)&bound;
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
        snprintf(name, EXPORTER_LISTENER_NAME_MAX, "[%s]:%u", host, ntohs(v6->sin6_port));
    } else if (bound.ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)&bound;
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
        snprintf(name, EXPORTER_LISTENER_NAME_MAX, "%s:%u", host, ntohs(v4->sin_port));
    } else {
        const struct sockaddr_un *local = (const struct sockaddr_un *)(const void *)&bound;
        snprintf(name, EXPORTER_LISTENER_NAME_MAX, "unix:%.*s", (int)sizeof local->sun_path,
                 local->sun_path);
    }
}

static void name_of_wanted(const struct exporter_address *address,
                           char name[EXPORTER_LISTENER_NAME_MAX])
{
    const char *format = strchr(address->host, ':') != NULL ? "[%s]:%u" : "%s:%u";
    if (address->is_unix)
        snprintf(name, EXPORTER_LISTENER_NAME_MAX, "unix:%s", address->path);
    else
        snprintf(name, EXPORTER_LISTENER_NAME_MAX, format, address->host, address->port);
}

/* ---- TCP ------------------------------------------------------------------------------------ */

/* A bound socket; -1 with errno. `joins`: it shares the port with one of ours. */
static int bind_tcp(const struct sockaddr *address, socklen_t length, bool joins)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    /* An IPv6 wildcard takes IPv4 clients too, where the system's default would say otherwise. */
    if (address->sa_family == AF_INET6)
        set_socket_flag(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (set_socket_flag(fd, SOL_SOCKET, SO_REUSEADDR, 1) &&
        (!joins || set_socket_flag(fd, SOL_SOCKET, SO_REUSEPORT, 1)) &&
        bind(fd, address, length) == 0)
        return fd;
    int cause = errno;
    close(fd);
    errno = cause;
    return -1;
}

static bool add_joining(struct exporter_listener *listener, size_t count)
{
    struct sockaddr_storage bound = {0};
    socklen_t length = sizeof bound;
    if (getsockname(listener->fds[0], (struct sockaddr *)&bound, &length) != 0)
        return false;
    while (listener->count < count) {
        int fd = bind_tcp((struct sockaddr *)&bound, length, true);
        if (fd < 0)
            return false;
        listener->fds[listener->count++] = fd;
    }
    return true;
}

static bool listen_all(struct exporter_listener *listener)
{
    for (size_t i = 0; i < listener->count; i++) {
        if (listen(listener->fds[i], LISTEN_BACKLOG) != 0)
            return false;
    }
    return true;
}

/* The first candidate that can be bound; -1 with errno of the last one that could not. */
static int bind_first(const struct addrinfo *candidates)
{
    for (const struct addrinfo *at = candidates; at != NULL; at = at->ai_next) {
        int fd = bind_tcp(at->ai_addr, at->ai_addrlen, false);
        if (fd >= 0)
            return fd;
        if (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL)
            return -1;
    }
    return -1;
}

/* Every interface: IPv6 first, which takes both, then IPv4 for machines without IPv6. */
static int bind_wildcard(uint16_t port)
{
    const struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    const struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = bind_tcp((const struct sockaddr *)(const void *)&v6, sizeof v6, false);
    if (fd >= 0 || (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL))
        return fd;
    return bind_tcp((const struct sockaddr *)(const void *)&v4, sizeof v4, false);
}

static int bind_host(const struct exporter_address *address, const char **why)
{
    if (address->host[0] == '\0')
        return bind_wildcard(address->port);
    char port[8];
    snprintf(port, sizeof port, "%u", address->port);
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *candidates = NULL;
    int result = getaddrinfo(address->host, port, &hints, &candidates);
    if (result != 0) {
        *why = result == EAI_SYSTEM ? strerror(errno) : gai_strerror(result);
        return -1;
    }
    int fd = bind_first(candidates);
    int cause = errno;
    freeaddrinfo(candidates);
    errno = cause;
    return fd;
}

static bool open_tcp(struct exporter_listener *listener, const struct exporter_address *address,
                     size_t count, const char **why)
{
    int fd = bind_host(address, why);
    if (fd < 0)
        return false;
    listener->fds[listener->count++] = fd;
    return set_socket_flag(fd, SOL_SOCKET, SO_REUSEPORT, 1) && add_joining(listener, count) &&
           listen_all(listener);
}

/* ---- unix ----------------------------------------------------------------------------------- */

/* Removes a socket file without a listener. false with `why`: the path cannot be used. */
static bool clear_stale(const struct sockaddr_un *address, const char **why)
{
    struct stat found;
    if (lstat(address->sun_path, &found) != 0)
        return true; /* nothing there, or bind() will say what is wrong */
    if (!S_ISSOCK(found.st_mode)) {
        *why = "the path exists and is not a socket; remove it or choose another path";
        return false;
    }
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0)
        return false;
    int result = connect(probe, (const struct sockaddr *)(const void *)address, sizeof *address);
    int cause = errno;
    close(probe);
    if (result == 0 || cause != ECONNREFUSED) {
        errno = result == 0 || cause == EAGAIN ? EADDRINUSE : cause;
        return false;
    }
    return unlink(address->sun_path) == 0;
}

/* The umask is the process's; listeners are opened before any thread is started. */
static int bind_unix(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    mode_t before = umask(UNIX_SOCKET_UMASK);
    int result = bind(fd, (const struct sockaddr *)(const void *)address, sizeof *address);
    int cause = errno;
    umask(before);
    if (result == 0)
        return fd;
    close(fd);
    errno = cause;
    return -1;
}

static bool add_duplicates(struct exporter_listener *listener, size_t count)
{
    while (listener->count < count) {
        int fd = fcntl(listener->fds[0], F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
            return false;
        listener->fds[listener->count++] = fd;
    }
    return true;
}

static bool open_unix(struct exporter_listener *listener, const struct exporter_address *address,
                      size_t count, const char **why)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    snprintf(local.sun_path, sizeof local.sun_path, "%s", address->path);
    if (!clear_stale(&local, why))
        return false;
    int fd = bind_unix(&local);
    if (fd < 0)
        return false;
    listener->fds[listener->count++] = fd;
    snprintf(listener->unlink_path, sizeof listener->unlink_path, "%s", address->path);
    return listen(fd, LISTEN_BACKLOG) == 0 && add_duplicates(listener, count);
}

/* ---- both ----------------------------------------------------------------------------------- */

static void listener_init(struct exporter_listener *listener)
{
    memset(listener, 0, sizeof *listener);
    for (size_t i = 0; i < EXPORTER_LISTENER_SOCKETS_MAX; i++)
        listener->fds[i] = -1;
}

bool exporter_listener_open(struct exporter_listener *listener,
                            const struct exporter_address *address, size_t count, const char *what,
                            const char *option, struct exporter_error *error)
{
    BASE_CHECK(count >= 1 && count <= EXPORTER_LISTENER_SOCKETS_MAX);
    listener_init(listener);
    name_of_wanted(address, listener->name);
    const char *why = NULL;
    const bool opened = address->is_unix ? open_unix(listener, address, count, &why)
                                         : open_tcp(listener, address, count, &why);
    if (!opened) {
        set_listener_error(error, what, listener->name, why != NULL ? why : advice(errno), option);
        exporter_listener_close(listener);
        return false;
    }
    describe_bound(listener);
    return true;
}

bool exporter_listener_inherit(struct exporter_listener *listener, int fd, size_t count,
                               struct exporter_error *error)
{
    listener_init(listener);
    listener->fds[listener->count++] = fd;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        !add_duplicates(listener, count)) {
        exporter_error_set(error, "cannot use the socket that systemd passed: %s", strerror(errno));
        exporter_listener_close(listener);
        return false;
    }
    describe_bound(listener);
    return true;
}

void exporter_listener_close(struct exporter_listener *listener)
{
    for (size_t i = 0; i < listener->count; i++) {
        if (listener->fds[i] >= 0)
            close(listener->fds[i]);
        listener->fds[i] = -1;
    }
    listener->count = 0;
    if (listener->unlink_path[0] != '\0')
        unlink(listener->unlink_path);
    listener->unlink_path[0] = '\0';
}
