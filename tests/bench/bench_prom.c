/* SPDX-License-Identifier: Apache-2.0 */
/* links: prom_shared */
/*
 * prom.h as a program has it, in the shared library, beside its floors in one run: by handle beside
 * a bare relaxed atomic add, by labels beside a plain hash look-up of the same labels and that add.
 * Rounds alternate between the two; medians are compared, as ratios. Then a scrape of 100,000
 * series.
 *
 * usage: bench_prom [ROUNDS]     (9)
 */
#include "lib/metrics/metric.h"
#include "lib/prom/prom.h"
#include "tests/bench/floors.h"

enum { SERIES = 100000, STEP = 64 << 10 };

/* ---- what is measured ----------------------------------------------------------------------- */

static prom_counter_t *counter;
static prom_histogram_t *histogram;
static prom_metric_sample_t *counters[THREADS_MAX];
static prom_metric_sample_histogram_t *histograms[THREADS_MAX];
static void make_series(void)
{
    const char *keys[] = {"agent", "pattern", "outcome"};
    counter = prom_counter_new("bench_total", "h", LABELS, keys);
    histogram = prom_histogram_new("bench_seconds", "h",
                                   prom_histogram_buckets_exponential(0.0005, 2, 20), LABELS, keys);
    MUST(counter != NULL && histogram != NULL);
    for (size_t i = 0; i < THREADS_MAX; i++) {
        counters[i] = prom_metric_sample_from_labels(counter, label_sets[i]);
        histograms[i] = prom_metric_sample_histogram_from_labels(histogram, label_sets[i]);
        MUST(counters[i] != NULL && histograms[i] != NULL);
    }
}

/* ---- loops: `who` is the thread's own series, or 0 for all ---------------------------------- */

static void loop_counter(size_t who, int calls)
{
    for (int i = 0; i < calls; i++)
        prom_metric_sample_add(counters[who], 1);
}

static void loop_histogram(size_t who, int calls)
{
    for (int i = 0; i < calls; i++)
        prom_metric_sample_histogram_observe(histograms[who], values[i % VALUES]);
}

static void loop_bare_counter_lookup(size_t who, int calls)
{
    (void)who;
    for (int i = 0; i < calls; i++)
        bare_add(plain_find(label_sets[i % LABEL_SETS]));
}

static void loop_counter_lookup(size_t who, int calls)
{
    (void)who;
    for (int i = 0; i < calls; i++)
        prom_counter_inc(counter, label_sets[i % LABEL_SETS]);
}

static void loop_histogram_lookup(size_t who, int calls)
{
    (void)who;
    for (int i = 0; i < calls; i++)
        prom_histogram_observe(histogram, values[i % VALUES], label_sets[i % LABEL_SETS]);
}

static void bench_observations(void)
{
    static const struct {
        const char *what;
        loop *ours, *floor;
        double goal;
    } rows[] = {
        {"counter by handle", loop_counter, loop_bare_counter, 2},
        {"histogram by handle", loop_histogram, loop_bare_histogram, 2},
        {"counter by 3 labels", loop_counter_lookup, loop_bare_counter_lookup, 1.5},
        {"histogram by 3 labels", loop_histogram_lookup, loop_bare_histogram_lookup, 1.5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char what[64];
        snprintf(what, sizeof what, "%s, 1 thread", rows[i].what);
        compare_loops(what, rows[i].ours, rows[i].floor, 1, true, rows[i].goal);
        snprintf(what, sizeof what, "%s, 2 threads, one series", rows[i].what);
        compare_loops(what, rows[i].ours, rows[i].floor, 2, true, rows[i].goal);
    }
}

/* ---- scrapes -------------------------------------------------------------------------------- */

static void fill_registry(prom_collector_registry_t *registry)
{
    prom_collector_t *collector = prom_collector_new("bench");
    prom_counter_t *many = prom_counter_new("many_total", "h", LABELS,
                                            (const char *[]){"agent", "pattern", "outcome"});
    MUST(prom_collector_add_metric(collector, many) == 0);
    MUST(prom_collector_registry_register_collector(registry, collector) == 0);
    for (int i = 0; i < SERIES; i++) {
        char agent[32];
        snprintf(agent, sizeof agent, "agent-number-%d", i);
        MUST(prom_counter_add(many, i * 977.0,
                              (const char *[]){agent, "choreographed", "acknowledged"}) == 0);
    }
}

static double scrape_ms(prom_collector_registry_t *registry, enum metric_format format,
                        size_t *bytes)
{
    const struct metric_scrape_options options = {.format = format};
    struct metric_buffer out = {0};
    bool more = true;
    *bytes = 0;
    double begin = thread_ns();
    prom_scrape_t *scrape = prom_scrape_begin(registry, &options);
    MUST(scrape != NULL);
    while (more) {
        out.length = 0; /* as if it had been sent */
        more = metric_scrape_step(prom_scrape_reading(scrape), &out, STEP);
        *bytes += out.length;
    }
    prom_scrape_end(&scrape);
    double ms = (thread_ns() - begin) / 1e6;
    metric_buffer_free(&out);
    return ms;
}

static void bench_scrapes(void)
{
    static const char *const names[] = {"text 0.0.4", "OpenMetrics 1.0", "protobuf",
                                        "OpenMetrics 2.0"};
    prom_collector_registry_t *registry = prom_collector_registry_new("bench");
    MUST(registry != NULL);
    fill_registry(registry);
    printf("\nscrape of %d series, streamed, against 10 ms\n", SERIES);
    for (int format = METRIC_TEXT; format <= METRIC_OPENMETRICS_2; format++) {
        double ms[ROUNDS_MAX];
        size_t bytes = 0;
        char what[64];
        for (int i = 0; i < rounds; i++)
            ms[i] = scrape_ms(registry, (enum metric_format)format, &bytes);
        snprintf(what, sizeof what, "%s, %.1f MB", names[format], (double)bytes / 1e6);
        print_row(what, median(ms, rounds), 10, format == METRIC_TEXT ? 1 : 0, "ms");
    }
    prom_collector_registry_destroy(registry);
}

int main(int argc, char **argv)
{
    begin_bench(argc, argv);
    make_series();
    print_head();
    bench_observations();
    prom_counter_destroy(counter);
    prom_histogram_destroy(histogram);
    bench_scrapes();
    return 0;
}
