/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a client in a program of one thread, in two calls. Nothing here that a host with
 * several loops could not do itself with the calls below; the order of the steps is the point.
 */
#include "client/handoff.h"
#include "lib/base/clock.h"

enum handoff_code handoff_start(struct handoff_client **client, struct handoff_loop **loop,
                                const struct handoff_options *options,
                                const struct handoff_configuration *configuration,
                                struct handoff_error *error)
{
    *loop = NULL;
    enum handoff_code code = handoff_client_open(client, options, error);
    if (code == HANDOFF_OK)
        code = handoff_client_configure(*client, configuration, error);
    if (code == HANDOFF_OK)
        code = handoff_loop_open(loop, *client, error);
    if (code == HANDOFF_OK)
        code = handoff_client_resume(*client, loop, 1, error);
    if (code != HANDOFF_OK) {
        handoff_loop_close(loop);
        handoff_client_close(client);
    }
    return code;
}

static int64_t now_ms(void)
{
    return base_monotonic_ns(&base_clock_system) / 1000000;
}

/* Lets what is under way end, for at most so long. */
static void run_dry(struct handoff_client *client, struct handoff_loop *loop, int64_t at_most_ms)
{
    const int64_t until_ms = now_ms() + at_most_ms;
    int64_t left_ms = at_most_ms;
    handoff_client_drain(client);
    while (handoff_client_in_flight(client) > 0 && left_ms > 0) {
        handoff_loop_wait(loop, left_ms);
        left_ms = until_ms - now_ms();
    }
}

size_t handoff_finish(struct handoff_client **client, struct handoff_loop **loop,
                      int64_t at_most_ms)
{
    size_t left = 0;
    if (*loop) {
        run_dry(*client, *loop, at_most_ms);
        left = handoff_client_in_flight(*client);
    }
    handoff_loop_close(loop);
    handoff_client_close(client);
    return left;
}
