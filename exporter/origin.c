/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cross-site requests. A page anywhere can make a browser POST to localhost; what gives it away is
 * Sec-Fetch-Site, which pages cannot forge, and Origin in browsers that are older than it.
 */
#include "exporter/origin.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

bool exporter_origin_is_foreign(const char *origin, const char *sec_fetch_site, const char *host)
{
    if (sec_fetch_site != NULL)
        return strcasecmp(sec_fetch_site, "same-origin") != 0 &&
               strcasecmp(sec_fetch_site, "none") != 0;
    if (origin == NULL)
        return false;
    const char *authority = strstr(origin, "://"); /* absent in "null", the opaque origin */
    return authority == NULL || host == NULL || strcasecmp(authority + 3, host) != 0;
}
