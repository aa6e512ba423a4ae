/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What orchestrators and operators ask of the process. A reload reads files, so it runs on the
 * control loop while this request sleeps; the job outlives a request that is cancelled by a stop.
 */
#include "exporter/routes/lifecycle.h"

#include <stdlib.h>
#include <string.h>

#include "exporter/http/problem.h"
#include "exporter/lifecycle.h"

static void respond_plain(struct exporter_request *request, unsigned status, const char *text)
{
    const struct exporter_reply reply = {
        .status = status,
        .content_type = "text/plain; charset=utf-8",
        .bytes = text,
        .length = strlen(text),
        .body = EXPORTER_BODY_COPY,
    };
    exporter_respond(request, &reply);
}

void exporter_route_healthy(struct exporter_request *request, void *context)
{
    (void)context;
    respond_plain(request, 200, "handoff-exporter is healthy.\n");
}

void exporter_route_ready(struct exporter_request *request, void *context)
{
    struct exporter_error why;
    const struct exporter_problem problem = {.code = exporter_lifecycle_ready(context, &why),
                                             .detail = why.text};
    if (problem.code == HANDOFF_OK)
        respond_plain(request, 200, "handoff-exporter is ready.\n");
    else
        exporter_respond_problem(request, &problem);
}

struct reload_job {
    struct exporter_reload reload;
    struct exporter_request *request; /* NULL once it was cancelled */
};

static void reload_cancelled(void *arg)
{
    struct reload_job *job = arg;
    job->request = NULL;
}

static void respond_reload(struct exporter_request *request, const struct exporter_reload *reload)
{
    const struct exporter_problem problem = {.code = HANDOFF_ERR_RELOAD_FAILED,
                                             .detail = reload->error.text};
    if (reload->ok)
        respond_plain(request, 200, "The configuration was reloaded.\n");
    else
        exporter_respond_problem(request, &problem);
}

static void reload_done(struct exporter_reload *reload)
{
    struct reload_job *job = reload->arg;
    if (job->request != NULL)
        respond_reload(job->request, reload);
    free(job);
}

void exporter_route_reload(struct exporter_request *request, void *context)
{
    static const struct exporter_problem no_memory = {.code = HANDOFF_ERR_OUT_OF_MEMORY,
                                                      .detail = "out of memory (reload)"};
    struct reload_job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        exporter_respond_problem(request, &no_memory);
        return;
    }
    job->request = request;
    job->reload.loop = exporter_request_loop(request);
    job->reload.done = reload_done;
    job->reload.arg = job;
    exporter_request_defer(request, reload_cancelled, job);
    exporter_lifecycle_reload(context, &job->reload);
}
