/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The listeners.
 *
 * Why one loop for the web listener and one per core for the API: scrapes are rare and probes are
 * small, so one thread serves them all and needs no locks; handoffs are the load, and the kernel
 * spreads their connections over sockets that share the port.
 *
 * Order of ending: threads first, then servers (which cancel what is deferred), then loops. So
 * nothing runs any more when memory goes.
 */
#include "exporter/http/listeners.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/http/listener.h"
#include "exporter/http/server.h"
#include "exporter/http/worker.h"
#include "exporter/log/log.h"
#include "exporter/systemd.h"
#include "lib/base/check.h"
#include "lib/base/container.h"

enum {
    LISTENERS_MAGIC = 0xf707700f,
    WEB_LISTENERS_MAX = EXPORTER_WEB_LISTEN_MAX,
    WEB_CONNECTIONS_PER_IP = 128,
    WEB_HEADER_BYTES = 32 << 10, /* also the size of a chunk of a scrape */
    API_HEADER_BYTES = 20 << 10, /* so that 8 KiB and their headers come in one read */
    IDLE_MS = 120 * 1000, /* longer than any usual scrape interval, so that connections are kept */
    WRITE_MS = 60 * 1000,
};

/* A server and what the control thread tells it. */
struct seat {
    struct exporter_server *server;
    struct base_loop *loop;
    enum exporter_side side;
    struct base_mail quiesce;
    bool asked; /* to quiesce */
    atomic_bool quiesced;
};

struct exporter_listeners {
    unsigned magic;
    struct exporter_listeners_setup setup;
    struct exporter_listener web[WEB_LISTENERS_MAX];
    size_t nweb;
    struct exporter_listener api;
    struct exporter_worker workers[1 + EXPORTER_LISTENER_SOCKETS_MAX]; /* the first is web's */
    size_t nworkers;
    struct seat seats[WEB_LISTENERS_MAX + EXPORTER_LISTENER_SOCKETS_MAX];
    size_t nseats;
    struct exporter_systemd_socket inherited[EXPORTER_SYSTEMD_SOCKETS_MAX];
    size_t ninherited;
    struct exporter_room web_room, api_room;
};

/* ---- sockets -------------------------------------------------------------------------------- */

static size_t usable_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    const int cores = CPU_COUNT(&set);
    if (cores < 1)
        return 1;
    return cores > EXPORTER_LISTENER_SOCKETS_MAX ? EXPORTER_LISTENER_SOCKETS_MAX : (size_t)cores;
}

size_t exporter_listeners_threads(void)
{
    return 1 + usable_cores();
}

static bool is_api_name(const char *name)
{
    return strcmp(name, "api") == 0;
}

/* Sockets named "api" are the API's; every other one is the web listener's, as its unit would be
 * written for any other exporter. */
static bool open_web_inherited(struct exporter_listeners *listeners, struct exporter_error *error)
{
    for (size_t i = 0; i < listeners->ninherited; i++) {
        if (is_api_name(listeners->inherited[i].name))
            continue;
        if (listeners->nweb == WEB_LISTENERS_MAX) {
            exporter_error_set(error, "systemd passed more than %d web sockets", WEB_LISTENERS_MAX);
            return false;
        }
        if (!exporter_listener_inherit(&listeners->web[listeners->nweb], listeners->inherited[i].fd,
                                       1, error))
            return false;
        listeners->nweb++;
    }
    if (listeners->nweb == 0)
        exporter_error_set(error, "systemd passed no web socket; start the socket unit, or remove "
                                  "--web.systemd-socket");
    return listeners->nweb > 0;
}

static bool open_web(struct exporter_listeners *listeners, struct exporter_error *error)
{
    const struct exporter_options *options = listeners->setup.options;
    if (options->web_systemd_socket)
        return open_web_inherited(listeners, error);
    for (size_t i = 0; i < options->web_listen_address.count; i++) {
        if (!exporter_listener_open(&listeners->web[i], &options->web_listen_address.items[i], 1,
                                    "web", "--web.listen-address", error))
            return false;
        listeners->nweb++;
    }
    return true;
}

static bool open_api(struct exporter_listeners *listeners, struct exporter_error *error)
{
    const size_t count = usable_cores();
    for (size_t i = 0; i < listeners->ninherited; i++) {
        if (is_api_name(listeners->inherited[i].name))
            return exporter_listener_inherit(&listeners->api, listeners->inherited[i].fd, count,
                                             error);
    }
    return exporter_listener_open(&listeners->api, &listeners->setup.options->api_listen_address,
                                  count, "API", "--api.listen-address", error);
}

