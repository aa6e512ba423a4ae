/* SPDX-License-Identifier: Apache-2.0 */
/* Reports a failed assertion and aborts. Any thread. */
#include "lib/metrics/check.h"

#include <stdio.h>
#include <stdlib.h>

__attribute__((cold)) void metric_check_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}
