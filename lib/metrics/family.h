/* SPDX-License-Identifier: Apache-2.0 */
/*
 * family.h - registry, family and series in memory.
 *
 * Who writes what:
 *   - everything not named below is set before the object is published and never changes;
 *   - a registry's list of families grows at its end, under the registry's lock;
 *   - a family's table and list of series grow, and series go live or retire, under the family's
 *     lock; readers (resolve, scrapes) take no lock and see published pointers by acquire;
 *   - cells, values and exemplars are written by any thread that observes.
 * Nothing that a reader may hold is freed before the registry, so readers need not register.
 */
#ifndef METRIC_FAMILY_H
#define METRIC_FAMILY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/metrics/buffer.h"
#include "lib/metrics/cells.h"
#include "lib/metrics/exemplar.h"
#include "lib/metrics/grid.h"
#include "lib/metrics/metric.h"

/* One magic for each type, so that one comparison tells a series from garbage and a counter from a
 * histogram. */
#define METRIC_SERIES_MAGIC(type) (0x6d731d00u + (unsigned)(type))
#define METRIC_FAMILY_MAGIC       0x6d66a301u
#define METRIC_REGISTRY_MAGIC     0x6d726701u
#define METRIC_SCRAPE_MAGIC       0x6d736301u

/* A cell row of a histogram: the sum, then the cells of the grid, then the cell of NaN. A counter's
 * is one cell, and one more for the sum of its fractions if it has any (METRIC_FRACTIONS). A gauge
 * has none. */
enum { METRIC_ROW_SUM = 0, METRIC_ROW_CELLS = 1 };
enum { METRIC_ROW_WHOLE = 0, METRIC_ROW_FRACTIONS = 1 };

enum { METRIC_START_UNKNOWN = 0 };

struct metric_series {
    /* one cache line that observations read and, but for gauges, never write */
    _Alignas(METRIC_CACHE_LINE) unsigned magic;
    unsigned exclusive; /* shards with one owner each; the one after them is shared */
    metric_cell *cells; /* the row in shard 0 */
    size_t stride;      /* cells from the row in one shard to that in the next */
    const struct metric_grid *grid;
    struct metric_exemplar_slot *exemplars; /* one for each classic bucket; NULL: not kept */
    metric_cell value; /* the bits of a gauge's or a mirrored counter's value */
    struct metric_family *family;

    uint64_t hash;
    _Atomic(struct metric_series *) next; /* in order of creation */
    _Atomic(bool) live;                   /* scrapes show it */
    _Atomic(int64_t) start_ms; /* when its counting began; METRIC_START_UNKNOWN if elsewhere */
    size_t key_length;
    size_t text_length;
    const char *text; /* the labels as the text formats show them: `{a="b"} `, or ` ` without any */
    char key[];       /* the label values, each ended by NUL; then the bytes of `text` */
};

/* Open addressing, never more than half full, so probes are short. Superseded tables are kept until
 * the registry is freed, for readers that still use them; together they are as large as the newest.
 */
struct metric_table {
    struct metric_table *previous;
    size_t mask;
    size_t used;
    _Atomic(struct metric_series *) entries[];
};

/* A piece of the family's prepared text. */
struct metric_piece {
    uint32_t at;
    uint32_t length;
};

/* What the text encoders copy instead of formatting it for each line. */
struct metric_texts {
    struct metric_buffer bytes;
    struct metric_piece text_head;                             /* # HELP, # TYPE of 0.0.4 */
    struct metric_piece openmetrics_head;                      /* # TYPE, # UNIT, # HELP */
    struct metric_piece openmetrics_2_head;                    /* the same, of 2.0 */
    struct metric_piece name;                                  /* also that of a counter's sample */
    struct metric_piece bucket, sum, count, created;           /* the samples' names */
    struct metric_piece text_le[METRIC_BOUNDS_MAX + 1];        /* `,le="1"} `, or `{le="1"} ` */
    struct metric_piece openmetrics_le[METRIC_BOUNDS_MAX + 1]; /* the same, canonical */
    bool unknown; /* a counter that OpenMetrics 1.0 cannot show as one: its name lacks _total */
};

struct metric_family {
    unsigned magic;
    enum metric_type type;
    unsigned flags;
    struct metric_registry *registry;
    _Atomic(struct metric_family *) next;
    char *name;
    char *help;
    char *unit;
    size_t nlabels;
    char *labels[METRIC_LABELS_MAX];
    bool open[METRIC_LABELS_MAX]; /* the label becomes "other" when the cap is reached */
    bool any_open;
    struct metric_grid *grid; /* NULL: no histogram */
    size_t row_width;
    struct metric_texts texts;
    struct metric_series *fallback; /* all labels "other"; the only series where there are none */

    _Atomic(struct metric_table *) table;
    _Atomic(struct metric_series *) first;
    _Atomic(size_t) nlive; /* written under the lock */

    pthread_mutex_t lock;
    struct metric_series *last;
    struct metric_chunk *chunks; /* the first is the one with room */
};

struct metric_registered_hook {
    struct metric_registered_hook *next;
    metric_hook *call;
    void *arg;
};

struct metric_registry {
    unsigned magic;
    unsigned exclusive;
    size_t max_series;
    uint64_t seed; /* of the label hash: a client cannot choose labels that collide */
    _Atomic(uint64_t) dropped;
    _Atomic(struct metric_family *) first;

    pthread_mutex_t lock;
    struct metric_family *last;

    pthread_mutex_t hook_lock; /* held while hooks run: one at a time */
    struct metric_registered_hook *hooks;
};

/* Makes the text pieces. false: no memory. */
bool metric_texts_build(struct metric_texts *texts, const struct metric_family *family);

/* Makes the table and the fallback series. false: no memory. */
bool metric_family_open(struct metric_family *family);
/* Retires every series; a gauge begins at 0 when it is resolved again. The one series of a family
 * without labels stays. */
void metric_family_retire(struct metric_family *family);
/* Frees the series and tables; takes half-built families too. */
void metric_family_close(struct metric_family *family);

static inline const char *metric_piece_data(const struct metric_family *family,
                                            struct metric_piece piece)
{
    return family->texts.bytes.data + piece.at;
}

static inline int64_t metric_series_start(const struct metric_series *series)
{
    return atomic_load_explicit(&series->start_ms, memory_order_relaxed);
}

static inline bool metric_series_live(const struct metric_series *series)
{
    return atomic_load_explicit(&series->live, memory_order_acquire);
}

#endif
