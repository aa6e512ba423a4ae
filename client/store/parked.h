/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parked.h - parked handoffs, by what a person looks for.
 *
 * What a list, a group or a search needs of a parked handoff is in an index (handoffs_parked_rows),
 * so that ten thousand are walked through in a few milliseconds, however many others lie between
 * them. Waits for the disk.
 */
#ifndef HANDOFF_STORE_PARKED_H
#define HANDOFF_STORE_PARKED_H

#include "client/store/handoffs.h"

/* What is absent narrows nothing. */
struct handoff_parked_filter {
    struct base_span target, source, task_id;
    struct base_span reason; /* why it was parked, as text */
    struct base_span error;  /* of its last attempt; empty: it had none */
    struct base_span party;  /* only those it is a party to (parties.h) */
    struct base_span words; /* each of them, as part of a word, in summary, error, reason, agents */
    int64_t since_ms, until_ms; /* parked from then on, and before then; 0: any time */
    bool newest_first;          /* else in the order of acceptance */
    int64_t beyond; /* only those behind this number, in that order; 0: from the first */
};

struct handoff_parked_row {
    int64_t seq;
    struct base_span target, source, reason, error, summary;
    int64_t parked_ms;
};

/* Calls `visit` for each, in their order, until it returns false; what it gets is lent for the
 * call.
 */
enum handoff_code
handoff_store_find_parked(struct handoff_store *store, const struct handoff_parked_filter *filter,
                          bool (*visit)(void *arg, const struct handoff_parked_row *row), void *arg,
                          struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Those of the numbers that are there, in the order of the numbers; *list is in the arena. */
enum handoff_code handoff_store_get_numbered(struct handoff_store *store, const int64_t *seqs,
                                             size_t nseqs, struct base_arena *arena,
                                             struct handoff_stored **list, size_t *count,
                                             struct handoff_error *error) HANDOFF_MUST_CHECK;

/* The ids of the numbers, in `ids`; *count is how many are there. */
enum handoff_code handoff_store_get_ids(struct handoff_store *store, const int64_t *seqs,
                                        size_t nseqs, struct base_uuid *ids, size_t *count,
                                        struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
