/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/poller.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "lib/base/check.h"
#include "lib/base/error.h"

enum { MAGIC = 0x706f6c6cu, BATCH = 64 };

enum handoff_code base_poller_init(struct base_poller *poller, struct handoff_error *error)
{
    poller->fd = epoll_create1(EPOLL_CLOEXEC);
    if (poller->fd < 0)
        return handoff_error_set(error, HANDOFF_ERR_OUT_OF_MEMORY,
                                 "no file descriptor for a loop; raise the limit of open files",
                                 "epoll", strerror(errno));
    poller->magic = MAGIC;
    return HANDOFF_OK;
}

void base_poller_free(struct base_poller *poller)
{
    if (!poller->magic)
        return;
    BASE_CHECK_MAGIC(poller, MAGIC);
    close(poller->fd);
    *poller = (struct base_poller){0};
}

int base_poller_watch(struct base_poller *poller, int fd, uint32_t events, struct base_watch *watch)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    if (epoll_ctl(poller->fd, EPOLL_CTL_MOD, fd, &event) == 0)
        return 0;
    if (errno == ENOENT && epoll_ctl(poller->fd, EPOLL_CTL_ADD, fd, &event) == 0)
        return 0;
    return errno;
}

void base_poller_forget(struct base_poller *poller, int fd)
{
    epoll_ctl(poller->fd, EPOLL_CTL_DEL, fd, NULL);
}

void base_poller_run(struct base_poller *poller)
{
    BASE_CHECK_MAGIC(poller, MAGIC);
    struct epoll_event events[BATCH];
    int ready = epoll_wait(poller->fd, events, BATCH, 0);
    BASE_CHECK(ready >= 0 || errno == EINTR);
    for (int i = 0; i < ready; i++) {
        struct base_watch *watch = events[i].data.ptr;
        watch->ready(watch, events[i].events);
    }
}
