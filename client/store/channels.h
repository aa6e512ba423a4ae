/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channels.h - publications: one envelope, and a delivery of it for each receiver.
 *
 * A publication is an envelope that was not handed off itself. Each of its deliveries is a handoff
 * like any other, with a row of `envelopes` whose body is that of the publication; so whatever is
 * done by the id of a handoff is done with a delivery alike. In the ledger a delivery is a child of
 * the publication that adds nothing: what a receiver hands on continues its own delivery, and each
 * receiver's work is a branch of its own.
 *
 * The publication and all of its deliveries are one unit (store.h): a put of handoff_store_publish,
 * and behind it a handoff_store_accept for each receiver, with the publication's id. The
 * publication is finished when its last delivery is over, so retention leaves the shared body until
 * then, and for as long as its channel keeps it.
 *
 * Writes are jobs of store.h: what they point to is lent until `done`. Reads wait for the disk.
 */
#ifndef HANDOFF_STORE_CHANNELS_H
#define HANDOFF_STORE_CHANNELS_H

#include "client/store/handoffs.h"

struct handoff_store_publish {
    struct handoff_store_put_envelope put; /* with the job; `finished` is false */
    struct base_span channel, source;
    int64_t at_ms;
    size_t deliveries;                /* that follow in the unit */
    bool named;                       /* the publisher named the receivers */
    bool kept;                        /* its channel keeps it when they are over (shelves.h) */
    struct base_span idempotency_key; /* absent: none */
    uint8_t request_digest[BASE_SHA256_BYTES];
    /* The envelope was put before, as finished. Then the job fails with conflict if it was
       published or delivered already, and with not_found or envelope_removed if retention came
       first. */
    bool stored;

    int64_t seq; /* answers: its number */
};

void handoff_store_publish(struct handoff_store *store, struct handoff_store_publish *publish);

/* ---- reading -------------------------------------------------------------------------------- */

struct handoff_stored_publication {
    int64_t seq;
    struct base_uuid id; /* of its envelope */
    struct base_span channel, source, task_id;
    int64_t at_ms;
};

/* Texts are in the arena. not_found: no publication has this id. */
enum handoff_code handoff_store_get_publication(struct handoff_store *store,
                                                const struct base_uuid *id,
                                                struct base_arena *arena,
                                                struct handoff_stored_publication *publication,
                                                struct handoff_error *error) HANDOFF_MUST_CHECK;

/* The publications of a channel, newest first, older than the one with the number `before` (0:
   all); fewer than `limit` are the last page. `party`: only those that it published, or of which it
   has a delivery; absent: all. */
enum handoff_code
handoff_store_list_publications(struct handoff_store *store, struct base_span channel,
                                struct base_span party, int64_t before, size_t limit,
                                struct base_arena *arena, struct handoff_stored_publication **list,
                                size_t *count, struct handoff_error *error) HANDOFF_MUST_CHECK;

/* What waits for a receiver of a channel. */
struct handoff_stored_backlog {
    struct base_span channel, receiver;
    int64_t pending, parked;
    int64_t oldest_ms; /* when the delivery that has been pending longest was made; 0: none is */
};

/* One for each pair that has something pending or parked, by their names. An absent channel: all.
 */
enum handoff_code handoff_store_channel_backlog(struct handoff_store *store,
                                                struct base_span channel, struct base_arena *arena,
                                                struct handoff_stored_backlog **list, size_t *count,
                                                struct handoff_error *error) HANDOFF_MUST_CHECK;

/* The delivery of a publication that an agent was sent; not_found: none. An absent agent: the only
   delivery; conflict: there are several. */
enum handoff_code handoff_store_find_delivery(struct handoff_store *store,
                                              const struct base_uuid *publication,
                                              struct base_span agent, struct base_uuid *delivery,
                                              struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