/* ---- servers -------------------------------------------------------------------------------- */

static struct exporter_limits web_limits(struct exporter_listeners *listeners)
{
    return (struct exporter_limits){
        .room = &listeners->web_room,
        .connections_per_ip = WEB_CONNECTIONS_PER_IP,
        .header_bytes = WEB_HEADER_BYTES,
        .read_ms = (int64_t)listeners->setup.options->web_read_timeout_ms,
        .idle_ms = IDLE_MS,
        .write_ms = WRITE_MS,
    };
}

/* Agents on one machine share its address, so there is no limit for each. */
static struct exporter_limits api_limits(struct exporter_listeners *listeners)
{
    struct exporter_limits limits = web_limits(listeners);
    limits.room = &listeners->api_room;
    limits.connections_per_ip = 0;
    limits.header_bytes = API_HEADER_BYTES;
    return limits;
}

static bool add_server(struct exporter_listeners *listeners, int *fd, enum exporter_side side,
                       const struct exporter_server_options *options, struct exporter_error *error)
{
    struct seat *seat = &listeners->seats[listeners->nseats];
    const int taken = *fd;
    *fd = -1;
    seat->server = exporter_server_start(taken, options, error);
    if (seat->server == NULL)
        return false;
    seat->loop = options->loop;
    seat->side = side;
    listeners->nseats++;
    return true;
}

static bool add_web_servers(struct exporter_listeners *listeners, struct exporter_error *error)
{
    const struct exporter_server_options options = {
        .listener = "web",
        .loop = &listeners->workers[0].loop,
        .routes = listeners->setup.web_routes,
        .limits = web_limits(listeners),
        .other = {listeners->setup.api_routes,
                  "this path belongs to the agent API, which has its own address",
                  listeners->api.name},
        .enable_lifecycle = listeners->setup.options->web_enable_lifecycle,
        .on_shortage = listeners->setup.on_shortage,
        .on_shortage_arg = listeners->setup.on_shortage_arg,
        .web_config = listeners->setup.web_config,
    };
    for (size_t i = 0; i < listeners->nweb; i++) {
        if (!add_server(listeners, &listeners->web[i].fds[0], EXPORTER_SIDE_WEB, &options, error))
            return false;
    }
    return true;
}

static bool add_api_servers(struct exporter_listeners *listeners, struct exporter_error *error)
{
    struct exporter_server_options options = {
        .listener = "api",
        .routes = listeners->setup.api_routes,
        .limits = api_limits(listeners),
        .other = {listeners->setup.web_routes,
                  "this path belongs to the web listener, which has its own address",
                  listeners->web[0].name},
        .on_answer = listeners->setup.on_api_answer,
        .on_answer_arg = listeners->setup.on_api_answer_arg,
        .on_shortage = listeners->setup.on_shortage,
        .on_shortage_arg = listeners->setup.on_shortage_arg,
        .body_limit = listeners->setup.api_body_limit,
        .refuse_browsers = true,
        .is_loopback = listeners->api.is_local && strncmp(listeners->api.name, "unix:", 5) != 0,
        .callers = listeners->setup.api_callers,
    };
    for (size_t i = 0; i < listeners->api.count; i++) {
        options.loop = &listeners->workers[1 + i].loop;
        if (!add_server(listeners, &listeners->api.fds[i], EXPORTER_SIDE_API, &options, error))
            return false;
    }
    return true;
}

static bool prepare_workers(struct exporter_listeners *listeners, struct exporter_error *error)
{
    while (listeners->nworkers < 1 + listeners->api.count) {
        struct exporter_worker *worker = &listeners->workers[listeners->nworkers++];
        if (!exporter_worker_prepare(worker, listeners->nworkers == 1 ? "web" : "api", error))
            return false;
    }
    return true;
}

struct exporter_listeners *exporter_listeners_open(const struct exporter_listeners_setup *setup,
                                                   struct exporter_error *error)
{
    struct exporter_listeners *listeners = calloc(1, sizeof *listeners);
    if (listeners == NULL) {
        exporter_error_set(error, "out of memory (listeners)");
        return NULL;
    }
    listeners->magic = LISTENERS_MAGIC;
    listeners->setup = *setup;
    exporter_room_init(&listeners->web_room, setup->web_connections, setup->descriptors_are_short);
    exporter_room_init(&listeners->api_room, setup->api_connections, setup->descriptors_are_short);
    listeners->ninherited =
        exporter_systemd_sockets(listeners->inherited, EXPORTER_SYSTEMD_SOCKETS_MAX);
    if (!open_web(listeners, error) || !open_api(listeners, error) ||
        !prepare_workers(listeners, error) || !add_web_servers(listeners, error) ||
        !add_api_servers(listeners, error))
        exporter_listeners_free(&listeners);
    return listeners;
}

