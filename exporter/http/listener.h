/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listener.h - listening sockets: made here or inherited, so that whatever goes wrong with them is
 * told in our words.
 */
#ifndef EXPORTER_HTTP_LISTENER_H
#define EXPORTER_HTTP_LISTENER_H

#include <stdbool.h>
#include <stddef.h>

#include "exporter/config/address.h"
#include "exporter/error.h"

enum {
    EXPORTER_LISTENER_SOCKETS_MAX = 64, /* API loops; beyond 64 cores they share */
    EXPORTER_LISTENER_NAME_MAX = 300,   /* a host name or a unix path, and a port */
};

/* One address, `count` sockets on it: the kernel spreads connections over TCP sockets that share a
 * port (SO_REUSEPORT); of a unix path and of an inherited socket there is one, duplicated. */
struct exporter_listener {
    int fds[EXPORTER_LISTENER_SOCKETS_MAX]; /* the owner that takes one writes -1 in its place */
    size_t count;
    char name[EXPORTER_LISTENER_NAME_MAX]; /* the address that was bound, the real port included */
    bool is_local; /* only this machine can reach it: loopback, or a unix socket */
    char unlink_path[EXPORTER_UNIX_PATH_MAX + 1]; /* removed at close; "" for none */
};

/* Binds and listens. `what` ("web", "API") and `option` (the flag that gave the address) go into
 * the error. */
bool exporter_listener_open(struct exporter_listener *listener,
                            const struct exporter_address *address, size_t count, const char *what,
                            const char *option, struct exporter_error *error);

/* The same with a socket that listens already; takes `fd` over. */
bool exporter_listener_inherit(struct exporter_listener *listener, int fd, size_t count,
                               struct exporter_error *error);

/* Closes what was not taken, and removes a unix socket from the file system. */
void exporter_listener_close(struct exporter_listener *listener);

#endif
