/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The epoll instance of a loop. What one epoll_wait received is dispatched from an array that the
 * poller can reach, so that forgetting a watch can strike it out there. On the loop's thread.
 */
#include "lib/base/poller.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "lib/base/check.h"
#include "lib/base/error.h"

enum { MAGIC = 0x706f6c6cu };

enum handoff_code base_poller_init(struct base_poller *poller, struct handoff_error *error)
{
    *poller = (struct base_poller){.fd = epoll_create1(EPOLL_CLOEXEC)};
    if (poller->fd < 0)
        return handoff_error_set(error, HANDOFF_ERR_OUT_OF_MEMORY,
                                 "out of file descriptors (event loop); raise the open file limit",
                                 "epoll", strerror(errno));
    poller->magic = MAGIC;
    return HANDOFF_OK;
}

void base_poller_free(struct base_poller *poller)
{
    if (!poller->magic)
        return;
    BASE_CHECK_MAGIC(poller, MAGIC);
    BASE_CHECK(!poller->received);
    close(poller->fd);
    *poller = (struct base_poller){0};
}

int base_poller_add(struct base_poller *poller, int fd, uint32_t events, struct base_watch *watch)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    return epoll_ctl(poller->fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno;
}

int base_poller_watch(struct base_poller *poller, int fd, uint32_t events, struct base_watch *watch)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    if (epoll_ctl(poller->fd, EPOLL_CTL_MOD, fd, &event) == 0)
        return 0;
    return errno == ENOENT ? base_poller_add(poller, fd, events, watch) : errno;
}

void base_poller_forget(struct base_poller *poller, int fd, const struct base_watch *watch)
{
    epoll_ctl(poller->fd, EPOLL_CTL_DEL, fd, NULL);
    for (int i = 0; i < poller->left; i++) {
        if (poller->received[i].data.ptr == watch)
            poller->received[i].data.ptr = NULL;
    }
}

int base_poller_wait(struct base_poller *poller, struct epoll_event *ready, int timeout_ms)
{
    BASE_CHECK_MAGIC(poller, MAGIC);
    BASE_CHECK(!poller->received); /* not from within a watch */
    int count = epoll_wait(poller->fd, ready, BASE_POLLER_BATCH, timeout_ms);
    BASE_CHECK(count >= 0 || errno == EINTR);
    return count > 0 ? count : 0;
}

void base_poller_dispatch(struct base_poller *poller, struct epoll_event *ready, int count)
{
    poller->received = ready;
    poller->left = count;
    while (poller->left > 0) {
        const struct epoll_event event = *poller->received++;
        poller->left--;
        struct base_watch *watch = event.data.ptr;
        if (watch)
            watch->ready(watch, event.events);
    }
    poller->received = NULL;
}

void base_poller_run(struct base_poller *poller, int timeout_ms)
{
    struct epoll_event ready[BASE_POLLER_BATCH];
    base_poller_dispatch(poller, ready, base_poller_wait(poller, ready, timeout_ms));
}
