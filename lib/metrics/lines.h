/* SPDX-License-Identifier: Apache-2.0 */
/* What the two text formats share: lines made of prepared pieces and one number. Each function
 * writes at `out` and returns the end; the caller has reserved the room. The thread that scrapes.
 */
#ifndef METRIC_LINES_H
#define METRIC_LINES_H

#include <stddef.h>
#include <string.h>

#include "lib/metrics/escape.h"
#include "lib/metrics/number.h"
#include "lib/metrics/scrape.h"

static inline char *metric_line_copy(char *out, const char *data, size_t length)
{
    memcpy(out, data, length);
    return out + length;
}

static inline char *metric_line_text(char *out, const char *text)
{
    return metric_line_copy(out, text, strlen(text));
}

static inline char *metric_line_piece(char *out, const struct metric_family *family,
                                      struct metric_piece piece)
{
    return metric_line_copy(out, metric_piece_data(family, piece), piece.length);
}

/* `name{a="b"} ` */
static inline char *metric_line_head(char *out, const struct metric_series *series,
                                     struct metric_piece name)
{
    out = metric_line_piece(out, series->family, name);
    return metric_line_copy(out, series->text, series->text_length);
}

/* `name_bucket{a="b",le="1"} `: the labels without their closing `} `, then the piece of `le` */
static inline char *metric_line_bucket_head(char *out, const struct metric_series *series,
                                            struct metric_piece le)
{
    out = metric_line_piece(out, series->family, series->family->texts.bucket);
    size_t labels = series->family->nlabels > 0 ? series->text_length - 2 : 0;
    out = metric_line_copy(out, series->text, labels);
    return metric_line_piece(out, series->family, le);
}

static inline char *metric_line_counter_value(char *out, const struct metric_series *series)
{
    struct metric_counter_value value = metric_snapshot_counter(series);
    return value.whole ? metric_number_u64(out, value.count)
                       : metric_number_value(out, value.value);
}

enum {
    /* ` # {`, text escaped and quoted, value, timestamp */
    METRIC_LINE_EXEMPLAR =
        METRIC_EXEMPLAR_BYTES * METRIC_ESCAPE_GROWTH + 2 * METRIC_NUMBER_MAX + 16,
};

/* ` # {a="b"} 1 1700000000.123`, at most METRIC_LINE_EXEMPLAR bytes; nothing if there is none. */
char *metric_line_exemplar(char *out, const struct metric_exemplar_slot *slot);

/* The longest line of the series without exemplar: any of the sample names, labels, bound and
 * value. */
static inline size_t metric_line_longest(const struct metric_series *series)
{
    enum { SUFFIX_AND_LE = 32 };
    return series->family->texts.name.length + series->text_length + SUFFIX_AND_LE +
           (size_t)2 * METRIC_NUMBER_MAX;
}

/* The lines of a histogram: its buckets, sum, count, and _created. */
static inline size_t metric_line_count(const struct metric_series *series)
{
    return series->grid->nclassic + 4;
}

#endif
