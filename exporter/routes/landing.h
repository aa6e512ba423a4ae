/* SPDX-License-Identifier: Apache-2.0 */
/* landing.h - the status page at "/". Context: struct exporter_landing. */
#ifndef EXPORTER_ROUTES_LANDING_H
#define EXPORTER_ROUTES_LANDING_H

#include "exporter/http/http.h"
#include "exporter/status/page.h"

struct exporter_lifecycle;
struct exporter_client_host;
struct exporter_rejections;

struct exporter_landing {
    const char *telemetry_path;
    struct exporter_lifecycle *lifecycle;
    struct exporter_client_host *client_host;
    struct exporter_rejections *rejections;
    char policy[EXPORTER_PAGE_POLICY_SIZE];
};

/* Answers with one of our pages, under their policy. The bytes came from malloc and are
 * freed here or once they were sent; NULL: there was no memory for them. */
void exporter_respond_page(struct exporter_request *request, const char *policy,
                           const char *content_type, const void *bytes, size_t length);

/* The page; ?format=json the same for programs. */
void exporter_route_landing(struct exporter_request *request, void *context);

#endif
