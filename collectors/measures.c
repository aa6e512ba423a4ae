/* SPDX-License-Identifier: Apache-2.0 */
/* What the measures share: how a handoff ended with an event, and the exemplar of one. Any thread.
 */
#include "collectors/measures.h"

static bool is_second_life(const struct handoff_moved *moved)
{
    return moved->replays > 0 || moved->from == HANDOFF_STATE_PARKED;
}

enum handoff_outcome collectors_end_of(const struct handoff_event *event)
{
    switch (event->kind) {
    case HANDOFF_EVENT_ASSEMBLED:
        return event->code == HANDOFF_ERR_HOP_LIMIT ? HANDOFF_OUTCOME_HOP_LIMIT
                                                    : HANDOFF_OUTCOME_NONE;
    case HANDOFF_EVENT_MOVED:
        return is_second_life(&event->of.moved) ? HANDOFF_OUTCOME_NONE : event->of.moved.outcome;
    case HANDOFF_EVENT_REJECTED:
        return HANDOFF_OUTCOME_CIRCUIT_OPEN;
    case HANDOFF_EVENT_OBSERVED:
        return event->of.observed.outcome;
    default:
        return HANDOFF_OUTCOME_NONE;
    }
}

void collectors_mark(struct collectors_mark *mark, const struct handoff_event *event)
{
    const struct handoff_who *who = &event->who;
    size_t count = 0;
    if (*who->trace_id != '\0') {
        mark->names[count] = "trace_id";
        mark->values[count++] = who->trace_id;
    }
    if (who->id != NULL && *who->id != '\0') {
        mark->names[count] = "handoff_id";
        mark->values[count++] = who->id;
    }
    mark->exemplar = (struct metric_exemplar){count, mark->names, mark->values};
}
