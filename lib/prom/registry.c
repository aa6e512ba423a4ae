/* SPDX-License-Identifier: Apache-2.0 */
/* Registries of prom_collector_registry.h. Any thread. */
#include "lib/prom/prom_collector_registry.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/metrics/family.h"
#include "lib/metrics/names.h"
#include "lib/prom/internal.h"

prom_collector_registry_t *PROM_COLLECTOR_REGISTRY_DEFAULT;

/* Held while the default registry is made, so that two threads do not make two. */
static pthread_mutex_t making_default = PTHREAD_MUTEX_INITIALIZER;

static prom_collector_registry_t *default_registry(void)
{
    return __atomic_load_n(&PROM_COLLECTOR_REGISTRY_DEFAULT, __ATOMIC_ACQUIRE);
}

static struct prom_collector_registry *registry_with_name(const char *name)
{
    struct prom_collector_registry *registry = calloc(1, sizeof *registry);
    if (!registry)
        return NULL;
    registry->magic = PROM_REGISTRY_MAGIC;
    registry->name = strdup(name);
    if (registry->name)
        return registry;
    free(registry);
    return NULL;
}

static void registry_free(struct prom_collector_registry *registry)
{
    registry->magic = 0;
    free(registry->name);
    free(registry);
}

prom_collector_registry_t *prom_collector_registry_new(const char *name)
{
    if (!name) {
        prom_fail("a registry needs a name");
        return NULL;
    }
    struct prom_collector_registry *registry = registry_with_name(name);
    if (!registry) {
        prom_fail("out of memory (registry)");
        return NULL;
    }
    prom_catalog_lock();
    prom_catalog_add_registry(registry);
    prom_catalog_unlock();
    registry->own = prom_collector_new("default");
    if (registry->own && prom_collector_registry_register_collector(registry, registry->own) == 0)
        return registry;
    prom_collector_destroy(registry->own);
    prom_collector_registry_destroy(registry);
    return NULL;
}

uint64_t prom_collector_registry_id(prom_collector_registry_t *self)
{
    prom_catalog_lock();
    const uint64_t id = prom_catalog_registry_id(self);
    prom_catalog_unlock();
    return id;
}

