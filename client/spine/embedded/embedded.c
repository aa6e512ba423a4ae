/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The embedded spine: memories as rows of the store. Reads run on the store's reader threads,
 * writes are jobs of its writer. The search index has a thread (index.h).
 */
#include "client/spine/embedded/embedded.h"
#include "client/spine/embedded/embedded_spine.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"
#include "lib/words/words.h"

enum { SEARCH_TIMEOUT_MS = 50 };

static void close_embedded(struct handoff_spine *spine)
{
    handoff_memory_index_close(&handoff_embedded_of(spine)->index);
    base_free(handoff_embedded_of(spine));
}

static void weigh_embedded(struct handoff_spine *spine, const struct handoff_search_boosts *boosts)
{
    struct handoff_embedded *embedded = handoff_embedded_of(spine);
    atomic_store(&embedded->importance, boosts->importance);
    atomic_store(&embedded->recency, boosts->recency);
    atomic_store(&embedded->task, boosts->task);
    atomic_store(&embedded->agent, boosts->agent);
    atomic_store(&embedded->half_life_ms, boosts->half_life_ms);
}

static bool is_embedded_complete(struct handoff_spine *spine)
{
    return handoff_memory_index_is_complete(handoff_embedded_of(spine)->index);
}

static const struct handoff_spine_driver driver = {
    .kind = "embedded",
    .can = HANDOFF_SPINE_CAN_RESOLVE | HANDOFF_SPINE_CAN_LIST | HANDOFF_SPINE_CAN_PUT |
           HANDOFF_SPINE_CAN_REMOVE | HANDOFF_SPINE_CAN_PIN | HANDOFF_SPINE_CAN_KEEP_TOKENS |
           HANDOFF_SPINE_CAN_STATS,
    .resolve = handoff_embedded_resolve,
    .list = handoff_embedded_list,
    .prepare_put = handoff_embedded_prepare_put,
    .put = handoff_embedded_put,
    .remove = handoff_embedded_remove,
    .pin = handoff_embedded_pin,
    .keep_tokens = handoff_embedded_keep_tokens,
    .stats = handoff_embedded_stats,
    .weigh = weigh_embedded,
    .is_complete = is_embedded_complete,
    .close = close_embedded,
};

enum handoff_code handoff_embedded_spine_open(struct handoff_spine **spine,
                                              struct handoff_store *store,
                                              const struct handoff_embedded_options *options,
                                              struct handoff_error *error)
{
    struct handoff_embedded *embedded = base_calloc(1, sizeof *embedded);
    *spine = NULL;
    if (!embedded)
        return handoff_error_no_memory(error);
    handoff_spine_init(&embedded->spine, &driver, options->limits);
    embedded->store = store;
    embedded->clock = options->clock ? options->clock : &base_clock_system;
    embedded->words = options->no_stemming ? WORDS_NO_STEM : 0;
    handoff_spine_weigh(&embedded->spine, NULL);
    embedded->search_timeout_ms =
        options->search_timeout_ms > 0 ? options->search_timeout_ms : SEARCH_TIMEOUT_MS;
    enum handoff_code code =
        handoff_memory_index_open(&embedded->index, store, embedded->words, error);
    if (code != HANDOFF_OK)
        base_free(embedded);
    else
        *spine = &embedded->spine;
    return code;
}
