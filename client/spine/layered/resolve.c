/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds memories in layers, see layered.h: each is asked by a resolve of its own, with the arena of
 * the caller's, for the ids that are still open. What was found is kept sorted by id, so that a
 * memory comes once, from the first layer that has it.
 *
 * On the thread that asks, then on the mailbox's loop.
 */
#include <stdlib.h>
#include <string.h>

#include "client/spine/layered/layered_internal.h"
#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/sort.h"

enum { LAYERING_MAGIC = 0x6c617965 };

enum layer { LAYER_LOCAL, LAYER_REMOTE, LAYER_COPIES, LAYER_END };

struct layering {
    unsigned magic;
    struct handoff_layered *layered;
    struct handoff_spine_resolve *outer;
    enum layer layer;                   /* that is asked */
    struct handoff_spine_resolve inner; /* its call */
    struct base_span *open;             /* ids that were not found yet, each once */
    size_t nopen;
    bool lost;       /* the remote layer gave no answer */
    bool searchless; /* it cannot say what fits best */
    size_t ncopies;  /* of what was found */
    int64_t oldest_ms;
};

/* ---- what is open ---------------------------------------------------------------------------- */

static int compare_id_texts(struct base_span a, struct base_span b)
{
    const size_t shorter = a.size < b.size ? a.size : b.size;
    const int order = shorter ? memcmp(a.data, b.data, shorter) : 0;
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

static int compare_found_id(const void *key, const void *found)
{
    return compare_id_texts(*(const struct base_span *)key,
                            ((const struct handoff_found_memory *)found)->memory.id);
}

static struct handoff_found_memory *find_layered(const struct handoff_spine_resolve *outer,
                                                 struct base_span id)
{
    return outer->found_count == 0 ? NULL
                                   : bsearch(&id, outer->found, outer->found_count,
                                             sizeof *outer->found, compare_found_id);
}

static void close_found_ids(struct layering *layering)
{
    size_t left = 0;
    for (size_t i = 0; i < layering->nopen; i++) {
        if (!find_layered(layering->outer, layering->open[i]))
            layering->open[left++] = layering->open[i];
    }
    layering->nopen = left;
}

struct numbered_id {
    struct base_span id;
    size_t number;
};

static int compare_numbered_ids(const void *left, const void *right)
{
    const struct numbered_id *a = left, *b = right;
    const int order = compare_id_texts(a->id, b->id);
    return order ? order : (a->number > b->number) - (a->number < b->number);
}

/* In the order in which they were asked for. */
static bool open_ids(struct layering *layering)
{
    const struct handoff_spine_resolve *outer = layering->outer;
    const size_t count = outer->id_count;
    struct numbered_id *sorted = base_arena_alloc(outer->arena, (count + 1) * sizeof *sorted);
    layering->open = base_arena_calloc(outer->arena, count + 1, sizeof *layering->open);
    if (!sorted || !layering->open)
        return false;
    for (size_t i = 0; i < count; i++)
        sorted[i] = (struct numbered_id){outer->ids[i], i};
    base_sort(sorted, count, sizeof *sorted, compare_numbered_ids);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || !base_span_equal(sorted[i - 1].id, sorted[i].id))
            layering->open[sorted[i].number] = sorted[i].id;
    }
    for (size_t i = 0; i < count; i++) {
        if (layering->open[i].data)
            layering->open[layering->nopen++] = layering->open[i];
    }
    return true;
}

/* ---- what was found -------------------------------------------------------------------------- */

static int compare_found(const void *left, const void *right)
{
    const struct handoff_found_memory *a = left, *b = right;
    return compare_id_texts(a->memory.id, b->memory.id);
}

static void merge_found(struct handoff_found_memory *known, const struct handoff_found_memory *also)
{
    known->origin |= also->origin;
    if (also->relevance > known->relevance)
        known->relevance = also->relevance;
    if (also->score > known->score)
        known->score = also->score;
}

static void note_copy(struct layering *layering, const struct handoff_found_memory *found)
{
    if (found->memory.copied_ms == 0)
        return;
    if (layering->ncopies++ == 0 || found->memory.copied_ms < layering->oldest_ms)
        layering->oldest_ms = found->memory.copied_ms;
}

