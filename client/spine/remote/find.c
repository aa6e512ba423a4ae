/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding memories behind a server: one request for all ids where the server can do that, else one
 * for each; one for the pins; one for the best or the newest. All at once, within one time. If one
 * of them fails, the call does: what is half of an answer would look like memories that are gone.
 *
 * Answers are read on the thread that fetched them: the loop's, or the exchange's.
 */
#include <string.h>

#include "client/spine/remote/remote_internal.h"
#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"
#include "lib/base/sort.h"

enum { FINDING_MAGIC = 0x66696e64 };

/* An id that was asked for, or found. */
struct named_id {
    struct base_span id; /* absent: the place is free */
    size_t found;        /* its number in resolve->found, and 1; 0: it was not found */
    bool asked, told;    /* told: it is among the missing */
};

struct finding {
    unsigned magic;
    struct handoff_remote_spine *spine;
    struct handoff_spine_resolve *resolve;
    struct handoff_remote_call call;
    bool one_by_one;                           /* ids; the server may change what it can do */
    enum handoff_remote_operation *operations; /* of each request */
    size_t room;                               /* in resolve->found */
    struct named_id *named; /* open addressing, at most half full; in the arena */
    size_t named_mask, named_count;
    struct handoff_remote_request requests[];
};

static void free_finding(struct finding *finding)
{
    for (size_t i = 0; i < finding->call.count; i++)
        handoff_remote_request_free(&finding->requests[i]);
    base_free(finding->operations);
    finding->magic = 0;
    base_free(finding);
}

/* ---- what was found: where it was fetched ---------------------------------------------------- */

static bool reserve_found(struct finding *finding, size_t more)
{
    struct handoff_spine_resolve *resolve = finding->resolve;
    const size_t wanted = resolve->found_count + more;
    if (wanted <= finding->room)
        return true;
    struct handoff_found_memory *grown =
        base_arena_alloc(resolve->arena, 2 * wanted * sizeof *grown);
    if (!grown)
        return false;
    if (resolve->found_count > 0)
        memcpy(grown, resolve->found, resolve->found_count * sizeof *grown);
    resolve->found = grown;
    finding->room = 2 * wanted;
    return true;
}

/* Its place, or the free one where it belongs. */
static struct named_id *place_of_id(const struct finding *finding, struct base_span id)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < id.size; i++)
        hash = (hash ^ (unsigned char)id.data[i]) * UINT64_C(1099511628211);
    size_t at = (hash ^ hash >> 32) & finding->named_mask;
    while (finding->named[at].id.data && !base_span_equal(finding->named[at].id, id))
        at = (at + 1) & finding->named_mask;
    return &finding->named[at];
}

static bool move_named(struct finding *finding, size_t places)
{
    const struct named_id *old = finding->named;
    const size_t old_places = old ? finding->named_mask + 1 : 0;
    struct named_id *named = base_arena_calloc(finding->resolve->arena, places, sizeof *named);
    if (!named)
        return false;
    finding->named = named;
    finding->named_mask = places - 1;
    for (size_t i = 0; i < old_places; i++) {
        if (old[i].id.data)
            *place_of_id(finding, old[i].id) = old[i];
    }
    return true;
}

/* NULL: out of memory. */
static struct named_id *name_id(struct finding *finding, struct base_span id)
{
    const size_t places = finding->named_mask + 1;
    if (2 * (finding->named_count + 1) > places && !move_named(finding, 2 * places))
        return NULL;
    struct named_id *named = place_of_id(finding, id);
    finding->named_count += named->id.data == NULL;
    named->id = id;
    return named;
}

static bool name_asked_ids(struct finding *finding)
{
    const struct handoff_spine_resolve *resolve = finding->resolve;
    size_t places = 16;
    while (places < 2 * resolve->id_count)
        places *= 2;
    bool done = move_named(finding, places);
    for (size_t i = 0; i < resolve->id_count && done; i++) {
        struct named_id *named = name_id(finding, resolve->ids[i]);
        done = named != NULL;
        if (done)
            named->asked = true;
    }
    return done;
}

