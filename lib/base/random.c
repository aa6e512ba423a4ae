/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random bytes of the kernel, fetched in blocks. Each handoff needs some 34 for its ids, in two
 * pieces; a system call for each piece costs more than the bytes do.
 *
 * A block belongs to one thread. What was handed out is wiped, so that no id can be read from
 * memory later than its owner keeps it; and a forked child begins with a block of its own, because
 * two processes that cut from the same block would make the same ids.
 */
#include "lib/base/random.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>
#include <sys/types.h>

#include "lib/base/check.h"

enum { BLOCK = 256 }; /* up to here, getrandom is never interrupted and never short */

struct block {
    unsigned char bytes[BLOCK];
    size_t left;   /* at the end */
    unsigned fork; /* of which process it is */
};

static _Thread_local struct block own;
static atomic_uint forks = 1; /* so that no block of zeros is anybody's */

static void forked(void)
{
    atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

static void watch_forks(void)
{
    BASE_CHECK(pthread_atfork(NULL, NULL, forked) == 0);
}

/* getrandom cannot fail for small sizes once the system has booted. */
static void ask_kernel(void *bytes, size_t size)
{
    for (char *to = bytes; size > 0;) {
        ssize_t got = getrandom(to, size, 0);
        BASE_CHECK(got > 0 || errno == EINTR);
        if (got > 0) {
            to += got;
            size -= (size_t)got;
        }
    }
}

static void renew(struct block *block, unsigned fork)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks); /* before the first block that a child could inherit */
    ask_kernel(block->bytes, sizeof block->bytes);
    block->left = sizeof block->bytes;
    block->fork = fork;
}

static void system_fill(const struct base_random *random, void *bytes, size_t size)
{
    (void)random;
    if (size > BLOCK) {
        ask_kernel(bytes, size);
        return;
    }
    const unsigned fork = atomic_load_explicit(&forks, memory_order_relaxed);
    if (own.left < size || own.fork != fork)
        renew(&own, fork);
    unsigned char *from = own.bytes + sizeof own.bytes - own.left;
    memcpy(bytes, from, size);
    explicit_bzero(from, size);
    own.left -= size;
}

const struct base_random base_random_system = {system_fill};
