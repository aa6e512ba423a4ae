/* SPDX-License-Identifier: Apache-2.0 */
/* A thread for a loop. Signals are blocked before the first one starts: the control loop has them.
 */
#include "exporter/http/worker.h"

#include <string.h>

#include "lib/base/serving.h"

bool exporter_loop_prepare(struct base_loop *loop, const char *name, struct exporter_error *error)
{
    struct handoff_error why;
    char text[sizeof error->text / 2];
    if (base_loop_init(loop, &base_clock_system, &why) == HANDOFF_OK)
        return true;
    handoff_error_text(&why, text, sizeof text);
    exporter_error_set(error, "cannot create the %s loop: %s", name, text);
    return false;
}

bool exporter_worker_prepare(struct exporter_worker *worker, const char *name,
                             struct exporter_error *error)
{
    worker->name = name;
    return exporter_loop_prepare(&worker->loop, name, error);
}

static void *run_worker(void *arg)
{
    struct exporter_worker *worker = arg;
    base_thread_serves();
    base_loop_run(&worker->loop);
    return NULL;
}

bool exporter_worker_start(struct exporter_worker *worker, struct exporter_error *error)
{
    int cause = pthread_create(&worker->thread, NULL, run_worker, worker);
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
    base_loop_stop(&worker->loop);
    pthread_join(worker->thread, NULL);
    worker->running = false;
}

void exporter_worker_free(struct exporter_worker *worker)
{
    exporter_worker_join(worker);
    base_loop_free(&worker->loop);
}
