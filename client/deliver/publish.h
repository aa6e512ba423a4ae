/* SPDX-License-Identifier: Apache-2.0 */
/*
 * publish.h - one envelope for several agents, each of which gets it by a handoff of its own.
 *
 * The publication and its deliveries are one commit. From then on each delivery is a handoff like
 * any other, on the lane that published it: what becomes of one matters to no other. They share one
 * copy of the envelope.
 *
 * On the lane of the publisher.
 */
#ifndef HANDOFF_DELIVER_PUBLISH_H
#define HANDOFF_DELIVER_PUBLISH_H

#include "client/deliver/engine.h"

struct handoff_publication_receiver {
    struct handoff_agent *agent;
    struct base_uuid id;                         /* of its delivery; later than the publication's */
    const struct handoff_submission *projection; /* the envelope that it gets instead, with that id;
                                                    NULL: it shares the publication's */
    enum handoff_reason parked_for;              /* it is stored as parked; NONE: it is delivered */
    struct handoff_waiter *waiter;               /* NULL: no one waits for this one */
};

/* Everything is copied. */
struct handoff_publication {
    struct handoff_submission submission; /* of the envelope; what it says of a target, an excerpt's
                                             place, parking and a unit is not used */
    struct base_span excerpt_lines;
    struct base_span passed_on; /* what a delivery contributes to its ledger */
    struct base_span channel;
    bool named; /* the publisher named the receivers */
    bool kept;  /* the channel keeps it for later subscribers */
    int64_t at_ms;
    const struct handoff_publication_receiver *receivers;
    size_t nreceivers;
    /* The commit was made, or has failed and nothing was published. Before any waiter is told. */
    void (*published)(void *context, const struct handoff_error *error);
    void *context;
    int64_t *seq; /* receives its number before that, if it was published; NULL: not wanted */
};

/* OK: `published` will be called; where there are many receivers, their deliveries begin some turns
   of the loop later. Otherwise nothing was stored: shutting_down, out_of_memory. In
   force for deliveries are neither circuits nor limits, as for a successor. */
enum handoff_code handoff_engine_publish(struct handoff_lane *lane,
                                         const struct handoff_publication *publication,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

/* A delivery of a publication that was made before. Everything is copied. */
struct handoff_late_delivery {
    const struct handoff_submission *submission; /* as of a publication */
    struct base_span excerpt_lines, passed_on, channel;
    int64_t at_ms;
    struct handoff_publication_receiver receiver;
};

/* Begins them, each with a write that joins the unit; the caller submits that, unless this fails,
   and nothing has begun: shutting_down, out_of_memory. */
enum handoff_code handoff_engine_deliver_late(struct handoff_lane *lane,
                                              const struct handoff_late_delivery *list,
                                              size_t count, struct handoff_store_unit *unit,
                                              struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
