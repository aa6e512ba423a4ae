/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads handoffs and envelopes for a host. A lookup is one struct from the call to the answer: it
 * keeps copies of what the host lent, reads on one of the store's reader threads, and answers on
 * the loop, which serves others meanwhile. What is read, and how it is written, is in read.c and
 * envelope.c.
 */
#include "client/calls/lookup.h"

#include <string.h>

#include "client/calls/channels.h"
#include "client/calls/decisions.h"
#include "client/calls/parked.h"
#include "client/calls/read.h"
#include "client/calls/reply.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum { LOOKUP_MAGIC = 0x6c6f6f6b };

struct lookup {
    unsigned magic;
    struct handoff_store_read read;
    struct handoff_loop *loop;
    handoff_answered *answered;
    void *context;

    /* what is asked; texts are copies in the arena */
    enum handoff_code (*run)(struct lookup *lookup, struct handoff_error *error);
    struct base_arena arena;
    const char *id, *caller, *target, *channel, *cursor;
    int64_t limit;
    enum handoff_rendering rendering;
    struct handoff_list_query query;
    struct handoff_ledger_query items;
    struct handoff_find_query find;
    struct handoff_decision_query decisions;
    struct handoff_parked_query parked;
    struct base_uuid uuid;
    struct handoff_live_view view;

    /* the reader's, then the loop's */
    struct handoff_text text;
    bool under_way;
    struct handoff_error error;
};

static struct lookup *lookup_of(struct handoff_store_read *read)
{
    struct lookup *lookup = BASE_CONTAINER_OF(read, struct lookup, read);
    BASE_CHECK_MAGIC(lookup, LOOKUP_MAGIC);
    return lookup;
}

/* ---- what is read: on a reader thread -------------------------------------------------------- */

static enum handoff_code run_get_lookup(struct lookup *lookup, struct handoff_error *error)
{
    return handoff_read_handoff(lookup->loop->client, lookup->id, lookup->caller, &lookup->text,
                                error);
}

static enum handoff_code run_attempts_lookup(struct lookup *lookup, struct handoff_error *error)
{
    return handoff_read_attempts(lookup->loop->client, lookup->id, lookup->caller, &lookup->text,
                                 error);
}

static enum handoff_code run_list_lookup(struct lookup *lookup, struct handoff_error *error)
{
    return handoff_read_list(lookup->loop->client, &lookup->query, &lookup->text, error);
}

static enum handoff_code run_find_lookup(struct lookup *lookup, struct handoff_error *error)
{
    return handoff_read_found(lookup->loop->client, &lookup->find, &lookup->text, error);
}

static enum handoff_code run_parked_lookup(struct lookup *lookup, struct handoff_error *error)
{
    return handoff_read_parked(lookup->loop->client, &lookup->parked, &lookup->text, error);
}

static enum handoff_code run_groups_lookup(struct lookup *lookup, struct handoff_error *error)
{
    return handoff_read_parked_groups(lookup->loop->client, &lookup->parked, &lookup->text, error);
}

static enum handoff_code run_prospect_lookup(struct lookup *lookup, struct handoff_error *error)
{
    return handoff_read_prospect(lookup->loop->client, lookup->id, lookup->target, &lookup->text,
                                 error);
}

static enum handoff_code run_decisions_lookup(struct lookup *lookup, struct handoff_error *error)
{
    return handoff_read_decisions(lookup->loop->client, &lookup->decisions, &lookup->text, error);
}

static enum handoff_code run_envelope_lookup(struct lookup *lookup, struct handoff_error *error)
{
    return handoff_read_envelope(lookup->loop->client, lookup->id, lookup->caller,
                                 lookup->rendering, &lookup->text, error);
}

static enum handoff_code run_ledger_lookup(struct lookup *lookup, struct handoff_error *error)
{
    return handoff_read_ledger(lookup->loop->client, lookup->id, lookup->caller, &lookup->items,
                               &lookup->text, error);
}

static enum handoff_code run_view_lookup(struct lookup *lookup, struct handoff_error *error)
{
    return handoff_read_view(lookup->loop->client, &lookup->uuid, &lookup->view, &lookup->text,
                             error);
}

