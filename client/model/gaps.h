/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gaps.h - the memories that the receiver of a handoff lacked.
 *
 * They are kept as the JSON array that answers show, in the order in which they were flagged:
 *
 *     [{"id": "ms-4821", "agent": "coder", "at": "2026-01-31T18:00:00.000Z", "recovered_at": null}]
 *
 * An id stands there once. Ids on their way are text, one on each line; "*pinned" and "*recent"
 * are ids too, as in the envelope's `missing`.
 *
 * Pure; any thread.
 */
#ifndef HANDOFF_MODEL_GAPS_H
#define HANDOFF_MODEL_GAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yyjson.h>

#include "lib/base/buffer.h"
#include "lib/base/error.h"
#include "lib/base/span.h"

enum {
    HANDOFF_GAPS_MAX = 1000,  /* of one handoff */
    HANDOFF_GAP_ID_MAX = 128, /* bytes */
};

bool handoff_gap_is_id(struct base_span text);

/* Appends the ids of an array, whose entries are texts or objects with an `id`. What is no id is
   left out, and so is what exceeds HANDOFF_GAPS_MAX. */
void handoff_gaps_read_ids(yyjson_val *array, struct base_buffer *ids);

struct handoff_gaps_change {
    struct base_span kept;    /* the array so far; absent: none */
    struct base_span lacking; /* ids that the agent lacks */
    struct base_span found;   /* ids that it has by now, whether they were flagged or not */
    struct base_span agent;
    int64_t at_ms;

    /* results */
    size_t flagged;   /* of those lacking, which it was not known to lack before */
    size_t recovered; /* of those found, which it was not known to have before */
};

/* Appends the array as it is after the change. invalid_request: there would be more than
   HANDOFF_GAPS_MAX; store_corrupt: what is kept cannot be read; out_of_memory. */
enum handoff_code handoff_gaps_change(struct handoff_gaps_change *change, struct base_buffer *out,
                                      struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