static unsigned origin_of(enum handoff_remote_operation operation)
{
    switch (operation) {
    case HANDOFF_REMOTE_GET:
    case HANDOFF_REMOTE_GET_MANY:
        return HANDOFF_ORIGIN_ASKED;
    case HANDOFF_REMOTE_PINNED:
        return HANDOFF_ORIGIN_PINNED;
    default:
        return HANDOFF_ORIGIN_RECENT;
    }
}

/* Of `many` in the order of the answer, the one at `place`. */
static double share_of_place(size_t place, size_t many)
{
    return (double)(many - place) / (double)many;
}

static bool add_found(struct finding *finding, const struct handoff_memory *memory,
                      enum handoff_remote_operation operation, double share)
{
    struct handoff_spine_resolve *resolve = finding->resolve;
    struct named_id *named = name_id(finding, memory->id);
    if (!named)
        return false;
    if (!named->found) {
        if (!reserve_found(finding, 1))
            return false;
        named->found = ++resolve->found_count;
        resolve->found[named->found - 1] =
            (struct handoff_found_memory){.memory = *memory, .tokens = {-1, -1, -1}};
    }
    struct handoff_found_memory *found = &resolve->found[named->found - 1];
    found->origin |= origin_of(operation);
    if (operation == HANDOFF_REMOTE_SEARCH)
        found->relevance = share;
    if (operation == HANDOFF_REMOTE_SEARCH || operation == HANDOFF_REMOTE_RECENT)
        found->score = share;
    if (operation != HANDOFF_REMOTE_GET && resolve->task.size > 0 &&
        base_span_equal(memory->task_id, resolve->task))
        found->origin |= HANDOFF_ORIGIN_TASK;
    return true;
}

/* A memory that cannot be used, or that the caller does not see, is as if it were not there. */
static bool take_memory_value(struct finding *finding, yyjson_val *value,
                              enum handoff_remote_operation operation, double share)
{
    struct handoff_spine_resolve *resolve = finding->resolve;
    struct handoff_memory memory;
    if (!handoff_remote_read_memory(&finding->spine->table, value, resolve->arena, &memory) ||
        !handoff_scopes_see(&resolve->scopes, memory.scope))
        return true;
    if (origin_of(operation) == HANDOFF_ORIGIN_ASKED && !place_of_id(finding, memory.id)->asked)
        return true;
    if (operation == HANDOFF_REMOTE_PINNED)
        memory.pinned = true;
    if (memory.created_ms == 0)
        memory.created_ms =
            memory.updated_ms ? memory.updated_ms : base_wall_ms(&base_clock_system);
    if (memory.updated_ms == 0)
        memory.updated_ms = memory.created_ms;
    return add_found(finding, &memory, operation, share);
}

/* How many memories of an answer are looked at: as many as were asked for, whatever it holds. */
static size_t most_values(const struct handoff_spine_resolve *resolve,
                          enum handoff_remote_operation operation)
{
    switch (origin_of(operation)) {
    case HANDOFF_ORIGIN_ASKED:
        return resolve->id_count;
    case HANDOFF_ORIGIN_PINNED:
        return handoff_memory_limits_default.pins;
    default:
        return resolve->skip + resolve->recent;
    }
}

static bool take_memory_values(struct finding *finding, yyjson_val *values,
                               enum handoff_remote_operation operation)
{
    const struct handoff_spine_resolve *resolve = finding->resolve;
    const bool ranked = origin_of(operation) == HANDOFF_ORIGIN_RECENT;
    const size_t from = ranked ? resolve->skip : 0;
    const size_t to = most_values(resolve, operation);
    const size_t many = yyjson_arr_size(values);
    size_t i, n;
    yyjson_val *value;
    bool taken = true;
    if (yyjson_is_obj(values))
        return take_memory_value(finding, values, operation, 1);
    yyjson_arr_foreach(values, i, n, value)
    {
        if (taken && i >= from && i < to)
            taken = take_memory_value(finding, value, operation, share_of_place(i, many));
    }
    return taken;
}

