/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dialling; dial.h says how. The thread of the loop.
 *
 * A dial that ends while it is being started reports in the next turn, by its timer: `done` is
 * never called from within a start.
 */
#include "client/transport/dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/transport/own_fault.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/memory.h"

enum { DIAL_MAGIC = 0x6469616cu, PEER_MAX = 72 };

/* One address that is being tried. */
struct connecting {
    struct base_watch watch;
    struct handoff_dial *dial;
    int fd; /* -1: not tried yet, or given up */
};

struct handoff_dial {
    unsigned magic;
    const struct handoff_dialer *dialer;
    void (*done)(void *arg, const struct handoff_dialled *dialled);
    void *arg;
    uint16_t port;
    int64_t timeout_ms;
    struct base_timer timer; /* the time-out; or, once it has ended, when it reports */
    struct base_timer delay; /* until the next address */
    struct handoff_lookup lookup;
    size_t tried;           /* of its addresses */
    size_t open;            /* of those, not decided yet */
    int error;              /* the most telling failure of an address, or 0 */
    enum handoff_fault own; /* what we lacked for an address, or NONE */
    bool starting, ended;
    char peer[PEER_MAX];
    struct handoff_dialled dialled;
    struct connecting connecting[HANDOFF_ADDRESSES_MAX];
};

/* ---- how it ends ---------------------------------------------------------------------------- */

void handoff_dialled_close(const struct handoff_dialer *dialer, int fd)
{
    close(fd);
    base_quota_give_back(dialer->quota);
}

static void give_up(struct connecting *connecting)
{
    if (connecting->fd < 0)
        return;
    base_poller_forget(connecting->dial->dialer->poller, connecting->fd, &connecting->watch);
    handoff_dialled_close(connecting->dial->dialer, connecting->fd);
    connecting->fd = -1;
    connecting->dial->open--;
}

static void stop_dial(struct handoff_dial *dial)
{
    base_timers_stop(dial->dialer->timers, &dial->timer);
    base_timers_stop(dial->dialer->timers, &dial->delay);
    handoff_lookup_cancel(&dial->lookup);
    for (size_t i = 0; i < dial->tried; i++)
        give_up(&dial->connecting[i]);
}

static void free_dial(struct handoff_dial *dial)
{
    dial->magic = 0;
    base_free(dial);
}

static int64_t dialer_now_ms(const struct handoff_dialer *dialer)
{
    return base_monotonic_ms(dialer->clock);
}

/* `dial->dialled` has the result. */
static void end_dial(struct handoff_dial *dial)
{
    stop_dial(dial);
    dial->ended = true;
    if (dial->starting) {
        base_timers_start(dial->dialer->timers, &dial->timer, dialer_now_ms(dial->dialer));
        return;
    }
    dial->done(dial->arg, &dial->dialled);
    free_dial(dial);
}

static void fail_dial(struct handoff_dial *dial, struct handoff_failure failure)
{
    dial->dialled.failure = failure;
    end_dial(dial);
}

/* An agent is not to blame if an address that it might have answered at could not be tried. */
struct handoff_failure handoff_dial_timeout(const struct handoff_dial *dial, int64_t within_ms)
{
    if (dial->own != HANDOFF_FAULT_NONE)
        return (struct handoff_failure){.fault = dial->own};
    return (struct handoff_failure){.fault = handoff_lookup_waits(&dial->lookup)
                                                 ? HANDOFF_FAULT_NAME
                                                 : HANDOFF_FAULT_CONNECTION,
                                    .within_ms = within_ms};
}

static void dial_timer_fired(struct base_timer *timer)
{
    struct handoff_dial *dial = BASE_CONTAINER_OF(timer, struct handoff_dial, timer);
    BASE_CHECK_MAGIC(dial, DIAL_MAGIC);
    if (dial->ended)
        end_dial(dial);
    else
        fail_dial(dial, handoff_dial_timeout(dial, dial->timeout_ms));
}

/* ---- addresses ------------------------------------------------------------------------------ */

/* What this machine says of an address that it has no way to, such as one of IPv6 without IPv6. It
   says less than what came back from another address. */
static bool is_local(int error)
{
    return error == EADDRNOTAVAIL || error == ENETUNREACH || error == EAFNOSUPPORT;
}

static void note_failure(const struct connecting *connecting, int error)
{
    struct handoff_dial *dial = connecting->dial;
    const struct handoff_address *address =
        &dial->lookup.addresses.list[connecting - dial->connecting];
    const enum handoff_fault own =
        handoff_own_fault_of_connect(error, &address->of.any, address->size);
    if (own != HANDOFF_FAULT_NONE)
        dial->own = own;
    if (dial->error == 0 || (is_local(dial->error) && !is_local(error)))
        dial->error = error;
}

static void write_dialled_peer(struct handoff_dial *dial, const struct handoff_address *address)
{
    char text[INET6_ADDRSTRLEN] = "";
    const bool is_v6 = address->of.any.sa_family == AF_INET6;
    const void *from =
        is_v6 ? (const void *)&address->of.v6.sin6_addr : (const void *)&address->of.v4.sin_addr;
    inet_ntop(address->of.any.sa_family, from, text, sizeof text);
    snprintf(dial->peer, sizeof dial->peer, is_v6 ? "[%s]:%d" : "%s:%d", text, dial->port);
}

static void win_dial(struct connecting *winner)
{
    struct handoff_dial *dial = winner->dial;
    dial->dialled.fd = winner->fd;
    dial->dialled.address = dial->lookup.addresses.list[winner - dial->connecting];
    write_dialled_peer(dial, &dial->dialled.address);
    base_poller_forget(dial->dialer->poller, winner->fd, &winner->watch);
    winner->fd = -1;
    dial->open--;
    end_dial(dial);
}

