/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From label values to a series: a lookup without a lock, and the slow paths around it. Any thread.
 *
 * The lookup hashes the values as they are and probes the family's table. Only when that finds no
 * live series does a thread take the slow path: clean the values to UTF-8, make the series (memory
 * is allocated before the family's lock, except in rare cases: a larger table, a new chunk), or
 * fold the label set into "other" if the family is full.
 *
 * Bound: ordinary label sets are admitted up to the cap, folded ones up to twice the cap (closed
 * labels come from code, so there are few), and beyond that everything is the fallback series that
 * each family has from the start. So a family shows at most 2 * cap + 1 series, whatever labels
 * arrive.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/metrics/escape.h"
#include "lib/metrics/family.h"
#include "lib/metrics/wall_clock.h"

enum {
    TABLE_SIZE_FIRST = 8,
    CHUNK_SERIES_MAX = 64,
    CHUNK_SHARD_BYTES = 8192, /* aim for a shard's block: wide rows come in smaller chunks */
};

static const char other[] = "other";

/* ---- label sets ----------------------------------------------------------------------------- */

/* Label values on their way to a series. */
struct label_set {
    size_t count;
    const char *values[METRIC_LABELS_MAX];
    size_t sizes[METRIC_LABELS_MAX]; /* with their NUL */
    size_t total;
    uint64_t hash;
};

/* Multiplies to 128 bits and folds: each bit of the input reaches all bits of the output. */
static uint64_t mix_hash(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t load8(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static uint64_t load4(const char *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* Hashes `n` > 0 bytes. Reads words that overlap rather than single bytes at the end. */
static uint64_t hash_bytes(uint64_t hash, const char *bytes, size_t n)
{
    const uint64_t odd = 0x9e3779b97f4a7c15u;
    hash ^= n * 0xa0761d6478bd642fu;
    for (; n > 8; n -= 8, bytes += 8)
        hash = mix_hash(hash ^ load8(bytes), odd);
    uint64_t last;
    if (n == 8)
        last = load8(bytes);
    else if (n >= 4)
        last = load4(bytes) << 32 | load4(bytes + n - 4);
    else
        /* the analyzer does not see that n is at least 1 */
        last = (uint64_t)(unsigned char)bytes[0] << 16 | /* NOLINT(clang-analyzer-core.*) */
               (uint64_t)(unsigned char)bytes[n / 2] << 8 | (unsigned char)bytes[n - 1];
    return mix_hash(hash ^ last, odd);
}

static void label_set_init(struct label_set *set, const struct metric_family *family,
                           const char *const *values, size_t count)
{
    set->count = count;
    set->total = 0;
    uint64_t hash = family->registry->seed;
    for (size_t i = 0; i < set->count; i++) {
        set->values[i] = values[i];
        set->sizes[i] = strlen(values[i]) + 1;
        set->total += set->sizes[i];
        hash = hash_bytes(hash, values[i], set->sizes[i]);
    }
    set->hash = hash;
}

static bool series_is(const struct metric_series *series, const struct label_set *set)
{
    if (series->hash != set->hash || series->key_length != set->total)
        return false;
    const char *key = series->key;
    for (size_t i = 0; i < set->count; i++) {
        if (memcmp(key, set->values[i], set->sizes[i]) != 0)
            return false;
        key += set->sizes[i];
    }
    return true;
}

/* ---- the table ------------------------------------------------------------------------------ */

static struct metric_table *series_table_new(size_t size)
{
    struct metric_table *table =
        calloc(1, sizeof *table + size * sizeof(_Atomic(struct metric_series *)));
    if (table)
        table->mask = size - 1;
    return table;
}

static struct metric_series *find_series(const struct metric_family *family,
                                         const struct label_set *set)
{
    const struct metric_table *table = atomic_load_explicit(&family->table, memory_order_acquire);
    for (size_t i = set->hash & table->mask;; i = (i + 1) & table->mask) {
        struct metric_series *series =
            atomic_load_explicit(&table->entries[i], memory_order_acquire);
        if (!series || series_is(series, set))
            return series;
    }
}

static void series_table_put(struct metric_table *table, struct metric_series *series)
{
    size_t i = series->hash & table->mask;
    while (atomic_load_explicit(&table->entries[i], memory_order_relaxed) != NULL)
        i = (i + 1) & table->mask;
    atomic_store_explicit(&table->entries[i], series, memory_order_release);
    table->used++;
}

/* Under the lock: makes sure that one more series fits. */
static bool series_table_reserve(struct metric_family *family)
{
    struct metric_table *old = atomic_load_explicit(&family->table, memory_order_relaxed);
    if ((old->used + 1) * 2 <= old->mask + 1)
        return true;
    struct metric_table *table = series_table_new((old->mask + 1) * 2);
    if (!table)
        return false;
    for (size_t i = 0; i <= old->mask; i++) {
        struct metric_series *series = atomic_load_explicit(&old->entries[i], memory_order_relaxed);
        if (series)
            series_table_put(table, series);
    }
    table->previous = old;
    atomic_store_explicit(&family->table, table, memory_order_release);
    return true;
}

/* ---- making a series ------------------------------------------------------------------------ */

/* `{a="b",c="d"} `, or ` ` */
static size_t render_labels(char *out, const struct metric_family *family,
                            const struct label_set *set)
{
    char *begin = out;
    for (size_t i = 0; i < set->count; i++) {
        size_t length = strlen(family->labels[i]);
        *out++ = i == 0 ? '{' : ',';
        memcpy(out, family->labels[i], length);
        out += length;
        *out++ = '=';
        *out++ = '"';
        out = metric_escape(out, set->values[i], set->sizes[i] - 1, METRIC_QUOTED);
        *out++ = '"';
    }
    if (family->nlabels > 0)
        *out++ = '}';
    *out++ = ' ';
    return (size_t)(out - begin);
}

static size_t rendered_at_most(const struct metric_family *family, const struct label_set *set)
{
    size_t size = 2;
    for (size_t i = 0; i < set->count; i++)
        size += strlen(family->labels[i]) + 4 + set->sizes[i] * METRIC_ESCAPE_GROWTH;
    return size;
}

static void series_free(struct metric_series *series)
{
    if (!series)
        return;
    free(series->exemplars);
    series->magic = 0;
    free(series);
}

/* Not published and without cells yet. NULL: no memory. */
static struct metric_series *series_new(struct metric_family *family, const struct label_set *set)
{
    size_t size = sizeof(struct metric_series) + set->total + rendered_at_most(family, set);
    size = (size + METRIC_CACHE_LINE - 1) / METRIC_CACHE_LINE * METRIC_CACHE_LINE;
    struct metric_series *series = aligned_alloc(METRIC_CACHE_LINE, size);
    if (!series)
        return NULL;
    memset(series, 0, size);
    series->magic = METRIC_SERIES_MAGIC(family->type);
    series->exclusive = family->registry->exclusive;
    series->grid = family->grid;
    series->family = family;
    series->hash = set->hash;
    atomic_init(&series->start_ms, metric_wall_ms());
    series->key_length = set->total;
    char *end = series->key;
    for (size_t i = 0; i < set->count; i++) {
        memcpy(end, set->values[i], set->sizes[i]);
        end += set->sizes[i];
    }
    series->text = end;
    series->text_length = render_labels(end, family, set);
    BASE_CHECK(end + series->text_length <= (char *)series + size);
    if ((family->flags & METRIC_EXEMPLARS) != 0) {
        size_t slots = family->grid ? family->grid->nclassic + 1 : 1;
        series->exemplars = calloc(slots, sizeof *series->exemplars);
        if (!series->exemplars) {
            series_free(series);
            return NULL;
        }
    }
    return series;
}

static size_t chunk_capacity(const struct metric_family *family)
{
    if (family->nlabels == 0)
        return 1;
    size_t rows = CHUNK_SHARD_BYTES / (family->row_width * sizeof(metric_cell));
    return rows < 1 ? 1 : rows > CHUNK_SERIES_MAX ? CHUNK_SERIES_MAX : rows;
}

/* Under the lock: gives the series its row of cells. */
static bool assign_cells(struct metric_family *family, struct metric_series *series)
{
    if (family->row_width == 0)
        return true;
    struct metric_chunk *chunk = family->chunks;
    if (!chunk || chunk->used == chunk->capacity) {
        size_t shards = (size_t)family->registry->exclusive + 1;
        chunk = metric_chunk_new(family->row_width, chunk_capacity(family), shards);
        if (!chunk)
            return false;
        chunk->next = family->chunks;
        family->chunks = chunk;
    }
    BASE_CHECK(chunk->used < chunk->capacity);
    series->cells = chunk->cells + chunk->used++ * chunk->width;
    series->stride = chunk->stride;
    return true;
}

static size_t live_count(const struct metric_family *family)
{
    return atomic_load_explicit(&family->nlive, memory_order_relaxed);
}

/* Under the lock: the only place where a series goes live or retires. */
static void set_live(struct metric_series *series, bool live)
{
    if (metric_series_live(series) == live)
        return;
    struct metric_family *family = series->family;
    atomic_store_explicit(&family->nlive, live_count(family) + (live ? 1 : (size_t)-1),
                          memory_order_relaxed);
    atomic_store_explicit(&series->live, live, memory_order_release);
}

/* Under the lock: adds the series to the family. */
static bool publish_series(struct metric_family *family, struct metric_series *series)
{
    if (!series_table_reserve(family) || !assign_cells(family, series))
        return false;
    series_table_put(atomic_load_explicit(&family->table, memory_order_relaxed), series);
    _Atomic(struct metric_series *) *end = family->last ? &family->last->next : &family->first;
    atomic_store_explicit(end, series, memory_order_release);
    family->last = series;
    return true;
}

/* ---- resolving ------------------------------------------------------------------------------ */

/* Under the lock: the series of the set, live; `fresh` is consumed (set to NULL) if it was new.
 * NULL: the family has `cap` live series, or memory ran out. */
static struct metric_series *admit_locked(struct metric_family *family, const struct label_set *set,
                                          size_t cap, struct metric_series **fresh)
{
    struct metric_series *series = find_series(family, set);
    if (series && metric_series_live(series))
        return series;
    if (live_count(family) >= cap && series != family->fallback)
        return NULL;
    if (!series) {
        if (!*fresh || !publish_series(family, *fresh))
            return NULL;
        series = *fresh;
        *fresh = NULL;
    }
    set_live(series, true);
    return series;
}

static struct metric_series *admit(struct metric_family *family, const struct label_set *set,
                                   size_t cap)
{
    struct metric_series *series = find_series(family, set);
    if (series && metric_series_live(series))
        return series;
    if (!series && live_count(family) >= cap)
        return NULL; /* before any allocation: the usual path of a full family */
    struct metric_series *fresh = !series ? series_new(family, set) : NULL;
    pthread_mutex_lock(&family->lock);
    series = admit_locked(family, set, cap, &fresh);
    pthread_mutex_unlock(&family->lock);
    series_free(fresh);
    return series;
}

static struct metric_series *use_fallback(struct metric_family *family)
{
    if (!metric_series_live(family->fallback)) {
        pthread_mutex_lock(&family->lock);
        set_live(family->fallback, true);
        pthread_mutex_unlock(&family->lock);
    }
    return family->fallback;
}

static struct metric_series *fold_into_other(struct metric_family *family,
                                             const struct label_set *set)
{
    const char *values[METRIC_LABELS_MAX] = {0};
    bool changed = false;
    for (size_t i = 0; i < set->count; i++) {
        bool replace = (family->open[i] || !family->any_open) && strcmp(set->values[i], other) != 0;
        values[i] = replace ? other : set->values[i];
        changed |= replace;
    }
    struct label_set folded;
    label_set_init(&folded, family, values, set->count);
    size_t cap = family->registry->max_series;
    struct metric_series *series = admit(family, &folded, cap > SIZE_MAX / 2 ? cap : cap * 2);
    if (changed || !series)
        atomic_fetch_add_explicit(&family->registry->dropped, 1, memory_order_relaxed);
    return series ? series : use_fallback(family);
}

static struct metric_series *admit_or_fold_into_other(struct metric_family *family,
                                                      const struct label_set *set)
{
    struct metric_series *series = admit(family, set, family->registry->max_series);
    return series ? series : fold_into_other(family, set);
}

static bool label_set_valid(const struct label_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        if (!metric_utf8_valid(set->values[i], set->sizes[i] - 1))
            return false;
    }
    return true;
}

/* Makes or finds the series of a set whose values are valid UTF-8. NULL: it could not. */
typedef struct metric_series *admit_set(struct metric_family *family, const struct label_set *set);

static struct metric_series *admit_exactly(struct metric_family *family,
                                           const struct label_set *set)
{
    return admit(family, set, family->registry->max_series);
}

/* Only clean values are stored, so two label sets that look the same are one series. */
static struct metric_series *admit_cleaned(struct metric_family *family,
                                           const struct label_set *set, admit_set *admit_clean)
{
    char *clean = malloc(set->total * METRIC_ESCAPE_GROWTH);
    if (!clean)
        return NULL;
    const char *values[METRIC_LABELS_MAX] = {0};
    char *end = clean;
    for (size_t i = 0; i < set->count; i++) {
        values[i] = end;
        end = metric_escape(end, set->values[i], set->sizes[i] - 1, METRIC_BARE);
        *end++ = '\0';
    }
    struct label_set cleaned;
    label_set_init(&cleaned, family, values, set->count);
    struct metric_series *series = admit_clean(family, &cleaned);
    free(clean);
    return series;
}

__attribute__((noinline)) static struct metric_series *
resolve_slow(struct metric_family *family, const struct label_set *set, admit_set *admit_clean)
{
    return label_set_valid(set) ? admit_clean(family, set)
                                : admit_cleaned(family, set, admit_clean);
}

struct metric_series *metric_resolve(struct metric_family *family, const char *const *values)
{
    BASE_CHECK(family->magic == METRIC_FAMILY_MAGIC);
    if (family->nlabels == 0)
        return family->fallback;
    struct label_set set;
    label_set_init(&set, family, values, family->nlabels);
    struct metric_series *series = find_series(family, &set);
    if (series && metric_series_live(series))
        return series;
    series = resolve_slow(family, &set, admit_or_fold_into_other);
    if (!series) { /* no memory to clean the values */
        atomic_fetch_add_explicit(&family->registry->dropped, 1, memory_order_relaxed);
        series = use_fallback(family);
    }
    return series;
}

struct metric_series *metric_resolve_exact(struct metric_family *family, const char *const *values)
{
    BASE_CHECK(family->magic == METRIC_FAMILY_MAGIC);
    if (family->nlabels == 0)
        return family->fallback;
    struct label_set set;
    label_set_init(&set, family, values, family->nlabels);
    struct metric_series *series = find_series(family, &set);
    if (series && metric_series_live(series))
        return series;
    return resolve_slow(family, &set, admit_exactly);
}

/* ---- retiring ------------------------------------------------------------------------------- */

const char *metric_label_value(const struct metric_series *series, size_t label)
{
    const char *value = series->key;
    for (; label > 0; label--)
        value += strlen(value) + 1;
    return value;
}

static int compare_values(const void *key, const void *entry)
{
    return strcmp(key, *(const char *const *)entry);
}

static void retire_in(struct metric_family *family, size_t label, const char *const *values,
                      size_t count)
{
    pthread_mutex_lock(&family->lock);
    struct metric_series *series = atomic_load_explicit(&family->first, memory_order_relaxed);
    for (; series; series = atomic_load_explicit(&series->next, memory_order_relaxed)) {
        if (bsearch(metric_label_value(series, label), values, count, sizeof *values,
                    compare_values))
            set_live(series, false);
    }
    pthread_mutex_unlock(&family->lock);
}

void metric_retire_all(struct metric_registry *registry, const char *label,
                       const char *const *values, size_t count)
{
    BASE_CHECK(registry->magic == METRIC_REGISTRY_MAGIC);
    struct metric_family *family = atomic_load_explicit(&registry->first, memory_order_acquire);
    for (; family; family = atomic_load_explicit(&family->next, memory_order_acquire)) {
        for (size_t i = 0; i < family->nlabels; i++) {
            if (strcmp(family->labels[i], label) == 0)
                retire_in(family, i, values, count);
        }
    }
}

void metric_retire(struct metric_registry *registry, const char *label, const char *value)
{
    metric_retire_all(registry, label, &value, 1);
}

void metric_retire_exact(struct metric_family *family, const char *const *values)
{
    BASE_CHECK(family->magic == METRIC_FAMILY_MAGIC && family->nlabels > 0);
    struct label_set set;
    label_set_init(&set, family, values, family->nlabels);
    struct metric_series *series = find_series(family, &set);
    if (!series || !metric_series_live(series))
        return;
    pthread_mutex_lock(&family->lock);
    set_live(series, false);
    pthread_mutex_unlock(&family->lock);
}

void metric_family_retire(struct metric_family *family)
{
    BASE_CHECK(family->magic == METRIC_FAMILY_MAGIC);
    pthread_mutex_lock(&family->lock);
    struct metric_series *series = atomic_load_explicit(&family->first, memory_order_relaxed);
    for (; series; series = atomic_load_explicit(&series->next, memory_order_relaxed)) {
        if (family->type == METRIC_GAUGE)
            atomic_store_explicit(&series->value, metric_bits_of(0), memory_order_relaxed);
        set_live(series, family->nlabels == 0);
    }
    pthread_mutex_unlock(&family->lock);
}

/* ---- opening and closing a family ----------------------------------------------------------- */

bool metric_family_open(struct metric_family *family)
{
    struct metric_table *table = series_table_new(TABLE_SIZE_FIRST);
    if (!table)
        return false;
    atomic_store_explicit(&family->table, table, memory_order_release);
    const char *values[METRIC_LABELS_MAX] = {0};
    for (size_t i = 0; i < family->nlabels; i++)
        values[i] = other;
    struct label_set set;
    label_set_init(&set, family, values, family->nlabels);
    struct metric_series *series = series_new(family, &set);
    if (!series || !publish_series(family, series)) {
        series_free(series);
        return false;
    }
    family->fallback = series;
    set_live(series, family->nlabels == 0);
    return true;
}

void metric_family_close(struct metric_family *family)
{
    struct metric_series *series = atomic_load(&family->first);
    while (series) {
        struct metric_series *next = atomic_load(&series->next);
        series_free(series);
        series = next;
    }
    struct metric_table *table = atomic_load(&family->table);
    while (table) {
        struct metric_table *previous = table->previous;
        free(table);
        table = previous;
    }
    while (family->chunks) {
        struct metric_chunk *chunk = family->chunks;
        family->chunks = chunk->next;
        metric_chunk_free(&chunk);
    }
}
