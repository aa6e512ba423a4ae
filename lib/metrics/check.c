/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/metrics/check.h"

#include <stdio.h>
#include <stdlib.h>

__attribute__((cold)) void metric_check_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}
