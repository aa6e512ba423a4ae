/* SPDX-License-Identifier: Apache-2.0 */
/* The text format of Prometheus, version 0.0.4. The thread that scrapes. */
#include "lib/metrics/lines.h"

static void text_begin_family(struct metric_scrape *scrape, struct metric_buffer *out)
{
    struct metric_piece head = scrape->family->texts.text_head;
    metric_buffer_append(out, metric_piece_data(scrape->family, head), head.length);
}

static void text_end_family(struct metric_scrape *scrape, struct metric_buffer *out)
{
    (void)scrape;
    (void)out;
}

static void text_end(struct metric_buffer *out)
{
    (void)out;
}

static void text_single(const struct metric_series *series, struct metric_buffer *out)
{
    char *at = metric_buffer_room(out, metric_line_longest(series));
    if (!at)
        return;
    at = metric_line_head(at, series, series->family->texts.name);
    if (series->family->type == METRIC_COUNTER)
        at = metric_line_counter_value(at, series);
    else
        at = metric_number_value(at, metric_snapshot_gauge(series));
    *at++ = '\n';
    metric_buffer_take(out, at);
}

static void text_histogram(struct metric_scrape *scrape, const struct metric_series *series,
                           struct metric_buffer *out)
{
    const struct metric_texts *texts = &series->family->texts;
    const struct metric_grid *grid = series->grid;
    char *at = metric_buffer_room(out, metric_line_count(series) * metric_line_longest(series));
    if (!at)
        return;
    metric_snapshot_histogram(scrape, series);
    uint64_t cumulative = 0;
    size_t cell = 0;
    for (size_t bucket = 0; bucket < grid->nclassic; bucket++) {
        for (; grid->classic_of[cell] == bucket; cell++)
            cumulative += scrape->cells[cell];
        at = metric_line_bucket_head(at, series, texts->text_le[bucket]);
        at = metric_number_u64(at, cumulative);
        *at++ = '\n';
    }
    at = metric_line_bucket_head(at, series, texts->text_le[grid->nclassic]);
    at = metric_number_u64(at, scrape->count);
    *at++ = '\n';
    at = metric_line_head(at, series, texts->sum);
    at = metric_number_value(at, scrape->sum);
    *at++ = '\n';
    at = metric_line_head(at, series, texts->count);
    at = metric_number_u64(at, scrape->count);
    *at++ = '\n';
    metric_buffer_take(out, at);
}

static void text_series(struct metric_scrape *scrape, const struct metric_series *series,
                        struct metric_buffer *out)
{
    if (series->family->type == METRIC_HISTOGRAM)
        text_histogram(scrape, series, out);
    else
        text_single(series, out);
}

const struct metric_encoder metric_encoder_text = {.family_begin = text_begin_family,
                                                   .series = text_series,
                                                   .family_end = text_end_family,
                                                   .end = text_end};
