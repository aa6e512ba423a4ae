/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - the client and its loops from the inside; handoff.h has what a host sees.
 *
 * A client is shared by all threads: what it points to is safe for that, and what may change
 * (hops_max and those below it) is atomic. A loop belongs to one thread; whatever it asks is
 * answered through its mailbox.
 */
#ifndef HANDOFF_CLIENT_H
#define HANDOFF_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>

#include "client/agents/agents.h"
#include "client/agents/pipelines.h"
#include "client/assemble/assemble.h"
#include "client/calls/catch_up.h"
#include "client/calls/jobs.h"
#include "client/calls/recent.h"
#include "client/channels/channels.h"
#include "client/deliver/engine.h"
#include "client/deliver/open_tasks.h"
#include "client/handoff.h"
#include "client/spine/spine.h"
#include "client/store/store.h"
#include "lib/base/mailbox.h"
#include "lib/base/workers.h"

enum { HANDOFF_CLIENT_MAGIC = 0x68636c69, HANDOFF_LOOP_MAGIC = 0x686c6f6f };

struct handoff_client {
    unsigned magic;
    struct handoff_store *store;
    struct handoff_spine *spine;
    struct handoff_tokenizer *tokenizer;
    struct handoff_error tokenizer_error; /* why it only estimates; else code HANDOFF_OK */
    struct handoff_agents *agents;
    struct handoff_pipelines pipelines; /* has its own lock */
    struct handoff_channels channels;   /* likewise */
    struct base_uuid_source uuids;
    struct base_workers *workers; /* for what is too long for a loop */
    struct handoff_assembler assembler;
    struct handoff_engine *engine;
    struct handoff_open_tasks *open_tasks; /* NULL: not watched */
    int64_t task_stalled_after_ms;
    void (*observe)(void *observer, const struct handoff_event *event);
    void *observer;

    /* any thread */
    _Atomic(uint32_t) hops_max;
    _Atomic(uint64_t) default_token_budget;
    atomic_int secrets; /* enum handoff_secret_policy */
    atomic_bool forbids_new_chain;
    atomic_uint spine_failures;     /* calls in a row */
    struct handoff_recent observed; /* ids of observations; has its own lock */

    struct handoff_job_runs jobs;       /* has its own lock */
    struct handoff_catch_ups catch_ups; /* likewise */

    pthread_mutex_t visit_lock; /* one visit of the agents at a time */
};

enum { HANDOFF_SPARE_ARENAS = 4 };

struct handoff_loop {
    unsigned magic;
    struct handoff_client *client;
    struct handoff_lane *lane;                                   /* its mailbox is the loop's */
    size_t pending;                                              /* answers to come */
    TAILQ_HEAD(handoff_assemblies, handoff_assembly) assemblies; /* those under way */
    TAILQ_HEAD(handoff_followers, handoff_follower) followers;   /* of inboxes, on this loop */
    struct base_arena spare[HANDOFF_SPARE_ARENAS]; /* of assemblies that ended, for the next */
    size_t nspare;
};

/* Tells those who follow an inbox and do not wait for a handoff that this is over. */
void handoff_followers_end(struct handoff_loop *loop);

/* Tells the observer, if there is one. */
void handoff_client_tell(const struct handoff_client *client, const struct handoff_event *event);

/* The same for one commit of the store; on its writer's thread. */
void handoff_client_tell_commit(void *observer, const struct handoff_store_commit *commit);

/* The same for a store whose file is not at its path any more; on its writer's thread. */
void handoff_client_tell_displaced(void *observer, const char *path);

/* The same for something that we lacked and did without; any thread. */
void handoff_client_tell_upgrade(void *observer, int from, int to, int64_t bytes);
void handoff_client_tell_shortage(void *observer, enum handoff_shortage resource,
                                  const char *hindered);

/* Opens the spine that the options ask for. */
enum handoff_code handoff_client_open_spine(struct handoff_client *client,
                                            const struct handoff_options *options,
                                            struct handoff_error *error) HANDOFF_MUST_CHECK;

/* The same for last known copies that were looked at; on a loop's thread. */
void handoff_client_tell_copies(void *observer, size_t used, size_t lacking, int64_t oldest_ns);

/* The same for one call of the spine, where that says something about the spine; remembers whether
 * it is up. */
void handoff_client_tell_spine(struct handoff_client *client, enum handoff_operation operation,
                               const struct handoff_spine_call *call, int64_t duration_ns);

/* What is done about credentials in requests and memories. */
static inline enum handoff_secret_policy handoff_client_secrets(struct handoff_client *client)
{
    return (enum handoff_secret_policy)atomic_load(&client->secrets);
}

/* forbidden: the agent with these settings does not take handoffs from the source. NULL: not
 * configured, which is refused elsewhere. */
enum handoff_code handoff_client_check_sender(const struct handoff_settings *settings,
                                              struct base_span source,
                                              struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Tells the observer about credentials that were found. */
void handoff_client_tell_secrets(const struct handoff_client *client,
                                 const struct handoff_secrets *secrets);
/* Copies the reason of an agent or operator without credentials, cut to fit, and tells of them.
 * NULL: none. */
void handoff_client_copy_reason(const struct handoff_client *client, char *to, size_t size,
                                const char *reason);

/* Sets up an assembly on a loop: the caller fills in context and finished, runs it, and ends it.
 * The ask is lent until the assembly is over. NULL: no memory. */
struct handoff_assembly *handoff_client_begin_assembly(struct handoff_loop *loop,
                                                       const struct handoff_ask *ask);
void handoff_client_end_assembly(struct handoff_assembly **assembly);

/* Whether it may begin anew if an edit is committed before it, or retention removes what it
 * continues: it named nothing, and what was chosen for it can be chosen again. */
bool handoff_client_may_assemble_again(const struct handoff_assembly *assembly);
/* What the store answered to its envelope. True: that is so, and it was begun anew: the caller runs
 * it. */
bool handoff_client_assemble_again(struct handoff_assembly **assembly,
                                   const struct handoff_error *refusal);

/* Cancels all that are under way, since the loop ends. */
void handoff_client_cancel_assemblies(struct handoff_loop *loop);

/* What an assembly came to, as an event; persist_ns and the kind are the caller's to add. */
void handoff_client_describe(const struct handoff_assembly *assembly, struct handoff_event *event);

/* Hands the token counts that an assembly learnt to the spine, which forgets them if it is busy.
 * Nobody waits for it. */
void handoff_client_keep_tokens(struct handoff_loop *loop, const struct handoff_assembly *assembly);

/* Gives a text away; takes the buffer's memory. */
enum handoff_code handoff_client_give(struct base_buffer *from, struct handoff_text *text,
                                      struct handoff_error *error);

#endif
