/* SPDX-License-Identifier: Apache-2.0 */
/* A spine in a fresh store, and calls that wait for their end. */
#ifndef TESTS_SUPPORT_TEMP_SPINE_H
#define TESTS_SUPPORT_TEMP_SPINE_H

#include "client/spine/embedded/embedded_spine.h"
#include "tests/support/temp_store.h"

struct temp_spine {
    char *directory;
    struct handoff_store *store;
    struct handoff_spine *spine;
    struct base_manual_clock clock;
    struct base_mailbox mailbox;
    struct base_arena arena;
    struct handoff_error error; /* of the last call */
};

static int temp_spine_done;

static inline void temp_spine_count(struct handoff_spine_call *call)
{
    (void)call;
    temp_spine_done++;
}

static inline void temp_spine_open_store(struct temp_spine *temp,
                                         const struct handoff_store_options *store,
                                         struct handoff_memory_limits limits)
{
    memset(temp, 0, sizeof *temp);
    base_manual_clock_init(&temp->clock, INT64_C(1767225600000)); /* 2026-01-01 */
    /* on a busy machine the usual 50 ms are over before a search has looked at anything */
    struct handoff_embedded_options options = {
        .limits = limits, .clock = &temp->clock.clock, .search_timeout_ms = 60000};
    if (handoff_store_open(&temp->store, store, &temp->error) != HANDOFF_OK ||
        handoff_embedded_spine_open(&temp->spine, temp->store, &options, &temp->error) !=
            HANDOFF_OK ||
        base_mailbox_init(&temp->mailbox, &temp->error) != HANDOFF_OK)
        abort();
}

static inline void temp_spine_open(struct temp_spine *temp,
                                   const struct handoff_store_options *more,
                                   struct handoff_memory_limits limits)
{
    struct handoff_store_options store = more ? *more : (struct handoff_store_options){0};
    char *directory = temp_directory();
    store.path = directory;
    temp_spine_open_store(temp, &store, limits);
    temp->directory = directory;
}

/* In a directory of the test's, which stays. */
static inline void temp_spine_open_at(struct temp_spine *temp, const char *directory)
{
    struct handoff_store_options store = {.path = directory};
    temp_spine_open_store(temp, &store, (struct handoff_memory_limits){0});
}

static inline void temp_spine_end_at(struct temp_spine *temp)
{
    handoff_spine_close(&temp->spine);
    handoff_store_close(&temp->store);
    base_mailbox_free(&temp->mailbox);
    base_arena_free(&temp->arena);
}

static inline void temp_spine_close(struct temp_spine *temp)
{
    temp_spine_end_at(temp);
    temp_remove(temp->directory);
}

static inline void temp_spine_begin(struct temp_spine *temp, struct handoff_spine_call *call)
{
    call->mailbox = &temp->mailbox;
    call->done = temp_spine_count;
    temp_spine_done = 0;
}

static inline enum handoff_code temp_spine_end(struct temp_spine *temp,
                                               struct handoff_spine_call *call,
                                               enum handoff_spine_progress progress)
{
    while (progress == HANDOFF_SPINE_PENDING && temp_spine_done == 0)
        base_mailbox_wait(&temp->mailbox, -1);
    temp->error = call->error;
    return call->error.code;
}

#define TEMP_SPINE_CALL(temp, function, typed)                                                     \
    (temp_spine_begin((temp), &(typed)->call),                                                     \
     temp_spine_end((temp), &(typed)->call, function((temp)->spine, (typed))))

static inline enum handoff_code temp_put_call(struct temp_spine *temp,
                                              struct handoff_spine_put *put)
{
    return TEMP_SPINE_CALL(temp, handoff_spine_put, put);
}

/* A memory with nothing but text. */
static inline enum handoff_code temp_remember(struct temp_spine *temp, const char *id,
                                              const char *content,
                                              enum handoff_importance importance)
{
    struct handoff_spine_put put = {.memory = {.id = base_span_text(id),
                                               .content = base_span_text(content),
                                               .importance = importance}};
    return temp_put_call(temp, &put);
}

#endif
