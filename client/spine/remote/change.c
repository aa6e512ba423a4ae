/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storing and deleting memories behind a server. It does not know our agents and scopes, so each
 * change first asks for the memory as it is, and is refused as the embedded spine would refuse it.
 * Two changes of one memory at the same time may both pass; the server's order then decides.
 *
 * The answers are read on the thread that fetched them: the loop's, or the exchange's.
 */
#include <string.h>

#include "client/spine/remote/remote_internal.h"
#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum { CHANGING_MAGIC = 0x6368616e };

struct changing {
    unsigned magic;
    struct handoff_remote_spine *spine;
    struct handoff_spine_call *of;
    struct handoff_spine_put *put;       /* one of the two */
    struct handoff_spine_remove *remove; /* ... NULL: the other */
    struct base_arena arena;
    bool looked; /* at the memory as it is */
    struct handoff_remote_request request;
    struct handoff_remote_call call;
};

static void free_changing(struct changing *changing)
{
    handoff_remote_request_free(&changing->request);
    base_arena_free(&changing->arena);
    changing->magic = 0;
    base_free(changing);
}

static void give_changing(struct base_mail *mail)
{
    struct changing *changing = BASE_CONTAINER_OF(mail, struct changing, call.mail);
    BASE_CHECK_MAGIC(changing, CHANGING_MAGIC);
    struct handoff_spine_call *of = changing->of;
    free_changing(changing);
    of->done(of);
}

/* ---- the memory as it is --------------------------------------------------------------------- */

/* *exists is false where there is none. One that cannot be read has an owner and a scope, too: it
   is not changed. */
static enum handoff_code read_old_of(struct changing *changing, yyjson_val *values,
                                     struct base_span id, struct handoff_memory *old, bool *exists)
{
    const struct handoff_remote_table *table = &changing->spine->table;
    bool readable = true;
    size_t i, n;
    yyjson_val *value;
    if (yyjson_is_obj(values))
        *exists = readable = handoff_remote_read_memory(table, values, &changing->arena, old) &&
                             base_span_equal(old->id, id);
    yyjson_arr_foreach(values, i, n, value)
    {
        if (*exists)
            break;
        if (!handoff_remote_read_memory(table, value, &changing->arena, old))
            readable = false;
        else
            *exists = base_span_equal(old->id, id);
    }
    if (*exists || readable)
        return HANDOFF_OK;
    return handoff_remote_unavailable(
        handoff_remote_operation_name(handoff_remote_lookup(changing->spine)),
        "its memory cannot be read", &changing->of->error);
}

static enum handoff_code read_old(struct changing *changing, struct base_span id,
                                  struct handoff_memory *old, bool *exists)
{
    yyjson_val *values;
    *exists = false;
    switch (handoff_remote_read_answer(changing->spine, handoff_remote_lookup(changing->spine),
                                       &changing->request, &changing->arena, &values, NULL,
                                       &changing->of->error)) {
    case HANDOFF_REMOTE_ANSWERED:
        return read_old_of(changing, values, id, old, exists);
    case HANDOFF_REMOTE_ABSENT:
        return HANDOFF_OK;
    case HANDOFF_REMOTE_FAILED:
        changing->call.failed = true;
        break;
    case HANDOFF_REMOTE_ODD_ID:
    case HANDOFF_REMOTE_REFUSED:
        break;
    }
    return changing->of->error.code;
}

/* ---- whether it may be changed --------------------------------------------------------------- */

static enum handoff_code refuse_owner(struct handoff_error *error)
{
    return handoff_error_set(error, HANDOFF_ERR_FORBIDDEN,
                             "only the agent that stored the memory, or an operator, may change it",
                             "id", NULL);
}

static enum handoff_code refuse_place(const struct handoff_scopes *scopes,
                                      struct handoff_error *error)
{
    handoff_error_set(error, HANDOFF_ERR_FORBIDDEN, "the token does not allow this scope", "scope",
                      NULL);
    handoff_scopes_allow(scopes, error);
    return HANDOFF_ERR_FORBIDDEN;
}

static enum handoff_code check_old(const struct handoff_memory *old,
                                   const struct handoff_scopes *scopes, struct base_span caller,
                                   struct handoff_error *error)
{
    if (!handoff_scopes_may_store(scopes, old->scope))
        return refuse_place(scopes, error);
    return !caller.data || base_span_equal(caller, old->agent) ? HANDOFF_OK : refuse_owner(error);
}

/* ---- putting --------------------------------------------------------------------------------- */

/* Copies a text that goes into the result, which outlives the answer. */
static struct base_span keep_put_name(char *room, size_t size, struct base_span text)
{
    if (!text.data || text.size > size)
        return base_span(NULL, 0);
    memcpy(room, text.data, text.size);
    return base_span(room, text.size);
}

static struct base_span first_of(struct base_span a, struct base_span b, struct base_span c)
{
    return a.data ? a : b.data ? b : c;
}

