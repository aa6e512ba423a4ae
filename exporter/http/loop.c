/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop.
 *
 * Why one epoll of our own over libmicrohttpd's epoll, instead of its internal threads: the handoff
 * client brings connections of its own, and a request that is answered by the thread that received
 * it needs no hand-over between threads. docs/decisions.md has the measurement.
 *
 * A turn: ask every source how long it can wait, sleep in epoll_wait, run what was posted, then the
 * sources that are ready or due, then the timers.
 *
 * Invariants: posted work is a lock-free stack (many push, the loop takes all at once and turns it
 * round), and the eventfd is written only by whoever found the stack empty, so a burst of posts
 * costs one write. Timers are kept in a list sorted by due time; there are only a handful of them,
 * and most are appended near its end, from where the insertion searches.
 */
#include "exporter/http/loop.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/check.h"

enum {
    LOOP_MAGIC = 0x1009ea11,
    EVENTS_PER_TURN = 64, /* a loop has a handful of sources; more would only cost stack */
};

struct exporter_loop {
    unsigned magic;
    const char *name;
    int epoll_fd;
    /* the loop's thread */
    int64_t now_ms;
    TAILQ_HEAD(exporter_sources, exporter_source) sources;
    struct exporter_source *next_source; /* the cursor of run_sources, so that any may be removed */
    TAILQ_HEAD(exporter_timers, exporter_timer) timers;
    struct exporter_source wakeup;
    /* any thread */
    _Atomic(struct exporter_post *) posted;
    atomic_bool stopping;
};

int64_t exporter_monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t exporter_loop_now_ms(const struct exporter_loop *loop)
{
    return loop->now_ms;
}

/* ---- posted work ---------------------------------------------------------------------------- */

static void wake(struct exporter_loop *loop)
{
    const uint64_t one = 1;
    ssize_t written;
    do {
        written = write(loop->wakeup.fd, &one, sizeof one);
    } while (written < 0 && errno == EINTR);
    /* EAGAIN means that the counter is full, so the loop is about to wake anyway. */
}

void exporter_loop_post(struct exporter_loop *loop, struct exporter_post *post, void (*fn)(void *),
                        void *arg)
{
    BASE_CHECK_MAGIC(loop, LOOP_MAGIC);
    post->fn = fn;
    post->arg = arg;
    struct exporter_post *head = atomic_load_explicit(&loop->posted, memory_order_relaxed);
    do {
        post->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&loop->posted, &head, post,
                                                    memory_order_release, memory_order_relaxed));
    if (head == NULL)
        wake(loop);
}

static struct exporter_post *take_posted(struct exporter_loop *loop)
{
    struct exporter_post *newest_first =
        atomic_exchange_explicit(&loop->posted, NULL, memory_order_acquire);
    struct exporter_post *oldest_first = NULL;
    while (newest_first != NULL) {
        struct exporter_post *next = newest_first->next;
        newest_first->next = oldest_first;
        oldest_first = newest_first;
        newest_first = next;
    }
    return oldest_first;
}

static void run_posted(struct exporter_loop *loop)
{
    struct exporter_post *post = take_posted(loop);
    while (post != NULL) {
        struct exporter_post *next = post->next; /* fn may free the post */
        post->fn(post->arg);
        post = next;
    }
}

static void clear_wakeup(void *arg)
{
    struct exporter_loop *loop = arg;
    uint64_t count;
    ssize_t got = read(loop->wakeup.fd, &count, sizeof count);
    (void)got; /* only there to be silent again; EAGAIN is as good */
    run_posted(loop);
}

void exporter_loop_stop(struct exporter_loop *loop)
{
    BASE_CHECK_MAGIC(loop, LOOP_MAGIC);
    atomic_store(&loop->stopping, true);
    wake(loop);
}

/* ---- making and freeing --------------------------------------------------------------------- */

struct exporter_loop *exporter_loop_new(const char *name)
{
    struct exporter_loop *loop = calloc(1, sizeof *loop);
    if (loop == NULL)
        return NULL;
    loop->magic = LOOP_MAGIC;
    loop->name = name;
    TAILQ_INIT(&loop->sources);
    TAILQ_INIT(&loop->timers);
    loop->now_ms = exporter_monotonic_ms();
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->wakeup = (struct exporter_source){.run = clear_wakeup, .arg = loop};
    loop->wakeup.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->epoll_fd < 0 || loop->wakeup.fd < 0 || !exporter_loop_add(loop, &loop->wakeup)) {
        int cause = errno;
        exporter_loop_free(&loop);
        errno = cause;
    }
    return loop;
}

void exporter_loop_free(struct exporter_loop **loop_pointer)
{
    struct exporter_loop *loop = *loop_pointer;
    if (loop == NULL)
        return;
    *loop_pointer = NULL;
    BASE_CHECK_MAGIC(loop, LOOP_MAGIC);
    if (loop->wakeup.fd >= 0)
        close(loop->wakeup.fd);
    if (loop->epoll_fd >= 0)
        close(loop->epoll_fd);
    loop->magic = 0;
    free(loop);
}

