/* SPDX-License-Identifier: Apache-2.0 */
/* openapi.h - the agent API as an OpenAPI 3.1 document. Pure; any thread. */
#ifndef EXPORTER_ROUTES_OPENAPI_H
#define EXPORTER_ROUTES_OPENAPI_H

#include "lib/base/buffer.h"

/* Appends the document, compact. The buffer remembers a failed allocation. */
void exporter_openapi_write(struct base_buffer *out);

#endif
