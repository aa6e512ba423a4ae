/* SPDX-License-Identifier: Apache-2.0 */
/* http_spine.h - the driver for memories behind an HTTP server (docs/spines.md). */
#ifndef HANDOFF_SPINE_HTTP_HTTP_SPINE_H
#define HANDOFF_SPINE_HTTP_HTTP_SPINE_H

#include "client/spine/spine.h"

/* invalid_request: the table or the URL; out_of_memory. */
enum handoff_code handoff_http_spine_open(struct handoff_spine **spine,
                                          const struct handoff_spine_options *options,
                                          struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
