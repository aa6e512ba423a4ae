/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport of transport.h: opens the drivers, and the dialer and libcurl for them, chooses the
 * driver of a post by its URL, and forwards. The thread of the loop.
 */
#include "client/transport/transport.h"

#include <limits.h>

#include "client/transport/curl_loop.h"
#include "client/transport/curl_transfer.h"
#include "client/transport/dial.h"
#include "client/transport/plain.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

/* In the order in which they are offered a post. The last one takes every URL. */
static const struct handoff_transport_driver *const drivers[] = {
    &handoff_plain_driver,
    &handoff_curl_driver,
};

enum {
    TRANSPORT_MAGIC = 0x74726e73u,
    DRIVERS = sizeof drivers / sizeof drivers[0],
};

struct handoff_transport {
    unsigned magic;
    struct handoff_curl *curl;
    struct handoff_dialer dialer;
    void *states[DRIVERS]; /* of the drivers; NULL: not opened */
};

enum handoff_code handoff_transport_start(struct handoff_transport *transport,
                                          struct handoff_post *post)
{
    BASE_CHECK_MAGIC(transport, TRANSPORT_MAGIC);
    BASE_CHECK(!post->transfer && post->timeout_ms > 0 && post->timeout_ms <= INT_MAX);
    enum handoff_post_start start = HANDOFF_POST_DECLINED;
    for (size_t i = 0; start == HANDOFF_POST_DECLINED && i < DRIVERS; i++)
        start = drivers[i]->start(transport->states[i], post);
    BASE_CHECK(start != HANDOFF_POST_DECLINED);
    return start == HANDOFF_POST_STARTED ? HANDOFF_OK : HANDOFF_ERR_OUT_OF_MEMORY;
}

void handoff_transport_cancel(struct handoff_transport *transport, struct handoff_post *post)
{
    BASE_CHECK_MAGIC(transport, TRANSPORT_MAGIC);
    if (post->transfer)
        post->transfer->driver->cancel(post->transfer);
}

void handoff_transport_settle(struct handoff_transport *transport)
{
    BASE_CHECK_MAGIC(transport, TRANSPORT_MAGIC);
    handoff_curl_settle(transport->curl);
    for (size_t i = 0; i < DRIVERS; i++) {
        if (drivers[i]->settle)
            drivers[i]->settle(transport->states[i]);
    }
}

static enum handoff_code open_drivers(struct handoff_transport *transport,
                                      const struct handoff_transport_loop *loop,
                                      struct handoff_error *error)
{
    for (size_t i = 0; i < DRIVERS; i++) {
        transport->states[i] = drivers[i]->open(loop);
        if (!transport->states[i])
            return handoff_error_no_memory(error);
    }
    return HANDOFF_OK;
}

enum handoff_code handoff_transport_new(struct handoff_transport **transport,
                                        struct base_poller *poller, struct base_timers *timers,
                                        const struct base_clock *clock, struct base_quota *quota,
                                        struct handoff_error *error)
{
    struct handoff_transport *made = base_calloc(1, sizeof *made);
    if (!made)
        return handoff_error_no_memory(error);
    made->magic = TRANSPORT_MAGIC;
    made->dialer =
        (struct handoff_dialer){.poller = poller, .timers = timers, .clock = clock, .quota = quota};
    enum handoff_code code = handoff_curl_new(&made->curl, poller, timers, clock, quota, error);
    if (code == HANDOFF_OK)
        code = handoff_resolver_port_open(&made->dialer.port, poller, error);
    if (code == HANDOFF_OK) {
        const struct handoff_transport_loop loop = {poller, timers, clock, &made->dialer,
                                                    made->curl};
        code = open_drivers(made, &loop, error);
    }
    if (code == HANDOFF_OK)
        *transport = made;
    else
        handoff_transport_free(&made);
    return code;
}

void handoff_transport_free(struct handoff_transport **transport)
{
    struct handoff_transport *dying = *transport;
    if (!dying)
        return;
    BASE_CHECK_MAGIC(dying, TRANSPORT_MAGIC);
    *transport = NULL;
    for (size_t i = 0; i < DRIVERS; i++) {
        if (dying->states[i])
            drivers[i]->close(dying->states[i]);
    }
    handoff_resolver_port_close(&dying->dialer.port);
    handoff_curl_free(&dying->curl);
    dying->magic = 0;
    base_free(dying);
}
