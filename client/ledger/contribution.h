/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contribution.h - what one request supplied, as a text that the store keeps.
 *
 * An envelope shows what fits its receiver; its contribution has all of what its request supplied,
 * as it was supplied, and nothing else of the chain. So no text is kept twice along a chain, and
 * each hop's ledger is folded from the contributions of its ancestors.
 *
 *   {"intent", "summary", "constraints", "expected_output", "state", "steps",
 *    "references": [...], "mentioned": [...], "scope": [...],      absent where empty
 *    "missing": [...], "found": [...],      references that this hop missed or found first
 *    "revises": true,        an operator's edit; absent otherwise
 *    "options": {...},           what else was asked for and does not stand in the envelope
 *    "hop": {"max", "path"}, "trace": {"traceparent", "tracestate"},
 *    "tokens": {"encoding", "decisions": [...], "unresolved", "remaining", "steps"}}
 *
 * The counts are those of the items in the same places of their lists, 0 where there is none; a
 * later hop with the same encoding counts nothing again. `hop` and `trace` are for a child, which
 * needs no more than this text of its parent.
 *
 * Of an envelope that an edit replaced, what continued it before keeps the constraints, since none
 * may be lost, and the intent where it began a chain; nothing else that it supplied counts.
 *
 * An older version's envelope has no contribution. What it shows, or what is left of it, stands for
 * it and for all of its ancestors; which of its memories were only found is not known, so it adds
 * no references.
 *
 * Pure but for the arena; any thread.
 */
#ifndef HANDOFF_LEDGER_CONTRIBUTION_H
#define HANDOFF_LEDGER_CONTRIBUTION_H

#include "client/ledger/ledger.h"
#include "client/store/ledger.h"
#include "lib/base/buffer.h"

/* How an envelope came to be where it is, which a child inherits. */
struct handoff_way {
    int64_t hop_max;
    const struct base_span *path; /* sources of the hops before, oldest first */
    size_t npath;
    struct base_span traceparent, tracestate; /* absent: it has none */
    const struct base_span *scopes;           /* for writing: names */
    size_t nscopes;
    yyjson_val *scope; /* as it was read: an array of them; NULL: none */
};

/* What became of references: ids. */
struct handoff_looked_up {
    const struct base_span *missing; /* now, and were not before */
    size_t nmissing;
    const struct base_span *found; /* which were missing, or only stood in a text */
    size_t nfound;
};

/* Appends the contribution of a request. `ledger` has its counts; `options` is the request, of
 * which the members are taken that an envelope does not show. */
void handoff_contribution_write(struct base_buffer *out, const struct handoff_said *own,
                                const struct handoff_ledger *ledger, const struct handoff_way *way,
                                const struct handoff_looked_up *looked_up, yyjson_val *options,
                                struct base_span encoding);

/* The same of a delivery of a publication, which supplies nothing of its own. */
void handoff_contribution_pass_on(struct base_buffer *out, const struct handoff_way *way);

/* Of what it supplied, what an edit leaves of it. `begins`: it has no parents. */
void handoff_said_reduce(struct handoff_said *said, bool begins);

/* Reads one as it was stored, without its parents. The way may be NULL. Errors: envelope_removed
 * (an older version's envelope that left nothing), store_corrupt, out_of_memory. */
enum handoff_code handoff_contribution_read(const struct handoff_contribution *stored,
                                            struct base_span encoding, struct base_arena *arena,
                                            struct handoff_said *said, struct handoff_way *way,
                                            struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Sets the parents of each, where `said` has a list of handoff_store_get_ledger in its order. */
enum handoff_code handoff_contributions_link(const struct handoff_contribution *list, size_t count,
                                             struct base_arena *arena, struct handoff_said *said,
                                             struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
