/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metrics core beside its floors, in one run: an observation beside a bare relaxed atomic add,
 * a resolution beside a plain hash lookup, a scrape beside a loop that only copies line heads and
 * formats the same numbers. Rounds alternate between the two; medians are compared, as ratios.
 *
 * usage: bench_metrics [ROUNDS]     (9)
 */
#include <malloc.h>

#include "lib/metrics/metric.h"
#include "lib/metrics/number.h"
#include "tests/bench/floors.h"

/* ---- what is measured -------------------------------------------------------------------------
 */

static const double bounds[] = {0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032,
                                0.064,  0.128, 0.25,  0.5,   1,     2,     4,
                                8,      16,    32,    64,    128,   256};
enum { BOUNDS = sizeof bounds / sizeof *bounds };

static struct metric_registry *registry;
static struct metric_series *counters[THREADS_MAX], *classics[THREADS_MAX], *mixed[THREADS_MAX];
static struct metric_family *labelled;

static struct metric_family *add(const struct metric_desc *desc)
{
    struct metric_family *family = metric_register(registry, desc, NULL);
    MUST(family != NULL);
    return family;
}

static void make_series(void)
{
    registry =
        metric_registry_new(&(struct metric_registry_options){.threads = 4, .max_series = 100000});
    MUST(registry != NULL);
    struct metric_desc desc = {.name = "bench_handoffs_total",
                               .type = METRIC_COUNTER,
                               .help = "h",
                               .labels = {"target_agent", "outcome"}};
    struct metric_family *counter = add(&desc);
    desc = (struct metric_desc){.name = "bench_classic_seconds",
                                .type = METRIC_HISTOGRAM,
                                .help = "h",
                                .labels = {"target_agent", "pattern", "outcome"},
                                .bounds = bounds,
                                .nbounds = BOUNDS};
    struct metric_family *classic = add(&desc);
    desc.name = "bench_mixed_seconds";
    desc.native = (struct metric_native){3, -20, 10};
    struct metric_family *both = add(&desc);
    static const char *const agents[THREADS_MAX] = {"coder", "reviewer"};
    for (size_t i = 0; i < THREADS_MAX; i++) {
        counters[i] = metric_resolve(counter, (const char *[]){agents[i], "acknowledged"});
        const char *const labels[] = {agents[i], "direct", "acknowledged"};
        classics[i] = metric_resolve(classic, labels);
        mixed[i] = metric_resolve(both, labels);
    }
    labelled = classic;
}

/* ---- loops: `who` is the thread's own series, or 0 for all -------------------------------------
 */

static void loop_counter(size_t who, int calls)
{
    for (int i = 0; i < calls; i++)
        metric_add(counters[who], 1);
}

static void loop_classic(size_t who, int calls)
{
    for (int i = 0; i < calls; i++)
        metric_observe(classics[who], values[i % VALUES]);
}

static void loop_mixed(size_t who, int calls)
{
    for (int i = 0; i < calls; i++)
        metric_observe(mixed[who], values[i % VALUES]);
}

static void loop_lookup(size_t who, int calls)
{
    (void)who;
    for (int i = 0; i < calls; i++)
        metric_observe(metric_resolve(labelled, label_sets[i % LABEL_SETS]), values[i % VALUES]);
}

static void bench_observations(void)
{
    static const struct {
        const char *what;
        loop *ours, *floor;
    } rows[] = {
        {"counter", loop_counter, loop_bare_counter},
        {"histogram, 20 bounds", loop_classic, loop_bare_histogram},
        {"histogram, 20 bounds and native", loop_mixed, loop_bare_histogram},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char what[80];
        snprintf(what, sizeof what, "%s, 1 thread", rows[i].what);
        double one = compare_loops(what, rows[i].ours, rows[i].floor, 1, true, 2);
        snprintf(what, sizeof what, "%s, 2 threads, one series", rows[i].what);
        double same = compare_loops(what, rows[i].ours, rows[i].floor, 2, true, 2);
        snprintf(what, sizeof what, "%s, 2 threads, own series", rows[i].what);
        double own = compare_loops(what, rows[i].ours, rows[i].floor, 2, false, 2);
        print_row("    ... one series: 2 threads / 1 thread", same, one, 1.3, "ns");
        print_row("    ... own series: 2 threads / 1 thread", own, one, 1.3, "ns");
    }
    compare_loops("histogram by 3 labels, 1 thread", loop_lookup, loop_bare_histogram_lookup, 1,
                  true, 1.5);
    compare_loops("histogram by 3 labels, 2 threads", loop_lookup, loop_bare_histogram_lookup, 2,
                  true, 1.5);
}

