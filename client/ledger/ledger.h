/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger.h - what all hops of a chain have said, as one list of items for each kind.
 *
 * What a request supplies are items: its intent, each of its constraints, each decision, each step
 * and so on (HANDOFF_ITEM in handoff_model.def). An envelope keeps its request's items as its
 * contribution (contribution.h). The ledger of a request is the union of the contributions of all
 * envelopes that it continues, directly or not, and of its own. An envelope shows as much of its
 * ledger as fits its receiver's budget; the ledger keeps all.
 *
 *     kind                    is current                                     is past
 *     intent                  the first hop's, or its summary                any other
 *     constraint              as long as some of it holds; `constraints`     gave way to tighter
 * ones, has them joined (constraints.h)                or to a newer max_tokens summary this hop's
 * earlier: also a step decision, unresolved,   each once, where it was said first resolved or done
 *     remaining
 *     state                   the newest of each name                        older ones of the name
 *     step                    all, in order, those that are sent again,
 *                             and those of one time, once; after the steps of an earlier hop,
 *                             "handed to coder: ..."
 *     reference               each id once, where it was named first
 *     expected_output         this hop's                                     earlier ones
 *
 * Lists are in the order of the hops, oldest first. A hop repeats, and resolves, what its ancestors
 * said (lineage.h), and nothing of their siblings, which it did not know; equal entries of siblings
 * are shown as one, and are current as long as one of them is. The same contributions and the same
 * request give the same ledger. Folding takes time in proportion to the number of items, in chains
 * that branch also to the hops that repeat or resolve. Thousands of siblings that say the same are
 * not all compared with each other: what is then not found to be a repetition, or resolved, is
 * current once too often.
 *
 * Pure but for the arena, which owns all of it; the values are lent by the documents of the
 * contributions and the request. Any thread.
 */
#ifndef HANDOFF_LEDGER_LEDGER_H
#define HANDOFF_LEDGER_LEDGER_H

#include <stdbool.h>
#include <stdint.h>
#include <yyjson.h>

#include "client/model/handoff_model.h"
#include "lib/base/arena.h"
#include "lib/base/error.h"
#include "lib/base/span.h"
#include "lib/base/uuid.h"

/* One envelope of the chain. */
struct handoff_hop {
    struct base_uuid id; /* nil: the request itself, whose envelope has no id yet */
    int64_t hop, at_ms;  /* its hop count; when it was made, wall clock */
    struct base_span agent, target;
};

struct handoff_item {
    const struct handoff_hop *from;
    struct base_span name; /* of the member of `constraints` or `state`; absent for other kinds */
    yyjson_val *value;     /* as it was supplied */
    uint32_t tokens; /* of its segment in a context; 0: not counted yet, and who counts sets it */
    bool mentioned; /* a reference that only stands in a text, and was never found: perhaps no id */
    int64_t missing_since; /* of a reference: since which hop; 0: it was there, or is new */
};

/* Oldest first. */
struct handoff_items {
    struct handoff_item *at;
    size_t count;
};

struct handoff_ledger {
    struct handoff_hop own; /* the request's; what is `from` it is this hop's */
    struct base_span intent;
    yyjson_val *constraints;                        /* joined; NULL: there are none */
    struct handoff_items items[HANDOFF_ITEM_COUNT]; /* what is current */
    struct handoff_items past[HANDOFF_ITEM_COUNT];  /* what does not stand any more */
    size_t steps_lost; /* of an older version's envelope, whose body retention removed */
    size_t looked_at;  /* entries and hops, to find what is repeated: what folding cost */
    size_t fruitless;  /* hops up to this one that went back and forth between the same two agents
                          and added no item */
};

/* What one hop has said: its request, or its contribution read again. Values are NULL, and texts
 * absent, where there is nothing. */
struct handoff_said {
    struct handoff_hop hop;
    yyjson_val *intent, *summary;    /* strings */
    yyjson_val *constraints, *state; /* objects */
    yyjson_val *steps;               /* an array of objects */
    yyjson_val *references,
        *mentioned;              /* arrays of ids: asked for; standing in summary or intent */
    yyjson_val *missing, *found; /* arrays of ids: what looking them up has changed */
    yyjson_val *expected_output; /* an object */
    yyjson_val *tokens;          /* counts of the items, as contribution.h keeps them */
    size_t steps_lost;
    const size_t *parents; /* whom it continues, as their places among what was said before */
    size_t nparents;
    bool revises;  /* an operator's edit of a request, which may come with a later deadline */
    bool accepted; /* an envelope was made of it: its constraints need no judging */
};

/* Folds what was said, oldest first, and `own`, which comes last: a request, which may only tighten
 * what it inherits, or what was accepted. Errors: invalid_request (the spelling of a constraint),
 * constraint_loosened, out_of_memory. The texts and values stay lent. */
enum handoff_code handoff_ledger_fold(struct handoff_ledger *ledger, struct base_arena *arena,
                                      const struct handoff_said *said, size_t nsaid,
                                      const struct handoff_said *own,
                                      struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
