/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenMetrics 2.0, of which a release candidate exists (rc0, March 2026): experimental, and sent
 * only to who asks for version 2.0.0.
 *
 * What differs from 1.0: a family has the name of its samples, a counter without _total is a
 * counter, a histogram is one line with its classic and its native buckets, and the start of a
 * series is on its line, so that there is no _created. The thread that scrapes.
 */
#include <math.h>

#include "lib/metrics/lines.h"
#include "lib/metrics/native.h"

enum {
    FIELD_NAMES = 160, /* the names of all fields of a histogram, with their punctuation */
    BUCKET_LONGEST = 2 * METRIC_NUMBER_MAX + 2, /* `bound:count,`, `offset:length,` or `count,` */
    START_LONGEST = METRIC_NUMBER_MAX + 8,      /* ` st@1700000000.123` and the end of the line */
};

static void openmetrics_2_begin_family(struct metric_scrape *scrape, struct metric_buffer *out)
{
    struct metric_piece head = scrape->family->texts.openmetrics_2_head;
    metric_buffer_append(out, metric_piece_data(scrape->family, head), head.length);
}

static void openmetrics_2_end_family(struct metric_scrape *scrape, struct metric_buffer *out)
{
    (void)scrape;
    (void)out;
}

static void openmetrics_2_end(struct metric_buffer *out)
{
    metric_buffer_append_text(out, "# EOF\n");
}

static char *write_start(char *out, const struct metric_series *series)
{
    const int64_t start_ms = metric_series_start(series);
    if (start_ms == METRIC_START_UNKNOWN)
        return out;
    out = metric_line_text(out, " st@");
    return metric_number_seconds(out, start_ms);
}

static void openmetrics_2_single(const struct metric_series *series, struct metric_buffer *out)
{
    char *at =
        metric_buffer_room(out, metric_line_longest(series) + START_LONGEST + METRIC_LINE_EXEMPLAR);
    if (!at)
        return;
    at = metric_line_head(at, series, series->family->texts.name);
    if (series->family->type == METRIC_COUNTER) {
        at = metric_line_counter_value(at, series);
        at = write_start(at, series);
        if (series->exemplars)
            at = metric_line_exemplar(at, series->exemplars);
    } else {
        at = metric_number_value(at, metric_snapshot_gauge(series));
    }
    *at++ = '\n';
    metric_buffer_take(out, at);
}

/* ---- histograms ----------------------------------------------------------------------------- */

static char *write_integer(char *out, int64_t value)
{
    if (value < 0)
        *out++ = '-';
    return metric_number_u64(out, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

static char *write_offset_and_length(char *out, int64_t offset, uint64_t length)
{
    out = write_integer(out, offset);
    *out++ = ':';
    return metric_number_u64(out, length);
}

/* Each run of neighbours is a span: `offset:length`, the offset counted from the end of the last.
 * There is at least one. */
static char *write_spans(char *out, const struct metric_native_form *form)
{
    int64_t end = 0; /* of the last span */
    for (size_t i = 0; i < form->nbuckets;) {
        const int64_t first = form->buckets[i].index;
        uint64_t length = 1;
        for (i++; i < form->nbuckets && form->buckets[i].index == first + (int64_t)length; i++)
            length++;
        out = write_offset_and_length(out, first - end, length);
        *out++ = ',';
        end = first + (int64_t)length;
    }
    return out - 1; /* the comma after the last */
}

static char *write_native(char *out, struct metric_scrape *scrape, const struct metric_grid *grid)
{
    const struct metric_native_form form = metric_native_form(scrape, grid);
    out = metric_line_text(out, ",schema:");
    out = write_integer(out, form.schema);
    out = metric_line_text(out, ",zero_threshold:");
    out = metric_number_value(out, form.zero_threshold);
    out = metric_line_text(out, ",zero_count:");
    out = metric_number_u64(out, form.zero_count);
    if (form.nbuckets == 0)
        return out;
    out = metric_line_text(out, ",positive_spans:[");
    out = write_spans(out, &form);
    out = metric_line_text(out, "],positive_buckets:[");
    for (size_t i = 0; i < form.nbuckets; i++) {
        if (i > 0)
            *out++ = ',';
        out = metric_number_u64(out, form.buckets[i].count);
    }
    *out++ = ']';
    return out;
}

static char *write_classic(char *out, const struct metric_scrape *scrape,
                           const struct metric_grid *grid)
{
    uint64_t cumulative = 0;
    size_t cell = 0;
    out = metric_line_text(out, ",bucket:[");
    for (size_t bucket = 0; bucket < grid->nclassic; bucket++) {
        for (; grid->classic_of[cell] == bucket; cell++)
            cumulative += scrape->cells[cell];
        out = metric_number_canonical(out, grid->classic[bucket]);
        *out++ = ':';
        out = metric_number_u64(out, cumulative);
        *out++ = ',';
    }
    out = metric_line_text(out, "+Inf:");
    out = metric_number_u64(out, scrape->count);
    *out++ = ']';
    return out;
}

static char *write_exemplars(char *out, const struct metric_series *series)
{
    for (size_t bucket = 0; series->exemplars && bucket <= series->grid->nclassic; bucket++)
        out = metric_line_exemplar(out, &series->exemplars[bucket]);
    return out;
}

static size_t histogram_longest(const struct metric_series *series)
{
    const struct metric_grid *grid = series->grid;
    size_t size = metric_line_longest(series) + FIELD_NAMES + START_LONGEST +
                  (size_t)4 * METRIC_NUMBER_MAX + (grid->nclassic + 1) * BUCKET_LONGEST;
    if (grid->native)
        size += (size_t)2 * METRIC_NATIVE_BUCKETS_MAX * BUCKET_LONGEST;
    if (series->exemplars)
        size += (grid->nclassic + 1) * METRIC_LINE_EXEMPLAR;
    return size;
}

static void openmetrics_2_histogram(struct metric_scrape *scrape,
                                    const struct metric_series *series, struct metric_buffer *out)
{
    const struct metric_grid *grid = series->grid;
    char *at = metric_buffer_room(out, histogram_longest(series));
    if (!at)
        return;
    metric_snapshot_histogram(scrape, series);
    at = metric_line_head(at, series, series->family->texts.name);
    at = metric_line_text(at, "{count:");
    at = metric_number_u64(at, scrape->count);
    at = metric_line_text(at, ",sum:");
    at = metric_number_value(at, scrape->sum);
    if (grid->native)
        at = write_native(at, scrape, grid);
    if (grid->nclassic > 0 || !grid->native)
        at = write_classic(at, scrape, grid);
    *at++ = '}';
    at = write_start(at, series);
    at = write_exemplars(at, series);
    *at++ = '\n';
    metric_buffer_take(out, at);
}

static void openmetrics_2_series(struct metric_scrape *scrape, const struct metric_series *series,
                                 struct metric_buffer *out)
{
    if (series->family->type == METRIC_HISTOGRAM)
        openmetrics_2_histogram(scrape, series, out);
    else
        openmetrics_2_single(series, out);
}

const struct metric_encoder metric_encoder_openmetrics_2 = {.family_begin =
                                                                openmetrics_2_begin_family,
                                                            .series = openmetrics_2_series,
                                                            .family_end = openmetrics_2_end_family,
                                                            .end = openmetrics_2_end};
