/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - a line on a terminal's stderr: "replayed 120 of 300 (40 %), 12 s left". One thread.
 */
#ifndef CTL_PROGRESS_H
#define CTL_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

struct ctl_progress {
    const char *verb;
    size_t first; /* done when it was first drawn */
    int64_t started_ms;
};

/* Its first drawing, without the time left, which is not known yet. */
struct ctl_progress ctl_progress_begin(const char *verb, size_t done, size_t total);
void ctl_progress_draw(const struct ctl_progress *progress, size_t done, size_t total);
void ctl_progress_end(void);

#endif
