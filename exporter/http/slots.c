/* SPDX-License-Identifier: Apache-2.0 */
/* Slots for answers that cost much, see slots.h. On the loop of the requests. */
#include "exporter/http/slots.h"

#include <stdio.h>
#include <string.h>

#include "exporter/http/http_private.h"
#include "lib/base/check.h"

/* Longer than any scrape interval in use. An address that stays away longer makes room for another;
 * until then nobody can take its place. */
enum { REGULAR_MS = 10 * 60 * 1000 };

void exporter_slots_init(struct exporter_slots *slots)
{
    *slots = (struct exporter_slots){.taken = 0};
    TAILQ_INIT(&slots->holders);
}

/* ---- regulars ------------------------------------------------------------------------------- */

/* The entry of that address, or one that it may have; NULL: it has none. */
static struct exporter_regular *find_regular(struct exporter_slots *slots, const char *peer,
                                             int64_t now_ms)
{
    struct exporter_regular *free = NULL;
    for (size_t i = 0; i < EXPORTER_REGULARS; i++) {
        struct exporter_regular *regular = &slots->regulars[i];
        if (strcmp(regular->peer, peer) == 0)
            return regular;
        if (regular->peer[0] == '\0' || now_ms - regular->served_ms > REGULAR_MS)
            free = regular;
    }
    return free;
}

static bool has_slot(const struct exporter_slots *slots, const char *peer)
{
    const struct exporter_request *holder = TAILQ_FIRST(&slots->holders);
    for (; holder != NULL; holder = TAILQ_NEXT(holder, slot_entry)) {
        if (strcmp(holder->connection->peer, peer) == 0)
            return true;
    }
    return false;
}

static bool is_owed_one(struct exporter_slots *slots, const char *peer)
{
    const struct exporter_regular *regular =
        find_regular(slots, peer, base_monotonic_ms(&base_clock_system));
    return regular != NULL && strcmp(regular->peer, peer) == 0 && !has_slot(slots, peer);
}

static void note_regular(struct exporter_slots *slots, const char *peer)
{
    const int64_t now_ms = base_monotonic_ms(&base_clock_system);
    struct exporter_regular *regular = find_regular(slots, peer, now_ms);
    if (regular == NULL)
        return;
    snprintf(regular->peer, sizeof regular->peer, "%s", peer);
    regular->served_ms = now_ms;
}

/* ---- slots ---------------------------------------------------------------------------------- */

/* The oldest of the slowest; NULL: everyone reads well, or has not had the time to. */
static struct exporter_request *slowest_holder(const struct exporter_slots *slots)
{
    struct exporter_request *slowest = NULL, *holder = TAILQ_FIRST(&slots->holders);
    for (; holder != NULL; holder = TAILQ_NEXT(holder, slot_entry)) {
        const struct exporter_connection *connection = holder->connection;
        if (connection->phase != EXPORTER_PHASE_SLOW)
            continue;
        if (slowest == NULL || connection->pace.bytes_per_s < slowest->connection->pace.bytes_per_s)
            slowest = holder;
    }
    return slowest;
}

static void leave_slot(struct exporter_request *request)
{
    struct exporter_slots *slots = request->slots;
    BASE_CHECK(slots != NULL && slots->taken > 0);
    TAILQ_REMOVE(&slots->holders, request, slot_entry);
    slots->taken--;
    request->slots = NULL;
}

static bool make_slot(struct exporter_slots *slots)
{
    struct exporter_request *slowest = slowest_holder(slots);
    if (slowest == NULL)
        return false;
    exporter_connection_cut(slowest->connection, "slow_reader");
    leave_slot(slowest);
    return true;
}

bool exporter_slots_take(struct exporter_slots *slots, struct exporter_request *request,
                         unsigned most)
{
    BASE_CHECK(request->slots == NULL);
    const char *peer = request->connection->peer;
    while (slots->taken >= most && make_slot(slots))
        ;
    if (slots->taken >= most && !is_owed_one(slots, peer))
        return false;
    TAILQ_INSERT_TAIL(&slots->holders, request, slot_entry);
    slots->taken++;
    request->slots = slots;
    return true;
}

void exporter_slots_release(struct exporter_request *request, bool was_served)
{
    if (request->slots == NULL)
        return;
    if (was_served)
        note_regular(request->slots, request->connection->peer);
    leave_slot(request);
}
