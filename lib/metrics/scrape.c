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
    case METRIC_OPENMETRICS_2:
        return &metric_encoder_openmetrics_2;
    case METRIC_PROTOBUF:
        return &metric_encoder_protobuf;
    }
    const bool known_format = false;
    BASE_CHECK(known_format);
    return NULL;
}

static bool family_is_wanted(const struct metric_scrape_options *options,
                             const struct metric_family *family)
{
    if (!options->names)
        return true;
    for (size_t i = 0; i < options->nnames; i++) {
        if (strcmp(options->names[i], family->name) == 0)
            return true;
    }
    return false;
}

static struct metric_family *first_family(const struct metric_registry *registry)
{
    return atomic_load_explicit(&registry->first, memory_order_acquire);
}

static struct metric_family *next_family(const struct metric_family *family)
{
    return atomic_load_explicit(&family->next, memory_order_acquire);
}

static size_t count_families(struct metric_registry *const *registries, size_t count)
{
    size_t families = 0;
    for (size_t i = 0; i < count; i++) {
        const struct metric_family *family = first_family(registries[i]);
        for (; family; family = next_family(family))
            families++;
    }
    return families;
}

/* Makes the list to walk; families that were registered since they were counted are not shown.
 * false: no memory. */
static bool plan_walk(struct metric_scrape *scrape, struct metric_registry *const *registries,
                      size_t count)
{
    const size_t most = count_families(registries, count);
    scrape->families = calloc(most > 0 ? most : 1, sizeof(struct metric_family *));
    if (!scrape->families)
        return false;
    for (size_t i = 0; i < count; i++) {
        struct metric_family *family = first_family(registries[i]);
        for (; family && scrape->nfamilies < most; family = next_family(family)) {
            if (family_is_wanted(scrape->options, family))
                scrape->families[scrape->nfamilies++] = family;
        }
    }
    return true;
}

/* Room for the snapshot of the histogram with the most cells. false: no memory. */
static bool make_room(struct metric_scrape *scrape)
{
    size_t cells = 1;
    for (size_t i = 0; i < scrape->nfamilies; i++) {
        const struct metric_grid *grid = scrape->families[i]->grid;
        if (grid && grid->ncells + 1 > cells)
            cells = grid->ncells + 1;
    }
    scrape->cells = calloc(cells, sizeof *scrape->cells);
    scrape->natives = calloc(cells, sizeof *scrape->natives);
    return scrape->cells && scrape->natives;
}

static void enter_family(struct metric_scrape *scrape)
{
    scrape->family = scrape->at < scrape->nfamilies ? scrape->families[scrape->at] : NULL;
    scrape->series =
        scrape->family ? atomic_load_explicit(&scrape->family->first, memory_order_acquire) : NULL;
}

/* ---- hooks ---------------------------------------------------------------------------------- */

/* Goes to the first hook that is left, of this registry or a later one; after the last, to the
 * first family. */
static void find_hook(struct metric_scrape *scrape)
{
    while (!scrape->hook && scrape->nhooked < scrape->nregistries) {
        struct metric_registry *registry = scrape->registries[scrape->nhooked++];
        pthread_mutex_lock(&registry->hook_lock);
        scrape->hook = registry->hooks;
        pthread_mutex_unlock(&registry->hook_lock);
    }
    if (!scrape->hook)
        enter_family(scrape);
}

static void run_hook(struct metric_scrape *scrape)
{
    struct metric_registered_hook *hook = scrape->hook;
    struct metric_registry *registry = scrape->registries[scrape->nhooked - 1];
    pthread_mutex_lock(&registry->hook_lock);
    hook->call(hook->arg);
    scrape->hook = hook->next;
    pthread_mutex_unlock(&registry->hook_lock);
    find_hook(scrape);
}

/* ---- begin and end --------------------------------------------------------------------------- */

struct metric_scrape *metric_scrape_begin_all(struct metric_registry *const *registries,
                                              size_t count,
                                              const struct metric_scrape_options *options)
{
    for (size_t i = 0; i < count; i++)
        BASE_CHECK(registries[i]->magic == METRIC_REGISTRY_MAGIC);
    struct metric_scrape *scrape = calloc(1, sizeof *scrape + count * sizeof(void *));
    if (!scrape)
        return NULL;
    scrape->magic = METRIC_SCRAPE_MAGIC;
    scrape->options = options;
    scrape->encoder = encoder_of(options->format);
    scrape->nregistries = count;
    for (size_t i = 0; i < count; i++)
        scrape->registries[i] = registries[i];
    if (plan_walk(scrape, registries, count) && make_room(scrape))
        find_hook(scrape);
    else
        metric_scrape_end(&scrape);
    return scrape;
}

struct metric_scrape *metric_scrape_begin(struct metric_registry *registry,
                                          const struct metric_scrape_options *options)
{
    return metric_scrape_begin_all(&registry, 1, options);
}

void metric_scrape_end(struct metric_scrape **scrape)
{
    if (!*scrape)
        return;
    BASE_CHECK((*scrape)->magic == METRIC_SCRAPE_MAGIC);
    (*scrape)->magic = 0;
    metric_buffer_free(&(*scrape)->message);
    free((*scrape)->cells);
    free((*scrape)->natives);
    free((*scrape)->families);
    free(*scrape);
    *scrape = NULL;
}

/* ---- a step --------------------------------------------------------------------------------- */

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
    scrape->at++;
    enter_family(scrape);
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
    const struct metric_series *series = next_series(scrape);
    if (!series) {
        leave_family(scrape, out);
        return;
    }
    if (!scrape->family_begun)
        scrape->encoder->family_begin(scrape, out);
    scrape->family_begun = true;
    scrape->encoder->series(scrape, series, out);
}

static size_t bytes_made(const struct metric_scrape *scrape, const struct metric_buffer *out)
{
    return out->length + scrape->message.length;
}

bool metric_scrape_step(struct metric_scrape *scrape, struct metric_buffer *out, size_t want)
{
    BASE_CHECK(scrape->magic == METRIC_SCRAPE_MAGIC);
    if (scrape->hook) {
        run_hook(scrape);
        return true;
    }
    const size_t enough = bytes_made(scrape, out) + want;
    while (!scrape->done && !out->failed) {
        scrape_next(scrape, out);
        out->failed |= scrape->message.failed;
        if (bytes_made(scrape, out) >= enough)
            break;
    }
    return !scrape->done && !out->failed;
}