static bool take_found(struct layering *layering)
{
    struct handoff_spine_resolve *outer = layering->outer;
    const struct handoff_spine_resolve *inner = &layering->inner;
    const size_t most = outer->found_count + inner->found_count;
    if (inner->found_count == 0)
        return true;
    struct handoff_found_memory *all = base_arena_alloc(outer->arena, most * sizeof *all);
    if (!all)
        return false;
    size_t count = outer->found_count;
    if (count > 0)
        memcpy(all, outer->found, count * sizeof *all);
    for (size_t i = 0; i < inner->found_count; i++) {
        struct handoff_found_memory *known = find_layered(outer, inner->found[i].memory.id);
        if (known)
            merge_found(&all[known - outer->found], &inner->found[i]);
        else
            all[count++] = inner->found[i];
        if (!known)
            note_copy(layering, &inner->found[i]);
    }
    base_sort(all, count, sizeof *all, compare_found);
    outer->found = all;
    outer->found_count = count;
    return true;
}

static int compare_layered_scores(const void *left, const void *right)
{
    const struct handoff_found_memory *a = left, *b = right;
    if (a->score > b->score || a->score < b->score)
        return a->score > b->score ? -1 : 1;
    return (a->memory.created_ms < b->memory.created_ms) -
           (a->memory.created_ms > b->memory.created_ms);
}

static bool is_only_recent(const struct handoff_found_memory *found)
{
    return !(found->origin & (HANDOFF_ORIGIN_ASKED | HANDOFF_ORIGIN_PINNED));
}

