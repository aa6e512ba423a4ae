/* SPDX-License-Identifier: Apache-2.0 */
/* A handoff as an answer: its JSON object, and the error for how it ended. */
#include "client/calls/reply.h"

#include <string.h>

#include "client/assemble/assemble.h"
#include "client/calls/render.h"
#include "client/model/model.h"
#include "lib/base/error.h"

static enum handoff_code code_of_parking(enum handoff_reason reason)
{
    switch (reason) {
    case HANDOFF_REASON_REFUSED:
        return HANDOFF_ERR_REFUSED;
    case HANDOFF_REASON_REJECTED:
        return HANDOFF_ERR_REJECTED;
    default:
        return HANDOFF_ERR_EXHAUSTED;
    }
}

/* The error for how a handoff ended; OK if it was acknowledged or continues. */
static void error_of_status(const struct handoff_status *status, struct handoff_error *error)
{
    handoff_error_clear(error);
    if (status->error.code != HANDOFF_OK)
        *error = status->error;
    else if (status->state == HANDOFF_STATE_EXPIRED)
        handoff_error_set(error, HANDOFF_ERR_EXPIRED, handoff_code_meaning(HANDOFF_ERR_EXPIRED),
                          "target_agent", status->target);
    else if (status->state == HANDOFF_STATE_DISCARDED)
        handoff_error_set(error, HANDOFF_ERR_DISCARDED, handoff_code_meaning(HANDOFF_ERR_DISCARDED),
                          "reason", handoff_status_reason(status));
    else if (status->state == HANDOFF_STATE_PARKED &&
             (status->reason == HANDOFF_REASON_OTHER || status->reason == HANDOFF_REASON_BY_HAND))
        handoff_error_set(error, HANDOFF_ERR_PARKED, handoff_code_meaning(HANDOFF_ERR_PARKED),
                          "reason", handoff_status_reason(status));
    else if (status->state == HANDOFF_STATE_PARKED && status->reason == HANDOFF_REASON_HOP_LIMIT)
        (void)handoff_refuse_hops(status->hop, status->hop_max, error);
    else if (status->state == HANDOFF_STATE_PARKED) {
        enum handoff_code code = code_of_parking(status->reason);
        handoff_error_set(error, code, handoff_reason_detail(status->reason), "target_agent",
                          status->target);
    }
}

static void answer_with(handoff_answered *answered, void *context,
                        const struct handoff_status *status, bool created,
                        const struct handoff_error *error)
{
    struct base_buffer body = {0};
    struct handoff_result result = {.error = *error, .created = created};
    result.under_way = handoff_state_is_live(status->state);
    if (status->envelope.data)
        handoff_object_write(&body, status);
    if (body.failed)
        handoff_error_no_memory(&result.error);
    else if (body.size > 0) {
        result.body = body.data;
        result.size = body.size;
    }
    answered(context, &result);
    base_buffer_free(&body);
}

void handoff_answer_with_error(handoff_answered *answered, void *context,
                               const struct handoff_status *status,
                               const struct handoff_error *error)
{
    answer_with(answered, context, status, false, error);
}

void handoff_answer_with_status(handoff_answered *answered, void *context,
                                const struct handoff_status *status, bool created)
{
    struct handoff_error error;
    error_of_status(status, &error);
    answer_with(answered, context, status, created, &error);
}

void handoff_answer_with_standing(handoff_answered *answered, void *context,
                                  const struct handoff_status *status, bool created)
{
    answer_with(answered, context, status, created, &status->error);
}

void handoff_keep_source(char to[HANDOFF_NAME_MAX + 1], struct base_span source)
{
    const size_t size = source.size <= HANDOFF_NAME_MAX ? source.size : 0;
    if (size > 0)
        memcpy(to, source.data, size);
    to[size] = '\0';
}

void handoff_give_rejection(handoff_answered *answered, void *context,
                            const struct handoff_error *error, const char *source)
{
    const struct handoff_result result = {.error = *error, .source = source[0] ? source : NULL};
    answered(context, &result);
}

void handoff_give_error(handoff_answered *answered, void *context,
                        const struct handoff_error *error)
{
    handoff_give_rejection(answered, context, error, "");
}

void handoff_give_no_memory(handoff_answered *answered, void *context)
{
    struct handoff_error error;
    handoff_error_no_memory(&error);
    handoff_give_error(answered, context, &error);
}
