/* SPDX-License-Identifier: Apache-2.0 */
/* One flag for each thread, and its priority, see serving.h. Any thread. */
#include "lib/base/serving.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NICENESS = 10 };

static _Thread_local bool serving;

void base_thread_serves(void)
{
    serving = true;
}

bool base_thread_is_serving(void)
{
    return serving;
}

void base_thread_gives_way(void)
{
    const struct sched_param none = {0};
    (void)pthread_setschedparam(pthread_self(), SCHED_BATCH, &none);
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICENESS);
}
