/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon and handoffctl answer to --version. */
#include "exporter/version.h"

const char *exporter_version(void)
{
    return HANDOFF_VERSION;
}
