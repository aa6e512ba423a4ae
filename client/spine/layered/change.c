/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of the remote layer, after which the copy is what it is now. The call is the caller's
 * own: only where it is told is ours for the while.
 *
 * On the thread that asks, then on the mailbox's loop.
 */
#include "client/spine/layered/layered_internal.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum { CHANGE_MAGIC = 0x63686c61 };

/* One of the two, as it is asked of the remote layer. */
struct layered_change {
    unsigned magic;
    struct handoff_layered *layered;
    struct handoff_spine_put *outer_put, put;
    struct handoff_spine_remove *outer_remove, remove;
};

static void free_change(struct layered_change *change)
{
    change->magic = 0;
    base_free(change);
}

static struct layered_change *make_change(struct handoff_spine *spine, struct handoff_error *error)
{
    struct layered_change *change = base_calloc(1, sizeof *change);
    if (!change) {
        handoff_error_no_memory(error);
        return NULL;
    }
    change->magic = CHANGE_MAGIC;
    change->layered = handoff_layered_of(spine);
    return change;
}

static void take_verdict(struct handoff_spine_call *outer, const struct handoff_spine_call *inner)
{
    outer->error = inner->error;
    outer->asked = inner->asked;
}

static void renew_copy(const struct handoff_layered *layered,
                       const struct handoff_copies_news *news)
{
    if (layered->layers.copies)
        handoff_copies_renew(layered->layers.copies, news);
}

/* ---- put ------------------------------------------------------------------------------------- */

/* Texts that lie in the call itself. */
static struct base_span moved_text(struct base_span text, const char *from, char *to, size_t size)
{
    memcpy(to, from, size);
    return text.data == from ? base_span(to, text.size) : text;
}

static void end_layered_put(struct layered_change *change)
{
    struct handoff_spine_put *outer = change->outer_put, *inner = &change->put;
    take_verdict(&outer->call, &inner->call);
    outer->memory = inner->memory;
    outer->created = inner->created;
    outer->memory.agent =
        moved_text(inner->memory.agent, inner->owner, outer->owner, sizeof outer->owner);
    outer->memory.scope = moved_text(inner->memory.scope, inner->scope_name, outer->scope_name,
                                     sizeof outer->scope_name);
    outer->memory.task_id =
        moved_text(inner->memory.task_id, inner->task, outer->task, sizeof outer->task);
    const struct handoff_found_memory found = {.memory = outer->memory};
    const struct handoff_copies_news news = {.found = &found, .count = 1};
    if (outer->call.error.code == HANDOFF_OK)
        renew_copy(change->layered, &news);
    free_change(change);
}

static void remote_was_put(struct handoff_spine_call *call)
{
    struct layered_change *change = BASE_CONTAINER_OF(call, struct layered_change, put.call);
    BASE_CHECK_MAGIC(change, CHANGE_MAGIC);
    struct handoff_spine_put *outer = change->outer_put;
    end_layered_put(change);
    outer->call.done(&outer->call);
}

enum handoff_spine_progress handoff_layered_put(struct handoff_spine *spine,
                                                struct handoff_spine_put *put)
{
    struct layered_change *change = make_change(spine, &put->call.error);
    if (!change)
        return HANDOFF_SPINE_DONE;
    change->outer_put = put;
    change->put = *put;
    change->put.call.done = remote_was_put;
    if (handoff_spine_put(change->layered->layers.remote, &change->put) == HANDOFF_SPINE_PENDING)
        return HANDOFF_SPINE_PENDING;
    end_layered_put(change);
    return HANDOFF_SPINE_DONE;
}

/* ---- remove ---------------------------------------------------------------------------------- */

static void end_layered_remove(struct layered_change *change)
{
    struct handoff_spine_remove *outer = change->outer_remove;
    const enum handoff_code code = change->remove.call.error.code;
    const struct handoff_copies_news news = {
        .gone = &outer->id, .ngone = 1, .scopes = outer->scopes};
    take_verdict(&outer->call, &change->remove.call);
    if (code == HANDOFF_OK || code == HANDOFF_ERR_NOT_FOUND)
        renew_copy(change->layered, &news);
    free_change(change);
}

static void remote_was_removed(struct handoff_spine_call *call)
{
    struct layered_change *change = BASE_CONTAINER_OF(call, struct layered_change, remove.call);
    BASE_CHECK_MAGIC(change, CHANGE_MAGIC);
    struct handoff_spine_remove *outer = change->outer_remove;
    end_layered_remove(change);
    outer->call.done(&outer->call);
}

enum handoff_spine_progress handoff_layered_remove(struct handoff_spine *spine,
                                                   struct handoff_spine_remove *remove)
{
    struct layered_change *change = make_change(spine, &remove->call.error);
    if (!change)
        return HANDOFF_SPINE_DONE;
    change->outer_remove = remove;
    change->remove = *remove;
    change->remove.call.done = remote_was_removed;
    if (handoff_spine_remove(change->layered->layers.remote, &change->remove) ==
        HANDOFF_SPINE_PENDING)
        return HANDOFF_SPINE_PENDING;
    end_layered_remove(change);
    return HANDOFF_SPINE_DONE;
}
