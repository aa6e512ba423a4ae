/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.h - what of a ledger goes into the envelope, and in which form: additions only.
 *
 * A context is cut into segments whose token counts are independent of each other (segment.h says
 * where and why), so the count of any selection is a sum, and the sum is exact. This module handles
 * no texts: memories come with their costs, and lists (list.h) say what another entry would cost.
 *
 * The order of keeping:
 *
 *   1. the fixed parts (task, constraints, expected output), the unresolved entries, and each
 *      pinned, requested and inherited memory by its id
 *   2. other members of the state, such as progress; then decisions and remaining work, newest
 *      first
 *   3. pinned memories in their best form
 *   4. memories that this hop requested by id, likewise
 *   5. steps of the history, newest first
 *   6. inherited references, likewise in their best form
 *   7. unresolved entries that had no room in the first group, newest first
 *   8. memories that were found
 *   9. the reasons of decisions, newest first
 *
 * What does not fit is left out and does not block what comes after it. The first group is not
 * trimmed: if it does not fit, the plan is rejected with the budget it needs. But its entries and
 * ids get half of the budget at most; where they need more, the oldest wait: all that is
 * older than the first one without room. (One that is larger than that half by itself is omitted
 * and does not count.) So a plan is rejected only where the fixed parts take more than half of the
 * budget themselves, and a budget of twice their size is always enough.
 *
 * Forms of a memory, best first: full: full. priority: full, summary, id. summary: summary,
 * reference, id. lazy: reference, id. Strategy full keeps everything in full, or rejects the plan.
 * A memory whose content may not be sent (a conversation log, or too large) has a full cost of 0;
 * its summary replaces it, in strategy full too. A memory that was found has no form id. The few
 * ids that cannot be counted by themselves have none either, and go as a reference. Pure, any
 * thread.
 */
#ifndef HANDOFF_ASSEMBLE_PLAN_H
#define HANDOFF_ASSEMBLE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/model/handoff_model.h"

enum handoff_form {
    HANDOFF_FORM_FULL = 0, /* with its content */
    HANDOFF_FORM_SUMMARY,
    HANDOFF_FORM_REFERENCE, /* neither, but what else is known: the receiver fetches it */
    HANDOFF_FORM_ID,        /* nothing but its id, in a list of ids */
    HANDOFF_FORMS,
    HANDOFF_FORM_NONE = HANDOFF_FORMS, /* trimmed */
};

enum handoff_rank {
    HANDOFF_RANK_PINNED,
    HANDOFF_RANK_ASKED,     /* by this hop */
    HANDOFF_RANK_INHERITED, /* by an earlier hop */
    HANDOFF_RANK_FOUND,     /* by include_recent */
};

/* Greater is newer. What this hop said is newest. */
typedef uint64_t handoff_age;
#define HANDOFF_AGE_OWN UINT64_MAX

struct handoff_trim_memory {
    enum handoff_rank rank;
    handoff_age age;              /* when it was first asked for */
    uint32_t cost[HANDOFF_FORMS]; /* with another one after it; 0: it has no such form */
    int32_t last_extra;           /* extra cost with none after it; may be negative; not of ids */
    enum handoff_form form;       /* answer */
};

enum { HANDOFF_LISTS = HANDOFF_PART_STEPS + 1 }; /* the first parts are lists */

/* How an entry of a list goes. */
enum handoff_entry_form {
    HANDOFF_ENTRY_OMITTED,
    HANDOFF_ENTRY_SHORT, /* a step of a decision, without its reason */
    HANDOFF_ENTRY_WHOLE,
};

/* Surely too much. */
#define HANDOFF_PRICE_TOO_HIGH INT64_MAX

/* A list, oldest first, that is built from its end. */
struct handoff_trim_list {
    size_t count;
    int64_t least; /* no entry costs less */
    handoff_age (*age)(const struct handoff_trim_list *list, size_t entry);
    void (*clear)(struct handoff_trim_list *list); /* nothing is kept */
    /* What the entry adds before those that are kept; TOO_HIGH may be answered where it is more
     * than `room`. */
    int64_t (*price)(struct handoff_trim_list *list, size_t entry, int64_t room);
    /* Keeps the entry that was priced last. */
    void (*keep)(struct handoff_trim_list *list, size_t entry);
    /* What the reason of a kept entry adds; TOO_HIGH if it has none. NULL: no entry has one. */
    int64_t (*price_reason)(struct handoff_trim_list *list, size_t entry);
    void (*keep_reason)(struct handoff_trim_list *list, size_t entry);
    /* What was priced too high comes back: 0 or less. Once all are kept; NULL: prices are exact. */
    int64_t (*settle)(struct handoff_trim_list *list);
    int64_t empty; /* what it costs with no entry */
    size_t kept;   /* answer: how many entries */
};

struct handoff_trim_plan {
    enum handoff_strategy strategy;
    uint64_t budget;
    uint64_t fixed;                       /* everything outside the lists */
    uint32_t memories_none;               /* "memories":[] ... */
    uint32_t memories_some;               /* ... and what opens a list that is not empty */
    uint32_t ids_some;                    /* what a list of ids costs beside them; without: 0 */
    struct handoff_trim_memory *memories; /* by rank; each in the order of keeping */
    size_t nmemories;
    struct handoff_trim_list *lists[HANDOFF_LISTS]; /* NULL: it is not in the context */

    /* answers */
    uint64_t count;  /* tokens of the whole context */
    uint64_t needed; /* where it is rejected: the smallest budget that is not */
};

/* False: the parts that may not be trimmed exceed the budget; see `needed`. */
bool handoff_trim(struct handoff_trim_plan *plan);

#endif
