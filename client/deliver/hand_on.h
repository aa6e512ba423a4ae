/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hand_on.h - an acknowledgement that brings the next request.
 *
 * The handoff stays with its agent until the host has assembled that request; then the successor's
 * acceptance and the acknowledgement are one commit. The acknowledgement counts whatever the
 * request says: where no handoff can be made of it, it is stored with the task as refused, in the
 * same commit. Where neither can be stored, the acknowledgement failed too, and it was we who
 * failed: an agent that holds the handoff keeps it and may repeat its call, and what it was sent is
 * sent again. Neither counts as a failure of the agent.
 *
 *     acknowledged, with next ─▶ handoff_hand_on_begin ─▶ options.hand_on (the host assembles)
 *     handoff_hand_on_assembled ─▶ on->take, once no write is under way ─▶ handoff_hand_on_commit
 *                                                               or else ─▶ handoff_hand_on_refuse
 *
 * Until it has ended, nothing else happens to the handoff, and a drain waits for it as for an
 * attempt: the agent has done its work and would do it again.
 *
 * On the lane of the delivery.
 */
#ifndef HANDOFF_DELIVER_HAND_ON_H
#define HANDOFF_DELIVER_HAND_ON_H

#include "client/deliver/delivery.h"
#include "client/protocol/protocol.h"
#include "lib/base/buffer.h"

struct handoff_hand_on {
    unsigned magic;
    struct handoff_lane *lane;
    struct base_uuid id;      /* of the acknowledged handoff */
    struct base_span agent;   /* that acknowledged it */
    struct base_span request; /* JSON; both behind this struct */
    /* The host's: commits what it has assembled, or why it could not. */
    void (*take)(struct handoff_hand_on *on);
    void *host;
    /* Also the host's to fill: the request as it is stored where it is refused, which is without
       its credentials. Empty: only the problem is stored. */
    struct base_buffer kept;

    /* the lane's */
    struct handoff_delivery *delivery; /* NULL: it has gone */
    struct handoff_reply *reply;       /* the agent's, over the API; NULL: an answer to a push */
    struct handoff_finding finding;    /* of the acknowledgement */
    bool assembled;                    /* waits for a write to end */
    struct handoff_error problem;      /* why there is no successor; OK: there is one */
    struct handoff_successor successor;
    struct handoff_store_unit unit;
    struct handoff_store_move move;
    struct handoff_delivery_record attempt; /* that ended with the acknowledgement */
    struct handoff_store_refuse_next refuse;
    char code[32], detail[512]; /* of the problem, for the store */
};

/* finding->next is the request; of an attempt that has not been counted yet. false: out of memory;
   then nothing has begun. */
bool handoff_hand_on_begin(struct handoff_delivery *delivery, struct handoff_reply *reply,
                           const struct handoff_finding *finding);

/* From the host, also from within options.hand_on: what it has is ready, and `take` is set. */
void handoff_hand_on_assembled(struct handoff_hand_on *on);
/* From `take` alone: the successor. False: there can be none, as on->problem says; the host fills
   on->kept and refuses it. Else it ends `on`. */
bool handoff_hand_on_commit(struct handoff_hand_on *on,
                            const struct handoff_submission *submission) HANDOFF_MUST_CHECK;
/* From `take` alone: there is none, and why. Ends `on`. */
void handoff_hand_on_refuse(struct handoff_hand_on *on, const struct handoff_error *problem);

/* A write of the delivery has ended. */
void handoff_hand_on_continue(struct handoff_delivery *delivery);
/* The delivery goes: the next start delivers it again. */
void handoff_hand_on_forget(struct handoff_delivery *delivery);

#endif
