/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface in front of the drivers: what every call needs is checked here once, so that a
 * request is refused in the same words whichever spine is configured. A refusal finishes at once,
 * and the spine was not asked. Any thread.
 */
#include "client/spine/spine.h"

#include "lib/base/check.h"
#include "lib/base/error.h"

enum { SPINE_MAGIC = 0x7370696e };

static enum handoff_spine_progress refused(void)
{
    return HANDOFF_SPINE_DONE;
}

/* false: this kind of spine cannot do it, and the error says so. */
static bool begin_call(const struct handoff_spine *spine, struct handoff_spine_call *call,
                       enum handoff_spine_ability needed, const char *task)
{
    BASE_CHECK_MAGIC(spine, SPINE_MAGIC);
    handoff_error_clear(&call->error);
    call->asked = call->cut = false;
    if (spine->driver->can & (unsigned)needed)
        return true;
    handoff_error_set(&call->error, HANDOFF_ERR_SPINE_CANNOT,
                      "the configured spine does not support this operation", "spine", NULL);
    handoff_error_seen(&call->error, "%s spine, asked to %s", spine->driver->kind, task);
    if (needed & (HANDOFF_SPINE_CAN_PUT | HANDOFF_SPINE_CAN_REMOVE | HANDOFF_SPINE_CAN_PIN))
        handoff_error_allow(&call->error, "calls that its operations have; spine.write: local "
                                          "stores memories in the sidecar");
    return false;
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

bool handoff_spine_is_lost(const struct handoff_spine_call *call)
{
    return call->error.code == HANDOFF_ERR_SPINE_UNAVAILABLE ||
           handoff_spine_health(call) == HANDOFF_SPINE_FAILED;
}

const char *handoff_spine_why(const struct handoff_spine_call *call)
{
    const struct handoff_error *error = &call->error;
    return *error->seen                        ? error->seen
           : error->message && *error->message ? error->message
                                               : handoff_code_meaning(error->code);
}

static bool within(struct handoff_spine_call *call, const char *field, size_t seen, size_t least,
                   size_t most)
{
    if (seen >= least && seen <= most)
        return true;
    handoff_error_set(&call->error, HANDOFF_ERR_INVALID, "out of range", field, NULL);
    handoff_error_seen(&call->error, "%zu", seen);
    handoff_error_allow(&call->error, "%zu to %zu", least, most);
    return false;
}

enum handoff_spine_progress handoff_spine_resolve(struct handoff_spine *spine,
                                                  struct handoff_spine_resolve *resolve)
{
    BASE_CHECK(!resolve->scopes.all || (!resolve->pins && resolve->recent == 0));
    bool able = begin_call(spine, &resolve->call, HANDOFF_SPINE_CAN_RESOLVE, "find memories");
    resolve->found = NULL;
    resolve->missing = NULL;
    resolve->found_count = resolve->missing_count = 0;
    resolve->more_pins = false;
    if (!able || !within(&resolve->call, "memory_ids", resolve->id_count, 0, spine->limits.ids) ||
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
    return spine->driver->resolve(spine, resolve);
}

enum handoff_spine_progress handoff_spine_list(struct handoff_spine *spine,
                                               struct handoff_spine_list *list)
{
    bool able = begin_call(spine, &list->call, HANDOFF_SPINE_CAN_LIST, "list memories");
    list->memories = NULL;
    list->count = 0;
    list->next = base_span(NULL, 0);
    if (!able || !within(&list->call, "limit", list->limit, 1, spine->limits.page))
        return refused();
    list->call.asked = true;
    return spine->driver->list(spine, list);
}

bool handoff_spine_is_complete(struct handoff_spine *spine)
{
    BASE_CHECK_MAGIC(spine, SPINE_MAGIC);
    return !spine->driver->is_complete || spine->driver->is_complete(spine);
}

void handoff_spine_join(struct handoff_spine *spine, struct base_loop *loop)
{
    if (spine->driver->join)
        spine->driver->join(spine, loop);
}

void handoff_spine_leave(struct handoff_spine *spine, struct base_loop *loop)
{
    if (spine->driver->leave)
        spine->driver->leave(spine, loop);
}

bool handoff_spine_is_up(struct handoff_spine *spine, unsigned failures)
{
    BASE_CHECK_MAGIC(spine, SPINE_MAGIC);
    return spine->driver->is_up ? spine->driver->is_up(spine) : failures < HANDOFF_SPINE_DOWN_AFTER;
}

const char *handoff_spine_lacks(struct handoff_spine *spine)
{
    BASE_CHECK_MAGIC(spine, SPINE_MAGIC);
    return spine->driver->lacks ? spine->driver->lacks(spine) : NULL;
}

const char *handoff_spine_instead(struct handoff_spine *spine)
{
    BASE_CHECK_MAGIC(spine, SPINE_MAGIC);
    if (!handoff_spine_lacks(spine))
        return NULL;
    return spine->driver->instead ? spine->driver->instead(spine)
                                  : "calls that need them are rejected";
}

int64_t handoff_spine_copies_bytes(struct handoff_spine *spine)
{
    BASE_CHECK_MAGIC(spine, SPINE_MAGIC);
    return spine->driver->copies_bytes ? spine->driver->copies_bytes(spine) : 0;
}

void handoff_spine_prepare_put(struct handoff_spine *spine, struct handoff_spine_put *put,
                               struct base_arena *arena)
{
    BASE_CHECK_MAGIC(spine, SPINE_MAGIC);
    if (spine->driver->prepare_put)
        spine->driver->prepare_put(spine, put, arena);
}

enum handoff_spine_progress handoff_spine_put(struct handoff_spine *spine,
                                              struct handoff_spine_put *put)
{
    BASE_CHECK(put->agent.size <= HANDOFF_MEMORY_AGENT_MAX &&
               put->caller.size <= HANDOFF_MEMORY_AGENT_MAX &&
               put->task_id.size <= HANDOFF_MEMORY_TASK_MAX);
    bool able = begin_call(spine, &put->call, HANDOFF_SPINE_CAN_PUT, "store a memory");
    if (!able ||
        handoff_memory_validate(&put->memory, &spine->limits, &put->call.error) != HANDOFF_OK ||
        handoff_scope_validate(put->scope, "scope", &put->call.error) != HANDOFF_OK)
        return refused();
    put->call.asked = true;
    return spine->driver->put(spine, put);
}

enum handoff_spine_progress handoff_spine_remove(struct handoff_spine *spine,
                                                 struct handoff_spine_remove *remove)
{
    bool able = begin_call(spine, &remove->call, HANDOFF_SPINE_CAN_REMOVE, "delete a memory");
    if (!able || handoff_memory_validate_id(remove->id, "id", &remove->call.error) != HANDOFF_OK)
        return refused();
    remove->call.asked = true;
    return spine->driver->remove(spine, remove);
}

enum handoff_spine_progress handoff_spine_pin(struct handoff_spine *spine,
                                              struct handoff_spine_pin *pin)
{
    bool able = begin_call(spine, &pin->call, HANDOFF_SPINE_CAN_PIN, "pin a memory");
    if (!able || handoff_memory_validate_id(pin->id, "id", &pin->call.error) != HANDOFF_OK)
        return refused();
    pin->call.asked = true;
    return spine->driver->pin(spine, pin);
}

enum handoff_spine_progress handoff_spine_keep_tokens(struct handoff_spine *spine,
                                                      struct handoff_spine_keep_tokens *keep)
{
    if (!begin_call(spine, &keep->call, HANDOFF_SPINE_CAN_KEEP_TOKENS, "keep token counts"))
        return refused();
    keep->call.asked = true;
    return spine->driver->keep_tokens(spine, keep);
}

enum handoff_spine_progress handoff_spine_stats(struct handoff_spine *spine,
                                                struct handoff_spine_stats *stats)
{
    if (!begin_call(spine, &stats->call, HANDOFF_SPINE_CAN_STATS, "count memories"))
        return refused();
    stats->call.asked = true;
    return spine->driver->stats(spine, stats);
}

/* A boost decides between memories that fit about equally; 50 for the task is worth a word. */
const struct handoff_search_boosts handoff_search_boosts_default = {
    .importance = 10,
    .recency = 10,
    .task = 50,
    .agent = 10,
    .half_life_ms = INT64_C(7) * 24 * 3600 * 1000,
};

void handoff_spine_weigh(struct handoff_spine *spine, const struct handoff_search_boosts *boosts)
{
    BASE_CHECK_MAGIC(spine, SPINE_MAGIC);
    if (spine->driver->weigh)
        spine->driver->weigh(spine, boosts ? boosts : &handoff_search_boosts_default);
}

/* ---- making and closing -------------------------------------------------------------------- */

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

/* A driver has exactly the functions that it says it has. */
static void check_driver(const struct handoff_spine_driver *driver)
{
    BASE_CHECK(driver->kind && driver->close);
#define CHECK_ABILITY(ability, function)                                                           \
    BASE_CHECK(((driver->can & HANDOFF_SPINE_CAN_##ability) != 0) == (driver->function != NULL))
    CHECK_ABILITY(RESOLVE, resolve);
    CHECK_ABILITY(LIST, list);
    CHECK_ABILITY(PUT, put);
    CHECK_ABILITY(REMOVE, remove);
    CHECK_ABILITY(PIN, pin);
    CHECK_ABILITY(KEEP_TOKENS, keep_tokens);
    CHECK_ABILITY(STATS, stats);
#undef CHECK_ABILITY
}

void handoff_spine_init(struct handoff_spine *spine, const struct handoff_spine_driver *driver,
                        struct handoff_memory_limits limits)
{
    check_driver(driver);
    *spine = (struct handoff_spine){SPINE_MAGIC, driver, with_defaults(limits)};
}

void handoff_spine_close(struct handoff_spine **spine)
{
    if (!spine || !*spine)
        return;
    struct handoff_spine *dying = *spine;
    BASE_CHECK_MAGIC(dying, SPINE_MAGIC);
    *spine = NULL;
    dying->magic = 0;
    dying->driver->close(dying);
}
