/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that fail on demand, for a daemon under test. Linked into a daemon of its own
 * (tests/CMakeLists.txt), it stands in front of the C library for the daemon and for every library
 * that the daemon uses. Any thread calls these.
 *
 * HANDOFF_FAILING_CALLS names a file of struct failing_calls, which the test maps as well
 * (tests/scenario/harness/failing_calls.py): it says which call fails, how many calls from now and
 * with which error, and reads back whether it did. Without the variable nothing ever fails.
 */
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* The order is that of KINDS in tests/scenario/harness/failing_calls.py. */
enum failing_kind {
    FAILING_NONE,
    FAILING_ACCEPT,
    FAILING_EPOLL_CREATE,
    FAILING_EPOLL_CTL,
    FAILING_EPOLL_WAIT,
    FAILING_OPEN,
    FAILING_PREAD,
    FAILING_PWRITE,
    FAILING_SYNC,
    FAILING_TRUNCATE,
    FAILING_RESOLVE,
    FAILING_TIMERFD,
    FAILING_EVENTFD,
    FAILING_SOCKET,
    FAILING_CONNECT,
    FAILING_MMAP,
    FAILING_THREAD,
    FAILING_KINDS
};

/* Shared with the test. The test writes kind last to arm a failure; any thread disarms it. */
struct failing_calls {
    atomic_uint kind;  /* which call fails; FAILING_NONE: none does */
    atomic_int until;  /* calls of that kind before the first that fails */
    atomic_int times;  /* how many fail in a row */
    atomic_int error;  /* errno, or what getaddrinfo returns */
    atomic_uint fired; /* failures since the test set it to 0 */
    atomic_uint calls[FAILING_KINDS];
};

static struct failing_calls *failing; /* NULL: nothing fails; set before main */

static int (*real_getaddrinfo)(const char *, const char *, const struct addrinfo *,
                               struct addrinfo **);