static enum handoff_code run_channels_lookup(struct lookup *lookup, struct handoff_error *error)
{
    return handoff_read_channels(lookup->loop->client, lookup->channel, lookup->caller,
                                 &lookup->text, error);
}

static enum handoff_code run_publications_lookup(struct lookup *lookup, struct handoff_error *error)
{
    return handoff_read_publications(lookup->loop->client, lookup->channel, lookup->caller,
                                     lookup->cursor, lookup->limit, &lookup->text, error);
}

static enum handoff_code run_publication_lookup(struct lookup *lookup, struct handoff_error *error)
{
    if (!base_uuid_parse(lookup->id, strlen(lookup->id), &lookup->uuid))
        return handoff_error_set(error, HANDOFF_ERR_NOT_FOUND, "no publication has this id", "id",
                                 lookup->id);
    return handoff_read_publication(lookup->loop->client, lookup->channel, &lookup->uuid,
                                    lookup->caller, &lookup->text, &lookup->under_way, error);
}

static void run_lookup(struct handoff_store_read *read)
{
    struct lookup *lookup = lookup_of(read);
    handoff_error_clear(&lookup->error);
    enum handoff_code code = lookup->run(lookup, &lookup->error);
    BASE_CHECK(code == lookup->error.code);
}

/* ---- from the call to the answer: on the loop ------------------------------------------------ */

static void answer_lookup(struct handoff_store_read *read)
{
    struct lookup *lookup = lookup_of(read);
    const struct handoff_result answer = {.error = lookup->error,
                                          .body = lookup->text.data,
                                          .size = lookup->text.size,
                                          .under_way = lookup->under_way};
    lookup->answered(lookup->context, &answer);
    lookup->loop->pending--;
    handoff_text_free(&lookup->text);
    base_arena_free(&lookup->arena);
    lookup->magic = 0;
    base_free(lookup);
}

static void begin_lookup(struct lookup *lookup)
{
    lookup->loop->pending++;
    handoff_store_submit_read(lookup->loop->client->store, &lookup->read);
}

/* If out of memory, answers with that and returns NULL. */
static struct lookup *make_lookup(struct handoff_loop *loop,
                                  enum handoff_code (*run)(struct lookup *, struct handoff_error *),
                                  handoff_answered *answered, void *context)
{
    BASE_CHECK_MAGIC(loop, HANDOFF_LOOP_MAGIC);
    struct lookup *lookup = base_calloc(1, sizeof *lookup);
    if (!lookup) {
        handoff_give_no_memory(answered, context);
        return NULL;
    }
    lookup->magic = LOOKUP_MAGIC;
    lookup->read.mailbox = loop->lane->mailbox;
    lookup->read.run = run_lookup;
    lookup->read.done = answer_lookup;
    lookup->loop = loop;
    lookup->answered = answered;
    lookup->context = context;
    lookup->run = run;
    base_arena_init(&lookup->arena, 0);
    return lookup;
}

/* Copies a text of the host; an absent text stays absent. false: out of memory. */
static bool keep_lookup_text(struct lookup *lookup, const char *from, const char **to)
{
    *to = from ? base_arena_strdup(&lookup->arena, from) : NULL;
    return *to || !from;
}

static void drop_lookup(struct lookup *lookup)
{
    handoff_give_no_memory(lookup->answered, lookup->context);
    base_arena_free(&lookup->arena);
    lookup->magic = 0;
    base_free(lookup);
}

static void begin_lookup_by_id(struct lookup *lookup, const char *id, const char *caller)
{
    if (keep_lookup_text(lookup, id, &lookup->id) &&
        keep_lookup_text(lookup, caller, &lookup->caller))
        begin_lookup(lookup);
    else
        drop_lookup(lookup);
}

/* ---- the calls ---------------------------------------------------------------------------------
 */

void handoff_get(struct handoff_loop *loop, const char *id, const char *caller,
                 handoff_answered *answered, void *context)
{
    struct lookup *lookup = make_lookup(loop, run_get_lookup, answered, context);
    if (lookup)
        begin_lookup_by_id(lookup, id, caller);
}

void handoff_get_attempts(struct handoff_loop *loop, const char *id, const char *caller,
                          handoff_answered *answered, void *context)
{
    struct lookup *lookup = make_lookup(loop, run_attempts_lookup, answered, context);
    if (lookup)
        begin_lookup_by_id(lookup, id, caller);
}

