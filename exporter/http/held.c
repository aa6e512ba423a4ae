/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes held for clients, see held.h. On the server's loop. */
#include "exporter/http/held.h"

#include "exporter/http/crowd.h"
#include "exporter/http/http_private.h"
#include "lib/base/check.h"

enum {
    MOST = 64 << 20,          /* of each server: a dozen of the largest requests */
    COUNTED_FROM = 32 << 10,  /* so there are at most 2,048 to look at */
    MEASURE_PRESSED_MS = 250, /* a round trip to any client, and the least that tells its pace */
    LONG_MS = 2000,           /* who reads a large answer well has done so long before */
};

void exporter_held_init(struct exporter_held *held)
{
    *held = (struct exporter_held){.bytes = 0};
    TAILQ_INIT(&held->holders);
}

const struct exporter_problem exporter_held_refusal = {
    .code = HANDOFF_ERR_OUT_OF_MEMORY,
    .detail =
        "requests and answers of other clients take all the memory there is for them; retry in "
        "a second"};

/* ---- who gives way --------------------------------------------------------------------------- */

/* It gives and takes bytes, and is not waiting for us. */
static bool is_moving_bytes(const struct exporter_connection *connection)
{
    return connection->phase == EXPORTER_PHASE_RECEIVING ||
           connection->phase == EXPORTER_PHASE_SENDING || connection->phase == EXPORTER_PHASE_SLOW;
}

static bool may_give_way(struct exporter_connection *connection, int64_t now_ms)
{
    if (!is_moving_bytes(connection))
        return false;
    exporter_crowd_watch(connection, now_ms, MEASURE_PRESSED_MS);
    return exporter_crowd_is_slow(connection) || now_ms - connection->pace.began_ms >= LONG_MS;
}

static struct exporter_connection *slowest_holder_but(struct exporter_connection *asking)
{
    const int64_t now_ms = base_monotonic_ms(&base_clock_system);
    struct exporter_connection *slowest = NULL;
    struct exporter_connection *holder = TAILQ_FIRST(&asking->server->held.holders);
    for (; holder != NULL; holder = TAILQ_NEXT(holder, holder_entry)) {
        if (holder == asking || !may_give_way(holder, now_ms))
            continue;
        if (slowest == NULL || holder->pace.bytes_per_s < slowest->pace.bytes_per_s)
            slowest = holder;
        if (slowest->pace.bytes_per_s == 0)
            break;
    }
    return slowest;
}

static const char *reason_of(const struct exporter_connection *connection)
{
    if (!exporter_crowd_is_slow(connection))
        return "memory";
    return connection->phase == EXPORTER_PHASE_RECEIVING ? "slow_sender" : "slow_reader";
}

/* Others have as much as there is. One alone may hold what it likes: its limit is another one. */
static bool is_too_much(const struct exporter_connection *connection, size_t bytes)
{
    const struct exporter_held *held = &connection->server->held;
    return held->bytes > connection->held && held->bytes + bytes > MOST;
}

bool exporter_held_make_room(struct exporter_connection *connection, size_t bytes)
{
    while (bytes >= COUNTED_FROM && is_too_much(connection, bytes)) {
        struct exporter_connection *slowest = slowest_holder_but(connection);
        if (slowest == NULL)
            return false;
        exporter_connection_cut(slowest, reason_of(slowest));
    }
    return true;
}

/* ---- counting -------------------------------------------------------------------------------- */

void exporter_held_add(struct exporter_connection *connection, size_t bytes)
{
    struct exporter_held *held = &connection->server->held;
    if (bytes < COUNTED_FROM || connection->phase == EXPORTER_PHASE_CUT)
        return;
    if (connection->held == 0)
        TAILQ_INSERT_TAIL(&held->holders, connection, holder_entry);
    connection->held += bytes;
    held->bytes += bytes;
}

void exporter_held_drop(struct exporter_connection *connection, size_t bytes)
{
    struct exporter_held *held = &connection->server->held;
    if (bytes < COUNTED_FROM || connection->held == 0)
        return;
    BASE_CHECK(connection->held >= bytes && held->bytes >= bytes);
    connection->held -= bytes;
    held->bytes -= bytes;
    if (connection->held == 0)
        TAILQ_REMOVE(&held->holders, connection, holder_entry);
}

void exporter_held_drop_all(struct exporter_connection *connection)
{
    exporter_held_drop(connection, connection->held);
}
