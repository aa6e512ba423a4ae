/* SPDX-License-Identifier: Apache-2.0 */
/* review_link.h - where a reader of the status page finds the review page. */
#ifndef EXPORTER_STATUS_REVIEW_LINK_H
#define EXPORTER_STATUS_REVIEW_LINK_H

#include <stdbool.h>
#include <stddef.h>

#include "exporter/lifecycle.h"

enum { EXPORTER_REVIEW_LINK_SIZE = 2100 };

/* Writes the address of the review page, without a slash at its end, for a reader whose browser
 * asked for the status page with this Host (NULL: it sent none). false: not known, or it cannot
 * reach it; the link is then "". */
bool exporter_review_link(char link[EXPORTER_REVIEW_LINK_SIZE],
                          const struct exporter_lifecycle_state *daemon, const char *host);

#endif
