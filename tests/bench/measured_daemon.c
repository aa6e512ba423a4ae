/* SPDX-License-Identifier: Apache-2.0 */
/* wraps: collectors_observe */
/*
 * The daemon, with a clock around its observer: what share of its CPU time does measuring take?
 *
 * Every event of the client goes through one function, so the linker puts ours in its place, which
 * calls the real one and adds up what it took. Comparing a daemon that measures with one that does
 * not would need a machine that is quiet to a percent; this needs none. A thread that loses its
 * core in the middle counts the waiting too, so the share that is told is an upper bound.
 *
 * usage: measured_daemon OPTIONS...     (those of handoff-exporter); the last line on stderr is
 *        observing events=N ns=N clock_ns=N cpu_ns=N
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "client/handoff.h"
#include "exporter/lifecycle.h"
#include "exporter/log/log.h"
#include "exporter/options.h"

enum { CLOCK_CALLS = 100000 };

static _Atomic(uint64_t) events, spent_ns;

void __real_collectors_observe(void *observer, const struct handoff_event *event);
void __wrap_collectors_observe(void *observer, const struct handoff_event *event);

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void __wrap_collectors_observe(void *observer, const struct handoff_event *event)
{
    const uint64_t begun = now_ns(CLOCK_MONOTONIC);
    __real_collectors_observe(observer, event);
    atomic_fetch_add_explicit(&spent_ns, now_ns(CLOCK_MONOTONIC) - begun, memory_order_relaxed);
    atomic_fetch_add_explicit(&events, 1, memory_order_relaxed);
}

/* What one look at the clock adds to what it measures. */
static uint64_t clock_cost_ns(void)
{
    const uint64_t begun = now_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < CLOCK_CALLS; i++)
        now_ns(CLOCK_MONOTONIC);
    return (now_ns(CLOCK_MONOTONIC) - begun) / CLOCK_CALLS;
}

int main(int argc, char *argv[])
{
    struct exporter_options options;
    struct exporter_error error;
    if (!exporter_options_parse(argc, argv, &options, &error)) {
        fprintf(stderr, "measured_daemon: %s\n", error.text);
        return EXPORTER_EXIT_FAILED;
    }
    const struct exporter_log_setup setup = {
        .fd = STDERR_FILENO, .level = options.log_level, .format = options.log_format};
    exporter_log_setup(&setup);
    const int status = exporter_run(&options, "");
    fprintf(stderr, "observing events=%llu ns=%llu clock_ns=%llu cpu_ns=%llu\n",
            (unsigned long long)events, (unsigned long long)spent_ns,
            (unsigned long long)clock_cost_ns(),
            (unsigned long long)now_ns(CLOCK_PROCESS_CPUTIME_ID));
    return status;
}
