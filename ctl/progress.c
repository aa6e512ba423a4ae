/* SPDX-License-Identifier: Apache-2.0 */
/* Progress on a terminal; see progress.h. One thread. */
#include "ctl/progress.h"

#include <stdio.h>
#include <time.h>

#include "ctl/terminal.h"

static int64_t monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct ctl_progress ctl_progress_begin(const char *verb, size_t done, size_t total)
{
    const struct ctl_progress progress = {
        .verb = verb, .first = done, .started_ms = monotonic_ms()};
    ctl_progress_draw(&progress, done, total);
    return progress;
}

void ctl_progress_draw(const struct ctl_progress *progress, size_t done, size_t total)
{
    if (!ctl_on_terminal(stderr))
        return;
    const int64_t took_ms = monotonic_ms() - progress->started_ms;
    const size_t left = total > done ? total - done : 0;
    ctl_line_over(stderr);
    fprintf(stderr, "%s %zu of %zu", progress->verb, done, total);
    if (total > 0)
        fprintf(stderr, " (%zu %%)", 100 * done / total);
    if (done > progress->first)
        fprintf(stderr, ", %lld s left",
                (long long)(took_ms * (int64_t)left / (int64_t)(done - progress->first) / 1000));
    fflush(stderr);
}

void ctl_progress_end(void)
{
    if (ctl_on_terminal(stderr))
        fputc('\n', stderr);
}
