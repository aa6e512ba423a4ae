/* SPDX-License-Identifier: Apache-2.0 */
/* The form of an envelope that an agent reads, see body.h. Runs on the lane of the delivery. */
#include "client/protocol/body.h"

#include "client/envelope/legacy.h"
#include "client/envelope/read.h"

static bool is_dual(struct base_span envelope)
{
    struct handoff_envelope read;
    if (handoff_envelope_read(envelope, &read, NULL) != HANDOFF_OK)
        return false;
    bool dual = yyjson_obj_get(yyjson_doc_get_root(read.doc), "from") != NULL;
    handoff_envelope_free(&read);
    return dual;
}

static bool wants_dual(const struct handoff_agent_options *options)
{
    return options->accepts == HANDOFF_ACCEPTS_1 && options->emit == HANDOFF_EMIT_DUAL;
}

enum handoff_obstacle handoff_body_obstacle(const struct handoff_agent_options *options,
                                            struct base_span envelope)
{
    return !wants_dual(options) || is_dual(envelope) ? HANDOFF_OBSTACLE_NONE
                                                     : HANDOFF_OBSTACLE_VERSION;
}

bool handoff_body_choose(const struct handoff_agent_options *options, struct base_span envelope,
                         struct base_buffer *flat, struct base_span *body, int *version)
{
    struct handoff_envelope read;
    *body = envelope;
    *version = 2;
    if (options->accepts != HANDOFF_ACCEPTS_1 || wants_dual(options))
        return true;
    *version = 1;
    base_buffer_clear(flat);
    if (handoff_envelope_read(envelope, &read, NULL) != HANDOFF_OK)
        return false;
    handoff_legacy_write(flat, &read);
    handoff_envelope_free(&read);
    *body = base_buffer_span(flat);
    return !flat->failed;
}
