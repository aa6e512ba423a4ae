/* SPDX-License-Identifier: Apache-2.0 */
/*
 * op.h - something that was asked for and is answered later, with a deadline and a cancel.
 *
 * An op lies inside the struct of its owner, and a kind of op says how it is carried out and how it
 * is given up (workers.h has the first). It ends exactly once, on its loop, by a call of `done`:
 * because it was carried out, because its deadline passed, or because it was cancelled. `verdict`
 * says which. Until then its owner keeps it.
 *
 *     base_op_begin(&work->op, &work_kind, loop, 30000, assembled);      the kind does this
 *     base_op_cancel(&work->op);                                         the owner's client left
 *     base_op_end(&work->op);                                            the kind: calls `done`
 *
 * Threads: all of it on the op's loop, except for base_op_is_unwanted, which the thread that
 * carries it out may call from time to time.
 */
#ifndef BASE_OP_H
#define BASE_OP_H

#include <stdatomic.h>
#include <stdbool.h>

#include "lib/base/loop.h"

struct base_op;

struct base_op_kind {
    const char *name;
    /* It is unwanted: ends it now, or sees to it that it ends soon. Called at most once. */
    void (*give_up)(struct base_op *op);
};

enum base_op_verdict {
    BASE_OP_DONE,      /* it was carried out */
    BASE_OP_CANCELLED, /* its owner does not want it any more */
    BASE_OP_LATE,      /* its deadline passed */
};

struct base_op {
    unsigned magic;
    const struct base_op_kind *kind;
    struct base_loop *loop;
    struct base_timer deadline;
    void (*done)(struct base_op *op);
    _Atomic(enum base_op_verdict) verdict; /* the loop's thread writes */
};

/* deadline_ms: from now; 0: none. */
void base_op_begin(struct base_op *op, const struct base_op_kind *kind, struct base_loop *loop,
                   int64_t deadline_ms, void (*done)(struct base_op *op));
/* `done` is called before this returns, or later. Harmless on an op that was cancelled or is late,
   and on a zeroed one. */
void base_op_cancel(struct base_op *op);
/* For its kind: ends it, whatever the verdict. The op may be gone afterwards. */
void base_op_end(struct base_op *op);

static inline bool base_op_is_under_way(const struct base_op *op)
{
    return op->magic != 0;
}

/* Whether it was cancelled or is late, so that what is left of it need not be done. Any thread. */
static inline bool base_op_is_unwanted(const struct base_op *op)
{
    return atomic_load_explicit(&op->verdict, memory_order_relaxed) != BASE_OP_DONE;
}

#endif
