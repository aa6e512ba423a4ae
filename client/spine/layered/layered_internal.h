/* SPDX-License-Identifier: Apache-2.0 */
/* layered_internal.h - what the files of the layered spine share. */
#ifndef HANDOFF_SPINE_LAYERED_LAYERED_INTERNAL_H
#define HANDOFF_SPINE_LAYERED_LAYERED_INTERNAL_H

#include "client/spine/layered/layered.h"

struct handoff_layered {
    struct handoff_spine spine;
    struct handoff_spine_driver driver; /* has what its layers have */
    struct handoff_layered_options layers;
};

static inline struct handoff_layered *handoff_layered_of(struct handoff_spine *spine)
{
    return (struct handoff_layered *)(void *)spine;
}

/* resolve.c */
enum handoff_spine_progress handoff_layered_resolve(struct handoff_spine *spine,
                                                    struct handoff_spine_resolve *resolve);

/* change.c: through to the remote layer, with the copies kept up */
enum handoff_spine_progress handoff_layered_put(struct handoff_spine *spine,
                                                struct handoff_spine_put *put);
enum handoff_spine_progress handoff_layered_remove(struct handoff_spine *spine,
                                                   struct handoff_spine_remove *remove);

#endif
