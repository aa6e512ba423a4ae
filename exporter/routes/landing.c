/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The status page. What is parked is read from the disk, so the page is made on the control loop
 * while its request sleeps; the web loop only sends it. The job outlives a request that is
 * cancelled by a stop.
 */
#include "exporter/routes/landing.h"

#include <stdlib.h>
#include <string.h>

#include "exporter/http/problem.h"
#include "exporter/lifecycle.h"
#include "exporter/status/review_link.h"
#include "exporter/status/status.h"
#include "exporter/status/status_json.h"
#include "exporter/status/status_page.h"
#include "lib/base/container.h"

struct landing_job {
    struct exporter_request *request; /* NULL once it was cancelled; the web loop's */
    const struct exporter_landing *landing;
    struct base_loop *loop;
    bool json;
    char host[256]; /* by which the reader came; "" if it does not fit */
    struct base_mail mail;
    /* set on the control loop, then handed back */
    char *bytes; /* NULL: out of memory */
    size_t length;
};

static const struct exporter_problem no_memory = {.code = HANDOFF_ERR_OUT_OF_MEMORY,
                                                  .detail = "out of memory (page)"};

void exporter_respond_page(struct exporter_request *request, const char *policy,
                           const char *content_type, const void *bytes, size_t length)
{
    const struct exporter_reply reply = {
        .status = 200,
        .content_type = content_type,
        .headers = {{"Content-Security-Policy", policy},
                    {"X-Content-Type-Options", "nosniff"},
                    {"Referrer-Policy", "no-referrer"},
                    {"Cache-Control", "no-store"}},
        .bytes = bytes,
        .length = length,
        .body = EXPORTER_BODY_GIVEN,
    };
    if (bytes != NULL)
        exporter_respond(request, &reply);
    else
        exporter_respond_problem(request, &no_memory);
}

/* On the web loop. */
static void answer_landing(struct base_mail *mail)
{
    struct landing_job *job = BASE_CONTAINER_OF(mail, struct landing_job, mail);
    if (job->request != NULL)
        exporter_respond_page(job->request, job->landing->policy,
                              job->json ? "application/json" : "text/html; charset=utf-8",
                              job->bytes, job->length);
    else
        free(job->bytes);
    free(job);
}

/* On the control loop. */
static void make_page(struct base_mail *mail)
{
    struct landing_job *job = BASE_CONTAINER_OF(mail, struct landing_job, mail);
    struct exporter_status status;
    char review[EXPORTER_REVIEW_LINK_SIZE];
    if (exporter_status_read(&status, job->landing->lifecycle, job->landing->client_host,
                             exporter_lifecycle_windows(job->landing->lifecycle))) {
        status.nrejections = exporter_rejections_read(job->landing->rejections, status.rejections);
        exporter_review_link(review, &status.daemon, job->host);
        status.review_link = review;
        job->bytes =
            job->json ? exporter_status_json(&status, &job->length)
                      : exporter_status_page(&status, job->landing->telemetry_path, &job->length);
        exporter_status_clear(&status);
    }
    job->mail.deliver = answer_landing;
    base_loop_post(job->loop, &job->mail);
}

static void landing_cancelled(void *arg)
{
    struct landing_job *job = arg;
    job->request = NULL;
}

void exporter_route_landing(struct exporter_request *request, void *context)
{
    static const struct exporter_problem unknown_format = {.code = HANDOFF_ERR_INVALID,
                                                           .detail = "format must be html or json"};
    const struct exporter_landing *landing = context;
    const char *format = exporter_request_query(request, "format");
    const bool json = format != NULL && strcmp(format, "json") == 0;
    if (format != NULL && !json && strcmp(format, "html") != 0) {
        exporter_respond_problem(request, &unknown_format);
        return;
    }
    struct landing_job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        exporter_respond_problem(request, &no_memory);
        return;
    }
    *job = (struct landing_job){.request = request,
                                .landing = landing,
                                .loop = exporter_request_loop(request),
                                .json = json};
    const char *host = exporter_request_header(request, "Host");
    if (host != NULL && strlen(host) < sizeof job->host)
        memcpy(job->host, host, strlen(host) + 1);
    exporter_request_defer(request, landing_cancelled, job);
    job->mail.deliver = make_page;
    exporter_lifecycle_post(landing->lifecycle, &job->mail);
}
