/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filters that fit nothing, see filters.h. Senders are not configured, so those of the handoffs
 * that were accepted last are asked for; it is read only for a list that is empty.
 *
 * Reader threads.
 */
#include "client/calls/filters.h"

#include <string.h>

#include "client/agents/agents.h"
#include "client/assemble/request.h"
#include "client/model/model.h"
#include "client/store/parties.h"
#include "lib/base/error.h"
#include "lib/base/nearest.h"

enum handoff_code handoff_check_reason(const char *reason, struct handoff_error *error)
{
    const char *meant = NULL;
    for (int i = HANDOFF_REASON_NONE + 1; reason && i < HANDOFF_REASON_COUNT; i++) {
        const char *name = handoff_reason_name((enum handoff_reason)i);
        if (strcmp(name, reason) == 0)
            return handoff_error_clear(error);
        if (base_is_slip(reason, strlen(reason), name, strlen(name)))
            meant = name;
    }
    if (!meant)
        return handoff_error_clear(error);
    handoff_error_set(error, HANDOFF_ERR_INVALID, "probably a misspelt reason", "reason", reason);
    handoff_error_allow(error, "%s (the nearest name)", meant);
    return HANDOFF_ERR_INVALID;
}

/* ---- sources -------------------------------------------------------------------------------- */

struct sender_search {
    struct base_span wanted;
    bool found;
    struct base_nearest nearest;
    char best[HANDOFF_NAME_MAX + 1]; /* the nearest; the store's texts do not last */
};

static bool offer_sender(void *arg, struct base_span sender)
{
    struct sender_search *search = arg;
    if (base_span_equal(sender, search->wanted)) {
        search->found = true;
        return false;
    }
    const size_t before = search->nearest.distance;
    base_nearest_offer(&search->nearest, sender.data, sender.size);
    if (search->nearest.distance < before && sender.size < sizeof search->best) {
        memcpy(search->best, sender.data, sender.size);
        search->best[sender.size] = '\0';
    }
    return true;
}

static void offer_target(struct handoff_agent *agent, void *arg)
{
    (void)offer_sender(arg, base_span(agent->name, agent->name_size));
}

static enum handoff_code check_sender_filter(struct handoff_client *client, const char *source,
                                             const char *caller, struct handoff_error *error)
{
    struct sender_search search = {.wanted = base_span_text(source)};
    search.nearest = base_nearest_begin(source, strlen(source));
    handoff_agents_each(client->agents, offer_target, &search);
    enum handoff_code code = handoff_error_clear(error);
    if (!search.found)
        code = handoff_store_visit_senders(client->store, base_span_text(caller), offer_sender,
                                           &search, error);
    if (code != HANDOFF_OK || search.found || !search.best[0])
        return code;
    handoff_error_set(error, HANDOFF_ERR_UNKNOWN_AGENT,
                      "no agent of this name is configured, or has sent a handoff lately", "source",
                      source);
    handoff_error_allow(error, "%s (the nearest name)", search.best);
    return HANDOFF_ERR_UNKNOWN_AGENT;
}

enum handoff_code handoff_check_filters(struct handoff_client *client,
                                        const struct handoff_filtered *filtered,
                                        struct handoff_error *error)
{
    enum handoff_code code = handoff_agents_check_filter(client->agents, filtered->target, error);
    if (code == HANDOFF_OK)
        code = handoff_check_reason(filtered->reason, error);
    if (code == HANDOFF_OK && filtered->source)
        code = check_sender_filter(client, filtered->source, filtered->caller, error);
    return code;
}
