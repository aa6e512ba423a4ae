/* SPDX-License-Identifier: Apache-2.0 */
/* What a failed assertion says before the process stops. */
#include "exporter/check.h"

#include <stdio.h>
#include <stdlib.h>

void exporter_check_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "handoff-exporter: a bug: %s does not hold at %s:%d\n", condition, file, line);
    abort();
}
