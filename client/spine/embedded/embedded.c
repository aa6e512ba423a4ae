/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The embedded spine: memories as rows of the store. Reads run on the store's reader threads,
 * writes are jobs of its writer. It has no thread and no state of its own.
 */
#include "client/spine/embedded/embedded.h"

#include "lib/base/error.h"
#include "lib/base/memory.h"

#define WEEK_MS (INT64_C(7) * 24 * 3600 * 1000)

static void destroy(struct handoff_spine *spine)
{
    spine->magic = 0;
    base_free(spine);
}

static const struct handoff_spine_methods methods = {
    .kind = "embedded",
    .resolve = handoff_embedded_resolve,
    .list = handoff_embedded_list,
    .put = handoff_embedded_put,
    .remove = handoff_embedded_remove,
    .pin = handoff_embedded_pin,
    .keep_tokens = handoff_embedded_keep_tokens,
    .stats = handoff_embedded_stats,
    .destroy = destroy,
};

static struct handoff_memory_limits with_defaults(struct handoff_memory_limits limits)
{
    const struct handoff_memory_limits *usual = &handoff_memory_limits_default;
#define DEFAULT(field) limits.field = limits.field ? limits.field : usual->field
    DEFAULT(content_bytes);
    DEFAULT(summary_bytes);
    DEFAULT(tags);
    DEFAULT(tag_bytes);
    DEFAULT(metadata_bytes);
    DEFAULT(metadata_depth);
    DEFAULT(pins);
    DEFAULT(ids);
    DEFAULT(recent);
    DEFAULT(page);
#undef DEFAULT
    return limits;
}

enum handoff_code handoff_spine_embedded(struct handoff_spine **spine, struct handoff_store *store,
                                         const struct handoff_embedded_options *options,
                                         struct handoff_error *error)
{
    struct handoff_embedded *embedded = base_calloc(1, sizeof *embedded);
    *spine = NULL;
    if (!embedded)
        return handoff_error_no_memory(error);
    embedded->spine.magic = HANDOFF_SPINE_MAGIC;
    embedded->spine.methods = &methods;
    embedded->spine.limits = with_defaults(options->limits);
    embedded->store = store;
    embedded->clock = options->clock ? options->clock : &base_clock_system;
    embedded->half_life_ms = options->half_life_ms > 0 ? options->half_life_ms : WEEK_MS;
    *spine = &embedded->spine;
    return HANDOFF_OK;
}
