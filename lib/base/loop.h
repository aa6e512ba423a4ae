/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.h - one thread, one epoll instance, and everything that is driven there.
 *
 *     watches   a descriptor, and what to call when it is ready       loop->poller, poller.h
 *     timers    what to call at a time                                loop->timers, timers.h
 *     mail      what other threads want done here                     base_loop_post, mailbox.h
 *     sources   a library that has an epoll instance and a time-out   base_loop_add
 *     guests    a part that collects work in a turn and finishes it   base_loop_invite
 *               at the turn's end
 *
 * A thread either runs the loop (base_loop_run), or watches base_loop_fd in a loop that is not
 * ours, sleeps no longer than base_loop_wait_ms, and calls base_loop_turn(loop, 0).
 *
 * Nothing here allocates: everything is embedded in its owner, which keeps it alive until it is
 * removed, has fired, or was delivered. So starting a timer, posting and waking cannot fail.
 *
 * Threads: base_loop_post, base_loop_stop and base_loop_longest_turn_ns from anywhere; all else on
 * the loop's thread, or while no thread runs the loop.
 */
#ifndef BASE_LOOP_H
#define BASE_LOOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "lib/base/clock.h"
#include "lib/base/handoff_error.h"
#include "lib/base/mailbox.h"
#include "lib/base/poller.h"
#include "lib/base/timers.h"
#include "lib/base/turns.h"

/* A library with an epoll instance of its own, as libmicrohttpd is. */
struct base_source {
    /* How long the loop may sleep before run() is due even if the descriptor stays silent: -1 for
       ever. NULL: always that. */
    int64_t (*wait_ms)(struct base_source *source);
    void (*run)(struct base_source *source);
    /* the loop's */
    struct base_watch watch;
    int fd;
    int64_t due_ms;
    bool ready;
    TAILQ_ENTRY(base_source) entry;
};

/* A part of the program that has work at fixed places of every turn. */
struct base_guest {
    int64_t (*wait_ms)(struct base_guest *guest); /* -1: it has nothing to do before it is called */
    void (*settle)(struct base_guest *guest);     /* after watches, mail and timers */
    void (*finish)(struct base_guest *guest);     /* at the end, after the sources */
    TAILQ_ENTRY(base_guest) entry;                /* the loop's */
};

struct base_loop {
    unsigned magic;
    struct base_mailbox mailbox; /* any thread posts, the loop's runs */
    atomic_bool stopping;        /* any thread */
    struct base_turns turns;     /* the loop's writes, any reads */
    /* the loop's thread: */
    const struct base_clock *clock;
    struct base_poller poller;
    struct base_watch mail;
    struct base_timers timers; /* in milliseconds of base_loop_now_ms */
    TAILQ_HEAD(base_sources, base_source) sources;
    struct base_source *next_source; /* to run in this turn, so that any may be removed */
    TAILQ_HEAD(base_guests, base_guest) guests;
};

enum handoff_code base_loop_init(struct base_loop *loop, const struct base_clock *clock,
                                 struct handoff_error *error) HANDOFF_MUST_CHECK;
/* It has no mail, sources or guests any more. Harmless on a zeroed one. */
void base_loop_free(struct base_loop *loop);

/* Runs until base_loop_stop. Mail that was posted before the stop is still delivered. */
void base_loop_run(struct base_loop *loop);
void base_loop_stop(struct base_loop *loop);
/* One turn, which waits for something to do, but no longer than at_most_ms (-1: for ever). */
void base_loop_turn(struct base_loop *loop, int64_t at_most_ms);
/* Delivers the mail there is, for a loop that has ended. Harmless on a zeroed one. */
void base_loop_settle(struct base_loop *loop);

/* For a host with another kind of loop: readable when there may be something to do, and how long
   until something is due (-1: for ever). */
static inline int base_loop_fd(const struct base_loop *loop)
{
    return loop->poller.fd;
}
int64_t base_loop_wait_ms(struct base_loop *loop);

/* Monotonic, read now. */
static inline int64_t base_loop_now_ms(const struct base_loop *loop)
{
    return base_monotonic_ms(loop->clock);
}

/* How long its longest turn of the last minute or two took, the one in progress included. Any
 * thread. */
static inline int64_t base_loop_longest_turn_ns(const struct base_loop *loop)
{
    return base_turns_longest(&loop->turns, base_monotonic_ns(loop->clock));
}

/* The mail will be delivered on the loop's thread, in the order of posting. */
static inline void base_loop_post(struct base_loop *loop, struct base_mail *mail)
{
    base_mailbox_post(&loop->mailbox, mail);
}

/* Starts the timer, or moves it; a delay that is not positive makes it due in the next turn. */
static inline void base_loop_start_timer(struct base_loop *loop, struct base_timer *timer,
                                         int64_t delay_ms)
{
    base_timers_start(&loop->timers, timer, base_loop_now_ms(loop) + (delay_ms > 0 ? delay_ms : 0));
}

/* Watches the library's descriptor and drives the source, after those that were added before.
   Returns 0, or an errno value. */
int base_loop_add(struct base_loop *loop, struct base_source *source, int fd) HANDOFF_MUST_CHECK;
/* Harmless on a source that is not added. */
void base_loop_remove(struct base_loop *loop, struct base_source *source);
/* run() is called in this turn, or the next if it has been called in this one, whatever the
   descriptor and the time-out say. */
static inline void base_source_wake(struct base_source *source)
{
    source->ready = true;
}

/* Neither of them from within a turn. */
void base_loop_invite(struct base_loop *loop, struct base_guest *guest);
void base_loop_dismiss(struct base_loop *loop, struct base_guest *guest);

#endif
