/* SPDX-License-Identifier: Apache-2.0 */
/* worker.h - a thread that does nothing but run one loop. */
#ifndef EXPORTER_HTTP_WORKER_H
#define EXPORTER_HTTP_WORKER_H

#include <pthread.h>
#include <stdbool.h>

#include "exporter/error.h"
#include "lib/base/loop.h"

struct exporter_worker {
    struct base_loop loop; /* made by prepare, so that sources can be added before the start */
    const char *name;
    pthread_t thread;
    bool running;
};

/* A loop on the system's clock; `name` is for the error. */
bool exporter_loop_prepare(struct base_loop *loop, const char *name, struct exporter_error *error);

/* `name` is static text of at most 15 bytes, which is what the kernel keeps. */
bool exporter_worker_prepare(struct exporter_worker *worker, const char *name,
                             struct exporter_error *error);
bool exporter_worker_start(struct exporter_worker *worker, struct exporter_error *error);
/* Ends the loop and waits for its thread; the loop stays, for who still has things on it. */
void exporter_worker_join(struct exporter_worker *worker);
void exporter_worker_free(struct exporter_worker *worker);

#endif