/* ---- sources -------------------------------------------------------------------------------- */

bool exporter_loop_add(struct exporter_loop *loop, struct exporter_source *source)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = source};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, source->fd, &event) != 0)
        return false;
    source->ready = false;
    source->due_ms = INT64_MAX;
    TAILQ_INSERT_TAIL(&loop->sources, source, entry);
    return true;
}

void exporter_loop_remove(struct exporter_loop *loop, struct exporter_source *source)
{
    if (loop->next_source == source)
        loop->next_source = TAILQ_NEXT(source, entry);
    epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
    TAILQ_REMOVE(&loop->sources, source, entry);
}

void exporter_source_wake(struct exporter_source *source)
{
    source->ready = true;
}

static void mark_ready(struct exporter_loop *loop, int timeout_ms)
{
    struct epoll_event events[EVENTS_PER_TURN];
    int count = epoll_wait(loop->epoll_fd, events, EVENTS_PER_TURN, timeout_ms);
    BASE_CHECK(count >= 0 || errno == EINTR);
    for (int i = 0; i < count; i++)
        ((struct exporter_source *)events[i].data.ptr)->ready = true;
    loop->now_ms = exporter_monotonic_ms();
}

/* Asked once more in its turn: what an earlier source did may have given it something to do, which
 * else would wait for the next look at the descriptors. */
static bool is_due(const struct exporter_loop *loop, const struct exporter_source *source)
{
    return source->ready || source->due_ms <= loop->now_ms ||
           (source->timeout_ms != NULL && source->timeout_ms(source->arg) == 0);
}

static void run_sources(struct exporter_loop *loop)
{
    loop->next_source = TAILQ_FIRST(&loop->sources);
    while (loop->next_source != NULL) {
        struct exporter_source *source = loop->next_source;
        loop->next_source = TAILQ_NEXT(source, entry);
        if (is_due(loop, source)) {
            source->ready = false;
            source->run(source->arg);
        }
    }
}

/* ---- timers --------------------------------------------------------------------------------- */

void exporter_timer_stop(struct exporter_loop *loop, struct exporter_timer *timer)
{
    if (timer->armed)
        TAILQ_REMOVE(&loop->timers, timer, entry);
    timer->armed = false;
}

void exporter_timer_start(struct exporter_loop *loop, struct exporter_timer *timer,
                          int64_t delay_ms)
{
    exporter_timer_stop(loop, timer);
    timer->due_ms = exporter_monotonic_ms() + (delay_ms > 0 ? delay_ms : 1);
    timer->armed = true;
    struct exporter_timer *before;
    TAILQ_FOREACH_REVERSE(before, &loop->timers, exporter_timers, entry)
    {
        if (before->due_ms <= timer->due_ms)
            break;
    }
    if (before != NULL)
        TAILQ_INSERT_AFTER(&loop->timers, before, timer, entry);
    else
        TAILQ_INSERT_HEAD(&loop->timers, timer, entry);
}

/* A timer that is armed again while this runs waits for the next turn: due_ms is a millisecond away
 * at least. */
static void fire_timers(struct exporter_loop *loop)
{
    const int64_t until = loop->now_ms;
    struct exporter_timer *timer;
    while ((timer = TAILQ_FIRST(&loop->timers)) != NULL && timer->due_ms <= until) {
        exporter_timer_stop(loop, timer);
        timer->fire(timer->arg);
    }
}

/* ---- a turn --------------------------------------------------------------------------------- */

/* How long this turn may sleep; notes on the way when each source is due. */
static int sleep_ms(struct exporter_loop *loop)
{
    const int64_t now = exporter_monotonic_ms();
    int64_t wake_at = INT64_MAX;
    const struct exporter_timer *timer = TAILQ_FIRST(&loop->timers);
    if (timer != NULL)
        wake_at = timer->due_ms;
    struct exporter_source *source;
    TAILQ_FOREACH (source, &loop->sources, entry) {
        int64_t wait = source->timeout_ms != NULL ? source->timeout_ms(source->arg) : -1;
        if (source->ready)
            wait = 0;
        source->due_ms = wait < 0 ? INT64_MAX : now + wait;
        if (source->due_ms < wake_at)
            wake_at = source->due_ms;
    }
    if (wake_at == INT64_MAX)
        return -1;
    if (wake_at <= now)
        return 0;
    return wake_at - now > INT_MAX ? INT_MAX : (int)(wake_at - now);
}

void exporter_loop_run(struct exporter_loop *loop)
{
    BASE_CHECK_MAGIC(loop, LOOP_MAGIC);
    while (!atomic_load(&loop->stopping)) {
        mark_ready(loop, sleep_ms(loop));
        run_sources(loop);
        fire_timers(loop);
    }
    run_posted(loop);
}

void exporter_loop_settle(struct exporter_loop *loop)
{
    BASE_CHECK_MAGIC(loop, LOOP_MAGIC);
    run_posted(loop);
}
