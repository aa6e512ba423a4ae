/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As a TURN server uses the interface: the default registry, traffic counters by realm, and an HTTP
 * server of its own, which libmicrohttpd gives the bridge's text to and which frees it.
 *
 * Commands: "session REALM BYTES" ends a session, "allocation +" and "allocation -" count one.
 */
#include "prom.h"

#include "serve.h"

static prom_counter_t *received, *sent;
static prom_gauge_t *allocations;

static enum MHD_Result answer(void *arg, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *body,
                              size_t *size, void **request)
{
    (void)arg, (void)url, (void)method, (void)version, (void)body, (void)size, (void)request;
    const char *text = prom_collector_registry_bridge(PROM_COLLECTOR_REGISTRY_DEFAULT);
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_MUST_FREE);
    MHD_add_response_header(response, "Content-Type", "text/plain; version=0.0.4");
    const enum MHD_Result result = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return result;
}

static void command(char *line)
{
    char realm[64], sign;
    double bytes;
    if (sscanf(line, "session %63s %lf", realm, &bytes) == 2) {
        const char *label[] = {realm, NULL};
        MUST(prom_counter_add(received, bytes, label) == 0);
        MUST(prom_counter_add(sent, bytes / 2, label) == 0);
        MUST(prom_counter_add(received, -bytes, label) != 0); /* a bug there once */
    } else if (sscanf(line, "allocation %c", &sign) == 1) {
        const char *label[] = {"UDP"};
        MUST((sign == '+' ? prom_gauge_inc(allocations, label)
                          : prom_gauge_dec(allocations, label)) == 0);
    }
}

int main(void)
{
    const char *label[] = {"realm", NULL};
    const char *type[] = {"type"};
    MUST(prom_collector_registry_default_init() == 0);
    MUST(prom_collector_registry_default_init() == 0);
    received = prom_collector_registry_must_register_metric(prom_counter_new(
        "turn_traffic_rcvb", "Represents finished sessions received bytes", 1, label));
    sent = prom_collector_registry_must_register_metric(prom_counter_new(
        "turn_traffic_sentb", "Represents finished sessions sent bytes", 1, label));
    allocations = prom_collector_registry_must_register_metric(
        prom_gauge_new("turn_total_allocations", "Represents current allocations number", 1, type));
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION, 0, NULL,
                         NULL, answer, NULL, MHD_OPTION_END);
    print_port(daemon);
    obey(command);
    MHD_stop_daemon(daemon);
    return prom_collector_registry_destroy(PROM_COLLECTOR_REGISTRY_DEFAULT);
}
