/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The landing page: what this is, which version, and where to go from here. Made on the server,
 * without scripts, under a policy that would not run any.
 */
#include "exporter/route_landing.h"

#include <stdio.h>
#include <stdlib.h>

#include "exporter/html.h"
#include "exporter/problem.h"
#include "exporter/version.h"

static const char page_head[] =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<title>handoff-exporter</title>\n<style>\n"
    ":root { color-scheme: light dark; }\n"
    "body { font: 1rem/1.5 system-ui, sans-serif; max-width: 44rem; margin: 3rem auto;"
    " padding: 0 1rem; }\n"
    "dt { font-weight: 600; }\ndd { margin: 0 0 .75rem; }\n"
    "</style>\n</head>\n<body>\n<main>\n<h1>handoff-exporter</h1>\n";

static const char content_security_policy[] =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

static void write_link(FILE *out, const char *path, const char *what)
{
    fputs("<dt><a href=\"", out);
    exporter_html_text(out, path);
    fputs("\">", out);
    exporter_html_text(out, path);
    fputs("</a></dt>\n<dd>", out);
    exporter_html_text(out, what);
    fputs("</dd>\n", out);
}

static void write_page(FILE *out, const struct exporter_landing *landing)
{
    fputs(page_head, out);
    fputs("<p>Handoffs between agents, delivered and measured. Version ", out);
    exporter_html_text(out, exporter_version());
    fputs(".</p>\n<dl>\n", out);
    write_link(out, landing->telemetry_path, "The metrics, for Prometheus.");
    write_link(out, "/-/healthy", "Whether the process is alive.");
    write_link(out, "/-/ready", "Whether it takes new work.");
    fputs("</dl>\n</main>\n</body>\n</html>\n", out);
}

void exporter_route_landing(struct exporter_request *request, void *context)
{
    static const struct exporter_problem no_memory = {
        .status = 503, .code = "no_memory", .detail = "there is no memory for this page"};
    char *bytes = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&bytes, &length);
    if (out != NULL)
        write_page(out, context);
    if (out == NULL || fclose(out) != 0) {
        free(bytes);
        exporter_respond_problem(request, &no_memory);
        return;
    }
    const struct exporter_reply reply = {
        .status = 200,
        .content_type = "text/html; charset=utf-8",
        .headers = {{"Content-Security-Policy", content_security_policy},
                    {"X-Content-Type-Options", "nosniff"},
                    {"Referrer-Policy", "no-referrer"}},
        .bytes = bytes,
        .length = length,
        .body = EXPORTER_BODY_GIVEN,
    };
    exporter_respond(request, &reply);
}