/* Each layer gives as many as are wanted of all. */
static void keep_the_best(struct handoff_spine_resolve *outer, bool skips)
{
    const size_t from = skips ? outer->skip : 0;
    size_t kept = 0, recent = 0;
    for (size_t i = 0; i < outer->found_count; i++) {
        if (is_only_recent(&outer->found[i])) {
            const size_t place = recent++;
            if (place < from || place >= from + outer->recent)
                continue;
        }
        outer->found[kept++] = outer->found[i];
    }
    outer->found_count = kept;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void layer_answered(struct handoff_spine_call *call);

static struct handoff_spine *spine_of_layer(const struct layering *layering)
{
    const struct handoff_layered_options *layers = &layering->layered->layers;
    switch (layering->layer) {
    case LAYER_LOCAL:
        return layers->local;
    case LAYER_REMOTE:
        return layers->remote;
    case LAYER_COPIES:
        return layers->copies ? handoff_copies_spine(layers->copies) : NULL;
    default:
        return NULL;
    }
}

/* The layer's part of what is asked. false: there is nothing to ask it for. */
static bool compose_question(struct layering *layering)
{
    struct handoff_spine_resolve *inner = &layering->inner;
    const struct handoff_spine_resolve *outer = layering->outer;
    const bool whole = layering->layer != LAYER_COPIES || layering->lost;
    if (!spine_of_layer(layering) || !(whole || layering->searchless))
        return false;
    *inner = *outer;
    inner->call.done = layer_answered;
    inner->found = NULL;
    inner->missing = NULL;
    inner->found_count = inner->missing_count = 0;
    inner->ids = layering->open;
    inner->id_count = whole ? layering->nopen : 0;
    inner->pins = whole && outer->pins;
    if (layering->layered->layers.local && outer->skip > 0) { /* places in a list of all layers */
        const size_t most = layering->layered->spine.limits.recent;
        inner->recent = outer->recent + outer->skip < most ? outer->recent + outer->skip : most;
        inner->skip = 0;
    }
    return inner->id_count > 0 || inner->pins || inner->recent > 0;
}

static void renew_copies(const struct layering *layering)
{
    struct handoff_copies *copies = layering->layered->layers.copies;
    const struct handoff_spine_resolve *inner = &layering->inner;
    const struct handoff_copies_news news = {.found = inner->found,
                                             .count = inner->found_count,
                                             .gone = inner->missing,
                                             .ngone = inner->missing_count,
                                             .scopes = layering->outer->scopes};
    if (copies)
        handoff_copies_renew(copies, &news);
}

static void note_answer_of_remote(struct layering *layering)
{
    struct handoff_spine_call *call = &layering->outer->call;
    const struct handoff_spine_resolve *inner = &layering->inner;
    call->error = inner->call.error;
    call->asked = inner->call.asked;
    layering->lost = handoff_spine_is_lost(&inner->call);
    if (call->error.code != HANDOFF_OK)
        return;
    renew_copies(layering);
    layering->searchless = inner->incomplete && inner->recent > 0;
    layering->outer->incomplete = layering->outer->incomplete || inner->incomplete;
    layering->outer->more_pins = inner->more_pins;
}

static void note_answer_of_local(struct layering *layering)
{
    struct handoff_spine_resolve *outer = layering->outer;
    outer->call.error = layering->inner.call.error;
    outer->call.asked = outer->call.error.code != HANDOFF_OK;
    outer->incomplete = layering->inner.incomplete;
}

/* What cannot be looked up here is as if it were not here: the copies are a help, and no more. */
static void note_layer_answer(struct layering *layering)
{
    struct handoff_spine_resolve *outer = layering->outer;
    const struct handoff_spine_resolve *inner = &layering->inner;
    if (layering->layer == LAYER_REMOTE)
        note_answer_of_remote(layering);
    else if (layering->layer == LAYER_LOCAL)
        note_answer_of_local(layering);
    else if (layering->searchless && inner->call.error.code == HANDOFF_OK)
        outer->incomplete = inner->incomplete;
    outer->call.cut = outer->call.cut || inner->call.cut;
    if (inner->call.error.code == HANDOFF_OK && !take_found(layering))
        handoff_error_no_memory(&outer->call.error);
    close_found_ids(layering);
}

static bool has_layering_failed(const struct layering *layering)
{
    return layering->outer->call.error.code != HANDOFF_OK && !layering->lost;
}

static void tell_copies(const struct layering *layering)
{
    const struct handoff_layered_options *layers = &layering->layered->layers;
    const int64_t age_ms = base_wall_ms(layers->clock) - layering->oldest_ms;
    if (layering->ncopies > 0)
        handoff_copies_used(layers->copies, layering->outer->found, layering->outer->found_count);
    if (layers->on_copies && layers->copies && (layering->lost || layering->searchless))
        layers->on_copies(layers->observer, layering->ncopies, layering->lost ? layering->nopen : 0,
                          layering->ncopies > 0 && age_ms > 0 ? age_ms * 1000000 : 0);
}

static void end_layering(struct layering *layering)
{
    struct handoff_spine_resolve *outer = layering->outer;
    if (has_layering_failed(layering)) {
        outer->found_count = outer->missing_count = 0;
        return;
    }
    outer->missing = layering->open;
    outer->missing_count = layering->nopen;
    base_sort(outer->found, outer->found_count, sizeof *outer->found, compare_layered_scores);
    keep_the_best(outer, layering->layered->layers.local != NULL);
    tell_copies(layering);
}

static enum handoff_spine_progress go_on(struct layering *layering)
{
    for (; layering->layer < LAYER_END && !has_layering_failed(layering); layering->layer++) {
        if (!compose_question(layering))
            continue;
        if (handoff_spine_resolve(spine_of_layer(layering), &layering->inner) ==
            HANDOFF_SPINE_PENDING)
            return HANDOFF_SPINE_PENDING;
        note_layer_answer(layering);
    }
    end_layering(layering);
    return HANDOFF_SPINE_DONE;
}

static void layer_answered(struct handoff_spine_call *call)
{
    struct layering *layering = BASE_CONTAINER_OF(call, struct layering, inner.call);
    BASE_CHECK_MAGIC(layering, LAYERING_MAGIC);
    note_layer_answer(layering);
    layering->layer++;
    if (go_on(layering) == HANDOFF_SPINE_DONE)
        layering->outer->call.done(&layering->outer->call);
}

enum handoff_spine_progress handoff_layered_resolve(struct handoff_spine *spine,
                                                    struct handoff_spine_resolve *resolve)
{
    struct layering *layering = base_arena_calloc(resolve->arena, 1, sizeof *layering);
    resolve->call.asked = resolve->incomplete = false;
    if (layering) {
        layering->magic = LAYERING_MAGIC;
        layering->layered = handoff_layered_of(spine);
        layering->outer = resolve;
    }
    if (!layering || !open_ids(layering)) {
        handoff_error_no_memory(&resolve->call.error);
        return HANDOFF_SPINE_DONE;
    }
    return go_on(layering);
}
