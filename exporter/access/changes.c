/* SPDX-License-Identifier: Apache-2.0 */
/* Who may change something over the web listener, see changes.h. On the request's loop thread. */
#include "exporter/access/changes.h"

#include "exporter/access/request_origin.h"
#include "exporter/config/web_config.h"
#include "exporter/http/http_private.h"

/* Whether the web configuration has every caller prove who it is. A page has no password of ours,
 * and no certificate for the name that it was loaded from. */
static bool are_callers_known(const struct exporter_request *request)
{
    struct exporter_web_config *web_config = request->server->options.web_config;
    if (web_config == NULL)
        return false;
    exporter_web_config_refresh(web_config);
    const struct exporter_web_settings *settings = exporter_web_config_settings(web_config);
    return settings->nusers > 0 ||
           (settings->tls.given && settings->tls.client_auth == EXPORTER_CLIENT_VERIFY);
}

/* A proxy on this machine makes every client local, unless it says that it is one. */
static bool was_forwarded(const struct exporter_request *request)
{
    return exporter_request_header(request, "Forwarded") != NULL ||
           exporter_request_header(request, "X-Forwarded-For") != NULL ||
           exporter_request_header(request, "Via") != NULL;
}

static bool is_from_here(const struct exporter_request *request)
{
    return request->connection->is_local && !was_forwarded(request);
}

/* Browsers send one of these with whatever is not a GET. */
static bool was_sent_by_a_page(const struct exporter_request *request)
{
    return exporter_request_header(request, "Origin") != NULL ||
           exporter_request_header(request, "Sec-Fetch-Site") != NULL;
}

/* Names of machines in a cluster have dots, so where other machines may come in, only pages are
 * asked for theirs. */
static bool may_be_rebound(const struct exporter_request *request)
{
    return !exporter_origin_names_this_machine(exporter_request_header(request, "Host")) &&
           (!request->server->options.enable_lifecycle || was_sent_by_a_page(request));
}

const struct exporter_problem *exporter_changes_refuse(const struct exporter_request *request)
{
    static const struct exporter_problem remote = {
        .code = HANDOFF_ERR_FORBIDDEN,
        .detail =
            "without credentials, only this machine may do this, and not through a proxy; set "
            "basic_auth_users in --web.config.file, or --web.enable-lifecycle",
        .allowed = "a connection from loopback"};
    static const struct exporter_problem rebound = {
        .code = HANDOFF_ERR_CROSS_ORIGIN,
        .detail =
            "without credentials, Host must name this machine: any website could make its own "
            "name resolve here",
        .field = "Host",
        .allowed = "localhost, another name without dots, or an IP address"};
    if (are_callers_known(request))
        return NULL;
    if (!request->server->options.enable_lifecycle && !is_from_here(request))
        return &remote;
    return may_be_rebound(request) ? &rebound : NULL;
}