static void note_more_pins(struct finding *finding, enum handoff_remote_operation operation,
                           yyjson_val *values, bool more)
{
    if (operation == HANDOFF_REMOTE_PINNED &&
        (more || yyjson_arr_size(values) > most_values(finding->resolve, operation)))
        finding->resolve->more_pins = true;
}

static enum handoff_code take_answer_of(struct finding *finding, size_t which,
                                        struct handoff_error *error)
{
    yyjson_val *values;
    bool more = false;
    switch (handoff_remote_read_answer(finding->spine, finding->operations[which],
                                       &finding->requests[which], finding->resolve->arena, &values,
                                       &more, error)) {
    case HANDOFF_REMOTE_ANSWERED:
        note_more_pins(finding, finding->operations[which], values, more);
        return take_memory_values(finding, values, finding->operations[which])
                   ? HANDOFF_OK
                   : handoff_error_no_memory(error);
    case HANDOFF_REMOTE_ABSENT:
    case HANDOFF_REMOTE_ODD_ID:
        return HANDOFF_OK;
    case HANDOFF_REMOTE_FAILED:
        finding->call.failed = true;
        break;
    case HANDOFF_REMOTE_REFUSED:
        break;
    }
    return error->code;
}

/* All are looked at, since any of them may say that the server failed. */
static enum handoff_code take_answers(struct finding *finding)
{
    struct handoff_error *error = &finding->resolve->call.error;
    for (size_t i = 0; i < finding->call.count; i++) {
        struct handoff_error why = {0};
        if (take_answer_of(finding, i, &why) != HANDOFF_OK && error->code == HANDOFF_OK)
            *error = why;
    }
    return error->code;
}

static int compare_scores(const void *left, const void *right)
{
    const struct handoff_found_memory *a = left, *b = right;
    if (a->score > b->score || a->score < b->score)
        return a->score > b->score ? -1 : 1;
    return (a->memory.created_ms < b->memory.created_ms) -
           (a->memory.created_ms > b->memory.created_ms);
}

static bool list_missing(const struct finding *finding)
{
    struct handoff_spine_resolve *resolve = finding->resolve;
    resolve->missing =
        base_arena_alloc(resolve->arena, (resolve->id_count + 1) * sizeof *resolve->missing);
    if (!resolve->missing)
        return false;
    for (size_t i = 0; i < resolve->id_count; i++) {
        struct named_id *named = place_of_id(finding, resolve->ids[i]);
        if (!named->found && !named->told)
            resolve->missing[resolve->missing_count++] = resolve->ids[i];
        named->told = true;
    }
    return true;
}

static void give_finding(struct base_mail *mail)
{
    struct finding *finding = BASE_CONTAINER_OF(mail, struct finding, call.mail);
    BASE_CHECK_MAGIC(finding, FINDING_MAGIC);
    struct handoff_spine_resolve *resolve = finding->resolve;
    free_finding(finding);
    resolve->call.done(&resolve->call);
}

