/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layered spine: which calls it has, and to which layer they go. Calls that one layer answers
 * alone are handed on as they are. Any thread.
 */
#include "client/spine/layered/layered.h"

#include "client/spine/layered/layered_internal.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

/* ---- calls for the layer that is written to -------------------------------------------------- */

static struct handoff_spine *written_layer(struct handoff_spine *spine)
{
    const struct handoff_layered_options *layers = &handoff_layered_of(spine)->layers;
    return layers->local ? layers->local : layers->remote;
}

static enum handoff_spine_progress list_layer(struct handoff_spine *spine,
                                              struct handoff_spine_list *list)
{
    return handoff_spine_list(written_layer(spine), list);
}

static enum handoff_spine_progress put_in_layer(struct handoff_spine *spine,
                                                struct handoff_spine_put *put)
{
    return handoff_layered_of(spine)->layers.local ? handoff_spine_put(written_layer(spine), put)
                                                   : handoff_layered_put(spine, put);
}

static void prepare_put_in_layer(struct handoff_spine *spine, struct handoff_spine_put *put,
                                 struct base_arena *arena)
{
    handoff_spine_prepare_put(written_layer(spine), put, arena);
}

static enum handoff_spine_progress remove_from_layer(struct handoff_spine *spine,
                                                     struct handoff_spine_remove *remove)
{
    return handoff_layered_of(spine)->layers.local
               ? handoff_spine_remove(written_layer(spine), remove)
               : handoff_layered_remove(spine, remove);
}

static enum handoff_spine_progress pin_in_layer(struct handoff_spine *spine,
                                                struct handoff_spine_pin *pin)
{
    return handoff_spine_pin(written_layer(spine), pin);
}

static enum handoff_spine_progress keep_tokens_in_layer(struct handoff_spine *spine,
                                                        struct handoff_spine_keep_tokens *keep)
{
    return handoff_spine_keep_tokens(written_layer(spine), keep);
}

static enum handoff_spine_progress count_layer(struct handoff_spine *spine,
                                               struct handoff_spine_stats *stats)
{
    return handoff_spine_stats(written_layer(spine), stats);
}

/* ---- state ----------------------------------------------------------------------------------- */

static void weigh_layers(struct handoff_spine *spine, const struct handoff_search_boosts *boosts)
{
    const struct handoff_layered_options *layers = &handoff_layered_of(spine)->layers;
    handoff_spine_weigh(layers->remote, boosts);
    if (layers->local)
        handoff_spine_weigh(layers->local, boosts);
    if (layers->copies)
        handoff_spine_weigh(handoff_copies_spine(layers->copies), boosts);
}

static bool is_layer_complete(struct handoff_spine *spine)
{
    const struct handoff_layered_options *layers = &handoff_layered_of(spine)->layers;
    return handoff_spine_is_complete(layers->remote) &&
           (!layers->local || handoff_spine_is_complete(layers->local));
}

static bool is_remote_layer_up(struct handoff_spine *spine)
{
    return handoff_spine_is_up(handoff_layered_of(spine)->layers.remote, 0);
}

static void join_remote_layer(struct handoff_spine *spine, struct base_loop *loop)
{
    handoff_spine_join(handoff_layered_of(spine)->layers.remote, loop);
}

static void leave_remote_layer(struct handoff_spine *spine, struct base_loop *loop)
{
    handoff_spine_leave(handoff_layered_of(spine)->layers.remote, loop);
}

static const char *lacks_of_remote_layer(struct handoff_spine *spine)
{
    return handoff_spine_lacks(handoff_layered_of(spine)->layers.remote);
}

static const char *instead_of_remote(struct handoff_spine *spine)
{
    const struct handoff_layered_options *layers = &handoff_layered_of(spine)->layers;
    if (layers->local)
        return layers->copies ? "memories are stored in the sidecar; its last known copies are "
                                "searched where the spine cannot be"
                              : "memories are stored in the sidecar; envelopes list what could not "
                                "be searched";
    return layers->copies ? "calls that need them are rejected; last known copies are searched "
                            "where the spine cannot be"
                          : "calls that need them are rejected; envelopes list what could not be "
                            "searched";
}

static int64_t bytes_of_copies(struct handoff_spine *spine)
{
    const struct handoff_copies *copies = handoff_layered_of(spine)->layers.copies;
    return copies ? handoff_copies_bytes(copies) : 0;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void close_layers(struct handoff_layered_options *layers)
{
    handoff_spine_close(&layers->remote);
    handoff_spine_close(&layers->local);
    handoff_copies_close(&layers->copies);
}

static void close_layered(struct handoff_spine *spine)
{
    close_layers(&handoff_layered_of(spine)->layers);
    base_free(spine);
}

static void fill_layered_driver(struct handoff_layered *layered)
{
    const struct handoff_spine_driver *written = written_layer(&layered->spine)->driver;
    const unsigned can = written->can | HANDOFF_SPINE_CAN_RESOLVE;
    layered->driver = (struct handoff_spine_driver){
        .kind = written->kind,
        .can = can,
        .resolve = handoff_layered_resolve,
        .list = can & HANDOFF_SPINE_CAN_LIST ? list_layer : NULL,
        .put = can & HANDOFF_SPINE_CAN_PUT ? put_in_layer : NULL,
        .prepare_put = prepare_put_in_layer,
        .remove = can & HANDOFF_SPINE_CAN_REMOVE ? remove_from_layer : NULL,
        .pin = can & HANDOFF_SPINE_CAN_PIN ? pin_in_layer : NULL,
        .keep_tokens = can & HANDOFF_SPINE_CAN_KEEP_TOKENS ? keep_tokens_in_layer : NULL,
        .stats = can & HANDOFF_SPINE_CAN_STATS ? count_layer : NULL,
        .weigh = weigh_layers,
        .is_complete = is_layer_complete,
        .is_up = is_remote_layer_up,
        .lacks = lacks_of_remote_layer,
        .join = join_remote_layer,
        .leave = leave_remote_layer,
        .instead = instead_of_remote,
        .copies_bytes = bytes_of_copies,
        .close = close_layered};
}

enum handoff_code handoff_layered_spine_open(struct handoff_spine **spine,
                                             const struct handoff_layered_options *options,
                                             struct handoff_error *error)
{
    struct handoff_layered *made = base_calloc(1, sizeof *made);
    *spine = NULL;
    if (!made) {
        struct handoff_layered_options layers = *options;
        close_layers(&layers);
        return handoff_error_no_memory(error);
    }
    made->layers = *options;
    fill_layered_driver(made);
    handoff_spine_init(&made->spine, &made->driver, options->remote->limits);
    *spine = &made->spine;
    return HANDOFF_OK;
}
