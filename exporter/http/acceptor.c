/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listening socket is watched while there is room. Where there is none, or accepting fails, it is
 * not watched for a moment: it would be reported as readable again and again. What ends the moment
 * is a client that leaves, or the timer: the place may have been given back by another loop, and
 * nobody tells when descriptors are free again.
 *
 * On the loop's thread.
 */
#include "exporter/http/acceptor.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "lib/base/check.h"
#include "lib/base/container.h"

enum {
    ACCEPTOR_MAGIC = 0x61636370,
    AT_ONCE = 64,   /* clients in one turn of the loop, which has others to serve */
    PAUSE_MS = 100, /* what a client may wait longer than it must */
    TELL_MS = 1000,
};

static void watch_again(struct exporter_acceptor *acceptor)
{
    if (acceptor->watched || acceptor->fd < 0)
        return;
    acceptor->watched =
        base_poller_add(&acceptor->loop->poller, acceptor->fd, EPOLLIN, &acceptor->watch) == 0;
    if (!acceptor->watched)
        base_loop_start_timer(acceptor->loop, &acceptor->pause, PAUSE_MS);
}

static void pause_over(struct base_timer *timer)
{
    watch_again(BASE_CONTAINER_OF(timer, struct exporter_acceptor, pause));
}

static void tell_hindered(struct exporter_acceptor *acceptor, int error)
{
    const int64_t now_ms = base_loop_now_ms(acceptor->loop);
    if (acceptor->told_ms != 0 && now_ms - acceptor->told_ms < TELL_MS)
        return;
    acceptor->told_ms = now_ms;
    acceptor->hindered(acceptor->arg, error);
}

static void pause_accepting(struct exporter_acceptor *acceptor)
{
    base_poller_forget(&acceptor->loop->poller, acceptor->fd, &acceptor->watch);
    acceptor->watched = false;
    base_loop_start_timer(acceptor->loop, &acceptor->pause, PAUSE_MS);
}

/* The client gave up before it was accepted, or the network has a fault of its own: accept(2). */
static bool is_of_client(int error)
{
    return error == ECONNABORTED || error == EINTR || error == EPROTO || error == ENOPROTOOPT ||
           error == EHOSTDOWN || error == ENONET || error == EHOSTUNREACH || error == ENETDOWN ||
           error == ENETUNREACH || error == EPERM;
}

/* 0, or why there was none to take. The caller has taken a place in the room, and gives it back on
 * failure. */
static int accept_one(struct exporter_acceptor *acceptor)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    int fd =
        accept4(acceptor->fd, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return errno;
    acceptor->accepted(acceptor->arg, fd, (struct sockaddr *)&address, size);
    return 0;
}

static void accept_some(struct exporter_acceptor *acceptor)
{
    int error = 0;
    for (int n = 0; n < AT_ONCE && (error == 0 || is_of_client(error)); n++) {
        if (!base_quota_take(&acceptor->room->places)) {
            pause_accepting(acceptor);
            if (acceptor->room->is_short)
                tell_hindered(acceptor, EMFILE);
            return;
        }
        error = accept_one(acceptor);
        if (error != 0)
            base_quota_give_back(&acceptor->room->places);
    }
    if (error == 0 || error == EAGAIN || is_of_client(error))
        return;
    pause_accepting(acceptor);
    tell_hindered(acceptor, error);
}

static void client_waits(struct base_watch *watch, uint32_t events)
{
    (void)events;
    struct exporter_acceptor *acceptor = BASE_CONTAINER_OF(watch, struct exporter_acceptor, watch);
    BASE_CHECK_MAGIC(acceptor, ACCEPTOR_MAGIC);
    accept_some(acceptor);
}

int exporter_acceptor_open(struct exporter_acceptor *acceptor, struct base_loop *loop, int fd)
{
    BASE_CHECK(acceptor->accepted && acceptor->hindered && acceptor->room);
    acceptor->magic = ACCEPTOR_MAGIC;
    acceptor->loop = loop;
    acceptor->watch.ready = client_waits;
    acceptor->pause.fire = pause_over;
    acceptor->fd = -1;
    int failed = base_poller_add(&loop->poller, fd, EPOLLIN, &acceptor->watch);
    if (failed != 0)
        return failed;
    acceptor->fd = fd;
    acceptor->watched = true;
    return 0;
}

void exporter_acceptor_left(struct exporter_acceptor *acceptor)
{
    BASE_CHECK_MAGIC(acceptor, ACCEPTOR_MAGIC);
    base_quota_give_back(&acceptor->room->places);
    watch_again(acceptor);
}

void exporter_acceptor_quiesce(struct exporter_acceptor *acceptor)
{
    BASE_CHECK_MAGIC(acceptor, ACCEPTOR_MAGIC);
    while (acceptor->fd >= 0 && base_quota_take(&acceptor->room->places)) {
        if (accept_one(acceptor) == 0)
            continue;
        base_quota_give_back(&acceptor->room->places);
        break;
    }
    exporter_acceptor_close(acceptor);
}

void exporter_acceptor_close(struct exporter_acceptor *acceptor)
{
    if (acceptor->magic == 0 || acceptor->fd < 0)
        return;
    BASE_CHECK_MAGIC(acceptor, ACCEPTOR_MAGIC);
    base_poller_forget(&acceptor->loop->poller, acceptor->fd, &acceptor->watch);
    base_timers_stop(&acceptor->loop->timers, &acceptor->pause);
    close(acceptor->fd);
    acceptor->fd = -1;
    acceptor->watched = false;
}