static bool finding_ended(struct handoff_remote_call *call)
{
    struct finding *finding = BASE_CONTAINER_OF(call, struct finding, call);
    struct handoff_spine_resolve *resolve = finding->resolve;
    enum handoff_code code = name_asked_ids(finding)
                                 ? take_answers(finding)
                                 : handoff_error_no_memory(&resolve->call.error);
    if (code == HANDOFF_OK && !list_missing(finding))
        code = handoff_error_no_memory(&resolve->call.error);
    if (code == HANDOFF_OK)
        base_sort(resolve->found, resolve->found_count, sizeof *resolve->found, compare_scores);
    if (code != HANDOFF_OK)
        resolve->found_count = resolve->missing_count = 0;
    return false;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void ask_server_for(struct finding *finding, enum handoff_remote_operation operation,
                           const struct handoff_remote_values *values)
{
    const size_t at = finding->call.count++;
    finding->operations[at] = operation;
    handoff_remote_make_request(finding->spine, operation, values, &finding->requests[at]);
}

static bool asks_one_by_one(const struct handoff_remote_spine *spine,
                            const struct handoff_spine_resolve *resolve)
{
    return !handoff_remote_has(spine, HANDOFF_REMOTE_GET_MANY) ||
           (resolve->id_count == 1 && handoff_remote_has(spine, HANDOFF_REMOTE_GET));
}

static void ask_for_ids(struct finding *finding)
{
    const struct handoff_spine_resolve *resolve = finding->resolve;
    const struct handoff_remote_values all = {
        .ids = resolve->ids, .id_count = resolve->id_count, .limit = resolve->id_count};
    if (!finding->one_by_one) {
        ask_server_for(finding, HANDOFF_REMOTE_GET_MANY, &all);
        return;
    }
    for (size_t i = 0; i < resolve->id_count; i++) {
        const struct handoff_remote_values one = {.id = resolve->ids[i]};
        ask_server_for(finding, HANDOFF_REMOTE_GET, &one);
    }
}

/* Without the operation there is nothing to find, and the answer says that it is not complete. */
static void ask_for_best(struct finding *finding)
{
    struct handoff_spine_resolve *resolve = finding->resolve;
    const struct handoff_remote_values values = {.query = resolve->query,
                                                 .scopes = resolve->scopes.names,
                                                 .scope_count = resolve->scopes.count,
                                                 .limit = resolve->recent + resolve->skip};
    if (resolve->query.size > 0 && handoff_remote_has(finding->spine, HANDOFF_REMOTE_SEARCH))
        ask_server_for(finding, HANDOFF_REMOTE_SEARCH, &values);
    else if (handoff_remote_has(finding->spine, HANDOFF_REMOTE_RECENT))
        ask_server_for(finding, HANDOFF_REMOTE_RECENT, &values);
    else
        resolve->incomplete = true;
}

static void ask_for_all(struct finding *finding)
{
    const struct handoff_spine_resolve *resolve = finding->resolve;
    const struct handoff_remote_values pins = {.scopes = resolve->scopes.names,
                                               .scope_count = resolve->scopes.count,
                                               .limit = handoff_memory_limits_default.pins};
    if (resolve->id_count > 0)
        ask_for_ids(finding);
    if (resolve->pins && handoff_remote_has(finding->spine, HANDOFF_REMOTE_PINNED))
        ask_server_for(finding, HANDOFF_REMOTE_PINNED, &pins);
    if (resolve->recent > 0)
        ask_for_best(finding);
}

static struct finding *make_finding(struct handoff_remote_spine *spine,
                                    struct handoff_spine_resolve *resolve)
{
    const bool one_by_one = asks_one_by_one(spine, resolve);
    const size_t most = (one_by_one ? resolve->id_count : 1) + 2;
    struct finding *finding = base_calloc(1, sizeof *finding + most * sizeof finding->requests[0]);
    if (!finding)
        return NULL;
    finding->operations = base_calloc(most, sizeof *finding->operations);
    if (!finding->operations) {
        base_free(finding);
        return NULL;
    }
    finding->magic = FINDING_MAGIC;
    finding->spine = spine;
    finding->one_by_one = one_by_one;
    finding->resolve = resolve;
    finding->call.requests = finding->requests;
    finding->call.ended = finding_ended;
    finding->call.mail.deliver = give_finding;
    finding->call.mailbox = resolve->call.mailbox;
    return finding;
}

enum handoff_spine_progress handoff_remote_resolve(struct handoff_spine *spine,
                                                   struct handoff_spine_resolve *resolve)
{
    struct handoff_remote_spine *remote = handoff_remote_spine_of(spine);
    struct finding *finding = make_finding(remote, resolve);
    resolve->incomplete = false;
    if (!finding) {
        handoff_error_no_memory(&resolve->call.error);
        return HANDOFF_SPINE_DONE;
    }
    ask_for_all(finding);
    if (finding->call.count == 0) {
        resolve->call.asked = false;
        free_finding(finding);
        return HANDOFF_SPINE_DONE;
    }
    if (handoff_remote_exchange_submit(remote->exchange, &finding->call))
        return HANDOFF_SPINE_PENDING;
    free_finding(finding);
    return handoff_remote_left_alone(&resolve->call);
}