void handoff_envelope_get(struct handoff_loop *loop, const char *id, const char *caller,
                          enum handoff_rendering rendering, handoff_answered *answered,
                          void *context)
{
    struct lookup *lookup = make_lookup(loop, run_envelope_lookup, answered, context);
    if (!lookup)
        return;
    lookup->rendering = rendering;
    begin_lookup_by_id(lookup, id, caller);
}

void handoff_ledger_get(struct handoff_loop *loop, const char *id, const char *caller,
                        const struct handoff_ledger_query *query, handoff_answered *answered,
                        void *context)
{
    struct lookup *lookup = make_lookup(loop, run_ledger_lookup, answered, context);
    if (!lookup)
        return;
    lookup->items = *query;
    if (keep_lookup_text(lookup, query->cursor, &lookup->items.cursor))
        begin_lookup_by_id(lookup, id, caller);
    else
        drop_lookup(lookup);
}

void handoff_list(struct handoff_loop *loop, const struct handoff_list_query *query,
                  handoff_answered *answered, void *context)
{
    struct lookup *lookup = make_lookup(loop, run_list_lookup, answered, context);
    if (!lookup)
        return;
    struct handoff_list_query *kept = &lookup->query;
    *kept = *query;
    if (keep_lookup_text(lookup, query->task_id, &kept->task_id) &&
        keep_lookup_text(lookup, query->target, &kept->target) &&
        keep_lookup_text(lookup, query->reason, &kept->reason) &&
        keep_lookup_text(lookup, query->caller, &kept->caller) &&
        keep_lookup_text(lookup, query->cursor, &kept->cursor))
        begin_lookup(lookup);
    else
        drop_lookup(lookup);
}

void handoff_find(struct handoff_loop *loop, const struct handoff_find_query *query,
                  handoff_answered *answered, void *context)
{
    struct lookup *lookup = make_lookup(loop, run_find_lookup, answered, context);
    if (!lookup)
        return;
    struct handoff_find_query *kept = &lookup->find;
    *kept = *query;
    if (keep_lookup_text(lookup, query->state, &kept->state) &&
        keep_lookup_text(lookup, query->source, &kept->source) &&
        keep_lookup_text(lookup, query->target, &kept->target) &&
        keep_lookup_text(lookup, query->task_id, &kept->task_id) &&
        keep_lookup_text(lookup, query->since, &kept->since) &&
        keep_lookup_text(lookup, query->order, &kept->order) &&
        keep_lookup_text(lookup, query->caller, &kept->caller) &&
        keep_lookup_text(lookup, query->cursor, &kept->cursor))
        begin_lookup(lookup);
    else
        drop_lookup(lookup);
}

static bool keep_decision_query(struct lookup *lookup, const struct handoff_decision_query *query)
{
    struct handoff_decision_query *kept = &lookup->decisions;
    *kept = *query;
    return keep_lookup_text(lookup, query->handoff, &kept->handoff) &&
           keep_lookup_text(lookup, query->job, &kept->job) &&
           keep_lookup_text(lookup, query->task, &kept->task) &&
           keep_lookup_text(lookup, query->who, &kept->who) &&
           keep_lookup_text(lookup, query->by, &kept->by) &&
           keep_lookup_text(lookup, query->target, &kept->target) &&
           keep_lookup_text(lookup, query->action, &kept->action) &&
           keep_lookup_text(lookup, query->since, &kept->since) &&
           keep_lookup_text(lookup, query->until, &kept->until) &&
           keep_lookup_text(lookup, query->order, &kept->order) &&
           keep_lookup_text(lookup, query->cursor, &kept->cursor);
}

void handoff_decisions(struct handoff_loop *loop, const struct handoff_decision_query *query,
                       handoff_answered *answered, void *context)
{
    struct lookup *lookup = make_lookup(loop, run_decisions_lookup, answered, context);
    if (!lookup)
        return;
    if (keep_decision_query(lookup, query))
        begin_lookup(lookup);
    else
        drop_lookup(lookup);
}

