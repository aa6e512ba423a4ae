/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the line for a broken invariant, on any thread: say where, then abort so that a core
 * can be kept. */
#include "lib/base/check.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void base_check_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "handoff: broken invariant: %s (%s:%d)\n", what, file, line);
    abort();
}
