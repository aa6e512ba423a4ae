/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose connection gives way, see crowd.h. The connections of a server are in one queue for each
 * phase, so the one that has been in a phase longest is found at once, however many there are.
 *
 * How fast a client reads is what the kernel saw acknowledged, measured by the server's sweep and
 * only where an answer is still being sent a second later, or where memory is short (held.h); what
 * is sent at once costs nothing here.
 *
 * On the server's loop.
 */
#include "exporter/http/crowd.h"

#include <string.h>

#include "exporter/http/http_private.h"
#include "exporter/http/socket_pace.h"

enum {
    MOMENT_MS = 1000, /* many times the way to any client and back */
    MEASURE_MS = 900, /* the sweep comes once a second, or nearly */
    /* Prometheus waits 10 s for a scrape unless told otherwise, and would get 640 KiB in it. */
    SLOW_BYTES_PER_S = 64 << 10,
};

/* Why each phase can be spared, in the order in which it is; NULL: it cannot. */
static const char *const spared[EXPORTER_PHASES] = {
    [EXPORTER_PHASE_IDLE] = "idle",
    [EXPORTER_PHASE_SLOW] = "slow_reader",
    [EXPORTER_PHASE_RECEIVING] = "no_request",
};

static bool is_of_peer(const struct exporter_connection *connection, const char *peer)
{
    return peer == NULL || strcmp(connection->peer, peer) == 0;
}

/* A request may be on its way from a client that has just come. It has that moment, unless so many
 * have just come that they are the crowd; then it has the time in which as many more come. */
static bool can_be_spared(const struct exporter_connection *connection, unsigned places,
                          int64_t now_ms)
{
    const struct exporter_server *server = connection->server;
    return connection->phase != EXPORTER_PHASE_RECEIVING ||
           connection->deadline_ms - server->options.limits.read_ms <= now_ms - MOMENT_MS ||
           server->counts[EXPORTER_PHASE_RECEIVING] > places / 2;
}

/* The one of that address (NULL: of any) that can be spared first, but not `newcomer`; NULL: none
 * can. */
static struct exporter_connection *first_to_spare(struct exporter_server *server, const char *peer,
                                                  const struct exporter_connection *newcomer)
{
    const struct exporter_limits *limits = &server->options.limits;
    const unsigned places =
        peer != NULL ? limits->connections_per_ip : limits->room->most / limits->room->servers;
    const int64_t now_ms = base_monotonic_ms(&base_clock_system);
    for (unsigned phase = 0; phase < EXPORTER_PHASES && spared[phase] != NULL; phase++) {
        struct exporter_connection *connection = TAILQ_FIRST(&server->connections[phase]);
        for (; connection != NULL; connection = TAILQ_NEXT(connection, entry)) {
            if (connection == newcomer || !is_of_peer(connection, peer))
                continue;
            if (!can_be_spared(connection, places, now_ms))
                break; /* the others have come later */
            return connection;
        }
    }
    return NULL;
}

static bool spare_one(struct exporter_server *server, const char *peer,
                      const struct exporter_connection *newcomer)
{
    struct exporter_connection *connection = first_to_spare(server, peer, newcomer);
    if (connection == NULL)
        return false;
    exporter_connection_cut(connection, spared[connection->phase]);
    return true;
}

static bool is_crowded(const struct exporter_server *server)
{
    return exporter_room_is_crowded(server->options.limits.room);
}

static unsigned count_of_peer(const struct exporter_server *server, const char *peer)
{
    unsigned count = 0;
    for (unsigned phase = 0; phase < EXPORTER_PHASE_CUT; phase++) {
        const struct exporter_connection *connection = TAILQ_FIRST(&server->connections[phase]);
        for (; connection != NULL; connection = TAILQ_NEXT(connection, entry))
            count += is_of_peer(connection, peer);
    }
    return count;
}

void exporter_crowd_admit(struct exporter_connection *newcomer)
{
    struct exporter_server *server = newcomer->server;
    const unsigned per_ip = server->options.limits.connections_per_ip;
    const bool crowds =
        per_ip > 0 && newcomer->has_ip && count_of_peer(server, newcomer->peer) > per_ip;
    if (crowds && !spare_one(server, newcomer->peer, newcomer))
        exporter_connection_cut(newcomer, "address_limit");
    while (is_crowded(server) && spare_one(server, NULL, newcomer))
        ;
}

void exporter_crowd_thin(struct exporter_server *server)
{
    while (is_crowded(server) && spare_one(server, NULL, NULL))
        ;
}

void exporter_crowd_spare_descriptor(struct exporter_server *server)
{
    (void)spare_one(server, NULL, NULL);
}

/* ---- readers -------------------------------------------------------------------------------- */

/* Who reads nothing at all goes first. */
static void enter_slow(struct exporter_connection *connection)
{
    struct exporter_connections *slow = &connection->server->connections[EXPORTER_PHASE_SLOW];
    exporter_connection_enter(connection, EXPORTER_PHASE_SLOW);
    if (connection->pace.bytes_per_s > 0)
        return;
    TAILQ_REMOVE(slow, connection, entry);
    TAILQ_INSERT_HEAD(slow, connection, entry);
}

void exporter_crowd_begin_pace(struct exporter_connection *connection, int64_t now_ms)
{
    connection->pace = (struct exporter_pace){
        .began_ms = now_ms, .since_ms = now_ms, .moved = -1, .bytes_per_s = INT64_MAX};
}

bool exporter_crowd_is_slow(const struct exporter_connection *connection)
{
    return connection->pace.bytes_per_s < SLOW_BYTES_PER_S;
}

static int64_t bytes_moved(const struct exporter_connection *connection)
{
    return connection->phase == EXPORTER_PHASE_RECEIVING ? connection->received
                                                         : exporter_socket_taken(connection->fd);
}

/* Whether the pace is known now. */
static bool measure_pace(struct exporter_connection *connection, int64_t now_ms)
{
    struct exporter_pace *pace = &connection->pace;
    const int64_t moved = bytes_moved(connection);
    if (moved < 0)
        return false;
    const bool is_first = pace->moved < 0;
    if (!is_first)
        pace->bytes_per_s = (moved - pace->moved) * 1000 / (now_ms - pace->since_ms);
    pace->moved = moved;
    pace->since_ms = now_ms;
    return !is_first;
}

void exporter_crowd_watch(struct exporter_connection *connection, int64_t now_ms, int64_t least_ms)
{
    if (now_ms - connection->pace.since_ms < least_ms || !measure_pace(connection, now_ms) ||
        connection->phase == EXPORTER_PHASE_RECEIVING)
        return;
    if (!exporter_crowd_is_slow(connection))
        exporter_connection_enter(connection, EXPORTER_PHASE_SENDING);
    else if (connection->phase == EXPORTER_PHASE_SENDING)
        enter_slow(connection);
}

void exporter_crowd_sweep(struct exporter_connection *connection, int64_t now_ms)
{
    if (connection->phase == EXPORTER_PHASE_SENDING || connection->phase == EXPORTER_PHASE_SLOW ||
        connection->held > 0)
        exporter_crowd_watch(connection, now_ms, MEASURE_MS);
}
