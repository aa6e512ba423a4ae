/* SPDX-License-Identifier: Apache-2.0 */
/* status_page.h - the status for people: one page of HTML. */
#ifndef EXPORTER_STATUS_STATUS_PAGE_H
#define EXPORTER_STATUS_STATUS_PAGE_H

#include <stddef.h>

#include "exporter/status/status.h"

/* free() it. NULL: out of memory. */
char *exporter_status_page(const struct exporter_status *status, const char *telemetry_path,
                           size_t *length);

#endif
