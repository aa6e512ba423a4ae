/* SPDX-License-Identifier: Apache-2.0 */
/* What the measures share: label values, and the exemplar of an event. */
#include "collectors/measures.h"

#include <string.h>

const char *const collectors_patterns[COLLECTORS_PATTERNS] = {"direct", "broadcast",
                                                              "choreographed"};
const char *const collectors_ends[COLLECTORS_ENDS] = {
    [COLLECTORS_ACKNOWLEDGED] = "acknowledged", [COLLECTORS_EXHAUSTED] = "exhausted",
    [COLLECTORS_REFUSED] = "refused",           [COLLECTORS_EXPIRED] = "expired",
    [COLLECTORS_CIRCUIT_OPEN] = "circuit_open", [COLLECTORS_HOP_LIMIT] = "hop_limit"};

size_t collectors_index(const char *const *texts, size_t count, const char *text)
{
    size_t i = text != NULL ? 0 : count;
    while (i < count && strcmp(texts[i], text) != 0)
        i++;
    return i;
}

size_t collectors_pattern(const struct handoff_event *event)
{
    size_t pattern = collectors_index(collectors_patterns, COLLECTORS_PATTERNS, event->pattern);
    return pattern < COLLECTORS_PATTERNS ? pattern : 0;
}

static bool is_second_life(const struct handoff_event *event)
{
    return event->replays > 0 || (event->from != NULL && strcmp(event->from, "parked") == 0);
}

enum collectors_end collectors_end_of(const struct handoff_event *event)
{
    switch (event->kind) {
    case HANDOFF_EVENT_ASSEMBLED:
        return event->code == HANDOFF_ERR_HOP_LIMIT ? COLLECTORS_HOP_LIMIT : COLLECTORS_ENDS;
    case HANDOFF_EVENT_MOVED:
        if (is_second_life(event))
            return COLLECTORS_ENDS;
        break;
    default:
        break;
    }
    return (enum collectors_end)collectors_index(collectors_ends, COLLECTORS_ENDS, event->outcome);
}

void collectors_resolve_each(struct metric_family *family, const char *target,
                             const char *const *values, size_t count, struct metric_series **series)
{
    for (size_t i = 0; i < count; i++)
        series[i] = metric_resolve(family, (const char *const[]){target, values[i]});
}

/* "00-<32 digits>-..." */
static bool take_trace_id(char *trace_id, const struct handoff_event *event)
{
    enum { BEFORE = 3, DIGITS = 32 };
    const char *digits = event->trace_id;
    if (*digits == '\0' && event->traceparent != NULL &&
        strlen(event->traceparent) >= BEFORE + DIGITS)
        digits = event->traceparent + BEFORE;
    if (*digits == '\0')
        return false;
    memcpy(trace_id, digits, DIGITS);
    trace_id[DIGITS] = '\0';
    return true;
}

void collectors_mark(struct collectors_mark *mark, const struct handoff_event *event)
{
    size_t count = 0;
    if (take_trace_id(mark->trace_id, event)) {
        mark->names[count] = "trace_id";
        mark->values[count++] = mark->trace_id;
    }
    if (event->id != NULL && *event->id != '\0') {
        mark->names[count] = "handoff_id";
        mark->values[count++] = event->id;
    }
    mark->exemplar = (struct metric_exemplar){count, mark->names, mark->values};
}
