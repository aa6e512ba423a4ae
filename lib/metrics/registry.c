/* SPDX-License-Identifier: Apache-2.0 */
/* Registration: a description is checked, copied and published. What is registered stays until the
 * registry is freed. Any thread, under the lock of the registry. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "lib/base/check.h"
#include "lib/metrics/family.h"
#include "lib/metrics/names.h"

static uint64_t random_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) == (ssize_t)sizeof seed)
        return seed;
    struct timespec now; /* only in early boot, before the kernel's pool is ready */
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_nsec * 0x9e3779b97f4a7c15u ^ (uint64_t)now.tv_sec;
}

struct metric_registry *metric_registry_new(const struct metric_registry_options *options)
{
    struct metric_registry *registry = calloc(1, sizeof *registry);
    if (!registry)
        return NULL;
    registry->magic = METRIC_REGISTRY_MAGIC;
    registry->exclusive = options->threads < METRIC_SLOTS_MAX ? options->threads : METRIC_SLOTS_MAX;
    registry->max_series = options->max_series;
    registry->seed = random_seed();
    pthread_mutex_init(&registry->lock, NULL);
    pthread_mutex_init(&registry->hook_lock, NULL);
    return registry;
}

static void family_free(struct metric_family *family)
{
    metric_family_close(family);
    metric_grid_free(&family->grid);
    metric_buffer_free(&family->texts.bytes);
    for (size_t i = 0; i < METRIC_LABELS_MAX; i++)
        free(family->labels[i]);
    free(family->unit);
    free(family->help);
    free(family->name);
    pthread_mutex_destroy(&family->lock);
    family->magic = 0;
    free(family);
}

void metric_registry_free(struct metric_registry **registry)
{
    struct metric_registry *dying = *registry;
    if (!dying)
        return;
    BASE_CHECK(dying->magic == METRIC_REGISTRY_MAGIC);
    *registry = NULL;
    struct metric_family *next;
    for (struct metric_family *family = atomic_load(&dying->first); family; family = next) {
        next = atomic_load(&family->next);
        family_free(family);
    }
    for (struct metric_registered_hook *hook; (hook = dying->hooks) != NULL;) {
        dying->hooks = hook->next;
        free(hook);
    }
    pthread_mutex_destroy(&dying->lock);
    pthread_mutex_destroy(&dying->hook_lock);
    dying->magic = 0;
    free(dying);
}

static char *duplicate_text(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    return !copy ? NULL : memcpy(copy, text, size);
}

static bool copy_labels(struct metric_family *family, const struct metric_desc *desc)
{
    for (size_t i = 0; desc->labels[i]; i++) {
        family->open[i] = desc->labels[i][0] == '*';
        family->any_open |= family->open[i];
        family->labels[i] = duplicate_text(desc->labels[i] + family->open[i]);
        if (!family->labels[i])
            return false;
        family->nlabels++;
    }
    return true;
}

static size_t row_width(const struct metric_family *family)
{
    switch (family->type) {
    case METRIC_COUNTER:
        return (family->flags & METRIC_FRACTIONS) != 0 ? METRIC_ROW_FRACTIONS + 1
                                                       : METRIC_ROW_WHOLE + 1;
    case METRIC_GAUGE:
        return 0;
    case METRIC_HISTOGRAM:
        return METRIC_ROW_CELLS + family->grid->ncells + 1;
    }
    return 0;
}

/* NULL: no memory. */
static struct metric_family *family_new(struct metric_registry *registry,
                                        const struct metric_desc *desc)
{
    struct metric_family *family = calloc(1, sizeof *family);
    if (!family)
        return NULL;
    family->magic = METRIC_FAMILY_MAGIC;
    family->type = desc->type;
    family->flags = desc->flags;
    family->registry = registry;
    pthread_mutex_init(&family->lock, NULL);
    family->name = duplicate_text(desc->name);
    family->help = duplicate_text(desc->help);
    family->unit = duplicate_text(!desc->unit ? "" : desc->unit);
    if (!family->name || !family->help || !family->unit || !copy_labels(family, desc))
        goto fail;
    if (desc->type == METRIC_HISTOGRAM && !(family->grid = metric_grid_new(desc)))
        goto fail;
    family->row_width = row_width(family);
    if (!metric_texts_build(&family->texts, family) || !metric_family_open(family))
        goto fail;
    return family;
fail:
    family_free(family);
    return NULL;
}

/* The registered family whose names collide with those of `desc`, or NULL. */
static const struct metric_family *find_clash(const struct metric_registry *registry,
                                              const struct metric_desc *desc)
{
    const struct metric_family *family = atomic_load(&registry->first);
    while (family && !metric_names_clash(family->name, family->type, desc->name, desc->type))
        family = atomic_load(&family->next);
    return family;
}

/* Frees `family` and returns NULL if its names collide with a registered one. */
static struct metric_family *publish_family(struct metric_registry *registry,
                                            const struct metric_desc *desc,
                                            struct metric_family *family)
{
    pthread_mutex_lock(&registry->lock);
    bool clash = find_clash(registry, desc) != NULL;
    if (!clash) {
        _Atomic(struct metric_family *) *end =
            registry->last ? &registry->last->next : &registry->first;
        atomic_store_explicit(end, family, memory_order_release);
        registry->last = family;
    }
    pthread_mutex_unlock(&registry->lock);
    if (clash) {
        family_free(family);
        return NULL;
    }
    return family;
}

struct metric_family *metric_register(struct metric_registry *registry,
                                      const struct metric_desc *desc, struct metric_error *error)
{
    BASE_CHECK(registry->magic == METRIC_REGISTRY_MAGIC);
    BASE_CHECK(desc->type >= METRIC_COUNTER && desc->type <= METRIC_HISTOGRAM);
    if (error)
        *error = (struct metric_error){.code = METRIC_OK};
    if (metric_desc_check(desc, error) != METRIC_OK)
        return NULL;
    struct metric_family *family = family_new(registry, desc);
    if (!family) {
        metric_fail(error, METRIC_ERR_MEMORY, "out of memory (metric)", desc->name);
        return NULL;
    }
    family = publish_family(registry, desc, family);
    if (!family)
        metric_fail(error, METRIC_ERR_DUPLICATE,
                    "name already used by another metric or one of its samples", desc->name);
    return family;
}

bool metric_on_scrape(struct metric_registry *registry, metric_hook *call, void *arg)
{
    BASE_CHECK(registry->magic == METRIC_REGISTRY_MAGIC);
    struct metric_registered_hook *hook = calloc(1, sizeof *hook);
    if (!hook)
        return false;
    *hook = (struct metric_registered_hook){.call = call, .arg = arg};
    pthread_mutex_lock(&registry->hook_lock);
    struct metric_registered_hook **end = &registry->hooks;
    while (*end)
        end = &(*end)->next;
    *end = hook;
    pthread_mutex_unlock(&registry->hook_lock);
    return true;
}

uint64_t metric_series_dropped(const struct metric_registry *registry)
{
    BASE_CHECK(registry->magic == METRIC_REGISTRY_MAGIC);
    return atomic_load_explicit(&registry->dropped, memory_order_relaxed);
}
