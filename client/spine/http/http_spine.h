/* SPDX-License-Identifier: Apache-2.0 */
/* http_spine.h - the driver for memories behind an HTTP server (docs/spines.md). */
#ifndef HANDOFF_SPINE_HTTP_HTTP_SPINE_H
#define HANDOFF_SPINE_HTTP_HTTP_SPINE_H

#include "client/model/handoff_model.h"
#include "client/spine/spine.h"

/* Told on the spine's thread that the sidecar ran out of something, so that the server could not be
   asked. */
typedef void handoff_http_spine_ran_short(void *observer, enum handoff_shortage resource,
                                          const char *hindered);

/* invalid_request: the table or the URL; out_of_memory. */
enum handoff_code handoff_http_spine_open(struct handoff_spine **spine,
                                          const struct handoff_spine_options *options,
                                          handoff_http_spine_ran_short *on_shortage, void *observer,
                                          struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
