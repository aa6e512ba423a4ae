/* SPDX-License-Identifier: Apache-2.0 */
/*
 * polls.h - requests that wait for what may never come, as those for an inbox do.
 *
 * They use a connection for as long as they wait, so all connections together could be polls, and
 * whoever sends would find none. So they may hold three quarters of a listener's places. Beyond
 * that the one that has waited longest is asked to end early, as if its time were over; but if it
 * has just come, the new one is refused with 429, or clients that poll again at once would keep us
 * busy.
 *
 * On the loop of the requests.
 */
#ifndef EXPORTER_HTTP_POLLS_H
#define EXPORTER_HTTP_POLLS_H

#include <stdbool.h>
#include <sys/queue.h>

struct exporter_request;

struct exporter_polls {
    TAILQ_HEAD(exporter_poll_list, exporter_request) waiting; /* of this server; the oldest first */
};

void exporter_polls_init(struct exporter_polls *polls);

/* As exporter_request_defer. `end` is called if the poll is to be answered soon with what there is;
 * at most once, and not after it was answered or cancelled. False: it was refused. */
bool exporter_polls_defer(struct exporter_request *request, void (*cancelled)(void *arg),
                          void (*end)(void *arg), void *arg);

/* The same for a request that is answered by a stream: it has its place until its
 * handler forgets it (exporter_polls_forget), which it does before `arg` goes. */
bool exporter_polls_keep(struct exporter_request *request, void (*end)(void *arg), void *arg);

/* The request waits no longer; harmless for one that is no poll. */
void exporter_polls_forget(struct exporter_request *request);

#endif