static void set_port(struct handoff_address *address, uint16_t port)
{
    if (address->of.any.sa_family == AF_INET6)
        address->of.v6.sin6_port = htons(port);
    else
        address->of.v4.sin_port = htons(port);
}

/* -1 with an errno. */
static int open_socket(const struct handoff_dialer *dialer, int family)
{
    if (!base_quota_take(dialer->quota)) {
        errno = EMFILE;
        return -1;
    }
    const int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        base_quota_give_back(dialer->quota);
    return fd;
}

/* 0: it is on its way. Else an errno. */
static int begin_connecting(struct connecting *connecting, struct handoff_address *address)
{
    const int one = 1;
    struct handoff_dial *dial = connecting->dial;
    const int fd = open_socket(dial->dialer, address->of.any.sa_family);
    if (fd < 0)
        return errno;
    connecting->fd = fd;
    dial->open++;
    set_port(address, dial->port);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, &address->of.any, address->size) != 0 && errno != EINPROGRESS)
        return errno;
    /* out of memory, or of watches, which is the same to us */
    return base_poller_add(dial->dialer->poller, fd, EPOLLOUT, &connecting->watch) ? ENOMEM : 0;
}

static void connecting_ready(struct base_watch *watch, uint32_t events);

static struct handoff_failure no_address_answered(const struct handoff_dial *dial)
{
    if (dial->own != HANDOFF_FAULT_NONE)
        return (struct handoff_failure){.fault = dial->own};
    return (struct handoff_failure){.fault = HANDOFF_FAULT_CONNECTION,
                                    .detail = strerror(dial->error)};
}

/* The next address that can be tried. When none is left, and none is being tried, it has failed. */
static void try_next(struct handoff_dial *dial)
{
    struct handoff_addresses *addresses = &dial->lookup.addresses;
    int error = -1;
    base_timers_stop(dial->dialer->timers, &dial->delay);
    while (error != 0 && dial->tried < addresses->count) {
        struct connecting *next = &dial->connecting[dial->tried];
        *next = (struct connecting){.watch.ready = connecting_ready, .dial = dial, .fd = -1};
        error = begin_connecting(next, &addresses->list[dial->tried++]);
        if (error == 0)
            break;
        note_failure(next, error);
        give_up(next);
    }
    if (dial->open == 0)
        fail_dial(dial, no_address_answered(dial));
    else if (dial->tried < addresses->count)
        base_timers_start(dial->dialer->timers, &dial->delay,
                          dialer_now_ms(dial->dialer) + HANDOFF_DIAL_DELAY_MS);
}

static void delay_is_over(struct base_timer *timer)
{
    struct handoff_dial *dial = BASE_CONTAINER_OF(timer, struct handoff_dial, delay);
    BASE_CHECK_MAGIC(dial, DIAL_MAGIC);
    try_next(dial);
}

static void connecting_ready(struct base_watch *watch, uint32_t events)
{
    struct connecting *connecting = (struct connecting *)watch;
    struct handoff_dial *dial = connecting->dial;
    int error = 0;
    socklen_t size = sizeof error;
    (void)events;
    BASE_CHECK_MAGIC(dial, DIAL_MAGIC);
    if (getsockopt(connecting->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    if (error == 0) {
        win_dial(connecting);
        return;
    }
    note_failure(connecting, error);
    give_up(connecting);
    try_next(dial);
}

static void host_was_found(struct handoff_lookup *lookup)
{
    struct handoff_dial *dial = BASE_CONTAINER_OF(lookup, struct handoff_dial, lookup);
    BASE_CHECK_MAGIC(dial, DIAL_MAGIC);
    if (lookup->addresses.count > 0)
        try_next(dial);
    else
        fail_dial(dial, (struct handoff_failure){.fault = lookup->own ? lookup->own
                                                                      : HANDOFF_FAULT_NAME});
}

/* ---- starting ------------------------------------------------------------------------------- */

struct handoff_dial *handoff_dial_start(const struct handoff_dialer *dialer, const char *host,
                                        uint16_t port, int64_t timeout_ms,
                                        void (*done)(void *arg, const struct handoff_dialled *),
                                        void *arg)
{
    struct handoff_dial *dial = base_calloc(1, sizeof *dial);
    if (!dial)
        return NULL;
    dial->magic = DIAL_MAGIC;
    dial->dialer = dialer;
    dial->done = done;
    dial->arg = arg;
    dial->port = port;
    dial->timeout_ms = timeout_ms;
    dial->timer.fire = dial_timer_fired;
    dial->delay.fire = delay_is_over;
    dial->lookup.done = host_was_found;
    dial->dialled = (struct handoff_dialled){.fd = -1, .peer = dial->peer};
    base_timers_start(dialer->timers, &dial->timer, dialer_now_ms(dialer) + timeout_ms);
    dial->starting = true;
    if (handoff_lookup_start(dialer->port, &dial->lookup, host))
        host_was_found(&dial->lookup);
    dial->starting = false;
    return dial;
}

void handoff_dial_cancel(struct handoff_dial **dial)
{
    struct handoff_dial *dying = *dial;
    if (!dying)
        return;
    *dial = NULL;
    BASE_CHECK_MAGIC(dying, DIAL_MAGIC);
    stop_dial(dying);
    if (dying->dialled.fd >= 0)
        handoff_dialled_close(dying->dialer, dying->dialled.fd);
    free_dial(dying);
}
