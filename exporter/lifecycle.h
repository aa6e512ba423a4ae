/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lifecycle.h - the daemon from its first listener to its last answer.
 *
 * exporter_run() is the daemon; the rest is what routes ask of it.
 */
#ifndef EXPORTER_LIFECYCLE_H
#define EXPORTER_LIFECYCLE_H

#include "exporter/error.h"
#include "exporter/options.h"
#include "lib/base/loop.h"

/* Loads, listens, serves, drains. Answers the exit code; what went wrong is logged. `revision` of
 * the source, for the metrics; "" when it is not known. */
int exporter_run(const struct exporter_options *options, const char *revision);

struct exporter_lifecycle;

/* HANDOFF_OK: new handoffs are taken. Else `why` says why not. Any thread. */
enum handoff_code exporter_lifecycle_ready(const struct exporter_lifecycle *lifecycle,
                                           struct exporter_error *why);

/* The state of the process. */
struct exporter_lifecycle_state {
    const char *revision; /* "" when it is not known */
    int64_t started_ms;   /* wall clock */
    int64_t uptime_ms;    /* by the monotonic clock */
    int64_t config_ms;    /* when the current configuration was read; wall clock */
    bool config_refused;  /* a later one was not good */
    bool draining;
    /* from the configuration, until the next one; NULL: none */
    const char *dashboard_url, *api_url;
    const char *api_address; /* that was bound, the real port included */
    bool api_is_local;       /* only this machine can reach it */
};

/* On the control thread. */
void exporter_lifecycle_look(const struct exporter_lifecycle *lifecycle,
                             struct exporter_lifecycle_state *state);

struct exporter_windows;
/* What the rules of the status page look at. On the control thread. */
struct exporter_windows *exporter_lifecycle_windows(struct exporter_lifecycle *lifecycle);

/* Has the mail delivered on the control thread, which may block. Any thread. */
void exporter_lifecycle_post(struct exporter_lifecycle *lifecycle, struct base_mail *mail);

/* A reload that a caller waits for. */
struct exporter_reload {
    struct base_loop *loop; /* where `done` runs */
    void (*done)(struct exporter_reload *reload);
    void *arg;
    /* set before done */
    bool ok;
    struct exporter_error error;
    /* the lifecycle's own */
    struct exporter_lifecycle *lifecycle;
    struct base_mail mail;
};

/* Any thread. `reload` stays alive until done() was called, which always happens. */
void exporter_lifecycle_reload(struct exporter_lifecycle *lifecycle,
                               struct exporter_reload *reload);

#endif
