/* SPDX-License-Identifier: Apache-2.0 */
/* How many requests may wait, see polls.h. On the loop of the requests. */
#include "exporter/http/polls.h"

#include "exporter/http/http_private.h"

enum { JUST_COME_MS = 1000 }; /* as long as a 429 asks its client to wait */

void exporter_polls_init(struct exporter_polls *polls)
{
    TAILQ_INIT(&polls->waiting);
}

/* The place of the oldest goes to the next one. */
static bool end_oldest(struct exporter_polls *polls)
{
    struct exporter_request *oldest = TAILQ_FIRST(&polls->waiting);
    if (oldest == NULL || base_monotonic_ms(&base_clock_system) - oldest->began_ms < JUST_COME_MS)
        return false;
    void (*end)(void *arg) = oldest->end_poll;
    TAILQ_REMOVE(&polls->waiting, oldest, poll_entry);
    oldest->end_poll = NULL;
    end(oldest->cancelled_arg);
    return true;
}

/* False: there is none, which was answered. */
static bool take_poll_place(struct exporter_request *request)
{
    static const struct exporter_problem too_many = {
        .code = HANDOFF_ERR_TOO_MANY_IN_FLIGHT,
        .detail = "too many requests are waiting for a handoff; try again in a second"};
    if (base_quota_take(&request->server->options.limits.room->polls) ||
        end_oldest(&request->server->polls))
        return true;
    exporter_respond_problem(request, &too_many);
    return false;
}

static void join_waiting(struct exporter_request *request, void (*end)(void *arg), void *arg)
{
    request->end_poll = end;
    request->cancelled_arg = arg;
    TAILQ_INSERT_TAIL(&request->server->polls.waiting, request, poll_entry);
}

bool exporter_polls_defer(struct exporter_request *request, void (*cancelled)(void *arg),
                          void (*end)(void *arg), void *arg)
{
    if (!take_poll_place(request))
        return false;
    exporter_request_defer(request, cancelled, arg);
    join_waiting(request, end, arg);
    return true;
}

bool exporter_polls_keep(struct exporter_request *request, void (*end)(void *arg), void *arg)
{
    if (!take_poll_place(request))
        return false;
    request->keeps_place = true;
    join_waiting(request, end, arg);
    return true;
}

void exporter_polls_forget(struct exporter_request *request)
{
    if (request->end_poll == NULL)
        return;
    TAILQ_REMOVE(&request->server->polls.waiting, request, poll_entry);
    request->end_poll = NULL;
    base_quota_give_back(&request->server->options.limits.room->polls);
}
