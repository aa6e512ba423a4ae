/* SPDX-License-Identifier: Apache-2.0 */
/*
 * acceptor.h - takes clients from a listening socket for as long as there is room for them.
 *
 * A client beyond the room takes one of its spare places, so that another one can give way to it
 * (crowd.h). Whoever finds none waits in the kernel's queue. libmicrohttpd could accept by itself,
 * but where the process has no descriptor left and no client whose end would give one back, it asks
 * the kernel again and again; nor do several daemons share a limit.
 *
 * On the loop's thread.
 */
#ifndef EXPORTER_HTTP_ACCEPTOR_H
#define EXPORTER_HTTP_ACCEPTOR_H

#include <stdbool.h>
#include <sys/socket.h>

#include "exporter/http/room.h"
#include "lib/base/loop.h"

struct exporter_acceptor {
    unsigned magic;
    struct base_loop *loop;
    struct exporter_room *room; /* lent */
    int fd;                     /* the socket; -1: closed */
    bool watched;
    struct base_watch watch;
    struct base_timer pause;
    int64_t told_ms; /* when it was hindered and said so */
    /* Takes `fd` over, and with it a place in the room, which exporter_acceptor_left gives back. */
    void (*accepted)(void *arg, int fd, const struct sockaddr *address, socklen_t size);
    /* Clients wait, because of this errno: accepting failed, or the room is short. At most once in
     * a second. */
    void (*hindered)(void *arg, int error);
    void *arg;
};

/* Begins. The functions, their argument and the room are filled in; `fd` is taken over when it
 * succeeds. 0, or an errno value. */
int exporter_acceptor_open(struct exporter_acceptor *acceptor, struct base_loop *loop, int fd);
/* A client that was accepted has left. */
void exporter_acceptor_left(struct exporter_acceptor *acceptor);
/* Takes whoever waits already, if there is room, and closes the socket. */
void exporter_acceptor_quiesce(struct exporter_acceptor *acceptor);
/* Closes it. Harmless the second time, and where it was never opened. */
void exporter_acceptor_close(struct exporter_acceptor *acceptor);

#endif
