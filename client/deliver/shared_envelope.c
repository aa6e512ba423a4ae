/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the references to what deliveries share, see shared_envelope.h. Any thread. */
#include "client/deliver/shared_envelope.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/memory.h"

enum { SHARED_MAGIC = 0x73686172 };

static char *copy_shared(char *to, struct base_span from, struct base_span *span)
{
    *span = from;
    if (!from.data)
        return to;
    memcpy(to, from.data, from.size);
    *span = base_span(to, from.size);
    return to + from.size;
}

struct handoff_shared_envelope *handoff_shared_envelope_new(const struct base_uuid *id,
                                                            struct base_span envelope,
                                                            struct base_span excerpt,
                                                            struct base_span contribution)
{
    struct handoff_shared_envelope *shared =
        base_malloc(sizeof *shared + envelope.size + excerpt.size + contribution.size);
    if (!shared)
        return NULL;
    *shared = (struct handoff_shared_envelope){.magic = SHARED_MAGIC, .id = *id};
    atomic_init(&shared->references, 1);
    char *to = copy_shared(shared->text, envelope, &shared->envelope);
    to = copy_shared(to, excerpt, &shared->excerpt);
    copy_shared(to, contribution, &shared->contribution);
    return shared;
}

struct handoff_shared_envelope *handoff_shared_envelope_ref(struct handoff_shared_envelope *shared)
{
    BASE_CHECK_MAGIC(shared, SHARED_MAGIC);
    atomic_fetch_add_explicit(&shared->references, 1, memory_order_relaxed);
    return shared;
}

void handoff_shared_envelope_release(struct handoff_shared_envelope **shared)
{
    struct handoff_shared_envelope *left = *shared;
    *shared = NULL;
    if (!left)
        return;
    BASE_CHECK_MAGIC(left, SHARED_MAGIC);
    if (atomic_fetch_sub_explicit(&left->references, 1, memory_order_acq_rel) > 1)
        return;
    left->magic = 0;
    base_free(left);
}
