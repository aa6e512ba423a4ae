/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lifecycle.h - the daemon from its first listener to its last answer.
 *
 * exporter_run() is the daemon; the rest is what routes ask of it.
 */
#ifndef EXPORTER_LIFECYCLE_H
#define EXPORTER_LIFECYCLE_H

#include "exporter/error.h"
#include "exporter/loop.h"
#include "exporter/options.h"

/* Loads, listens, serves, drains. Answers the exit code; what went wrong is logged. `revision` of
 * the source, for the metrics; "" when it is not known. */
int exporter_run(const struct exporter_options *options, const char *revision);

struct exporter_lifecycle;

/* Any thread. */
bool exporter_lifecycle_is_serving(const struct exporter_lifecycle *lifecycle);

/* A reload that somebody waits for. */
struct exporter_reload {
    struct exporter_loop *loop; /* where `done` runs */
    void (*done)(struct exporter_reload *reload);
    void *arg;
    /* set before done */
    bool ok;
    struct exporter_error error;
    /* the lifecycle's own */
    struct exporter_lifecycle *lifecycle;
    struct exporter_post post;
};

/* Any thread. `reload` stays alive until done() was called, which always happens. */
void exporter_lifecycle_reload(struct exporter_lifecycle *lifecycle,
                               struct exporter_reload *reload);

#endif
