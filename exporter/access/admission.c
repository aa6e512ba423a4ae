/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission: no browser on behalf of a page of another origin; on the API only who shows a
 * token, where the configuration names some; on the web listener only who keeps to the rate limit
 * and knows a password, where the web configuration asks for that. An admitted caller may use the
 * routes that are open to it.
 *
 * On the request's loop thread.
 */
#include "exporter/access/admission.h"

#include <string.h>

#include "exporter/access/api_tokens.h"
#include "exporter/access/changes.h"
#include "exporter/access/request_origin.h"
#include "exporter/config/web_config.h"
#include "exporter/http/http_private.h"
#include "exporter/http/problem.h"
#include "exporter/log/log.h"

static bool changes_nothing(const char *method)
{
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 ||
           strcmp(method, "OPTIONS") == 0;
}

static bool is_for_page(const struct exporter_request *request)
{
    return request->match.route != NULL && request->match.route->is_page;
}

/* A link from elsewhere may lead to a page of ours, which no other page can read. */
static bool is_forged_by_a_page(const struct exporter_request *request)
{
    const struct exporter_server *server = exporter_request_server(request);
    const bool is_open = !server->options.refuse_browsers || is_for_page(request);
    if (is_open && changes_nothing(exporter_request_method(request)))
        return false;
    return exporter_origin_is_foreign(exporter_request_header(request, "Origin"),
                                      exporter_request_header(request, "Sec-Fetch-Site"),
                                      exporter_request_header(request, "Host"));
}

/* By a page whose name was made to lead here. Where tokens are asked for, it has none, and a proxy
 * on this machine may pass on what name it likes. */
static bool is_rebound(const struct exporter_request *request)
{
    const struct exporter_server_options *options = &request->server->options;
    return options->is_loopback &&
           !exporter_origin_names_this_machine(exporter_request_header(request, "Host")) &&
           !(options->callers != NULL && exporter_callers_ask(options->callers));
}

/* ---- at a glance ---------------------------------------------------------------------------- */

static void bar(struct exporter_request *request, const struct exporter_problem *problem)
{
    request->refusal = *problem;
    request->barred = true;
}

/* RFC 6750 3.1: what was wrong is only told to who has shown a token. */
static void bar_stranger(struct exporter_request *request, enum exporter_caller_result result)
{
    static const struct exporter_problem missing = {
        .code = HANDOFF_ERR_UNAUTHENTICATED,
        .detail = "a bearer token is required (api.tokens_file)",
        .header = {"WWW-Authenticate", "Bearer realm=\"handoff-exporter\""}};
    static const struct exporter_problem unknown = {
        .code = HANDOFF_ERR_UNAUTHENTICATED,
        .detail = "unknown bearer token (api.tokens_file)",
        .header = {"WWW-Authenticate",
                   "Bearer realm=\"handoff-exporter\", error=\"invalid_token\""}};
    const bool shown = result == EXPORTER_CALLER_UNKNOWN;
    log_warn("authentication_failed", LOG_STR("peer", exporter_request_peer(request)),
             LOG_STR("reason", shown ? "unknown_token" : "no_token"));
    bar(request, shown ? &unknown : &missing);
}

/* On the web listener, of a route that is there. */
static void check_change(struct exporter_request *request)
{
    if (request->match.route == NULL || changes_nothing(exporter_request_method(request)))
        return;
    const struct exporter_problem *refusal = exporter_changes_refuse(request);
    if (refusal == NULL)
        return;
    log_warn("change_refused", LOG_STR("peer", exporter_request_peer(request)),
             LOG_STR("path", exporter_request_path(request)),
             LOG_STR("reason", handoff_code_name(refusal->code)));
    bar(request, refusal);
}

void exporter_admission_check_headers(struct exporter_request *request)
{
    static const struct exporter_problem forged = {.code = HANDOFF_ERR_CROSS_ORIGIN,
                                                   .detail = "cross-origin requests are rejected"};
    static const struct exporter_problem rebound = {
        .code = HANDOFF_ERR_CROSS_ORIGIN,
        .detail = "without api.tokens_file, Host must name this machine",
        .field = "Host",
        .allowed = "localhost, another name without dots, or an IP address"};
    struct exporter_callers *callers = request->server->options.callers;
    if (is_rebound(request)) {
        bar(request, &rebound);
        return;
    }
    if (is_forged_by_a_page(request)) {
        bar(request, &forged);
        return;
    }
    if (callers == NULL) {
        check_change(request);
        return;
    }
    if (is_for_page(request))
        return; /* its handler looks for a session */
    const enum exporter_caller_result result = exporter_callers_authenticate(
        callers, exporter_request_header(request, "Authorization"), &request->caller);
    if (result != EXPORTER_CALLER_KNOWN)
        bar_stranger(request, result);
}

