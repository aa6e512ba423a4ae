/* SPDX-License-Identifier: Apache-2.0 */
/* A resolve for threads and programs that have no loop: it waits for the answer. */
#ifndef TESTS_SUPPORT_RESOLVE_NOW_H
#define TESTS_SUPPORT_RESOLVE_NOW_H

#include "client/spine/spine.h"
#include "lib/base/check.h"

static _Thread_local bool resolve_now_is_done;

static inline void resolve_now_done(struct handoff_spine_call *call)
{
    (void)call;
    resolve_now_is_done = true;
}

static inline enum handoff_code resolve_now(struct handoff_spine *spine,
                                            struct handoff_spine_resolve *resolve)
{
    struct base_mailbox mailbox;
    BASE_CHECK(base_mailbox_init(&mailbox, NULL) == HANDOFF_OK);
    resolve->call.mailbox = &mailbox;
    resolve->call.done = resolve_now_done;
    resolve_now_is_done = handoff_spine_resolve(spine, resolve) == HANDOFF_SPINE_DONE;
    while (!resolve_now_is_done)
        base_mailbox_wait(&mailbox, -1);
    base_mailbox_free(&mailbox);
    return resolve->call.error.code;
}

#endif
