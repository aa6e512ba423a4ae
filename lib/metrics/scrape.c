/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks families and series for an encoder; scrape.h tells the story. One thread per scrape,
 * without locks but for hooks.
 */
#include "lib/metrics/scrape.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/check.h"

static const struct metric_encoder *encoder_of(enum metric_format format)
{
    switch (format) {
    case METRIC_TEXT:
        return &metric_encoder_text;
    case METRIC_OPENMETRICS:
        return &metric_encoder_openmetrics;
    case METRIC_PROTOBUF:
        return &metric_encoder_protobuf;
    }
    const bool known_format = false;
    BASE_CHECK(known_format);
    return NULL;
}

static void run_hooks(struct metric_registry *registry)
{
    pthread_mutex_lock(&registry->hook_lock);
    for (struct metric_registered_hook *hook = registry->hooks; hook; hook = hook->next)
        hook->call(hook->arg);
    pthread_mutex_unlock(&registry->hook_lock);
}

/* Sets the range to walk; returns the largest number of cells of any family in it. */
static size_t plan_walk(struct metric_scrape *scrape, struct metric_registry *registry)
{
    size_t cells = 1;
    struct metric_family *family = atomic_load_explicit(&registry->first, memory_order_acquire);
    scrape->family = family;
    for (; family; family = atomic_load_explicit(&family->next, memory_order_acquire)) {
        scrape->last = family;
        if (family->grid && family->grid->ncells + 1 > cells)
            cells = family->grid->ncells + 1;
    }
    if (scrape->family)
        scrape->series = atomic_load_explicit(&scrape->family->first, memory_order_acquire);
    return cells;
}

struct metric_scrape *metric_scrape_begin(struct metric_registry *registry,
                                          const struct metric_scrape_options *options)
{
    BASE_CHECK(registry->magic == METRIC_REGISTRY_MAGIC);
    run_hooks(registry);
    struct metric_scrape *scrape = calloc(1, sizeof *scrape);
    if (!scrape)
        return NULL;
    scrape->magic = METRIC_SCRAPE_MAGIC;
    scrape->options = options;
    scrape->encoder = encoder_of(options->format);
    size_t cells = plan_walk(scrape, registry);
    scrape->cells = calloc(cells, sizeof *scrape->cells);
    scrape->natives = calloc(cells, sizeof *scrape->natives);
    if (!scrape->cells || !scrape->natives)
        metric_scrape_end(&scrape);
    return scrape;
}

void metric_scrape_end(struct metric_scrape **scrape)
{
    if (!*scrape)
        return;
    BASE_CHECK((*scrape)->magic == METRIC_SCRAPE_MAGIC);
    (*scrape)->magic = 0;
    free((*scrape)->cells);
    free((*scrape)->natives);
    free(*scrape);
    *scrape = NULL;
}

static bool family_is_wanted(const struct metric_scrape *scrape, const struct metric_family *family)
{
    if (!scrape->options->names)
        return true;
    for (size_t i = 0; i < scrape->options->nnames; i++) {
        if (strcmp(scrape->options->names[i], family->name) == 0)
            return true;
    }
    return false;
}

/* Moves on to the next live series of the family; NULL at its end. */
static struct metric_series *next_series(struct metric_scrape *scrape)
{
    struct metric_series *series = scrape->series;
    while (series && !metric_series_live(series))
        series = atomic_load_explicit(&series->next, memory_order_acquire);
    if (series)
        scrape->series = atomic_load_explicit(&series->next, memory_order_acquire);
    return series;
}

static void leave_family(struct metric_scrape *scrape, struct metric_buffer *out)
{
    if (scrape->family_begun)
        scrape->encoder->family_end(scrape, out);
    scrape->family_begun = false;
    scrape->family = scrape->family == scrape->last
                         ? NULL
                         : atomic_load_explicit(&scrape->family->next, memory_order_acquire);
    scrape->series =
        scrape->family ? atomic_load_explicit(&scrape->family->first, memory_order_acquire) : NULL;
}

/* Emits one series, the end of a family, or the end of all. A family without live series is not
 * shown, as in the Go client. */
static void scrape_next(struct metric_scrape *scrape, struct metric_buffer *out)
{
    if (!scrape->family) {
        scrape->encoder->end(out);
        scrape->done = true;
        return;
    }
    const struct metric_series *series =
        family_is_wanted(scrape, scrape->family) ? next_series(scrape) : NULL;
    if (!series) {
        leave_family(scrape, out);
        return;
    }
    if (!scrape->family_begun)
        scrape->encoder->family_begin(scrape, out);
    scrape->family_begun = true;
    scrape->encoder->series(scrape, series, out);
}

bool metric_scrape_step(struct metric_scrape *scrape, struct metric_buffer *out, size_t want)
{
    BASE_CHECK(scrape->magic == METRIC_SCRAPE_MAGIC);
    size_t enough = out->length + want;
    while (!scrape->done && !out->failed) {
        scrape_next(scrape, out);
        bool may_pause = !scrape->family_begun || !scrape->encoder->whole_families;
        if (out->length >= enough && may_pause)
            break;
    }
    return !scrape->done && !out->failed;
}
