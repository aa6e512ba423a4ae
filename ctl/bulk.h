/* SPDX-License-Identifier: Apache-2.0 */
/* bulk.h - one decision about all parked handoffs that the options of a command line select. One
 * thread. */
#ifndef CTL_BULK_H
#define CTL_BULK_H

#include "client/handoff.h"
#include "ctl/command_line.h"

/* What a command calls the options whose names differ. */
struct ctl_bulk {
    enum handoff_action action; /* REPLAY or DISCARD */
    const char *cause, *why;    /* the filter by reason; the reason of the decision */
    const char *to;             /* NULL: it has none */
    long rate;                  /* a second, unless --rate says otherwise */
};

/* Whether an option selects handoffs, or all of them. */
bool ctl_bulk_selects(const struct ctl_line *line, const struct ctl_bulk *bulk);
/* Previews with --dry-run; else begins a job of the sidecar, and follows it to its end. Returns the
 * exit code. */
int ctl_bulk(const struct ctl_line *line, const struct ctl_bulk *bulk);

#endif