/* ---- scrapes ----------------------------------------------------------------------------------
 */

enum { LINES_OF_HISTOGRAM = BOUNDS + 3, STEP = 64 * 1024 };

/* Half of the lines are counters, half histograms with fractional sums. */
static struct metric_registry *make_lines(size_t lines)
{
    registry =
        metric_registry_new(&(struct metric_registry_options){.threads = 4, .max_series = 100000});
    MUST(registry != NULL);
    struct metric_family *counter =
        add(&(struct metric_desc){.name = "handoff_handoffs_total",
                                  .type = METRIC_COUNTER,
                                  .help = "Handoffs.",
                                  .labels = {"target_agent", "pattern", "outcome"}});
    struct metric_family *histogram =
        add(&(struct metric_desc){.name = "handoff_duration_seconds",
                                  .type = METRIC_HISTOGRAM,
                                  .unit = "seconds",
                                  .help = "Duration.",
                                  .labels = {"target_agent", "pattern", "outcome"},
                                  .bounds = bounds,
                                  .nbounds = BOUNDS,
                                  .native = {3, -20, 10}});
    char agent[32];
    const char *const labels[] = {agent, "choreographed", "acknowledged"};
    for (size_t i = 0; i < lines / 2; i++) {
        snprintf(agent, sizeof agent, "agent-number-%zu", i);
        metric_add(metric_resolve(counter, labels), i * 977);
    }
    for (size_t i = 0; i < lines / 2 / LINES_OF_HISTOGRAM; i++) {
        snprintf(agent, sizeof agent, "agent-number-%zu", i);
        for (size_t j = 0; j < 50; j++)
            metric_observe(metric_resolve(histogram, labels), values[(i * 50 + j) % VALUES]);
    }
    return registry;
}

static size_t scrape_ours(enum metric_format format, size_t step, struct metric_buffer *keep)
{
    struct metric_buffer out = {0};
    struct metric_scrape_options options = {.format = format};
    struct metric_scrape *scrape = metric_scrape_begin(registry, &options);
    MUST(scrape != NULL);
    size_t bytes = 0;
    bool more;
    do {
        size_t before = out.length;
        more = metric_scrape_step(scrape, &out, step);
        bytes += out.length - before;
        if (keep == NULL)
            out.length = 0; /* as if it had been sent */
    } while (more);
    MUST(!out.failed);
    metric_scrape_end(&scrape);
    if (keep != NULL)
        *keep = out;
    else
        metric_buffer_free(&out);
    return bytes;
}

/* The floor: for each line its head and its number, taken from a scrape. */
struct line {
    const char *head;
    size_t length;
    bool has_number;
    bool whole;
    uint64_t count;
    double value;
};

static size_t read_lines(const struct metric_buffer *text, struct line *lines)
{
    size_t n = 0;
    const char *end = text->data + text->length;
    for (const char *at = text->data; at < end; n++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *space = memrchr(at, ' ', (size_t)(newline - at));
        bool comment = *at == '#';
        lines[n] = (struct line){.head = at,
                                 .length = (size_t)((comment ? newline : space + 1) - at),
                                 .has_number = !comment};
        if (!comment) {
            lines[n].whole = memchr(space, '.', (size_t)(newline - space)) == NULL;
            lines[n].count = strtoull(space + 1, NULL, 10);
            lines[n].value = strtod(space + 1, NULL);
        }
        at = newline + 1;
    }
    return n;
}

