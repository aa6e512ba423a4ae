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
 * What is served is read from the registry in one of four formats, in steps:
 *
 *     struct metric_scrape_options options = {.format = METRIC_TEXT};
 *     struct metric_buffer out = {0};
 *     struct metric_scrape *scrape = metric_scrape_begin(registry, &options);
 *     for (bool more = scrape != NULL; more; out.length = 0) {
 *         more = metric_scrape_step(scrape, &out, 65536);
 *         fwrite(out.data, 1, out.length, stdout);
 *     }
 *     metric_scrape_end(&scrape);
 *     metric_buffer_free(&out);
 *
 * Threads: every function may be called from any thread, except where it says otherwise. An
 * observation takes no lock, allocates nothing and formats nothing. Each thread counts into its own
 * cells; a scrape sums them. A series is never freed before its registry, so a pointer to it stays
 * valid even after the series is retired.
 *
 * Errors: what can fail because of its input or of memory returns NULL or false and says so; the
 * result of other functions need not be checked. A pointer of the wrong kind (a gauge where a
 * counter is expected, a registry that was freed) is a bug of the caller: the process aborts with
 * the name of the broken check, rather than writing to memory that is not its own. NULL is such a
 * pointer, except where a function says that it takes NULL.
 *
 * The library is libprom (pkg-config prom). It needs libc, libm and libyyjson, which prints
 * numbers; it never prints, except for the broken check above, never exits, starts no thread and
 * reads no file. prom.h is the same core for programs written for prometheus-client-c; both may be
 * used in one program.
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
    METRIC_LABELS_MAX = 16,          /* labels of one family */
    METRIC_BOUNDS_MAX = 128,         /* classic bucket bounds of one family, +Inf not counted */
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
    METRIC_ERR_FLAGS,     /* exemplars on a gauge, or fractions of something else than a counter */
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
    METRIC_FRACTIONS = 1 << 1, /* a counter that metric_add_real may add fractions to */
    /* Any name that Prometheus allows: also with colons, a counter's without _total, a gauge's with
     * a suffix of a counter or histogram; and an empty help text. For names that are not ours to
     * choose. OpenMetrics 1.0 shows a counter without _total as "unknown", under the same name. */
    METRIC_ANY_NAME = 1 << 2,
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
    unsigned flags; /* of enum metric_flag */
};

struct metric_registry_options {
    unsigned threads;  /* threads with their own cells; all further threads share one set */
    size_t max_series; /* cap of live series in one family */
};

/* Makes a registry, which owns all that is registered in it. The options are copied.
 * NULL: out of memory. */
struct metric_registry *metric_registry_new(const struct metric_registry_options *options);

/* Frees the registry with its families and series, and sets the pointer to NULL; takes NULL. No
 * other thread may use any of them any more, and no scrape may be open. */
void metric_registry_free(struct metric_registry **registry);

/* Adds a family; the strings and bounds are copied. A family without labels exposes its one series,
 * at 0, from now on. The family belongs to the registry. NULL with `error` filled in (unless
 * `error` is NULL): the description breaks a rule, its names clash with those of a family that is
 * registered, or memory ran out; nothing has changed then. */
struct metric_family *metric_register(struct metric_registry *registry,
                                      const struct metric_desc *desc, struct metric_error *error);

/* ---- resolving ----------------------------------------------------------------------------- */

/* The series of a label set, created at 0 if it is new. `values` holds one string for each label of
 * the family, any bytes, copied if the series is new; it may be NULL for a family without labels.
 * Invalid UTF-8 is replaced by U+FFFD. Never NULL: when the cap is reached or memory runs out, the
 * result is the family's "other" series, and metric_series_dropped() counts it. Such series come on
 * top of the cap: at most as many as the cap, and one whose labels are all "other".
 *
 * A series that exists is found without a lock and without an allocation. */
struct metric_series *metric_resolve(struct metric_family *family, const char *const *values);

/* The same without "other": NULL when the cap is reached or memory runs out. */
struct metric_series *metric_resolve_exact(struct metric_family *family, const char *const *values);

/* Retires every series, of all families, whose label `label` has the value `value`: scrapes no
 * longer show it. Resolving the same label set again revives it with its last value. */
void metric_retire(struct metric_registry *registry, const char *label, const char *value);
/* The same for `count` values in the order of strcmp, in one walk over the series. */
void metric_retire_all(struct metric_registry *registry, const char *label,
                       const char *const *values, size_t count);

/* Retires one series; harmless if there is none of these values, or if they are not valid UTF-8. */
void metric_retire_exact(struct metric_family *family, const char *const *values);

/* How many resolutions have been folded into "other". */
uint64_t metric_series_dropped(const struct metric_registry *registry);

/* The value of its label, by the label's place in the description: "other" if that was folded. */
const char *metric_label_value(const struct metric_series *series, size_t label);

/* ---- observing: atomics only --------------------------------------------------------------- */

/* Adds to a counter; counts wrap at 2^64. */
void metric_add(struct metric_series *counter, uint64_t n);

