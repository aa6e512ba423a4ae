/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As a mobile core network uses the interface: metrics made from specifications, histograms of all
 * kinds of buckets, one kind filled by hand; a series exists from the addition of 0 on.
 *
 * Commands: "sessions N" sets, "registration" counts, "setup SECONDS" observes in all histograms.
 */
#include "prom.h"

#include "serve.h"

static prom_gauge_t *sessions;
static prom_counter_t *registrations;
static prom_histogram_t *setups[4];

static prom_histogram_buckets_t *variable_buckets(const double *bounds, int count)
{
    prom_histogram_buckets_t *buckets = prom_malloc(sizeof *buckets);
    double *copy = prom_malloc((size_t)count * sizeof *copy);
    MUST(buckets != NULL && copy != NULL);
    memcpy(copy, bounds, (size_t)count * sizeof *copy);
    buckets->count = count;
    buckets->upper_bounds = copy;
    return buckets;
}

static void make_histograms(void)
{
    static const double bounds[] = {0.1, 0.5, 2.5};
    prom_histogram_buckets_t *buckets[4] = {
        prom_histogram_buckets_linear(0.1, 0.1, 3), prom_histogram_buckets_exponential(0.1, 10, 3),
        variable_buckets(bounds, 3), prom_histogram_default_buckets};
    static const char *const names[4] = {"setup_linear", "setup_exponential", "setup_variable",
                                         "setup_default"};
    for (int i = 0; i < 4; i++)
        setups[i] = prom_collector_registry_must_register_metric(
            prom_histogram_new(names[i], "Time of a setup", buckets[i], 0, NULL));
}

static void command(char *line)
{
    double value;
    const char *labels[] = {"001-01", "internet"};
    if (sscanf(line, "sessions %lf", &value) == 1)
        MUST(prom_gauge_set(sessions, value, NULL) == 0);
    else if (strcmp(line, "registration") == 0)
        MUST(prom_counter_add(registrations, 1, labels) == 0);
    else if (sscanf(line, "setup %lf", &value) == 1) {
        for (int i = 0; i < 4; i++)
            MUST(prom_histogram_observe(setups[i], value, NULL) == 0);
    }
}

int main(void)
{
    char *keys[] = {prom_strdup("plmnid"), prom_strdup("dnn")};
    MUST(prom_collector_registry_default_init() == 0);
    sessions = prom_gauge_new("fivegs_smffunction_sm_sessionnbr", "Active Sessions", 0, NULL);
    registrations = prom_counter_new("fivegs_amffunction_rm_reginitreq", "Registrations", 2,
                                     (const char **)keys);
    MUST(prom_collector_registry_register_metric(sessions) == 0);
    MUST(prom_collector_registry_register_metric(registrations) == 0);
    MUST(prom_counter_add(registrations, 0.0, (const char *[]){"001-01", "internet"}) == 0);
    prom_free(keys[0]);
    prom_free(keys[1]);
    make_histograms();
    promhttp_set_active_collector_registry(NULL);
    struct MHD_Daemon *daemon =
        promhttp_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL);
    print_port(daemon);
    obey(command);
    MHD_stop_daemon(daemon);
    prom_collector_registry_destroy(PROM_COLLECTOR_REGISTRY_DEFAULT);
    return 0;
}