/* ---- by the web configuration --------------------------------------------------------------- */

static void refuse_admission(struct exporter_request *request, enum handoff_code code,
                             const char *detail, struct exporter_header header)
{
    const struct exporter_problem problem = {.code = code, .detail = detail, .header = header};
    exporter_respond_problem(request, &problem);
}

static void auth_done(struct exporter_request *request, enum exporter_auth_result result)
{
    switch (result) {
    case EXPORTER_AUTH_GOOD:
        exporter_request_admitted(request);
        break;
    case EXPORTER_AUTH_BAD:
        refuse_admission(request, HANDOFF_ERR_UNAUTHENTICATED,
                         "user name and password are required",
                         (struct exporter_header){"WWW-Authenticate", "Basic"});
        break;
    case EXPORTER_AUTH_BUSY:
        refuse_admission(request, HANDOFF_ERR_TOO_MANY_LOGINS,
                         "too many concurrent logins; retry later",
                         (struct exporter_header){"Retry-After", "1"});
        break;
    }
}

/* In exporter-toolkit's order: the rate limit comes before the passwords, which cost more. */
static void authenticate_by_web_config(struct exporter_request *request,
                                       struct exporter_web_config *web_config)
{
    exporter_web_config_refresh(web_config);
    const struct exporter_web_settings *settings = exporter_web_config_settings(web_config);
    if (!exporter_web_config_admit(web_config))
        refuse_admission(request, HANDOFF_ERR_RATE_LIMITED, "rate_limit exceeded; retry later",
                         (struct exporter_header){"Retry-After", "1"});
    else if (settings->nusers > 0)
        exporter_basic_auth_check(exporter_web_config_basic_auth(web_config), settings, request,
                                  auth_done);
    else
        exporter_request_admitted(request);
}

void exporter_admission_authenticate(struct exporter_request *request)
{
    struct exporter_web_config *web_config = exporter_request_server(request)->options.web_config;
    if (web_config != NULL)
        authenticate_by_web_config(request, web_config);
    else
        exporter_request_admitted(request);
}

/* ---- routes --------------------------------------------------------------------------------- */

static void respond_forbidden(struct exporter_request *request, const char *detail,
                              const char *allowed)
{
    const struct exporter_problem problem = {.code = HANDOFF_ERR_FORBIDDEN,
                                             .detail = detail,
                                             .field = "Authorization",
                                             .seen = request->caller.agent,
                                             .allowed = allowed};
    exporter_respond_problem(request, &problem);
}

static bool is_authorized(const struct exporter_request *request)
{
    const char *agent = exporter_request_caller(request);
    const enum handoff_call_access access = request->match.route->access;
    return agent == NULL || access == HANDOFF_FOR_ALL ||
           (access == HANDOFF_FOR_NAMED && strcmp(exporter_request_param(request, 0), agent) == 0);
}

bool exporter_admission_authorize(struct exporter_request *request)
{
    if (is_authorized(request))
        return true;
    if (request->match.route->access == HANDOFF_FOR_NAMED)
        respond_forbidden(request, "an agent may call this only for itself",
                          exporter_request_param(request, 0));
    else
        respond_forbidden(request, "only the operator may call this", EXPORTER_OPERATOR);
    return false;
}

/* False: its token has been revoked, which is in `refusal`. */
static bool is_known_still(struct exporter_request *request)
{
    struct exporter_callers *callers = request->server->options.callers;
    const enum exporter_caller_result result =
        callers == NULL
            ? EXPORTER_CALLER_KNOWN
            : exporter_callers_authenticate(
                  callers, exporter_request_header(request, "Authorization"), &request->caller);
    if (result != EXPORTER_CALLER_KNOWN)
        bar_stranger(request, result);
    return result == EXPORTER_CALLER_KNOWN;
}

bool exporter_admission_reauthorize(struct exporter_request *request)
{
    if (is_known_still(request))
        return exporter_admission_authorize(request);
    exporter_respond_problem(request, &request->refusal);
    return false;
}

bool exporter_admission_holds(struct exporter_request *request)
{
    return is_known_still(request) && is_authorized(request);
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
