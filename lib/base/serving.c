/* SPDX-License-Identifier: Apache-2.0 */
/* One flag for each thread, see serving.h. Any thread. */
#include "lib/base/serving.h"

static _Thread_local bool serving;

void base_thread_serves(void)
{
    serving = true;
}

bool base_thread_is_serving(void)
{
    return serving;
}