static size_t format_lines(const struct line *lines, size_t n, char *buffer, char *keep)
{
    size_t bytes = 0;
    char *at = buffer;
    for (size_t i = 0; i < n; i++) {
        memcpy(at, lines[i].head, lines[i].length);
        at += lines[i].length;
        if (lines[i].has_number)
            at = lines[i].whole ? metric_number_u64(at, lines[i].count)
                                : metric_number_value(at, lines[i].value);
        *at++ = '\n';
        if (at - buffer >= STEP || i + 1 == n) { /* as if it had been sent */
            size_t length = (size_t)(at - buffer);
            if (keep != NULL)
                memcpy(keep + bytes, buffer, length);
            bytes += length;
            at = buffer;
        }
    }
    return bytes;
}

/* Kibibytes that the process grew by at its highest while `format` was scraped. */
static long status_kib(const char *key)
{
    char line[256];
    long value = -1;
    FILE *file = fopen("/proc/self/status", "r");
    MUST(file != NULL);
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, key, strlen(key)) == 0)
            value = strtol(line + strlen(key), NULL, 10);
    }
    fclose(file);
    return value;
}

static bool reset_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (file == NULL)
        return false;
    bool written = fputs("5", file) >= 0;
    return fclose(file) == 0 && written;
}

static void print_peak(const char *what, enum metric_format format, size_t step)
{
    struct metric_buffer whole = {0};
    malloc_trim(0); /* so that memory freed before is not used again unseen */
    if (!reset_peak()) {
        printf("%-50s cannot be measured here\n", what);
        return;
    }
    long before = status_kib("VmRSS:");
    scrape_ours(format, step, step == STEP ? NULL : &whole);
    long peak = status_kib("VmHWM:");
    metric_buffer_free(&whole);
    printf("%-50s %9.2f MiB\n", what, (double)(peak > before ? peak - before : 0) / 1024);
}

static double time_scrape(enum metric_format format)
{
    double begin = thread_ns();
    scrape_ours(format, STEP, NULL);
    return (thread_ns() - begin) / 1e6;
}

static void bench_scrape(size_t wanted)
{
    make_lines(wanted);
    struct metric_buffer text;
    size_t bytes = scrape_ours(METRIC_TEXT, SIZE_MAX / 2, &text);
    struct line *lines = calloc(wanted + 100, sizeof *lines);
    char *buffer = malloc(STEP * 2), *same = malloc(bytes);
    MUST(lines != NULL && buffer != NULL && same != NULL);
    size_t n = read_lines(&text, lines);
    MUST(format_lines(lines, n, buffer, same) == bytes && memcmp(same, text.data, bytes) == 0);

    double ms[3][ROUNDS_MAX], floor_ms[ROUNDS_MAX];
    for (int i = 0; i < rounds; i++) {
        for (int format = METRIC_TEXT; format <= METRIC_PROTOBUF; format++)
            ms[format][i] = time_scrape((enum metric_format)format);
        double begin = thread_ns();
        format_lines(lines, n, buffer, NULL);
        floor_ms[i] = (thread_ns() - begin) / 1e6;
    }
    double floor = median(floor_ms, rounds), in_text = median(ms[METRIC_TEXT], rounds);
    printf("\n%zu lines, %.1f MB, streamed\n", n, (double)bytes / 1e6);
    print_row("text 0.0.4", in_text, floor, 0, "ms");
    print_row("OpenMetrics", median(ms[METRIC_OPENMETRICS], rounds), floor, 0, "ms");
    print_row("protobuf, classic and native", median(ms[METRIC_PROTOBUF], rounds), floor, 0, "ms");
    if (wanted >= 100000)
        print_row("text 0.0.4, against 10 ms", in_text, 10, 1, "ms");
    free(same);
    free(lines);
    free(buffer);
    metric_buffer_free(&text);
    print_peak("peak memory: text, streamed", METRIC_TEXT, STEP);
    print_peak("peak memory: text, in one buffer", METRIC_TEXT, SIZE_MAX / 2);
    print_peak("peak memory: protobuf, one family at a time", METRIC_PROTOBUF, STEP);
    metric_registry_free(&registry);
}

int main(int argc, char **argv)
{
    begin_bench(argc, argv);
    make_series();
    print_head();
    bench_observations();
    metric_registry_free(&registry);
    bench_scrape(10000);
    bench_scrape(100000);
    return 0;
}