static int (*real_pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

__attribute__((constructor)) static void failing_calls_map(void)
{
    *(void **)&real_getaddrinfo = dlsym(RTLD_NEXT, "getaddrinfo");
    *(void **)&real_pthread_create = dlsym(RTLD_NEXT, "pthread_create");
    const char *path = getenv("HANDOFF_FAILING_CALLS");
    if (!path)
        return;
    long fd = syscall(SYS_openat, -100 /* AT_FDCWD */, path, 2 /* O_RDWR */, 0);
    void *page = fd < 0 ? MAP_FAILED
                        : (void *)syscall(SYS_mmap, NULL, sizeof *failing, PROT_READ | PROT_WRITE,
                                          MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        abort(); /* a test that believes that calls fail must not pass because none does */
    failing = page;
}

/* Whether this call is the one to fail. */
static bool fails(enum failing_kind kind)
{
    if (!failing)
        return false;
    atomic_fetch_add(&failing->calls[kind], 1);
    if (atomic_load(&failing->kind) != kind || atomic_fetch_sub(&failing->until, 1) > 0)
        return false;
    int left = atomic_fetch_sub(&failing->times, 1);
    if (left <= 1)
        atomic_store(&failing->kind, FAILING_NONE);
    if (left < 1)
        return false;
    atomic_fetch_add(&failing->fired, 1);
    return true;
}

static bool fails_with_errno(enum failing_kind kind)
{
    if (!fails(kind))
        return false;
    errno = atomic_load(&failing->error);
    return true;
}

/* Defines a call as the C library's name, under a name of ours: its own headers may declare it in
   other words. */
#define FAILING_CALL(result, name, ...)                                                            \
    result failing_##name(__VA_ARGS__) __asm__(#name);                                             \
    result failing_##name(__VA_ARGS__)

FAILING_CALL(int, accept4, int fd, void *address, void *size, int flags)
{
    return fails_with_errno(FAILING_ACCEPT) ? -1
                                            : (int)syscall(SYS_accept4, fd, address, size, flags);
}

FAILING_CALL(int, accept, int fd, void *address, void *size)
{
    return fails_with_errno(FAILING_ACCEPT) ? -1 : (int)syscall(SYS_accept4, fd, address, size, 0);
}

FAILING_CALL(int, epoll_create1, int flags)
{
    return fails_with_errno(FAILING_EPOLL_CREATE) ? -1 : (int)syscall(SYS_epoll_create1, flags);
}

FAILING_CALL(int, epoll_ctl, int epoll, int operation, int fd, void *event)
{
    /* taking one out fails only by a fault of the caller */
    if (operation != EPOLL_CTL_DEL && fails_with_errno(FAILING_EPOLL_CTL))
        return -1;
    return (int)syscall(SYS_epoll_ctl, epoll, operation, fd, event);
}

FAILING_CALL(int, epoll_wait, int epoll, void *events, int most, int wait_ms)
{
    if (fails_with_errno(FAILING_EPOLL_WAIT))
        return -1;
    return (int)syscall(SYS_epoll_pwait, epoll, events, most, wait_ms, NULL, 8);
}

static int open_file(const char *path, int flags, va_list more)
{
    if (fails_with_errno(FAILING_OPEN))
        return -1;
    return (int)syscall(SYS_openat, -100 /* AT_FDCWD */, path, flags, va_arg(more, unsigned));
}

#define FAILING_OPEN_CALL(name)                                                                    \
    FAILING_CALL(int, name, const char *path, int flags, ...)                                      \
    {                                                                                              \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        int fd = open_file(path, flags, more);                                                     \
        va_end(more);                                                                              \
        return fd;                                                                                 \
    }
FAILING_OPEN_CALL(open)
FAILING_OPEN_CALL(open64)

#define FAILING_PREAD_CALL(name)                                                                   \
    FAILING_CALL(ssize_t, name, int fd, void *data, size_t size, off_t at)                         \
    {                                                                                              \
        return fails_with_errno(FAILING_PREAD)                                                     \
                   ? -1                                                                            \
                   : (ssize_t)syscall(SYS_pread64, fd, data, size, at);                            \
    }
FAILING_PREAD_CALL(pread)
FAILING_PREAD_CALL(pread64)

#define FAILING_PWRITE_CALL(name)                                                                  \
    FAILING_CALL(ssize_t, name, int fd, const void *data, size_t size, off_t at)                   \
    {                                                                                              \
        return fails_with_errno(FAILING_PWRITE)                                                    \
                   ? -1                                                                            \
                   : (ssize_t)syscall(SYS_pwrite64, fd, data, size, at);                           \
    }
FAILING_PWRITE_CALL(pwrite)
FAILING_PWRITE_CALL(pwrite64)

FAILING_CALL(int, fsync, int fd)
{
    return fails_with_errno(FAILING_SYNC) ? -1 : (int)syscall(SYS_fsync, fd);
}

FAILING_CALL(int, fdatasync, int fd)
{
    return fails_with_errno(FAILING_SYNC) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

#define FAILING_TRUNCATE_CALL(name)                                                                \
    FAILING_CALL(int, name, int fd, off_t size)                                                    \
    {                                                                                              \
        return fails_with_errno(FAILING_TRUNCATE) ? -1 : (int)syscall(SYS_ftruncate, fd, size);    \
    }
FAILING_TRUNCATE_CALL(ftruncate)
FAILING_TRUNCATE_CALL(ftruncate64)

/* These exist nowhere else (RFC 6761), and here are this machine: names that are really looked up,
   as localhost is not. */
static bool is_of_test(const char *host)
{
    static const char end[] = ".test";
    const size_t size = strlen(host);
    return size >= sizeof end && strcmp(host + size - (sizeof end - 1), end) == 0;
}

FAILING_CALL(int, getaddrinfo, const char *host, const char *service, const struct addrinfo *hints,
             struct addrinfo **found)
{
    if (fails(FAILING_RESOLVE))
        return atomic_load(&failing->error);
    if (failing && host && is_of_test(host))
        host = "127.0.0.1";
    return real_getaddrinfo(host, service, hints, found);
}

FAILING_CALL(int, timerfd_create, int clock, int flags)
{
    return fails_with_errno(FAILING_TIMERFD) ? -1 : (int)syscall(SYS_timerfd_create, clock, flags);
}

FAILING_CALL(int, eventfd, unsigned count, int flags)
{
    return fails_with_errno(FAILING_EVENTFD) ? -1 : (int)syscall(SYS_eventfd2, count, flags);
}

FAILING_CALL(int, socket, int family, int type, int protocol)
{
    return fails_with_errno(FAILING_SOCKET) ? -1 : (int)syscall(SYS_socket, family, type, protocol);
}

FAILING_CALL(int, connect, int fd, const void *address, socklen_t size)
{
    return fails_with_errno(FAILING_CONNECT) ? -1 : (int)syscall(SYS_connect, fd, address, size);
}

#define FAILING_MMAP_CALL(name)                                                                    \
    FAILING_CALL(void *, name, void *at, size_t size, int protection, int flags, int fd,           \
                 off_t from)                                                                       \
    {                                                                                              \
        /* memory without a file is malloc's; it fails in other tests */                           \
        if (fd >= 0 && fails_with_errno(FAILING_MMAP))                                             \
            return MAP_FAILED;                                                                     \
        return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, from);                   \
    }
FAILING_MMAP_CALL(mmap)
FAILING_MMAP_CALL(mmap64)

FAILING_CALL(int, pthread_create, pthread_t *thread, const pthread_attr_t *attributes,
             void *(*run)(void *), void *argument)
{
    if (fails(FAILING_THREAD))
        return atomic_load(&failing->error);
    return real_pthread_create(thread, attributes, run, argument);
}