int prom_collector_registry_destroy(prom_collector_registry_t *self)
{
    struct prom_dropped dropped = {0};
    if (!self)
        return 0;
    BASE_CHECK_MAGIC(self, PROM_REGISTRY_MAGIC);
    prom_collector_registry_t *expected = self;
    __atomic_compare_exchange_n(&PROM_COLLECTOR_REGISTRY_DEFAULT, &expected, NULL, false,
                                __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    prom_catalog_lock();
    prom_catalog_detach_registry(self, &dropped);
    prom_catalog_unlock();
    prom_catalog_free_dropped(&dropped);
    registry_free(self);
    return 0;
}

int prom_collector_registry_default_init(void)
{
    pthread_mutex_lock(&making_default);
    int failed = 0;
    if (!default_registry()) {
        prom_collector_registry_t *registry = prom_collector_registry_new("default");
        failed = !registry || prom_collector_registry_enable_process_metrics(registry) != 0;
        if (failed)
            prom_collector_registry_destroy(registry);
        else
            __atomic_store_n(&PROM_COLLECTOR_REGISTRY_DEFAULT, registry, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&making_default);
    return failed;
}

/* ---- collectors ----------------------------------------------------------------------------- */

static int fail_null(const void *registry)
{
    return prom_fail("the %s is NULL", registry ? "collector" : "registry");
}

static bool has_collector_named(prom_collector_registry_t *registry, const char *name)
{
    prom_catalog_lock();
    const bool found = prom_catalog_named(registry, name) != NULL;
    prom_catalog_unlock();
    return found;
}

int prom_collector_registry_enable_process_metrics(prom_collector_registry_t *self)
{
    if (!self)
        return fail_null(self);
    BASE_CHECK_MAGIC(self, PROM_REGISTRY_MAGIC);
    if (has_collector_named(self, "process"))
        return 0;
    prom_collector_t *process = prom_collector_process_new(NULL, NULL);
    if (process && prom_collector_registry_register_collector(self, process) == 0)
        return 0;
    prom_collector_destroy(process);
    return 1;
}

/* Under the catalog's lock: why the collector cannot be added; NULL: it was. */
static const char *add_collector_locked(prom_collector_registry_t *self,
                                        prom_collector_t *collector, struct prom_link *link)
{
    if (collector->life.gone)
        return "it was destroyed, or no registry has it any more";
    if (prom_catalog_named(self, collector->name))
        return "the registry has a collector of this name";
    if (prom_catalog_clash_in(self, collector))
        return "the name of one of its metrics is used in the registry";
    prom_catalog_append(&self->collectors, link);
    collector->life.holders++;
    return NULL;
}

int prom_collector_registry_register_collector(prom_collector_registry_t *self,
                                               prom_collector_t *collector)
{
    if (!self || !collector)
        return fail_null(self);
    BASE_CHECK_MAGIC(self, PROM_REGISTRY_MAGIC);
    BASE_CHECK_MAGIC(collector, PROM_COLLECTOR_MAGIC);
    struct prom_link *link = prom_link_new(collector);
    if (!link)
        return 1;
    prom_catalog_lock();
    const char *why = add_collector_locked(self, collector, link);
    prom_catalog_unlock();
    if (!why)
        return 0;
    free(link);
    return prom_fail("collector %.80s: %s", collector->name, why);
}

int prom_collector_registry_unregister_collector(prom_collector_registry_t *self,
                                                 prom_collector_t *collector)
{
    struct prom_dropped dropped = {0};
    if (!self || !collector)
        return fail_null(self);
    BASE_CHECK_MAGIC(self, PROM_REGISTRY_MAGIC);
    prom_catalog_lock();
    struct prom_link **at =
        collector == self->own ? NULL : prom_catalog_find(&self->collectors, collector);
    if (at)
        prom_catalog_drop_collector(at, &dropped);
    prom_catalog_unlock();
    prom_catalog_free_dropped(&dropped);
    return at ? 0 : prom_fail("the registry %.80s does not have the collector", self->name);
}

/* ---- metrics -------------------------------------------------------------------------------- */

static prom_collector_t *default_collector(void)
{
    const prom_collector_registry_t *registry = default_registry();
    if (!registry)
        prom_fail("there is no default registry; call prom_collector_registry_default_init first");
    return registry ? registry->own : NULL;
}

int prom_collector_registry_register_metric(prom_metric_t *metric)
{
    prom_collector_t *collector = default_collector();
    return collector ? prom_collector_add_metric(collector, metric) : 1;
}

static bool collector_has(prom_collector_t *collector, const prom_metric_t *metric)
{
    prom_catalog_lock();
    const bool found = prom_catalog_find(&collector->metrics, metric) != NULL;
    prom_catalog_unlock();
    return found;
}

prom_metric_t *prom_collector_registry_must_register_metric(prom_metric_t *metric)
{
    if (!metric) /* prom_last_error() tells why it could not be made */
        return NULL;
    prom_collector_t *collector = default_collector();
    if (!collector)
        return NULL;
    if (collector_has(collector, metric) || prom_collector_add_metric(collector, metric) == 0)
        return metric;
    return NULL;
}

int prom_collector_registry_unregister_metric(prom_metric_t *metric)
{
    prom_collector_t *collector = default_collector();
    return collector ? prom_collector_remove_metric(collector, metric) : 1;
}

int prom_collector_registry_validate_metric_name(prom_collector_registry_t *self,
                                                 const char *metric_name)
{
    struct metric_error error;
    const struct metric_desc desc = {
        .name = metric_name, .type = METRIC_GAUGE, .help = "", .flags = METRIC_ANY_NAME};
    (void)self;
    if (metric_desc_check(&desc, &error) == METRIC_OK)
        return 0;
    return prom_fail("%.80s: %s", error.subject, error.message);
}
