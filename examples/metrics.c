/* SPDX-License-Identifier: Apache-2.0 */
/* Serves metrics for Prometheus: cc metrics.c $(pkg-config --cflags --libs promhttp) -o metrics */
#include <prom.h>
#include <promhttp.h>
#include <stdlib.h>
#include <threads.h>

int main(int argc, char **argv)
{
    const unsigned short port = (unsigned short)(argc > 1 ? atoi(argv[1]) : 8000);
    prom_collector_registry_default_init();
    prom_counter_t *requests = prom_collector_registry_must_register_metric(
        prom_counter_new("requests_total", "Requests.", 1, (const char *[]){"method"}));
    prom_histogram_t *latency = prom_collector_registry_must_register_metric(
        prom_histogram_new("request_seconds", "Latency.", prom_histogram_default_buckets, 0, NULL));
    if (!promhttp_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, port, NULL, NULL))
        return 1;
    for (;; thrd_sleep(&(struct timespec){.tv_nsec = 100000000}, NULL)) {
        prom_counter_inc(requests, (const char *[]){"GET"});
        prom_histogram_observe(latency, 0.1, NULL);
    }
}
