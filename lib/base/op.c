/* SPDX-License-Identifier: Apache-2.0 */
/* The life of an op, see op.h. On its loop's thread. */
#include "lib/base/op.h"

#include "lib/base/check.h"
#include "lib/base/container.h"

enum { OP_MAGIC = 0x6f707321 };

static void give_up_op(struct base_op *op, enum base_op_verdict verdict)
{
    BASE_CHECK_MAGIC(op, OP_MAGIC);
    if (base_op_is_unwanted(op))
        return;
    atomic_store_explicit(&op->verdict, verdict, memory_order_relaxed);
    base_timers_stop(&op->loop->timers, &op->deadline);
    op->kind->give_up(op);
}

static void op_is_late(struct base_timer *timer)
{
    give_up_op(BASE_CONTAINER_OF(timer, struct base_op, deadline), BASE_OP_LATE);
}

void base_op_begin(struct base_op *op, const struct base_op_kind *kind, struct base_loop *loop,
                   int64_t deadline_ms, void (*done)(struct base_op *op))
{
    BASE_CHECK(kind->give_up && done);
    *op = (struct base_op){.magic = OP_MAGIC,
                           .kind = kind,
                           .loop = loop,
                           .deadline = {.fire = op_is_late},
                           .done = done};
    atomic_init(&op->verdict, BASE_OP_DONE);
    if (deadline_ms > 0)
        base_loop_start_timer(loop, &op->deadline, deadline_ms);
}

void base_op_cancel(struct base_op *op)
{
    if (base_op_is_under_way(op))
        give_up_op(op, BASE_OP_CANCELLED);
}

void base_op_end(struct base_op *op)
{
    BASE_CHECK_MAGIC(op, OP_MAGIC);
    base_timers_stop(&op->loop->timers, &op->deadline);
    op->magic = 0;
    op->done(op);
}
