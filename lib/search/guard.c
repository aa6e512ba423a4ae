/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranges that are guarded, and the handler of SIGBUS. It runs on the thread that reads, which
 * holds the mapping, so that the range it looks for does not change meanwhile.
 */
#include "lib/search/guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/check.h"

enum { RANGES_MAX = 8192 };

struct range {
    _Atomic(uintptr_t) begin; /* 0: free; written last */
    size_t size;
    _Atomic(int) *mark;
    int failed;
};

static struct range ranges[RANGES_MAX]; /* lock, or whoever holds the mapping */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction handler_before; /* lock; it changes before the handler is in place */
static uintptr_t page_size;             /* likewise */

static struct range *find_range(uintptr_t address)
{
    for (size_t i = 0; i < RANGES_MAX; i++) {
        const uintptr_t begin = atomic_load(&ranges[i].begin);
        if (begin != 0 && address >= begin && address - begin < ranges[i].size)
            return &ranges[i];
    }
    return NULL;
}

static bool is_mapped(const void *page)
{
    return page != MAP_FAILED;
}

/* The read is tried again when the handler returns. */
static bool read_zeros_there(uintptr_t address)
{
    void *page = (void *)(address - address % page_size); /* NOLINT(performance-no-int-to-ptr) */
    return is_mapped(
        mmap(page, page_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
}

static void leave_to_handler_before(int number, siginfo_t *info, void *context)
{
    if (handler_before.sa_flags & SA_SIGINFO)
        handler_before.sa_sigaction(number, info, context);
    else if (handler_before.sa_handler != SIG_DFL && handler_before.sa_handler != SIG_IGN)
        handler_before.sa_handler(number);
    else
        (void)signal(number, SIG_DFL); /* the read is tried again, and ends the process */
}

static void on_failed_read(int number, siginfo_t *info, void *context)
{
    const int why = errno;
    const uintptr_t address = (uintptr_t)info->si_addr;
    const struct range *range = info->si_code > 0 ? find_range(address) : NULL;
    if (range && read_zeros_there(address))
        atomic_store(range->mark, range->failed);
    else
        leave_to_handler_before(number, info, context);
    errno = why;
}

/* Again, where somebody else's came since. */
static void install_handler(void)
{
    struct sigaction handler = {.sa_flags = SA_SIGINFO | SA_ONSTACK}, now;
    BASE_CHECK(sigaction(SIGBUS, NULL, &now) == 0);
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_failed_read)
        return;
    page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    handler_before = now;
    handler.sa_sigaction = on_failed_read;
    sigemptyset(&handler.sa_mask);
    BASE_CHECK(sigaction(SIGBUS, &handler, NULL) == 0);
}

bool search_guard_add(const void *bytes, size_t size, _Atomic(int) *mark, int failed)
{
    bool added = false;
    pthread_mutex_lock(&lock);
    install_handler();
    for (size_t i = 0; i < RANGES_MAX && !added; i++) {
        if (atomic_load(&ranges[i].begin) != 0)
            continue;
        ranges[i].size = size;
        ranges[i].mark = mark;
        ranges[i].failed = failed;
        atomic_store(&ranges[i].begin, (uintptr_t)bytes);
        added = true;
    }
    pthread_mutex_unlock(&lock);
    return added;
}

void search_guard_remove(const void *bytes)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < RANGES_MAX; i++)
        if (atomic_load(&ranges[i].begin) == (uintptr_t)bytes)
            atomic_store(&ranges[i].begin, 0);
    pthread_mutex_unlock(&lock);
}
