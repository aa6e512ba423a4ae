/* SPDX-License-Identifier: Apache-2.0 */
/* The version that handoff-exporter and handoffctl print for --version. Any thread. */
#include "exporter/version.h"

const char *exporter_version(void)
{
    return HANDOFF_VERSION;
}
