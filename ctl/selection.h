/* SPDX-License-Identifier: Apache-2.0 */
/* selection.h - the parked handoffs that a decision about many is for. One thread. */
#ifndef CTL_SELECTION_H
#define CTL_SELECTION_H

#include <stdint.h>
#include <yyjson.h>

#include "ctl/command_line.h"

/* {"items": [handoffs, in the order of their acceptance], "next": null}. `cause`: parked for this
 * reason; NULL: any. `limit`: at most so many; 0: all. NULL with *code set, after the reason was
 * reported; the caller frees it. */
yyjson_doc *ctl_select_parked(const struct ctl_line *line, const char *target, const char *cause,
                              size_t limit, int *code);

/* Says on stderr which of those before are still parked, each with its id and why. Returns how
 * many. `why`: what is known of all of them. */
size_t ctl_report_left(const struct ctl_line *line, yyjson_val *before, yyjson_val *after,
                       const char *why);

/* A line on a terminal's stderr: "replayed 120 of 300 (40 %), 12 s left". */
struct ctl_progress {
    const char *verb;
    size_t total;
    int64_t started_ms;
};
struct ctl_progress ctl_progress_begin(const char *verb, size_t total);
void ctl_progress_draw(const struct ctl_progress *progress, size_t done);
void ctl_progress_end(void);

#endif
