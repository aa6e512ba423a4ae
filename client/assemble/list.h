/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list.h - the lists of a context: decisions, unresolved, remaining, the steps of the history; and
 * the other members of the state, whose entries are a name and a value.
 *
 * A list is built from its end, newest entry first, and at any time knows what the next one would
 * cost (plan.h). Its tokens are those of its entries between lead and trail, which stand with the
 * ledger's items once they were counted, and those of the runs between them (segment.h). Most
 * entries are texts that begin and end with a letter or digit, or objects of such texts. What their
 * runs cost is known beforehand, and of those that an earlier hop counted not even the text is
 * looked at before they are kept: so a ledger of thousands of items costs little more than what
 * is shown of it.
 *
 * Entries that have only a lead ("!!", "🙂") make one run, which would be counted again with each
 * of them. Once it is long, every byte of it is taken for a token, which is never too few; when the
 * list is built, it is counted once as a whole.
 *
 * A list belongs to the thread that runs the assembly.
 */
#ifndef HANDOFF_ASSEMBLE_LIST_H
#define HANDOFF_ASSEMBLE_LIST_H

#include "client/assemble/counter.h"
#include "client/assemble/plan.h"
#include "client/ledger/ledger.h"
#include "lib/base/buffer.h"

/* What follows a list. */
enum handoff_list_end {
    HANDOFF_LIST_END_UNRESOLVED,
    HANDOFF_LIST_END_REMAINING,
    HANDOFF_LIST_END_STATE,
    HANDOFF_LIST_END_HISTORY,
    HANDOFF_LIST_END_MEMBERS, /* of the state, where no list follows */
    HANDOFF_LIST_ENDS,
};

/* The ends of a run that nearly every entry has. */
enum {
    HANDOFF_RUN_TEXT,       /* " */
    HANDOFF_RUN_OBJECT,     /* {"  and  "} */
    HANDOFF_RUN_OPEN,       /* ":[ */
    HANDOFF_RUN_OPEN_STATE, /* ":{ */
    HANDOFF_RUN_LEFTS,
    HANDOFF_RUN_END = HANDOFF_RUN_OBJECT + 1, /* and the other ends of a list after it */
    HANDOFF_RUN_RIGHTS = HANDOFF_RUN_END + HANDOFF_LIST_ENDS,
};

/* Tokens of the runs between these; counted once by handoff_list_prepare. */
struct handoff_list_runs {
    uint32_t cost[HANDOFF_RUN_LEFTS][HANDOFF_RUN_RIGHTS];
};

/* A text of an entry: where it is written, and where it is cut. */
struct handoff_list_text {
    size_t at, size;
    size_t lead, trail;
    uint32_t middle; /* tokens between them */
    bool known;
    bool written; /* else the value is a text that needs no look */
    bool joins;   /* it has only a lead */
};

struct handoff_list_entry {
    struct handoff_list_text text, whole; /* whole: of a step, with the reason */
    enum handoff_entry_form form;
    bool is_last;
};

/* One side of a run. */
struct handoff_run_side {
    struct base_span text;
    int usual;         /* HANDOFF_RUN_..., or -1 */
    size_t long_bytes; /* of a text too long to be counted with each entry; 0: `text` has it */
};

struct handoff_list {
    struct handoff_trim_list trim; /* first */
    enum handoff_part kind;
    enum handoff_list_end end;
    struct base_span next_key; /* what follows members in place of an end; absent: the end */
    struct handoff_items items;
    struct handoff_list_entry *entries; /* of each item */
    const struct handoff_list_runs *runs;
    const struct handoff_hop *own; /* whose items are this hop's */
    struct handoff_counter *counter;
    struct base_buffer *texts; /* where entries are written */

    /* the list as it is built so far */
    struct handoff_run_side front, priced_front; /* its text up to the first cut, or all of it */
    int64_t front_cost, priced_front_cost;       /* with the opening bracket */
    int64_t total, priced;                       /* of what is kept; of the entry priced last */
    bool has_long_run;                           /* so `total` is too high */
};

/* Counts the runs. */
void handoff_list_prepare(struct handoff_list_runs *runs, struct handoff_counter *counter);

/* False: out of memory. */
bool handoff_list_init(struct handoff_list *list, enum handoff_part kind, enum handoff_list_end end,
                       struct base_arena *arena);

/* How many kept steps go without their reason. */
size_t handoff_list_count_short(const struct handoff_list *list);

/* Appends the kept entries, from the opening bracket on. */
void handoff_list_write(struct base_buffer *out, const struct handoff_list *list);

/* The newest first: what a hop said is newer than what an earlier one did. */
handoff_age handoff_age_of(const struct handoff_hop *from, const struct handoff_hop *own);

#endif
