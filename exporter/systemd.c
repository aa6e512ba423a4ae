/* SPDX-License-Identifier: Apache-2.0 */
/*
 * systemd's readiness and socket activation protocols, as documented in their manual pages. Main
 * thread.
 */
#include "exporter/systemd.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_INHERITED_FD = 3 /* SD_LISTEN_FDS_START */ };

void exporter_systemd_notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (path == NULL || (path[0] != '/' && path[0] != '@') ||
        strlen(path) >= sizeof address.sun_path)
        return;
    const size_t length = strlen(path);
    memcpy(address.sun_path, path, length);
    if (path[0] == '@')
        address.sun_path[0] = '\0'; /* the abstract name space */
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    /* No listener is not a failure: the state is advice. */
    ssize_t sent = sendto(fd, state, strlen(state), MSG_NOSIGNAL,
                          (const struct sockaddr *)(const void *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
    (void)sent;
    close(fd);
}

void exporter_systemd_notify_reloading(void)
{
    struct timespec now;
    char state[64];
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%" PRId64,
             (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    exporter_systemd_notify(state);
}

/* A decimal variable of the environment; 0 where it is absent or no number. */
static long long environment_number(const char *name)
{
    const char *text = getenv(name);
    if (text == NULL || *text < '0' || *text > '9')
        return 0;
    char *end;
    long long value = strtoll(text, &end, 10);
    return *end == '\0' ? value : 0;
}

static bool is_for_us(const char *pid_variable)
{
    return environment_number(pid_variable) == getpid();
}

int64_t exporter_systemd_watchdog_ms(void)
{
    if (getenv("WATCHDOG_PID") != NULL && !is_for_us("WATCHDOG_PID"))
        return 0;
    /* Half of what is allowed, as sd_watchdog_enabled(3) advises. */
    const long long allowed_us = environment_number("WATCHDOG_USEC");
    return allowed_us > 0 && allowed_us < 2000 ? 1 : allowed_us / 2000;
}

static void take_name(struct exporter_systemd_socket *taken, const char **names)
{
    const size_t length = *names != NULL ? strcspn(*names, ":") : 0;
    if (length == 0 || length >= sizeof taken->name)
        snprintf(taken->name, sizeof taken->name, "unknown");
    else
        snprintf(taken->name, sizeof taken->name, "%.*s", (int)length, *names);
    if (*names != NULL)
        *names = (*names)[length] == ':' ? *names + length + 1 : NULL;
}

size_t exporter_systemd_sockets(struct exporter_systemd_socket *sockets, size_t max)
{
    const long long passed = is_for_us("LISTEN_PID") ? environment_number("LISTEN_FDS") : 0;
    const char *names = getenv("LISTEN_FDNAMES");
    size_t count = 0;
    while (count < max && (long long)count < passed) {
        struct exporter_systemd_socket *taken = &sockets[count];
        taken->fd = FIRST_INHERITED_FD + (int)count;
        take_name(taken, &names);
        int flags = fcntl(taken->fd, F_GETFD);
        if (flags >= 0)
            fcntl(taken->fd, F_SETFD, flags | FD_CLOEXEC);
        count++;
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    return count;
}
