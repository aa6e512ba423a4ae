/* SPDX-License-Identifier: Apache-2.0 */
/* http_spine.h - memories behind an HTTP server (docs/spines.md), as a kind of remote spine. */
#ifndef HANDOFF_SPINE_HTTP_HTTP_SPINE_H
#define HANDOFF_SPINE_HTTP_HTTP_SPINE_H

#include "client/spine/remote/wire.h"

extern const struct handoff_remote_wire handoff_http_wire;

/* The table of a handoff-exporter, so that one sidecar can be the spine of others. */
extern const char handoff_http_usual_table[];

/* The path with its values: percent-encoded, slashes too, so none ends its segment or parameter. */
void handoff_http_compose_path(const struct handoff_remote_row *row,
                               const struct handoff_remote_values *values, struct base_buffer *out);

#endif
