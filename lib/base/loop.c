/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop of every thread that has one, on that thread.
 *
 * A turn: ask what is due how long it can wait, sleep in epoll_wait, call the watches that are
 * ready (one of them delivers the mail), then the timers, then let the guests settle, run the
 * sources that are ready or due, and let the guests finish. The order saves turns: what a socket, a
 * mail or a timer leads to is settled before libmicrohttpd runs, so that an answer leaves in the
 * turn in which it was known; and what its requests ask of the store is finished, as one batch, in
 * the turn in which they came.
 *
 * A turn always ends: each part that is called may give work to the others, but mail, timers and
 * sources that were already served in this turn get it in the next one.
 */
#include "lib/base/loop.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/epoll.h>

#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"

enum { MAGIC = 0x6c6f6f70u };

/* One mail may begin an attempt, which takes some 20 us; a commit can bring a thousand. */
enum { MAIL_IN_TURN = 64 };

static void mail_arrived(struct base_watch *watch, uint32_t events)
{
    (void)events;
    struct base_loop *loop = BASE_CONTAINER_OF(watch, struct base_loop, mail);
    BASE_CHECK_MAGIC(loop, MAGIC);
    base_mailbox_run_some(&loop->mailbox, MAIL_IN_TURN);
}

static enum handoff_code watch_mail(struct base_loop *loop, struct handoff_error *error)
{
    loop->mail.ready = mail_arrived;
    int failed =
        base_poller_add(&loop->poller, base_mailbox_fd(&loop->mailbox), EPOLLIN, &loop->mail);
    if (failed == 0)
        return HANDOFF_OK;
    return handoff_error_set(error, HANDOFF_ERR_OUT_OF_MEMORY, "out of kernel memory (event loop)",
                             "epoll", strerror(failed));
}

enum handoff_code base_loop_init(struct base_loop *loop, const struct base_clock *clock,
                                 struct handoff_error *error)
{
    *loop = (struct base_loop){.clock = clock};
    TAILQ_INIT(&loop->sources);
    TAILQ_INIT(&loop->guests);
    enum handoff_code code = base_poller_init(&loop->poller, error);
    if (code == HANDOFF_OK)
        code = base_mailbox_init(&loop->mailbox, error);
    if (code == HANDOFF_OK)
        code = watch_mail(loop, error);
    loop->magic = MAGIC;
    if (code != HANDOFF_OK)
        base_loop_free(loop);
    return code;
}

void base_loop_free(struct base_loop *loop)
{
    if (!loop->magic)
        return;
    BASE_CHECK_MAGIC(loop, MAGIC);
    BASE_CHECK(TAILQ_EMPTY(&loop->sources) && TAILQ_EMPTY(&loop->guests));
    base_mailbox_free(&loop->mailbox);
    base_poller_free(&loop->poller);
    loop->magic = 0;
}

/* ---- sources and guests --------------------------------------------------------------------- */

static void source_ready(struct base_watch *watch, uint32_t events)
{
    (void)events;
    BASE_CONTAINER_OF(watch, struct base_source, watch)->ready = true;
}

int base_loop_add(struct base_loop *loop, struct base_source *source, int fd)
{
    source->watch.ready = source_ready;
    source->ready = false;
    source->due_ms = INT64_MAX;
    int failed = base_poller_add(&loop->poller, fd, EPOLLIN, &source->watch);
    if (failed)
        return failed;
    source->fd = fd;
    TAILQ_INSERT_TAIL(&loop->sources, source, entry);
    return 0;
}

void base_loop_remove(struct base_loop *loop, struct base_source *source)
{
    if (!source->entry.tqe_prev)
        return;
    if (loop->next_source == source)
        loop->next_source = TAILQ_NEXT(source, entry);
    base_poller_forget(&loop->poller, source->fd, &source->watch);
    TAILQ_REMOVE(&loop->sources, source, entry);
    source->entry.tqe_prev = NULL;
}

void base_loop_invite(struct base_loop *loop, struct base_guest *guest)
{
    TAILQ_INSERT_TAIL(&loop->guests, guest, entry);
}

void base_loop_dismiss(struct base_loop *loop, struct base_guest *guest)
{
    TAILQ_REMOVE(&loop->guests, guest, entry);
}

/* ---- a turn --------------------------------------------------------------------------------- */

static int64_t sooner(int64_t a, int64_t b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* Notes when it is due on the way. */
static int64_t source_wait_ms(struct base_source *source, int64_t now_ms)
{
    if (source->ready)
        return 0;
    int64_t wait = source->wait_ms ? source->wait_ms(source) : -1;
    source->due_ms = wait < 0 ? INT64_MAX : now_ms + wait;
    return wait;
}

int64_t base_loop_wait_ms(struct base_loop *loop)
{
    const int64_t now_ms = base_loop_now_ms(loop);
    int64_t wait = base_timers_wait_ms(&loop->timers, now_ms);
    struct base_source *source;
    TAILQ_FOREACH (source, &loop->sources, entry) {
        wait = sooner(wait, source_wait_ms(source, now_ms));
    }
    struct base_guest *guest;
    TAILQ_FOREACH (guest, &loop->guests, entry) {
        wait = sooner(wait, guest->wait_ms(guest));
    }
    return wait;
}

/* The time-out is asked for once more: what was done in this turn may have given it something to
 * do, which else would wait for the next one. */
static bool is_due(struct base_source *source, int64_t now_ms)
{
    return source->ready || source->due_ms <= now_ms ||
           (source->wait_ms && source->wait_ms(source) == 0);
}

static void run_sources(struct base_loop *loop, int64_t now_ms)
{
    loop->next_source = TAILQ_FIRST(&loop->sources);
    while (loop->next_source) {
        struct base_source *source = loop->next_source;
        loop->next_source = TAILQ_NEXT(source, entry);
        if (is_due(source, now_ms)) {
            source->ready = false;
            source->due_ms = INT64_MAX;
            source->run(source);
        }
    }
}

static int timeout_of(int64_t wait_ms)
{
    if (wait_ms < 0)
        return -1;
    return wait_ms < INT_MAX ? (int)wait_ms : INT_MAX;
}

void base_loop_turn(struct base_loop *loop, int64_t at_most_ms)
{
    BASE_CHECK_MAGIC(loop, MAGIC);
    struct epoll_event ready[BASE_POLLER_BATCH];
    const int count = base_poller_wait(&loop->poller, ready,
                                       timeout_of(sooner(base_loop_wait_ms(loop), at_most_ms)));
    base_turns_begin(&loop->turns, base_monotonic_ns(loop->clock));
    base_poller_dispatch(&loop->poller, ready, count);
    const int64_t now_ms = base_loop_now_ms(loop);
    base_timers_run(&loop->timers, now_ms);
    struct base_guest *guest;
    TAILQ_FOREACH (guest, &loop->guests, entry) {
        guest->settle(guest);
    }
    run_sources(loop, now_ms);
    TAILQ_FOREACH (guest, &loop->guests, entry) {
        guest->finish(guest);
    }
    base_turns_end(&loop->turns, base_monotonic_ns(loop->clock));
}

void base_loop_run(struct base_loop *loop)
{
    while (!atomic_load(&loop->stopping))
        base_loop_turn(loop, -1);
    base_loop_settle(loop);
}

void base_loop_stop(struct base_loop *loop)
{
    BASE_CHECK_MAGIC(loop, MAGIC);
    atomic_store(&loop->stopping, true);
    base_mailbox_wake(&loop->mailbox);
}

void base_loop_settle(struct base_loop *loop)
{
    if (loop->magic)
        base_mailbox_run(&loop->mailbox);
}
