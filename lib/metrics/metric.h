/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metric.h - the metrics core: declare, resolve, observe, scrape.
 *
 * A program declares its metrics once, in a table of `struct metric_desc`, and registers them. It
 * resolves a label set to a series (a hash lookup), keeps the pointer, and observes on it:
 *
 *     struct metric_family *family = metric_register(registry, &desc, NULL);
 *     struct metric_series *series = metric_resolve(family, (const char *[]){"coder", "direct"});
 *     metric_observe(series, 0.25);
 *
 * Threads: every function may be called from any thread, except where it says otherwise. An
 * observation takes no lock, allocates nothing and formats nothing. Each thread counts into its own
 * cells; a scrape sums them. A series is never freed before its registry, so a pointer to it stays
 * valid even after the series is retired.
 */
#ifndef METRIC_H
#define METRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    METRIC_LABELS_MAX = 8,           /* labels of one family */
    METRIC_BOUNDS_MAX = 64,          /* classic bucket bounds of one family, +Inf not counted */
    METRIC_NATIVE_BUCKETS_MAX = 160, /* populated native buckets one series may show in a scrape */
};

struct metric_registry;
struct metric_family;
struct metric_series;
struct metric_scrape;

/* ---- errors -------------------------------------------------------------------------------- */

enum metric_code {
    METRIC_OK = 0,
    METRIC_ERR_NAME,      /* a metric or label name outside the legal characters, or reserved */
    METRIC_ERR_DUPLICATE, /* the family (or, for a counter, its name without _total) exists */
    METRIC_ERR_BOUNDS,    /* bucket bounds not finite, not ascending, or too many */
    METRIC_ERR_LABELS,    /* too many labels, or one twice */
    METRIC_ERR_HELP,      /* no help text */
    METRIC_ERR_UNIT,      /* the unit is not the suffix of the name */
    METRIC_ERR_NATIVE,    /* a native range that is empty or beyond the schema limits */
    METRIC_ERR_FLAGS,     /* exemplars on a gauge */
    METRIC_ERR_MEMORY,
};

struct metric_error {
    enum metric_code code;
    const char *message; /* constant text */
    char subject[128];   /* the rejected name, truncated to fit */
};

/* ---- declaring ----------------------------------------------------------------------------- */

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

enum metric_flag {
    METRIC_EXEMPLARS = 1 << 0, /* keep the newest exemplar of each bucket, or of the counter */
};

/* The native (exponential) side of a histogram: resolution 2^(2^-schema), range 2^low..2^high.
 * Values at or below 2^low, also negative ones, are counted in the zero bucket, values above 2^high
 * in the bucket of +Inf. With a negative schema s, low and high are multiples of 2^-s. All zero:
 * the histogram has no native side. */
struct metric_native {
    int schema; /* -4..8; 3 gives buckets 9 % wide */
    int low;
    int high;
};

struct metric_desc {
    const char *name; /* a counter's ends in _total */
    enum metric_type type;
    const char *unit; /* base unit and suffix of the name ("seconds"), or "" */
    const char *help;
    /* Label names, NULL-terminated. A name that begins with '*' is open: its values come from
     * outside, so it becomes "other" when the family reaches its cap. */
    const char *labels[METRIC_LABELS_MAX + 1];
    const double *bounds; /* classic bounds, ascending, without +Inf */
    size_t nbounds;
    struct metric_native native;
    unsigned flags;
};

struct metric_registry_options {
    unsigned threads;  /* threads with their own cells; all further threads share one set */
    size_t max_series; /* cap of live series in one family */
};

/* NULL: out of memory. */
struct metric_registry *metric_registry_new(const struct metric_registry_options *options);
void metric_registry_free(struct metric_registry **registry);

/* Adds a family; the strings and bounds are copied. A family without labels exposes its one series,
 * at 0, from now on. NULL with `error` filled in (unless `error` is NULL). */
struct metric_family *metric_register(struct metric_registry *registry,
                                      const struct metric_desc *desc, struct metric_error *error);

