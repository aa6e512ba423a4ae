/* SPDX-License-Identifier: Apache-2.0 */
/* remote.h - the driver for memories behind a server, of whatever kind (wire.h, docs/spines.md). */
#ifndef HANDOFF_SPINE_REMOTE_REMOTE_H
#define HANDOFF_SPINE_REMOTE_REMOTE_H

#include "client/model/handoff_model.h"
#include "client/spine/remote/wire.h"
#include "client/spine/spine.h"

/* Told, on the thread that would have asked, that the sidecar ran out of something, so that the
   server could not be asked. */
typedef void handoff_remote_ran_short(void *observer, enum handoff_shortage resource,
                                      const char *hindered);

/* The options have a URL and a table. invalid_request: one of these; out_of_memory. */
enum handoff_code handoff_remote_spine_open(struct handoff_spine **spine,
                                            const struct handoff_remote_wire *wire,
                                            const struct handoff_spine_options *options,
                                            handoff_remote_ran_short *on_shortage, void *observer,
                                            struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
