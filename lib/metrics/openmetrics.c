/* SPDX-License-Identifier: Apache-2.0 */
/* OpenMetrics 1.0: as the text format, with family names that differ from sample names, canonical
 * bounds, exemplars on _total and _bucket lines, _created on request, and # EOF at the end. The
 * thread that scrapes. */
#include "lib/metrics/lines.h"

static void openmetrics_begin_family(struct metric_scrape *scrape, struct metric_buffer *out)
{
    struct metric_piece head = scrape->family->texts.openmetrics_head;
    metric_buffer_append(out, metric_piece_data(scrape->family, head), head.length);
}

static void openmetrics_end_family(struct metric_scrape *scrape, struct metric_buffer *out)
{
    (void)scrape;
    (void)out;
}

static void openmetrics_end(struct metric_buffer *out)
{
    metric_buffer_append_text(out, "# EOF\n");
}

static char *write_created(char *out, const struct metric_scrape *scrape,
                           const struct metric_series *series)
{
    const int64_t start_ms = metric_series_start(series);
    if (!scrape->options->created || series->family->texts.unknown ||
        start_ms == METRIC_START_UNKNOWN)
        return out;
    out = metric_line_head(out, series, series->family->texts.created);
    out = metric_number_seconds(out, start_ms);
    *out++ = '\n';
    return out;
}

static void openmetrics_single(const struct metric_scrape *scrape,
                               const struct metric_series *series, struct metric_buffer *out)
{
    char *at = metric_buffer_room(out, 2 * metric_line_longest(series) + METRIC_LINE_EXEMPLAR);
    if (!at)
        return;
    at = metric_line_head(at, series, series->family->texts.name);
    if (series->family->type == METRIC_COUNTER) {
        at = metric_line_counter_value(at, series);
        if (series->exemplars && !series->family->texts.unknown)
            at = metric_line_exemplar(at, series->exemplars);
        *at++ = '\n';
        at = write_created(at, scrape, series);
    } else {
        at = metric_number_value(at, metric_snapshot_gauge(series));
        *at++ = '\n';
    }
    metric_buffer_take(out, at);
}

static char *write_bucket(char *out, const struct metric_series *series, size_t bucket,
                          uint64_t cumulative)
{
    out = metric_line_bucket_head(out, series, series->family->texts.openmetrics_le[bucket]);
    out = metric_number_u64(out, cumulative);
    if (series->exemplars)
        out = metric_line_exemplar(out, &series->exemplars[bucket]);
    *out++ = '\n';
    return out;
}

static char *write_histogram(char *out, const struct metric_scrape *scrape,
                             const struct metric_series *series)
{
    const struct metric_texts *texts = &series->family->texts;
    const struct metric_grid *grid = series->grid;
    uint64_t cumulative = 0;
    size_t cell = 0;
    for (size_t bucket = 0; bucket < grid->nclassic; bucket++) {
        for (; grid->classic_of[cell] == bucket; cell++)
            cumulative += scrape->cells[cell];
        out = write_bucket(out, series, bucket, cumulative);
    }
    out = write_bucket(out, series, grid->nclassic, scrape->count);
    out = metric_line_head(out, series, texts->count);
    out = metric_number_u64(out, scrape->count);
    *out++ = '\n';
    out = metric_line_head(out, series, texts->sum);
    out = metric_number_value(out, scrape->sum);
    *out++ = '\n';
    return write_created(out, scrape, series);
}

static void openmetrics_histogram(struct metric_scrape *scrape, const struct metric_series *series,
                                  struct metric_buffer *out)
{
    size_t line = metric_line_longest(series) + (series->exemplars ? METRIC_LINE_EXEMPLAR : 0);
    char *at = metric_buffer_room(out, metric_line_count(series) * line);
    if (!at)
        return;
    metric_snapshot_histogram(scrape, series);
    metric_buffer_take(out, write_histogram(at, scrape, series));
}

static void openmetrics_series(struct metric_scrape *scrape, const struct metric_series *series,
                               struct metric_buffer *out)
{
    if (series->family->type == METRIC_HISTOGRAM)
        openmetrics_histogram(scrape, series, out);
    else
        openmetrics_single(scrape, series, out);
}

const struct metric_encoder metric_encoder_openmetrics = {.family_begin = openmetrics_begin_family,
                                                          .series = openmetrics_series,
                                                          .family_end = openmetrics_end_family,
                                                          .end = openmetrics_end};