static void fill_put(struct handoff_spine_put *put, const struct handoff_memory *old, bool exists)
{
    const struct base_span none = base_span(NULL, 0);
    const struct handoff_scopes *scopes = &put->scopes;
    const struct base_span only = scopes->count == 1 ? scopes->names[0] : none;
    struct handoff_memory *memory = &put->memory;
    put->created = !exists;
    memory->agent = keep_put_name(put->owner, sizeof put->owner,
                                  first_of(put->agent, exists ? old->agent : none, put->caller));
    memory->scope = keep_put_name(put->scope_name, sizeof put->scope_name,
                                  first_of(put->scope, exists ? old->scope : none, only));
    memory->task_id = keep_put_name(put->task, sizeof put->task,
                                    first_of(put->task_id, exists ? old->task_id : none, none));
    if (!memory->scope.data)
        memory->scope = base_span("", 0);
    memory->pinned =
        put->pin == HANDOFF_PIN_YES || (put->pin == HANDOFF_PIN_KEEP && exists && old->pinned);
    memory->updated_ms = base_wall_ms(&base_clock_system);
    memory->created_ms = put->created_ms             ? put->created_ms
                         : exists && old->created_ms ? old->created_ms
                                                     : memory->updated_ms;
    memory->version = 0;
}

static enum handoff_code check_put(struct handoff_spine_put *put, const struct handoff_memory *old,
                                   bool exists)
{
    struct handoff_error *error = &put->call.error;
    if (exists && (!handoff_scopes_see(&put->scopes, old->scope) ||
                   !base_span_equal(old->scope, put->memory.scope)))
        return handoff_error_set(error, HANDOFF_ERR_ID_TAKEN,
                                 "the id belongs to a memory of another scope", "id", NULL);
    if (exists)
        return check_old(old, &put->scopes, put->caller, error);
    return handoff_scopes_may_store(&put->scopes, put->memory.scope)
               ? HANDOFF_OK
               : refuse_place(&put->scopes, error);
}

static enum handoff_code prepare_change(struct changing *changing, struct base_span id)
{
    struct handoff_memory old = {0};
    bool exists;
    enum handoff_code code = read_old(changing, id, &old, &exists);
    if (code != HANDOFF_OK)
        return code;
    if (changing->put) {
        fill_put(changing->put, &old, exists);
        return check_put(changing->put, &old, exists);
    }
    if (!exists || !handoff_scopes_see(&changing->remove->scopes, old.scope))
        return handoff_error_set(&changing->of->error, HANDOFF_ERR_NOT_FOUND,
                                 "no memory has this id", "id", NULL);
    return check_old(&old, &changing->remove->scopes, changing->remove->caller,
                     &changing->of->error);
}

/* ---- changing -------------------------------------------------------------------------------- */

static enum handoff_remote_operation change_of(const struct changing *changing)
{
    return changing->put ? HANDOFF_REMOTE_PUT : HANDOFF_REMOTE_DELETE;
}

/* One that was deleted meanwhile is deleted. */
static void take_change_answer(struct changing *changing)
{
    if (handoff_remote_read_answer(changing->spine, change_of(changing), &changing->request,
                                   &changing->arena, NULL, NULL,
                                   &changing->of->error) == HANDOFF_REMOTE_FAILED)
        changing->call.failed = true;
}

static bool changing_ended(struct handoff_remote_call *call)
{
    struct changing *changing = BASE_CONTAINER_OF(call, struct changing, call);
    const struct base_span id = changing->put ? changing->put->memory.id : changing->remove->id;
    if (changing->looked) {
        take_change_answer(changing);
        return false;
    }
    if (prepare_change(changing, id) != HANDOFF_OK)
        return false;
    const struct handoff_remote_values values = {
        .id = id, .memory = changing->put ? &changing->put->memory : NULL};
    changing->looked = true;
    handoff_remote_request_free(&changing->request);
    handoff_remote_make_request(changing->spine, change_of(changing), &values, &changing->request);
    return true;
}

static enum handoff_spine_progress begin_memory_change(struct handoff_spine *spine,
                                                       struct handoff_spine_call *of,
                                                       struct handoff_spine_put *put,
                                                       struct handoff_spine_remove *remove,
                                                       struct base_span id)
{
    struct handoff_remote_spine *remote = handoff_remote_spine_of(spine);
    const enum handoff_remote_operation operation =
        put ? HANDOFF_REMOTE_PUT : HANDOFF_REMOTE_DELETE;
    if (!handoff_remote_has(remote, operation))
        return handoff_remote_cannot(remote, of, operation);
    struct changing *changing = base_calloc(1, sizeof *changing);
    const struct handoff_remote_values values = {.id = id, .ids = &id, .id_count = 1, .limit = 1};
    if (!changing) {
        handoff_error_no_memory(&of->error);
        return HANDOFF_SPINE_DONE;
    }
    changing->magic = CHANGING_MAGIC;
    changing->spine = remote;
    changing->of = of;
    changing->put = put;
    changing->remove = remove;
    base_arena_init(&changing->arena, 0);
    changing->call = (struct handoff_remote_call){.requests = &changing->request,
                                                  .count = 1,
                                                  .ended = changing_ended,
                                                  .mail.deliver = give_changing,
                                                  .mailbox = of->mailbox};
    handoff_remote_make_request(remote, handoff_remote_lookup(remote), &values, &changing->request);
    if (handoff_remote_exchange_submit(remote->exchange, &changing->call))
        return HANDOFF_SPINE_PENDING;
    free_changing(changing);
    return handoff_remote_left_alone(of);
}

enum handoff_spine_progress handoff_remote_put(struct handoff_spine *spine,
                                               struct handoff_spine_put *put)
{
    return begin_memory_change(spine, &put->call, put, NULL, put->memory.id);
}

enum handoff_spine_progress handoff_remote_remove(struct handoff_spine *spine,
                                                  struct handoff_spine_remove *remove)
{
    return begin_memory_change(spine, &remove->call, NULL, remove, remove->id);
}
