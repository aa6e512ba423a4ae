/* SPDX-License-Identifier: Apache-2.0 */
/* The library's version. It is compiled in, so that a host can tell what it was linked with. Any
   thread. */
#include "client/handoff.h"

const char *handoff_version(void)
{
    return HANDOFF_VERSION;
}
