/* SPDX-License-Identifier: Apache-2.0 */
/*
 * systemd.h - the two documented protocols we speak with systemd: readiness datagrams
 * (sd_notify(3)) and inherited sockets (sd_listen_fds(3)). Both are a few environment variables,
 * so no library is linked for them. Without systemd every function does nothing.
 */
#ifndef EXPORTER_SYSTEMD_H
#define EXPORTER_SYSTEMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sends a state: "READY=1". Lines are separated by '\n'. */
void exporter_systemd_notify(const char *state);
/* RELOADING=1 with the time stamp that Type=notify-reload asks for. */
void exporter_systemd_notify_reloading(void);

/* How often WATCHDOG=1 has to be sent, in milliseconds; 0: never. */
int64_t exporter_systemd_watchdog_ms(void);

enum { EXPORTER_SYSTEMD_SOCKETS_MAX = 16 };

struct exporter_systemd_socket {
    int fd;
    char name[32]; /* FileDescriptorName= of the unit; "unknown" where there is none */
};

/* The listening sockets this process was started with; they become ours, and close on exec.
 * Answers how many; the environment variables are removed, so a second call answers 0. */
size_t exporter_systemd_sockets(struct exporter_systemd_socket *sockets, size_t max);

#endif
