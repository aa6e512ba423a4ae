/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runbooks. A page is made for each request, from text that is part of the program: that takes
 * tens of microseconds, so it is done on the web loop.
 */
#include "exporter/routes/runbooks.h"

#include <stdio.h>

#include "exporter/http/problem.h"
#include "exporter/routes/landing.h"
#include "exporter/status/runbooks.h"

static void respond_unknown(struct exporter_request *request, const char *seen, const char *nearest)
{
    char detail[256];
    if (nearest != NULL)
        snprintf(detail, sizeof detail, "no such runbook; did you mean %s?", nearest);
    else
        snprintf(detail, sizeof detail, "no such runbook; /runbooks lists them");
    exporter_respond_problem(request, &(struct exporter_problem){.code = HANDOFF_ERR_NOT_FOUND,
                                                                 .detail = detail,
                                                                 .field = "name",
                                                                 .seen = seen});
}

static void respond_runbook(struct exporter_request *request,
                            const struct exporter_landing *landing, const char *name)
{
    const char *nearest;
    size_t length = 0;
    const size_t place = exporter_runbook_find(name, &nearest);
    if (place == (size_t)-1) {
        respond_unknown(request, name, nearest);
        return;
    }
    char *bytes = exporter_runbook_page(place, &length);
    exporter_respond_page(request, landing->policy, "text/html; charset=utf-8", bytes, length);
}

void exporter_route_runbooks(struct exporter_request *request, void *context)
{
    respond_runbook(request, context, EXPORTER_RUNBOOKS_INDEX);
}

void exporter_route_runbook(struct exporter_request *request, void *context)
{
    respond_runbook(request, context, exporter_request_param(request, 0));
}