/* Adds a number that is finite and not negative. What has a fraction, or is 2^53 or more, needs a
 * counter with METRIC_FRACTIONS; whole numbers are counted exactly beside it. */
void metric_add_real(struct metric_series *counter, double value);

/* Sets a gauge, or adds to it; any value, NaN and the infinities too. */
void metric_gauge_set(struct metric_series *gauge, double value);
void metric_gauge_add(struct metric_series *gauge, double delta);

/* Counts a value in its bucket, classic and native, and adds it to the sum. NaN counts, in the
 * bucket of +Inf, and makes the sum NaN. */
void metric_observe(struct metric_series *histogram, double value);

/* Sets a counter that is kept elsewhere (CPU time, for example) and only mirrored here. One writer;
 * never mixed with metric_add on the same series. When the counting began is not known here, so no
 * format shows a start for the series from now on. */
void metric_mirror(struct metric_series *counter, double value);

/* The same with the time at which the other place began to count, in seconds since 1970. It
 * counts as not known if it is NaN, or not between 1970 and the year 10000. */
void metric_mirror_since(struct metric_series *counter, double value, double since);

/* Names and values of an exemplar: `count` pairs. It is left out (the observation still counts)
 * when it has no pair, more than 128 code points, or more than 167 bytes with a NUL for each text,
 * when a name is not a label name, or when another thread is writing the same bucket's exemplar. */
struct metric_exemplar {
    size_t count;
    const char *const *names;
    const char *const *values;
};

/* The same as without an exemplar, which is copied; it is kept if the family has METRIC_EXEMPLARS.
 */
void metric_add_exemplar(struct metric_series *counter, uint64_t n,
                         const struct metric_exemplar *exemplar);
void metric_observe_exemplar(struct metric_series *histogram, double value,
                             const struct metric_exemplar *exemplar);

/* ---- reading: for a program that judges by its own metrics ---------------------------------- */

/* What was added with metric_add, and the whole numbers of metric_add_real. */
uint64_t metric_read_counter(const struct metric_series *counter);

/* A histogram at one moment; the buckets are those of its classic bounds, each with its own count,
 * the last is that of +Inf. */
struct metric_reading {
    double sum;
    uint64_t count;
    uint64_t buckets[METRIC_BOUNDS_MAX + 1];
};
void metric_read_histogram(const struct metric_series *histogram, struct metric_reading *reading);

/* ---- scraping ------------------------------------------------------------------------------ */

enum metric_format {
    METRIC_TEXT,          /* Prometheus text, 0.0.4 */
    METRIC_OPENMETRICS,   /* OpenMetrics 1.0 */
    METRIC_PROTOBUF,      /* io.prometheus.client.MetricFamily messages, each after its length */
    METRIC_OPENMETRICS_2, /* experimental: OpenMetrics 2.0 as of rc0; may change */
};

/* Called in the first steps of a scrape, one in each, to set gauges and mirrors that must be
 * sampled. Hooks run one at a time, even with several scrapes at once; they may resolve and
 * observe, but not scrape. They stay registered until the registry is freed. false: out of memory.
 */
typedef void metric_hook(void *arg);
bool metric_on_scrape(struct metric_registry *registry, metric_hook *hook, void *arg);

struct metric_scrape_options {
    enum metric_format format;
    bool created;             /* OpenMetrics 1.0: X_created lines; the last two formats always have
                                 the start of each series, in its own place. A start that is not
                                 known (metric_mirror) is not shown in any format */
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

/* Frees what the buffer holds and zeroes it. */
void metric_buffer_free(struct metric_buffer *buffer);

/* A scrape is read in steps and can be streamed: each step makes whole series, at least `want`
 * bytes of them unless the scrape ends, and returns whether there is more. It appends what it made;
 * but in protobuf a family is one message, so there a step appends the families that it completed.
 * A step may append nothing: while hooks are called, and while a family of protobuf grows. Each
 * series is a consistent snapshot of itself: the buckets of a histogram add up to its count, in the
 * classic and in the native form. Series that appear or are retired between two steps may or may
 * not be shown. `options` and its names must live until the end. Used by one thread at a time; any
 * number of scrapes may run concurrently. NULL: out of memory. */
struct metric_scrape *metric_scrape_begin(struct metric_registry *registry,
                                          const struct metric_scrape_options *options);

/* The same of several registries as one, in their order; `registries` is not needed afterwards, but
 * each registry until the end. That no name is in two of them is the caller's care. */
struct metric_scrape *metric_scrape_begin_all(struct metric_registry *const *registries,
                                              size_t count,
                                              const struct metric_scrape_options *options);

/* false: that was the last step, which may have appended bytes too, or memory ran out
 * (out->failed). */
bool metric_scrape_step(struct metric_scrape *scrape, struct metric_buffer *out, size_t want);

/* Frees the scrape, at any time, and sets the pointer to NULL; takes NULL. */
void metric_scrape_end(struct metric_scrape **scrape);

#ifdef __cplusplus
}
#endif

#endif
