/* SPDX-License-Identifier: Apache-2.0 */
/* status_json.h - the status for programs. */
#ifndef EXPORTER_STATUS_STATUS_JSON_H
#define EXPORTER_STATUS_STATUS_JSON_H

#include <stddef.h>

#include "exporter/status/status.h"

/* free() it. NULL: out of memory. */
char *exporter_status_json(const struct exporter_status *status, size_t *length);

#endif
