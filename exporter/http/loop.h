/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.h - one thread, one epoll instance, any number of things to drive.
 *
 * Each thread of the daemon runs one loop. A loop drives sources (a descriptor and what to run
 * when it is readable), timers, and work that other threads post to it. A library that keeps an
 * epoll descriptor of its own, as libmicrohttpd does, is one source: its descriptor is watched, its
 * time-out is asked for before every wait, its run call is made when either comes due.
 *
 * Threads: exporter_loop_post() and exporter_loop_stop() may be called from anywhere; everything
 * else only from the loop's own thread, or while the loop does not run.
 */
#ifndef EXPORTER_HTTP_LOOP_H
#define EXPORTER_HTTP_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct exporter_loop;

/* NULL with errno set. `name` is static text; it names the thread in ps and gdb. */
struct exporter_loop *exporter_loop_new(const char *name);
void exporter_loop_free(struct exporter_loop **loop);

/* Runs until exporter_loop_stop(). What was posted before the stop is still run. */
void exporter_loop_run(struct exporter_loop *loop);
void exporter_loop_stop(struct exporter_loop *loop);
/* Runs what was posted and is not yet run, on the calling thread; for a loop that has ended, or
 * that was never run. */
void exporter_loop_settle(struct exporter_loop *loop);

/* The monotonic clock in milliseconds, as it was when the current turn of the loop began. */
int64_t exporter_loop_now_ms(const struct exporter_loop *loop);
/* The same clock, read now. */
int64_t exporter_monotonic_ms(void);

/* ---- sources: embedded in their owner, who keeps them alive until they are removed ---------- */

struct exporter_source {
    int fd;
    /* How long the loop may sleep before run() is due even if fd stays silent: -1 for ever. May be
     * NULL. Asked before every wait. */
    int64_t (*timeout_ms)(void *arg);
    void (*run)(void *arg);
    void *arg;
    /* the loop's own */
    TAILQ_ENTRY(exporter_source) entry;
    int64_t due_ms;
    bool ready;
};

/* false with errno set. */
bool exporter_loop_add(struct exporter_loop *loop, struct exporter_source *source);
void exporter_loop_remove(struct exporter_loop *loop, struct exporter_source *source);
/* run() is called soon, without the descriptor or the time-out having a say. */
void exporter_source_wake(struct exporter_source *source);

/* ---- timers: embedded; zero one before its first use ---------------------------------------- */

struct exporter_timer {
    void (*fire)(void *arg);
    void *arg;
    /* the loop's own */
    TAILQ_ENTRY(exporter_timer) entry;
    int64_t due_ms;
    bool armed;
};

/* Arms the timer, or moves it where it was armed. It fires once. */
void exporter_timer_start(struct exporter_loop *loop, struct exporter_timer *timer,
                          int64_t delay_ms);
void exporter_timer_stop(struct exporter_loop *loop, struct exporter_timer *timer);

/* ---- posted work: embedded; the poster keeps it alive until fn was entered ------------------ */

struct exporter_post {
    struct exporter_post *next;
    void (*fn)(void *arg);
    void *arg;
};

/* fn(arg) will run on the loop's thread, in the order of posting. */
void exporter_loop_post(struct exporter_loop *loop, struct exporter_post *post, void (*fn)(void *),
                        void *arg);

#endif