static bool keep_parked_query(struct lookup *lookup, const struct handoff_parked_query *query)
{
    struct handoff_parked_query *kept = &lookup->parked;
    *kept = *query;
    return keep_lookup_text(lookup, query->target, &kept->target) &&
           keep_lookup_text(lookup, query->source, &kept->source) &&
           keep_lookup_text(lookup, query->task, &kept->task) &&
           keep_lookup_text(lookup, query->reason, &kept->reason) &&
           keep_lookup_text(lookup, query->error, &kept->error) &&
           keep_lookup_text(lookup, query->query, &kept->query) &&
           keep_lookup_text(lookup, query->since, &kept->since) &&
           keep_lookup_text(lookup, query->until, &kept->until) &&
           keep_lookup_text(lookup, query->order, &kept->order) &&
           keep_lookup_text(lookup, query->caller, &kept->caller) &&
           keep_lookup_text(lookup, query->cursor, &kept->cursor);
}

static void look_up_parked(struct handoff_loop *loop,
                           enum handoff_code (*run)(struct lookup *, struct handoff_error *),
                           const struct handoff_parked_query *query, handoff_answered *answered,
                           void *context)
{
    struct lookup *lookup = make_lookup(loop, run, answered, context);
    if (!lookup)
        return;
    if (keep_parked_query(lookup, query))
        begin_lookup(lookup);
    else
        drop_lookup(lookup);
}

void handoff_parked(struct handoff_loop *loop, const struct handoff_parked_query *query,
                    handoff_answered *answered, void *context)
{
    look_up_parked(loop, run_parked_lookup, query, answered, context);
}

void handoff_parked_groups(struct handoff_loop *loop, const struct handoff_parked_query *query,
                           handoff_answered *answered, void *context)
{
    look_up_parked(loop, run_groups_lookup, query, answered, context);
}

void handoff_prospect(struct handoff_loop *loop, const char *id, const char *target,
                      handoff_answered *answered, void *context)
{
    struct lookup *lookup = make_lookup(loop, run_prospect_lookup, answered, context);
    if (!lookup)
        return;
    if (keep_lookup_text(lookup, target, &lookup->target))
        begin_lookup_by_id(lookup, id, NULL);
    else
        drop_lookup(lookup);
}

void handoff_look_up(struct handoff_loop *loop, const struct base_uuid *id,
                     const struct handoff_live_view *view, handoff_answered *answered,
                     void *context)
{
    struct lookup *lookup = make_lookup(loop, run_view_lookup, answered, context);
    if (!lookup)
        return;
    lookup->uuid = *id;
    lookup->view = *view; /* its texts live as long as the agents, or forever */
    begin_lookup(lookup);
}

static void begin_channel_lookup(struct lookup *lookup, const char *channel, const char *id,
                                 const char *caller)
{
    if (keep_lookup_text(lookup, channel, &lookup->channel) &&
        keep_lookup_text(lookup, id, &lookup->id) &&
        keep_lookup_text(lookup, caller, &lookup->caller))
        begin_lookup(lookup);
    else
        drop_lookup(lookup);
}

void handoff_channels_list(struct handoff_loop *loop, const char *caller,
                           handoff_answered *answered, void *context)
{
    struct lookup *lookup = make_lookup(loop, run_channels_lookup, answered, context);
    if (lookup)
        begin_channel_lookup(lookup, NULL, NULL, caller);
}

void handoff_channel_get(struct handoff_loop *loop, const char *channel, const char *caller,
                         handoff_answered *answered, void *context)
{
    struct lookup *lookup = make_lookup(loop, run_channels_lookup, answered, context);
    if (lookup)
        begin_channel_lookup(lookup, channel, NULL, caller);
}

void handoff_publications_list(struct handoff_loop *loop, const char *channel, const char *caller,
                               const char *cursor, int64_t limit, handoff_answered *answered,
                               void *context)
{
    struct lookup *lookup = make_lookup(loop, run_publications_lookup, answered, context);
    if (!lookup)
        return;
    lookup->limit = limit;
    if (keep_lookup_text(lookup, cursor, &lookup->cursor))
        begin_channel_lookup(lookup, channel, NULL, caller);
    else
        drop_lookup(lookup);
}

void handoff_publication_get(struct handoff_loop *loop, const char *channel, const char *id,
                             const char *caller, handoff_answered *answered, void *context)
{
    struct lookup *lookup = make_lookup(loop, run_publication_lookup, answered, context);
    if (lookup)
        begin_channel_lookup(lookup, channel, id, caller);
}
