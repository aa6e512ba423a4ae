/* SPDX-License-Identifier: Apache-2.0 */
/* The sequence lock of exemplar.h. Any thread: observers write, scrapes read, none waits. */
#include "lib/metrics/exemplar.h"

#include <math.h>
#include <string.h>

#include "lib/metrics/escape.h"
#include "lib/metrics/names.h"
#include "lib/metrics/wall_clock.h"

_Static_assert(sizeof(struct metric_exemplar_copy) == METRIC_EXEMPLAR_WORDS * sizeof(uint64_t),
               "a copy is moved as whole words");

enum { LOAD_TRIES = 8 };

static bool name_is_repeated(const struct metric_exemplar *exemplar, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (strcmp(exemplar->names[i], exemplar->names[index]) == 0)
            return true;
    }
    return false;
}

struct packing {
    struct metric_exemplar_copy *copy;
    size_t used;
    size_t code_points;
};

static bool pack_text(struct packing *packing, const char *text)
{
    size_t size = strnlen(text, METRIC_EXEMPLAR_BYTES) + 1;
    if (size > METRIC_EXEMPLAR_BYTES - packing->used)
        return false;
    packing->code_points += metric_utf8_count(text, size - 1);
    memcpy(packing->copy->text + packing->used, text, size);
    packing->used += size;
    return packing->code_points <= METRIC_EXEMPLAR_CODE_POINTS;
}

static bool pack_pairs(struct metric_exemplar_copy *copy, const struct metric_exemplar *exemplar)
{
    struct packing packing = {.copy = copy};
    for (size_t i = 0; i < exemplar->count; i++) {
        if (!metric_label_name_valid(exemplar->names[i]) || name_is_repeated(exemplar, i))
            return false;
        if (!pack_text(&packing, exemplar->names[i]) || !pack_text(&packing, exemplar->values[i]))
            return false;
    }
    copy->pairs = (uint8_t)exemplar->count; /* each pair takes 3 bytes at least */
    return true;
}

void metric_exemplar_store(struct metric_exemplar_slot *slot, double value,
                           const struct metric_exemplar *exemplar)
{
    struct metric_exemplar_copy copy = {.value = value};
    if (exemplar->count ==
        0) /* it would link to nothing, and replace one that links to something */
        return;
    if (isnan(value) || !pack_pairs(&copy, exemplar)) /* NaN belongs to no bucket */
        return;
    copy.at_ms = metric_wall_ms();
    uint64_t words[METRIC_EXEMPLAR_WORDS];
    memcpy(words, &copy, sizeof words);

    uint64_t sequence = atomic_load_explicit(&slot->sequence, memory_order_relaxed);
    if (sequence % 2 != 0 ||
        !atomic_compare_exchange_strong_explicit(&slot->sequence, &sequence, sequence + 1,
                                                 memory_order_acquire, memory_order_relaxed))
        return;
    for (size_t i = 0; i < METRIC_EXEMPLAR_WORDS; i++)
        atomic_store_explicit(&slot->words[i], words[i], memory_order_release);
    atomic_store_explicit(&slot->sequence, sequence + 2, memory_order_release);
}

static bool try_load(const struct metric_exemplar_slot *slot, struct metric_exemplar_copy *copy)
{
    uint64_t before = atomic_load_explicit(&slot->sequence, memory_order_acquire);
    if (before == 0 || before % 2 != 0)
        return false;
    uint64_t words[METRIC_EXEMPLAR_WORDS];
    for (size_t i = 0; i < METRIC_EXEMPLAR_WORDS; i++)
        words[i] = atomic_load_explicit(&slot->words[i], memory_order_acquire);
    if (atomic_load_explicit(&slot->sequence, memory_order_relaxed) != before)
        return false;
    memcpy(copy, words, sizeof *copy);
    return true;
}

bool metric_exemplar_load(const struct metric_exemplar_slot *slot,
                          struct metric_exemplar_copy *copy)
{
    for (int i = 0; i < LOAD_TRIES; i++) {
        if (try_load(slot, copy))
            return true;
    }
    return false;
}
