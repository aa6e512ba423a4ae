/* SPDX-License-Identifier: Apache-2.0 */
/* author.h - who decided about a delivery, as it is recorded. On the lane of the delivery. */
#ifndef HANDOFF_DELIVER_AUTHOR_H
#define HANDOFF_DELIVER_AUTHOR_H

#include "client/deliver/delivery.h"

/* Lies in the arena of its delivery. */
struct handoff_decision_note {
    struct handoff_attempt_record record;
    struct handoff_stored_decision row; /* the caller sets target, to and cause, as far as known */
};

/* Copies what the author says into the delivery's arena; NULL: nothing. false: out of memory. */
bool handoff_delivery_keep_author(struct handoff_delivery *delivery,
                                  const struct handoff_author *from, struct handoff_author *to);

/* The decision is carried out now: it goes with the delivery's next write, so this comes before the
   change. The author's texts live as long as the delivery. */
void handoff_delivery_note_decision(struct handoff_delivery *delivery,
                                    struct handoff_decision_note *note,
                                    const struct handoff_author *author,
                                    enum handoff_action action);

/* Fills in what the author says; the texts are lent. */
void handoff_decision_say(struct handoff_stored_decision *row, const struct handoff_author *author);

/* Reports it to the observer. */
void handoff_delivery_observe_decision(struct handoff_delivery *delivery,
                                       const struct handoff_stored_decision *row);

#endif
