/* SPDX-License-Identifier: Apache-2.0 */
/* Who may come in: no browser on behalf of a page of another origin. */
#include "exporter/admission.h"

#include <string.h>

#include "exporter/http_private.h"
#include "exporter/origin.h"
#include "exporter/problem.h"

static bool changes_nothing(const char *method)
{
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 ||
           strcmp(method, "OPTIONS") == 0;
}

static bool is_forged_by_a_page(const struct exporter_request *request)
{
    const struct exporter_server *server = exporter_request_server(request);
    if (!server->options.refuse_browsers && changes_nothing(exporter_request_method(request)))
        return false;
    return exporter_origin_is_foreign(exporter_request_header(request, "Origin"),
                                      exporter_request_header(request, "Sec-Fetch-Site"),
                                      exporter_request_header(request, "Host"));
}

void exporter_admission_judge(struct exporter_request *request)
{
    if (!is_forged_by_a_page(request)) {
        exporter_request_admitted(request);
        return;
    }
    static const struct exporter_problem problem = {
        .status = 403,
        .code = "cross_origin",
        .detail = "requests made by a page of another origin are not taken",
    };
    exporter_respond_problem(request, &problem);
}

size_t exporter_admission_headers(const struct exporter_request *request,
                                  struct exporter_header *headers, size_t max)
{
    (void)request;
    (void)headers;
    (void)max;
    return 0;
}