/* ---- resolving ----------------------------------------------------------------------------- */

/* The series of a label set, created at 0 if it is new. `values` holds one string for each label of
 * the family, any bytes; it may be NULL for a family without labels. Invalid UTF-8 is replaced by
 * U+FFFD. Never NULL: when the cap is reached or memory runs out, the result is the family's
 * "other" series, and metric_series_dropped() counts it. Such series come on top of the cap: at
 * most as many as the cap, and one whose labels are all "other". */
struct metric_series *metric_resolve(struct metric_family *family, const char *const *values);

/* Retires every series, of all families, whose label `label` has the value `value`: scrapes no
 * longer show it. Resolving the same label set again revives it with its last value. */
void metric_retire(struct metric_registry *registry, const char *label, const char *value);

/* How many resolutions have been folded into "other". */
uint64_t metric_series_dropped(const struct metric_registry *registry);

/* ---- observing: atomics only --------------------------------------------------------------- */

void metric_add(struct metric_series *counter, uint64_t n);
void metric_gauge_set(struct metric_series *gauge, double value);
void metric_gauge_add(struct metric_series *gauge, double delta);
void metric_observe(struct metric_series *histogram, double value);

/* Sets a counter that is kept elsewhere (CPU time, for example) and only mirrored here. One writer;
 * never mixed with metric_add on the same series. */
void metric_mirror(struct metric_series *counter, double value);

/* Names and values of an exemplar: `count` pairs. It is left out (the observation still counts)
 * when it has no pair, more than 128 code points, or more than 167 bytes with a NUL for each text,
 * when a name is not a label name, or when another thread is writing the same bucket's exemplar. */
struct metric_exemplar {
    size_t count;
    const char *const *names;
    const char *const *values;
};

void metric_add_exemplar(struct metric_series *counter, uint64_t n,
                         const struct metric_exemplar *exemplar);
void metric_observe_exemplar(struct metric_series *histogram, double value,
                             const struct metric_exemplar *exemplar);

/* ---- scraping ------------------------------------------------------------------------------ */

enum metric_format { METRIC_TEXT, METRIC_OPENMETRICS, METRIC_PROTOBUF };

/* Called when a scrape begins, to set gauges and mirrors that must be sampled. Hooks run one at a
 * time, even with several scrapes at once; they may resolve and observe, but not scrape. They stay
 * registered until the registry is freed. false: out of memory. */
typedef void metric_hook(void *arg);
bool metric_on_scrape(struct metric_registry *registry, metric_hook *hook, void *arg);

struct metric_scrape_options {
    enum metric_format format;
    bool created;             /* OpenMetrics: X_created lines; protobuf: start timestamps */
    const char *const *names; /* only these families (metric names as declared); NULL: all */
    size_t nnames;
};

/* A growing buffer. Zero it before its first use; it may be used again by setting length to 0. */
struct metric_buffer {
    char *data;
    size_t length;
    size_t capacity;
    bool failed; /* out of memory: later appends are lost */
};
void metric_buffer_free(struct metric_buffer *buffer);

/* A scrape is read in steps and can be streamed: each step appends whole series, at least `want`
 * bytes of them unless the scrape ends, and returns whether there is more. In protobuf a family is
 * one message, so there a step appends whole families. Each series is a consistent snapshot of
 * itself: the buckets of a histogram add up to its count, in the classic and in the native form.
 * Series that appear or are retired between two steps may or may not be shown. `options` and its
 * names must live until the end. Used by one thread at a time; any number of scrapes may run
 * concurrently. NULL: out of memory. */
struct metric_scrape *metric_scrape_begin(struct metric_registry *registry,
                                          const struct metric_scrape_options *options);
bool metric_scrape_step(struct metric_scrape *scrape, struct metric_buffer *out, size_t want);
void metric_scrape_end(struct metric_scrape **scrape);

#ifdef __cplusplus
}
#endif

#endif