static void log_listening(const struct exporter_listeners *listeners)
{
    for (size_t i = 0; i < listeners->nweb; i++)
        log_info("listening", LOG_STR("listener", "web"),
                 LOG_STR("address", listeners->web[i].name));
    log_info("listening", LOG_STR("listener", "api"), LOG_STR("address", listeners->api.name));
}

bool exporter_listeners_start(struct exporter_listeners *listeners, struct exporter_error *error)
{
    BASE_CHECK_MAGIC(listeners, LISTENERS_MAGIC);
    for (size_t i = 0; i < listeners->nworkers; i++) {
        if (!exporter_worker_start(&listeners->workers[i], error))
            return false;
    }
    log_listening(listeners);
    return true;
}

bool exporter_listeners_api_is_local(const struct exporter_listeners *listeners)
{
    return listeners->api.is_local;
}

const char *exporter_listeners_api_address(const struct exporter_listeners *listeners)
{
    return listeners->api.name;
}

size_t exporter_listeners_loop_count(const struct exporter_listeners *listeners)
{
    return listeners->nworkers;
}

struct base_loop *exporter_listeners_loop(struct exporter_listeners *listeners, size_t i)
{
    BASE_CHECK(i < listeners->nworkers);
    return &listeners->workers[i].loop;
}

/* ---- draining ------------------------------------------------------------------------------- */

static void quiesce_seat(struct base_mail *mail)
{
    struct seat *seat = BASE_CONTAINER_OF(mail, struct seat, quiesce);
    exporter_server_quiesce(seat->server);
    atomic_store(&seat->quiesced, true);
}

void exporter_listeners_quiesce(struct exporter_listeners *listeners, enum exporter_side side)
{
    BASE_CHECK_MAGIC(listeners, LISTENERS_MAGIC);
    for (size_t i = 0; i < listeners->nseats; i++) {
        struct seat *seat = &listeners->seats[i];
        if (seat->side != side || seat->asked)
            continue;
        seat->asked = true;
        seat->quiesce.deliver = quiesce_seat;
        base_loop_post(seat->loop, &seat->quiesce);
    }
}

unsigned exporter_listeners_in_flight(const struct exporter_listeners *listeners)
{
    unsigned in_flight = 0;
    for (size_t i = 0; i < listeners->nseats; i++)
        in_flight += exporter_server_in_flight(listeners->seats[i].server);
    return in_flight;
}

bool exporter_listeners_is_quiet(const struct exporter_listeners *listeners)
{
    for (size_t i = 0; i < listeners->nseats; i++) {
        if (listeners->seats[i].asked && !atomic_load(&listeners->seats[i].quiesced))
            return false;
    }
    return exporter_listeners_in_flight(listeners) == 0;
}

/* ---- ending --------------------------------------------------------------------------------- */

void exporter_listeners_join(struct exporter_listeners *listeners)
{
    for (size_t i = 0; i < listeners->nworkers; i++)
        exporter_worker_join(&listeners->workers[i]);
    for (size_t i = 0; i < listeners->nseats; i++)
        exporter_server_unhook(listeners->seats[i].server);
}

void exporter_listeners_free(struct exporter_listeners **freeing)
{
    struct exporter_listeners *listeners = *freeing;
    if (listeners == NULL)
        return;
    *freeing = NULL;
    BASE_CHECK_MAGIC(listeners, LISTENERS_MAGIC);
    exporter_listeners_join(listeners);
    for (size_t i = 0; i < listeners->nseats; i++)
        exporter_server_stop(&listeners->seats[i].server);
    for (size_t i = 0; i < listeners->nworkers; i++)
        base_loop_settle(&listeners->workers[i].loop);
    for (size_t i = 0; i < listeners->nworkers; i++)
        exporter_worker_free(&listeners->workers[i]);
    for (size_t i = 0; i < listeners->nweb; i++)
        exporter_listener_close(&listeners->web[i]);
    exporter_listener_close(&listeners->api);
    listeners->magic = 0;
    free(listeners);
}
