/* SPDX-License-Identifier: Apache-2.0 */
/* A thread for a loop. Signals are blocked before the first one starts: the control loop has them.
 */
#include "exporter/http/worker.h"

#include <errno.h>
#include <string.h>

#include "lib/base/serving.h"

bool exporter_worker_prepare(struct exporter_worker *worker, const char *name,
                             struct exporter_error *error)
{
    worker->name = name;
    worker->loop = exporter_loop_new(name);
    if (worker->loop == NULL)
        exporter_error_set(error, "cannot make the %s loop: %s", name, strerror(errno));
    return worker->loop != NULL;
}

static void *run(void *arg)
{
    struct exporter_worker *worker = arg;
    base_thread_serves();
    exporter_loop_run(worker->loop);
    return NULL;
}

bool exporter_worker_start(struct exporter_worker *worker, struct exporter_error *error)
{
    int cause = pthread_create(&worker->thread, NULL, run, worker);
    worker->running = cause == 0;
    if (worker->running)
        pthread_setname_np(worker->thread, worker->name);
    else
        exporter_error_set(error, "cannot start the %s thread: %s", worker->name, strerror(cause));
    return worker->running;
}

void exporter_worker_join(struct exporter_worker *worker)
{
    if (!worker->running)
        return;
    exporter_loop_stop(worker->loop);
    pthread_join(worker->thread, NULL);
    worker->running = false;
}

void exporter_worker_free(struct exporter_worker *worker)
{
    exporter_worker_join(worker);
    exporter_loop_free(&worker->loop);
}
