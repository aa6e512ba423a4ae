/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's event loops: is one of them busy with something so long that others wait? Read when
 * a scrape begins, on its thread.
 */
#include "collectors/rows.h"
#include "lib/base/check.h"

void collectors_loops_init(struct collectors *collectors)
{
    static const char *const names[COLLECTORS_LOOPS] = {[COLLECTORS_LOOP_CONTROL] = "control",
                                                        [COLLECTORS_LOOP_WEB] = "web",
                                                        [COLLECTORS_LOOP_API] = "api"};
    for (int i = 0; i < COLLECTORS_LOOPS; i++)
        collectors->loop_turns[i] =
            collectors_gauge(collectors, COLLECTORS_LOOP_TURN_MAX, (const char *const[]){names[i]});
}

void collectors_watch_loops(struct collectors *collectors,
                            double (*longest_turn)(void *host, enum collectors_loop loop),
                            void *host)
{
    BASE_CHECK(collectors->magic == COLLECTORS_MAGIC && !collectors->longest_turn);
    collectors->longest_turn = longest_turn;
    collectors->loops_host = host;
}

void collectors_loops_read(void *arg)
{
    struct collectors *collectors = arg;
    BASE_CHECK(collectors->magic == COLLECTORS_MAGIC);
    for (int i = 0; collectors->longest_turn && i < COLLECTORS_LOOPS; i++)
        prom_metric_sample_set(
            collectors->loop_turns[i],
            collectors->longest_turn(collectors->loops_host, (enum collectors_loop)i));
}
