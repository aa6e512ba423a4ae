/* SPDX-License-Identifier: Apache-2.0 */
/* Random bytes of the kernel; getrandom cannot fail for small sizes once the system has booted. */
#include "client/base/random.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/types.h>

#include "client/base/check.h"

static void system_fill(const struct handoff_random *random, void *bytes, size_t size)
{
    (void)random;
    for (char *to = bytes; size > 0;) {
        ssize_t got = getrandom(to, size, 0);
        HANDOFF_CHECK(got > 0 || errno == EINTR);
        if (got > 0) {
            to += got;
            size -= (size_t)got;
        }
    }
}

const struct handoff_random handoff_random_system = {system_fill};
