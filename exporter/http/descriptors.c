/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shares of descriptors, see descriptors.h.
 *
 * First comes what the process itself has open: its loops, its listeners, the store with its
 * readers. Then the web listener. The rest is halved, since a sender that waits has a connection
 * and its delivery has one; beyond as many as the API has memory for, deliveries get all of it.
 *
 * Control thread, before the loops start.
 */
#include "exporter/http/descriptors.h"

#include <errno.h>
#include <sys/resource.h>

#include "exporter/log/log.h"

enum {
    OWN = 96,         /* the store, eight of its readers, the log, sockets, files that are read, and
                         the spare places of two rooms (room.h) */
    OWN_OF_LOOP = 16, /* epoll, mail, timers, the resolver, sockets that listen */
    LEAST = 16,       /* of any share: without it, nothing would work at all */

    /* Web: a Prometheus pair, probes and people, with room to spare. */
    WEB_MOST = 512,
    WEB_PART = 8, /* of what is left, one such part */
    /* API: 10,000 agents that poll, and their handoffs. */
    API_MOST = 16384,
    DELIVERIES_MOST = 1000000, /* far beyond what may be in flight */
};

unsigned long exporter_descriptors_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return WEB_MOST + API_MOST;
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (limit.rlim_cur == before || setrlimit(RLIMIT_NOFILE, &limit) == 0)
        return limit.rlim_cur;
    log_warn("descriptor_limit_not_raised", LOG_ERRNO("error", errno));
    return before;
}

static unsigned bounded(unsigned long share, unsigned most)
{
    if (share < LEAST)
        return LEAST;
    return share > most ? most : (unsigned)share;
}

struct exporter_descriptors exporter_descriptors_share(unsigned long limit, size_t loops)
{
    const unsigned long own = OWN + OWN_OF_LOOP * loops;
    const unsigned long rest = limit > own ? limit - own : 0;
    struct exporter_descriptors shares = {.limit = limit};
    shares.web = bounded(rest / WEB_PART, WEB_MOST);
    shares.api = bounded((rest > shares.web ? rest - shares.web : 0) / 2, API_MOST);
    const unsigned long taken = shares.web + shares.api;
    shares.deliveries = bounded(rest > taken ? rest - taken : 0, DELIVERIES_MOST);
    shares.is_short = shares.web < WEB_MOST || shares.api < API_MOST;
    return shares;
}
