/* SPDX-License-Identifier: Apache-2.0 */
/* request_origin.h - keeps web pages of other origins from making a browser act on the daemon. */
#ifndef EXPORTER_ACCESS_REQUEST_ORIGIN_H
#define EXPORTER_ACCESS_REQUEST_ORIGIN_H

#include <stdbool.h>

/* Whether a request with these headers (each may be NULL) came from a page of another origin than
 * `host`. Clients other than browsers send neither header and are never foreign. */
bool exporter_origin_is_foreign(const char *origin, const char *sec_fetch_site, const char *host);

/* Whether a Host (or NULL: none was sent) is an address, a name without a dot or one below
 * localhost, so that no page under a name of the public DNS can have sent it. */
bool exporter_origin_names_this_machine(const char *host);

#endif
