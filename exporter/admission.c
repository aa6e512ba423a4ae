/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may come in: no browser on behalf of a page of another origin; on the web listener only who
 * keeps to the rate limit and knows a password, where the web configuration asks for that.
 */
#include "exporter/admission.h"

#include <string.h>

#include "exporter/http_private.h"
#include "exporter/origin.h"
#include "exporter/problem.h"
#include "exporter/web_config.h"

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

static void refuse(struct exporter_request *request, unsigned status, const char *code,
                   const char *detail, struct exporter_header header)
{
    const struct exporter_problem problem = {
        .status = status, .code = code, .detail = detail, .header = header};
    exporter_respond_problem(request, &problem);
}

static void auth_done(struct exporter_request *request, enum exporter_auth_result result)
{
    switch (result) {
    case EXPORTER_AUTH_GOOD:
        exporter_request_admitted(request);
        break;
    case EXPORTER_AUTH_BAD:
        refuse(request, 401, "unauthorized", "a user name and its password are needed",
               (struct exporter_header){"WWW-Authenticate", "Basic"});
        break;
    case EXPORTER_AUTH_BUSY:
        refuse(request, 503, "too_many_logins", "too many passwords are being checked",
               (struct exporter_header){"Retry-After", "1"});
        break;
    }
}

/* In exporter-toolkit's order: the rate limit comes before the passwords, which cost more. */
static void judge_by_web_config(struct exporter_request *request,
                                struct exporter_web_config *web_config)
{
    exporter_web_config_refresh(web_config);
    const struct exporter_web_settings *settings = exporter_web_config_settings(web_config);
    if (!exporter_web_config_admit(web_config))
        refuse(request, 429, "rate_limited", "more requests than rate_limit allows",
               (struct exporter_header){"Retry-After", "1"});
    else if (settings->nusers > 0)
        exporter_basic_auth_judge(exporter_web_config_basic_auth(web_config), settings, request,
                                  auth_done);
    else
        exporter_request_admitted(request);
}

void exporter_admission_judge(struct exporter_request *request)
{
    struct exporter_web_config *web_config = exporter_request_server(request)->options.web_config;
    if (is_forged_by_a_page(request))
        refuse(request, 403, "cross_origin",
               "requests made by a page of another origin are not taken",
               (struct exporter_header){NULL, NULL});
    else if (web_config != NULL)
        judge_by_web_config(request, web_config);
    else
        exporter_request_admitted(request);
}

size_t exporter_admission_headers(const struct exporter_request *request,
                                  struct exporter_header *headers, size_t max)
{
    const struct exporter_web_config *web_config =
        exporter_request_server(request)->options.web_config;
    if (web_config == NULL)
        return 0;
    const struct exporter_web_settings *settings = exporter_web_config_settings(web_config);
    size_t count = 0;
    for (; count < settings->nheaders && count < max; count++)
        headers[count] = settings->headers[count];
    return count;
}
