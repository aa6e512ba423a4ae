/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scrape.h - a scrape in progress, and what an encoder is.
 *
 * The hooks come first, each in a step of its own, since one may take as long as a step does. Then
 * the iterator walks families and series in the order of their creation and hands each live series
 * to the encoder of the format. The cells of a histogram are read once into `cells`, and all
 * exposed numbers come from there. Used by one thread at a time.
 */
#ifndef METRIC_SCRAPE_H
#define METRIC_SCRAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/metrics/family.h"
#include "lib/metrics/metric.h"

struct metric_native_bucket {
    int32_t index;
    uint64_t count;
};

/* Appends to `out`, or to the scrape's `message` until a family is whole; running out of memory
 * shows in their `failed` only. */
struct metric_encoder {
    void (*family_begin)(struct metric_scrape *scrape, struct metric_buffer *out);
    void (*series)(struct metric_scrape *scrape, const struct metric_series *series,
                   struct metric_buffer *out);
    void (*family_end)(struct metric_scrape *scrape, struct metric_buffer *out);
    void (*end)(struct metric_buffer *out);
};

extern const struct metric_encoder metric_encoder_text;
extern const struct metric_encoder metric_encoder_openmetrics;
extern const struct metric_encoder metric_encoder_openmetrics_2;
extern const struct metric_encoder metric_encoder_protobuf;

struct metric_scrape {
    unsigned magic;
    const struct metric_scrape_options *options;
    const struct metric_encoder *encoder;

    struct metric_family **families; /* those there were at the beginning, and wanted */
    size_t nfamilies;
    size_t at;
    struct metric_family *family; /* families[at]; NULL: the walk is over */
    struct metric_series *series; /* the next series of the family; NULL: its end */
    bool family_begun;
    struct metric_registered_hook *hook; /* the next one to call; NULL: all were called */
    size_t nhooked;                      /* registries whose hooks were called, or are being */
    struct metric_buffer message; /* for the encoder: what it has of a family that goes out whole */
    bool done;

    /* the snapshot of one histogram series, made by metric_snapshot_histogram */
    uint64_t *cells; /* one number for each cell of the grid, then that of NaN */
    uint64_t count;
    double sum;
    struct metric_native_bucket *natives; /* room for as many as there are cells */

    size_t nregistries;
    struct metric_registry *registries[];
};

/* A counter's value: an integer if it is counted here, any number if it is mirrored. */
struct metric_counter_value {
    bool whole;
    uint64_t count;
    double value;
};

struct metric_counter_value metric_snapshot_counter(const struct metric_series *series);
double metric_snapshot_gauge(const struct metric_series *series);
void metric_snapshot_histogram(struct metric_scrape *scrape, const struct metric_series *series);

#endif
