/* SPDX-License-Identifier: Apache-2.0 */
/* The form of an envelope that an agent reads, see body.h. Runs on the lane of the delivery. */
#include "client/protocol/body.h"

#include "client/envelope/brief.h"
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
    return options->accepts == HANDOFF_ACCEPTS_1 && options->emit == HANDOFF_EMIT_DUAL &&
           options->format == HANDOFF_FORMAT_ENVELOPE;
}

enum handoff_obstacle handoff_body_obstacle(const struct handoff_agent_options *options,
                                            struct base_span envelope)
{
    return !wants_dual(options) || is_dual(envelope) ? HANDOFF_OBSTACLE_NONE
                                                     : HANDOFF_OBSTACLE_VERSION;
}

/* One that was published before this agent received the channel may lack version 1. */
static enum handoff_rendering rendering_for(const struct handoff_agent_options *options,
                                            struct base_span envelope)
{
    if (options->format == HANDOFF_FORMAT_MARKDOWN)
        return HANDOFF_RENDER_MARKDOWN;
    if (options->accepts != HANDOFF_ACCEPTS_1 || (wants_dual(options) && is_dual(envelope)))
        return HANDOFF_RENDER_STORED;
    return HANDOFF_RENDER_VERSION_1;
}

static void write_brief_for(const struct handoff_carrier *carrier,
                            struct handoff_envelope *envelope, struct base_buffer *out)
{
    envelope->id = base_span_text(carrier->id);
    if (carrier->receiver.data)
        envelope->target_agent = carrier->receiver;
    handoff_brief_write(out, envelope);
}

bool handoff_body_choose(const struct handoff_agent_options *options,
                         const struct handoff_carrier *carrier, struct base_span envelope,
                         struct base_buffer *flat, struct base_span *body,
                         enum handoff_rendering *rendering)
{
    struct handoff_envelope read;
    *body = envelope;
    *rendering = rendering_for(options, envelope);
    if (*rendering == HANDOFF_RENDER_STORED)
        return true;
    base_buffer_clear(flat);
    if (handoff_envelope_read(envelope, &read, NULL) != HANDOFF_OK)
        return false;
    if (*rendering == HANDOFF_RENDER_MARKDOWN)
        write_brief_for(carrier, &read, flat);
    else
        handoff_legacy_write(flat, &read);
    handoff_envelope_free(&read);
    *body = base_buffer_span(flat);
    return !flat->failed;
}

const char *handoff_body_type(enum handoff_rendering rendering)
{
    static const char *const types[] = {
        [HANDOFF_RENDER_STORED] = "Content-Type: " HANDOFF_ENVELOPE_TYPE_2,
        [HANDOFF_RENDER_VERSION_1] = "Content-Type: " HANDOFF_ENVELOPE_TYPE_1,
        [HANDOFF_RENDER_MARKDOWN] = ("Content-Type: " HANDOFF_BRIEF_TYPE),
    };
    return types[rendering];
}
