/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A spine of a few memories in an array: it answers at once, or later, or not at all, as a test
 * wishes. Relevance is the test's own, in the order of the array.
 */
#ifndef TESTS_SUPPORT_FAKE_SPINE_H
#define TESTS_SUPPORT_FAKE_SPINE_H

#include <string.h>

#include "client/spine/spine.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/mailbox.h"

enum { FAKE_MEMORIES_MAX = 64 };

struct fake_spine {
    struct handoff_spine spine; /* first */
    struct handoff_found_memory memories[FAKE_MEMORIES_MAX];
    size_t count;
    enum handoff_code failure; /* HANDOFF_OK: it works */
    bool later;                /* answers through the mailbox */
    bool cut;                  /* its searches are out of time */
    size_t asked;              /* how often */
    struct base_span last_query;
};

static inline bool fake_is_asked(const struct handoff_spine_resolve *resolve, struct base_span id)
{
    for (size_t i = 0; i < resolve->id_count; i++) {
        if (base_span_equal(resolve->ids[i], id))
            return true;
    }
    return false;
}

static inline void fake_find(struct fake_spine *fake, struct handoff_spine_resolve *resolve)
{
    size_t recent = resolve->recent;
    resolve->incomplete = fake->cut;
    for (size_t i = 0; i < fake->count; i++) {
        struct handoff_found_memory found = fake->memories[i];
        if (!resolve->query.data)
            found.relevance = 0;
        found.origin = 0;
        if (fake_is_asked(resolve, found.memory.id))
            found.origin |= HANDOFF_ORIGIN_ASKED;
        if (resolve->pins && found.memory.pinned)
            found.origin |= HANDOFF_ORIGIN_PINNED;
        if (recent > 0 && (found.origin == 0 || found.word_count > 0)) {
            found.origin |= HANDOFF_ORIGIN_RECENT;
            recent--;
        }
        if (found.origin)
            resolve->found[resolve->found_count++] = found;
    }
}

static inline bool fake_has(const struct fake_spine *fake, struct base_span id)
{
    for (size_t i = 0; i < fake->count; i++) {
        if (base_span_equal(fake->memories[i].memory.id, id))
            return true;
    }
    return false;
}

static inline void fake_miss(struct fake_spine *fake, struct handoff_spine_resolve *resolve)
{
    for (size_t i = 0; i < resolve->id_count; i++) {
        bool repeated = fake_has(fake, resolve->ids[i]);
        for (size_t j = 0; j < resolve->missing_count; j++)
            repeated = repeated || base_span_equal(resolve->missing[j], resolve->ids[i]);
        if (!repeated)
            resolve->missing[resolve->missing_count++] = resolve->ids[i];
    }
}

static inline void fake_deliver(struct base_mail *mail)
{
    struct handoff_spine_call *call =
        BASE_CONTAINER_OF(mail, struct handoff_spine_call, scratch.bytes);
    call->done(call);
}

static inline void fake_answer(struct fake_spine *fake, struct handoff_spine_resolve *resolve)
{
    resolve->found = base_arena_calloc(resolve->arena, fake->count + 1, sizeof(*resolve->found));
    resolve->missing =
        base_arena_calloc(resolve->arena, resolve->id_count + 1, sizeof(*resolve->missing));
    if (!resolve->found || !resolve->missing) {
        handoff_error_no_memory(&resolve->call.error);
        return;
    }
    fake_find(fake, resolve);
    fake_miss(fake, resolve);
}

static inline enum handoff_spine_progress fake_resolve(struct handoff_spine *spine,
                                                       struct handoff_spine_resolve *resolve)
{
    struct fake_spine *fake = (struct fake_spine *)spine;
    fake->asked++;
    fake->last_query = resolve->query;
    if (fake->failure == HANDOFF_OK)
        fake_answer(fake, resolve);
    else
        handoff_error_set(&resolve->call.error, fake->failure, "the fake was told to", NULL, NULL);
    if (!fake->later)
        return HANDOFF_SPINE_DONE;
    struct base_mail *mail = (void *)resolve->call.scratch.bytes;
    *mail = (struct base_mail){.deliver = fake_deliver};
    base_mailbox_post(resolve->call.mailbox, mail);
    return HANDOFF_SPINE_PENDING;
}

static inline void fake_close(struct handoff_spine *spine)
{
    (void)spine; /* the test's own */
}

static inline void fake_spine_init(struct fake_spine *fake)
{
    static const struct handoff_spine_driver driver = {.kind = "fake",
                                                       .can = HANDOFF_SPINE_CAN_RESOLVE,
                                                       .resolve = fake_resolve,
                                                       .close = fake_close};
    *fake = (struct fake_spine){0};
    handoff_spine_init(&fake->spine, &driver, (struct handoff_memory_limits){0});
}

/* Texts are lent. */
static inline struct handoff_found_memory *fake_add(struct fake_spine *fake, const char *id,
                                                    const char *content, const char *summary)
{
    struct handoff_found_memory *found = &fake->memories[fake->count++];
    *found = (struct handoff_found_memory){
        .memory = {.id = base_span_text(id),
                   .content = base_span_text(content),
                   .summary = base_span_text(summary),
                   .importance = HANDOFF_IMPORTANCE_MEDIUM,
                   .created_ms = 1769500800000 + (int64_t)fake->count},
        .tokens = {-1, -1, -1},
    };
    return found;
}

#endif
