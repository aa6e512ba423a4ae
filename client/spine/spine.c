/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface in front of the implementations: what every call needs is checked here once, so
 * that a request is refused in the same words whichever spine is configured. A refusal finishes at
 * once, and the spine was not asked. Any thread.
 */
#include "client/spine/spine.h"

#include "lib/base/check.h"
#include "lib/base/error.h"

static enum handoff_spine_progress refused(void)
{
    return HANDOFF_SPINE_DONE;
}

static void begin(const struct handoff_spine *spine, struct handoff_spine_call *call)
{
    BASE_CHECK_MAGIC(spine, HANDOFF_SPINE_MAGIC);
    handoff_error_clear(&call->error);
    call->asked = false;
}

enum handoff_spine_health handoff_spine_health(const struct handoff_spine_call *call)
{
    const enum handoff_code code = call->error.code;
    if (!call->asked || code == HANDOFF_ERR_OUT_OF_MEMORY || code == HANDOFF_ERR_SHUTTING_DOWN)
        return HANDOFF_SPINE_UNTRIED;
    switch (handoff_code_class(code)) {
    case HANDOFF_CLASS_UNAVAILABLE:
    case HANDOFF_CLASS_TIMEOUT:
    case HANDOFF_CLASS_FAILED:
    case HANDOFF_CLASS_INTERNAL:
        return HANDOFF_SPINE_FAILED;
    default:
        return HANDOFF_SPINE_ANSWERED;
    }
}

static bool within(struct handoff_spine_call *call, const char *field, size_t seen, size_t least,
                   size_t most)
{
    if (seen >= least && seen <= most)
        return true;
    handoff_error_set(&call->error, HANDOFF_ERR_INVALID, "the number is out of range", field, NULL);
    handoff_error_seen(&call->error, "%zu", seen);
    handoff_error_allow(&call->error, "%zu to %zu", least, most);
    return false;
}

enum handoff_spine_progress handoff_spine_resolve(struct handoff_spine *spine,
                                                  struct handoff_spine_resolve *resolve)
{
    begin(spine, &resolve->call);
    resolve->found = NULL;
    resolve->missing = NULL;
    resolve->found_count = resolve->missing_count = 0;
    if (!within(&resolve->call, "memory_ids", resolve->id_count, 0, spine->limits.ids) ||
        !within(&resolve->call, "include_recent", resolve->recent, 0, spine->limits.recent))
        return refused();
    for (size_t i = 0; i < resolve->id_count; i++) {
        if (handoff_memory_validate_id(resolve->ids[i], "memory_ids", &resolve->call.error) ==
            HANDOFF_OK)
            continue;
        handoff_error_field(&resolve->call.error, "memory_ids[%zu]", i);
        return refused();
    }
    resolve->call.asked = true;
    return spine->methods->resolve(spine, resolve);
}

enum handoff_spine_progress handoff_spine_list(struct handoff_spine *spine,
                                               struct handoff_spine_list *list)
{
    begin(spine, &list->call);
    list->memories = NULL;
    list->count = 0;
    list->next = base_span(NULL, 0);
    if (!within(&list->call, "limit", list->limit, 1, spine->limits.page))
        return refused();
    list->call.asked = true;
    return spine->methods->list(spine, list);
}

enum handoff_spine_progress handoff_spine_put(struct handoff_spine *spine,
                                              struct handoff_spine_put *put)
{
    begin(spine, &put->call);
    if (handoff_memory_validate(&put->memory, &spine->limits, &put->call.error) != HANDOFF_OK)
        return refused();
    put->call.asked = true;
    return spine->methods->put(spine, put);
}

enum handoff_spine_progress handoff_spine_remove(struct handoff_spine *spine,
                                                 struct handoff_spine_remove *remove)
{
    begin(spine, &remove->call);
    if (handoff_memory_validate_id(remove->id, "id", &remove->call.error) != HANDOFF_OK)
        return refused();
    remove->call.asked = true;
    return spine->methods->remove(spine, remove);
}

enum handoff_spine_progress handoff_spine_pin(struct handoff_spine *spine,
                                              struct handoff_spine_pin *pin)
{
    begin(spine, &pin->call);
    if (handoff_memory_validate_id(pin->id, "id", &pin->call.error) != HANDOFF_OK)
        return refused();
    pin->call.asked = true;
    return spine->methods->pin(spine, pin);
}

enum handoff_spine_progress handoff_spine_keep_tokens(struct handoff_spine *spine,
                                                      struct handoff_spine_keep_tokens *keep)
{
    begin(spine, &keep->call);
    keep->call.asked = true;
    return spine->methods->keep_tokens(spine, keep);
}

enum handoff_spine_progress handoff_spine_stats(struct handoff_spine *spine,
                                                struct handoff_spine_stats *stats)
{
    begin(spine, &stats->call);
    stats->call.asked = true;
    return spine->methods->stats(spine, stats);
}

void handoff_spine_destroy(struct handoff_spine **spine)
{
    if (!spine || !*spine)
        return;
    BASE_CHECK_MAGIC(*spine, HANDOFF_SPINE_MAGIC);
    (*spine)->methods->destroy(*spine);
    *spine = NULL;
}
