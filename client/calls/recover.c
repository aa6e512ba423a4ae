/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetches memories for the receiver of a handoff: what its envelope lacks, or what it names.
 *
 * A reader thread checks who asks, and reads what is missing and in which scopes the request of the
 * handoff looked. Then the spine is asked, past any cache. A caller whose token is bound to scopes
 * gets memories of these, and those that the envelope names, which it was given. What was missing
 * and is found is noted with the handoff before the answer. A spine that fails is no error of the
 * call: the answer lists what could not be fetched, and why.
 *
 * On the loop's thread.
 */
#include <stdlib.h>
#include <string.h>

#include "client/calls/memory_json.h"
#include "client/calls/read.h"
#include "client/calls/reply.h"
#include "client/client.h"
#include "client/deliver/gaps.h"
#include "client/envelope/read.h"
#include "client/ledger/contribution.h"
#include "client/model/gaps.h"
#include "client/store/ledger.h"
#include "client/store/parties.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/json.h"
#include "lib/base/memory.h"

enum {
    RECOVERING_MAGIC = 0x7265636f,
    LONG_ANSWER = 256 * 1024, /* beyond it a worker writes it: a loop only copies so much at once */
};

static const char all_pins[] = "*pinned";

struct recovering {
    unsigned magic;
    struct handoff_loop *loop;
    handoff_answered *answered;
    void *context;
    struct base_arena arena;

    /* what is asked; copies in the arena */
    const char *id, *caller;
    struct handoff_scopes bound; /* those of the caller's token; `all`: it is bound to none */
    bool missing;
    const char **named;
    size_t nnamed;

    /* the reader's, then the loop's */
    struct handoff_store_read read;
    struct base_uuid uuid;
    const char *target;       /* the agent that has the handoff */
    struct base_span *missed; /* what the envelope lists as missing, and open gaps */
    size_t nmissed;
    struct base_span *given; /* ids that the envelope names, sorted; read for a bound caller */
    size_t ngiven;
    struct handoff_error error;

    struct base_span *ids; /* that the spine is asked for */
    size_t nids;
    int64_t began_ns;
    struct handoff_spine_resolve resolve;
    struct base_work work; /* writes a long answer */
    struct base_buffer out;
};

static void end_recovering(struct recovering *recovering)
{
    recovering->loop->pending--;
    base_buffer_free(&recovering->out);
    base_arena_free(&recovering->arena);
    recovering->magic = 0;
    base_free(recovering);
}

static void fail_recovering(struct recovering *recovering, const struct handoff_error *error)
{
    handoff_give_error(recovering->answered, recovering->context, error);
    end_recovering(recovering);
}

/* ---- reading: on a reader thread ------------------------------------------------------------- */

static enum handoff_code no_such_handoff(const char *id, struct handoff_error *error)
{
    return handoff_error_set(error, HANDOFF_ERR_NOT_FOUND, "no handoff has this id", "id", id);
}

/* Only the agent that has the handoff works with its context. */
static enum handoff_code check_receiver(struct recovering *recovering,
                                        const struct handoff_stored *stored,
                                        struct handoff_error *error)
{
    const struct base_span caller = base_span_text(recovering->caller);
    bool is_party = false;
    if (!caller.data || base_span_equal(caller, stored->standing.target))
        return HANDOFF_OK;
    enum handoff_code code = handoff_store_is_party(recovering->loop->client->store,
                                                    &recovering->uuid, caller, &is_party, error);
    if (code != HANDOFF_OK)
        return code;
    if (!is_party)
        return no_such_handoff(recovering->id, error);
    return handoff_error_set(error, HANDOFF_ERR_FORBIDDEN,
                             "only the agent that has the handoff may fetch memories for it", "id",
                             NULL);
}

/* Where the request of the handoff looked. One of an older version saw what is shared. */
static enum handoff_code read_scopes(struct recovering *recovering, struct handoff_error *error)
{
    struct handoff_contribution *list;
    struct handoff_said said;
    struct handoff_way way = {0};
    size_t count;
    struct base_arena *arena = &recovering->arena;
    enum handoff_code code = handoff_store_get_ledger(
        recovering->loop->client->store, &recovering->uuid, 1, arena, &list, &count, error);
    for (size_t i = 0; code == HANDOFF_OK && i < count; i++) {
        if (memcmp(&list[i].id, &recovering->uuid, sizeof recovering->uuid) == 0 &&
            list[i].text.data)
            code =
                handoff_contribution_read(&list[i], base_span(NULL, 0), arena, &said, &way, error);
    }
    if (code == HANDOFF_OK)
        code =
            handoff_scopes_of_json(way.scope, "scope", arena, &recovering->resolve.scopes, error);
    return code;
}

static int compare_named(const void *left, const void *right)
{
    const struct base_span *a = left, *b = right;
    const size_t shorter = a->size < b->size ? a->size : b->size;
    const int order = shorter ? memcmp(a->data, b->data, shorter) : 0;
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

/* Ids of the entries of `missing`, and of the gaps that are open. */
static enum handoff_code add_missed(struct recovering *recovering, yyjson_val *list,
                                    struct handoff_error *error)
{
    size_t i, n;
    yyjson_val *entry;
    struct base_span *missed = base_arena_alloc(
        &recovering->arena, (recovering->nmissed + yyjson_arr_size(list) + 1) * sizeof *missed);
    if (!missed)
        return handoff_error_no_memory(error);
    if (recovering->nmissed > 0)
        memcpy(missed, recovering->missed, recovering->nmissed * sizeof *missed);
    recovering->missed = missed;
    yyjson_arr_foreach(list, i, n, entry)
    {
        const struct base_span id = base_json_span(yyjson_obj_get(entry, "id"));
        if (id.data && !yyjson_is_str(yyjson_obj_get(entry, "recovered_at")))
            missed[recovering->nmissed++] = id;
    }
    return HANDOFF_OK;
}

static enum handoff_code add_missed_in(struct recovering *recovering, struct base_span text,
                                       const char *member, struct handoff_error *error)
{
    yyjson_doc *doc;
    if (text.size == 0)
        return HANDOFF_OK;
    enum handoff_code code = base_json_read_in(&recovering->arena, text, "handoff", &doc, error);
    if (code != HANDOFF_OK)
        return code;
    yyjson_val *root = yyjson_doc_get_root(doc);
    return add_missed(recovering, member ? yyjson_obj_get(root, member) : root, error);
}

/* What the envelope gave its receiver, whatever its token is bound to: what it carries, and what it
   lists as missing. Gaps are no part of it: a receiver flags as one what it likes. */
static enum handoff_code read_given(struct recovering *recovering, struct base_span body,
                                    struct handoff_error *error)
{
    size_t i, n;
    yyjson_doc *doc;
    yyjson_val *entry;
    if (recovering->bound.all || body.size == 0)
        return HANDOFF_OK;
    enum handoff_code code = base_json_read_in(&recovering->arena, body, "handoff", &doc, error);
    if (code != HANDOFF_OK)
        return code;
    yyjson_val *refs = yyjson_obj_get(yyjson_doc_get_root(doc), "memory_refs");
    yyjson_val *lacked = yyjson_obj_get(yyjson_doc_get_root(doc), "missing");
    const size_t most = yyjson_arr_size(refs) + yyjson_arr_size(lacked) + 1;
    struct base_span *given = base_arena_alloc(&recovering->arena, most * sizeof *given);
    if (!given)
        return handoff_error_no_memory(error);
    yyjson_arr_foreach(refs, i, n, entry)
    {
        given[recovering->ngiven++] = base_json_span(entry);
    }
    yyjson_arr_foreach(lacked, i, n, entry)
    {
        given[recovering->ngiven++] = base_json_span(yyjson_obj_get(entry, "id"));
    }
    qsort(given, recovering->ngiven, sizeof *given, compare_named);
    recovering->given = given;
    return HANDOFF_OK;
}

/* Where retention removed the envelope, what it lacked is not known any more: that matters only to
   a call that asks for it. */
static enum handoff_code read_missed(struct recovering *recovering,
                                     const struct handoff_stored *stored,
                                     struct handoff_error *error)
{
    struct handoff_stored_envelope envelope = {0};
    enum handoff_code code = handoff_store_get_envelope(
        recovering->loop->client->store, &recovering->uuid, &recovering->arena, &envelope, error);
    if (code == HANDOFF_ERR_ENVELOPE_REMOVED && !recovering->missing)
        code = handoff_error_clear(error);
    if (code == HANDOFF_OK)
        code = read_given(recovering, envelope.body, error);
    if (code == HANDOFF_OK)
        code = add_missed_in(recovering, envelope.body, "missing", error);
    if (code == HANDOFF_OK)
        code = add_missed_in(recovering, stored->gaps, NULL, error);
    if (recovering->nmissed > 0)
        qsort(recovering->missed, recovering->nmissed, sizeof *recovering->missed, compare_named);
    return code;
}

static enum handoff_code keep_target(struct recovering *recovering, struct base_span target,
                                     struct handoff_error *error)
{
    recovering->target =
        base_arena_printf(&recovering->arena, "%.*s", (int)target.size, target.data);
    return recovering->target ? HANDOFF_OK : handoff_error_no_memory(error);
}

static enum handoff_code read_recovering(struct recovering *recovering, struct handoff_error *error)
{
    struct handoff_stored stored;
    enum handoff_code code = handoff_read_id(recovering->id, &recovering->uuid, error);
    if (code == HANDOFF_OK)
        code = handoff_store_get_handoff(recovering->loop->client->store, &recovering->uuid,
                                         &recovering->arena, &stored, error);
    if (code == HANDOFF_OK)
        code = check_receiver(recovering, &stored, error);
    if (code == HANDOFF_OK)
        code = keep_target(recovering, stored.standing.target, error);
    if (code == HANDOFF_OK)
        code = read_scopes(recovering, error);
    return code == HANDOFF_OK ? read_missed(recovering, &stored, error) : code;
}

static void run_recovering(struct handoff_store_read *read)
{
    struct recovering *recovering = BASE_CONTAINER_OF(read, struct recovering, read);
    BASE_CHECK_MAGIC(recovering, RECOVERING_MAGIC);
    handoff_error_clear(&recovering->error);
    recovering->error.code = read_recovering(recovering, &recovering->error);
}

/* ---- answering ------------------------------------------------------------------------------- */

/* detail: what happened to the spine, or NULL. */
static void write_absent(struct base_buffer *out, struct base_span id, enum handoff_absence reason,
                         const char *detail)
{
    base_buffer_text(out, out->data[out->size - 1] == '[' ? "" : ",");
    base_buffer_text(out, "{\"id\":");
    base_json_write_string(out, id);
    base_buffer_text(out, ",\"reason\":");
    base_json_write_string(out, base_span_text(handoff_absence_name(reason)));
    if (detail) {
        base_buffer_text(out, ",\"detail\":");
        base_json_write_string(out, base_span_text(detail));
    }
    base_buffer_byte(out, '}');
}

static bool spine_failed(const struct recovering *recovering)
{
    return handoff_spine_is_lost(&recovering->resolve.call);
}

static bool is_in_sorted(const struct base_span *sorted, size_t count, struct base_span id)
{
    return count > 0 && bsearch(&id, sorted, count, sizeof id, compare_named) != NULL;
}

static bool was_missed(const struct recovering *recovering, struct base_span id)
{
    return is_in_sorted(recovering->missed, recovering->nmissed, id);
}

static bool has_recovered(const struct handoff_spine_resolve *resolve, struct base_span id)
{
    for (size_t i = 0; i < resolve->found_count; i++) {
        if (base_span_equal(resolve->found[i].memory.id, id))
            return true;
    }
    return false;
}

static void write_all_absent(struct base_buffer *out, const struct recovering *recovering)
{
    const struct handoff_spine_resolve *resolve = &recovering->resolve;
    const bool failed = spine_failed(recovering);
    const char *why = failed ? handoff_spine_why(&resolve->call) : NULL;
    for (size_t i = 0; failed && i < recovering->nids; i++) {
        if (!has_recovered(resolve, recovering->ids[i]))
            write_absent(out, recovering->ids[i], HANDOFF_ABSENCE_SPINE_UNAVAILABLE, why);
    }
    if (failed && resolve->pins)
        write_absent(out, base_span_text(all_pins), HANDOFF_ABSENCE_SPINE_UNAVAILABLE, why);
    for (size_t i = 0; !failed && i < resolve->missing_count; i++)
        write_absent(out, resolve->missing[i], HANDOFF_ABSENCE_NOT_FOUND, NULL);
    /* searching is a separate call */
    if (recovering->missing && was_missed(recovering, base_span_text("*recent")))
        write_absent(out, base_span_text("*recent"), HANDOFF_ABSENCE_SEARCH_INCOMPLETE, NULL);
}

static void write_recovered(struct base_buffer *out, const struct recovering *recovering)
{
    const struct handoff_spine_resolve *resolve = &recovering->resolve;
    base_buffer_text(out, "{\"found\":[");
    for (size_t i = 0; i < resolve->found_count; i++) {
        base_buffer_text(out, i > 0 ? "," : "");
        handoff_memory_json_write(out, &resolve->found[i].memory);
    }
    base_buffer_text(out, "],\"missing\":[");
    if (!out->failed)
        write_all_absent(out, recovering);
    base_buffer_text(out, "]}");
}

static void give_recovered(struct recovering *recovering)
{
    struct handoff_result answer = {.body = recovering->out.data, .size = recovering->out.size};
    if (recovering->out.failed)
        handoff_error_no_memory(&answer.error);
    recovering->answered(recovering->context, &answer);
    end_recovering(recovering);
}

static void write_recovered_on_worker(struct base_work *work)
{
    struct recovering *recovering = BASE_CONTAINER_OF(work, struct recovering, work);
    write_recovered(&recovering->out, recovering);
}

static void worker_wrote_recovered(struct base_op *op)
{
    struct recovering *recovering = BASE_CONTAINER_OF(op, struct recovering, work.op);
    BASE_CHECK_MAGIC(recovering, RECOVERING_MAGIC);
    give_recovered(recovering);
}

static bool is_long_answer(const struct handoff_spine_resolve *resolve)
{
    size_t size = 0;
    for (size_t i = 0; i < resolve->found_count; i++)
        size += handoff_memory_bytes(&resolve->found[i].memory);
    return size > LONG_ANSWER;
}

static void answer_recovered(struct recovering *recovering)
{
    struct handoff_loop *loop = recovering->loop;
    if (!is_long_answer(&recovering->resolve)) {
        write_recovered(&recovering->out, recovering);
        give_recovered(recovering);
    } else if (!base_workers_submit(loop->client->workers, &recovering->work, loop->lane->loop, 0,
                                    write_recovered_on_worker, worker_wrote_recovered)) {
        handoff_refuse_long_request(&recovering->error);
        fail_recovering(recovering, &recovering->error);
    }
}

/* ---- what was found -------------------------------------------------------------------------- */

static void add_line(struct base_buffer *to, struct base_span id)
{
    base_buffer_append(to, id.data, id.size);
    base_buffer_byte(to, '\n');
}

/* A last known copy helps its receiver, and what the spine has is still to be fetched. */
static void list_found(const struct recovering *recovering, struct base_buffer *ids)
{
    const struct handoff_spine_resolve *resolve = &recovering->resolve;
    for (size_t i = 0; i < resolve->found_count; i++) {
        const struct handoff_memory *memory = &resolve->found[i].memory;
        if (memory->copied_ms == 0 && was_missed(recovering, memory->id))
            add_line(ids, memory->id);
    }
    if (!spine_failed(recovering) && resolve->pins &&
        was_missed(recovering, base_span_text(all_pins)))
        add_line(ids, base_span_text(all_pins));
}

static void recovery_was_kept(void *context, const struct handoff_error *error)
{
    struct recovering *recovering = context;
    BASE_CHECK_MAGIC(recovering, RECOVERING_MAGIC);
    (void)error; /* the memories are there, whether that is noted or not */
    answer_recovered(recovering);
}

static void tell_stale(const struct recovering *recovering)
{
    const struct handoff_spine_resolve *resolve = &recovering->resolve;
    struct handoff_event event = {
        .kind = HANDOFF_EVENT_RECOVERY,
        .who = {.id = recovering->id, .target_agent = recovering->target}};
    size_t *stale = &event.of.recovery.of[HANDOFF_RECOVERY_STALE];
    for (size_t i = 0; i < resolve->found_count; i++) {
        const struct handoff_memory *memory = &resolve->found[i].memory;
        *stale += memory->copied_ms != 0 && was_missed(recovering, memory->id);
    }
    if (*stale > 0)
        handoff_client_tell(recovering->loop->client, &event);
}

static void note_recovered(struct recovering *recovering)
{
    struct base_buffer ids = {.arena = &recovering->arena};
    list_found(recovering, &ids);
    tell_stale(recovering);
    if (ids.size == 0 || ids.failed ||
        handoff_lane_keep_gaps(recovering->loop->lane, &recovering->uuid, base_span(NULL, 0),
                               base_buffer_span(&ids), base_span_text(recovering->caller),
                               recovery_was_kept, recovering, NULL) != HANDOFF_OK)
        answer_recovered(recovering);
}

static bool was_given(const struct recovering *recovering, struct base_span id)
{
    return is_in_sorted(recovering->given, recovering->ngiven, id);
}

static bool may_fetch(const struct recovering *recovering, const struct handoff_memory *memory)
{
    return handoff_scopes_see(&recovering->bound, memory->scope) ||
           was_given(recovering, memory->id) ||
           (memory->pinned && recovering->resolve.pins &&
            was_given(recovering, base_span_text(all_pins)));
}

/* What the caller may not see is not there, as for GET /v1/memories. False: out of memory. */
static bool hide_other_scopes(struct recovering *recovering)
{
    struct handoff_spine_resolve *resolve = &recovering->resolve;
    size_t kept = 0;
    if (recovering->bound.all || resolve->found_count == 0)
        return true;
    struct base_span *missing = base_arena_alloc(
        &recovering->arena, (resolve->missing_count + resolve->found_count) * sizeof *missing);
    if (!missing)
        return false;
    if (resolve->missing_count > 0)
        memcpy(missing, resolve->missing, resolve->missing_count * sizeof *missing);
    resolve->missing = missing;
    for (size_t i = 0; i < resolve->found_count; i++) {
        const struct handoff_found_memory *found = &resolve->found[i];
        if (may_fetch(recovering, &found->memory))
            resolve->found[kept++] = *found;
        else if (found->origin & HANDOFF_ORIGIN_ASKED)
            missing[resolve->missing_count++] = found->memory.id;
    }
    resolve->found_count = kept;
    return true;
}

static void memories_were_resolved(struct handoff_spine_call *call)
{
    struct recovering *recovering = BASE_CONTAINER_OF(call, struct recovering, resolve.call);
    BASE_CHECK_MAGIC(recovering, RECOVERING_MAGIC);
    struct handoff_client *client = recovering->loop->client;
    handoff_client_tell_spine(client, HANDOFF_OPERATION_RESOLVE, call,
                              base_monotonic_ns(client->assembler.clock) - recovering->began_ns);
    if (call->error.code == HANDOFF_OK && !hide_other_scopes(recovering))
        handoff_error_no_memory(&call->error);
    if (call->error.code != HANDOFF_OK && !spine_failed(recovering))
        fail_recovering(recovering, &call->error);
    else
        note_recovered(recovering);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void add_wanted_id(struct recovering *recovering, struct base_span id)
{
    if (base_span_equal(id, base_span_text(all_pins)))
        recovering->resolve.pins = true;
    else if (handoff_memory_validate_id(id, "ids", NULL) == HANDOFF_OK &&
             recovering->nids < HANDOFF_MEMORY_IDS_MAX)
        recovering->ids[recovering->nids++] = id;
}

static bool list_ids(struct recovering *recovering)
{
    const size_t most = recovering->nnamed + recovering->nmissed + 1;
    recovering->ids = base_arena_alloc(&recovering->arena, most * sizeof *recovering->ids);
    if (!recovering->ids)
        return false;
    for (size_t i = 0; i < recovering->nnamed; i++)
        add_wanted_id(recovering, base_span_text(recovering->named[i]));
    for (size_t i = 0; recovering->missing && i < recovering->nmissed; i++)
        add_wanted_id(recovering, recovering->missed[i]);
    return true;
}

static void ask_for_memories(struct recovering *recovering)
{
    struct handoff_client *client = recovering->loop->client;
    struct handoff_spine_resolve *resolve = &recovering->resolve;
    resolve->call.mailbox = recovering->loop->lane->mailbox;
    resolve->call.done = memories_were_resolved;
    resolve->arena = &recovering->arena;
    resolve->ids = recovering->ids;
    resolve->id_count = recovering->nids;
    recovering->began_ns = base_monotonic_ns(client->assembler.clock);
    if (recovering->nids == 0 && !resolve->pins)
        answer_recovered(recovering);
    else if (handoff_spine_resolve(client->spine, resolve) == HANDOFF_SPINE_DONE)
        memories_were_resolved(&resolve->call);
}

static void recovering_was_read(struct handoff_store_read *read)
{
    struct recovering *recovering = BASE_CONTAINER_OF(read, struct recovering, read);
    BASE_CHECK_MAGIC(recovering, RECOVERING_MAGIC);
    if (recovering->error.code == HANDOFF_OK && !list_ids(recovering))
        handoff_error_no_memory(&recovering->error);
    if (recovering->error.code != HANDOFF_OK)
        fail_recovering(recovering, &recovering->error);
    else
        ask_for_memories(recovering);
}

static enum handoff_code check_named(const struct handoff_recovery_query *query,
                                     struct handoff_error *error)
{
    if (query->memories.count == 0 && !query->missing) {
        handoff_error_set(error, HANDOFF_ERR_INVALID, "nothing is asked for", "ids", NULL);
        handoff_error_allow(error, "ids of memories, or \"missing\": true");
        return HANDOFF_ERR_INVALID;
    }
    for (size_t i = 0; i < query->memories.count; i++) {
        const struct base_span id = base_span_text(query->memories.ids[i]);
        if (base_span_equal(id, base_span_text(all_pins)) ||
            handoff_memory_validate_id(id, "ids", error) == HANDOFF_OK)
            continue;
        handoff_error_field(error, "ids[%zu]", i);
        return HANDOFF_ERR_INVALID;
    }
    return HANDOFF_OK;
}

static enum handoff_code copy_query(struct recovering *recovering, const char *id,
                                    const struct handoff_recovery_query *query, const char *caller,
                                    struct handoff_error *error)
{
    struct base_arena *arena = &recovering->arena;
    const char *scopes = query->scopes ? base_arena_strdup(arena, query->scopes) : NULL;
    const size_t count = query->memories.count;
    recovering->missing = query->missing;
    recovering->id = base_arena_strdup(arena, id);
    recovering->caller = caller ? base_arena_strdup(arena, caller) : NULL;
    recovering->named = base_arena_calloc(arena, count + 1, sizeof *recovering->named);
    if (!recovering->id || (caller && !recovering->caller) || !recovering->named ||
        (query->scopes && !scopes))
        return handoff_error_no_memory(error);
    for (; recovering->nnamed < count; recovering->nnamed++) {
        const char *copy = base_arena_strdup(arena, query->memories.ids[recovering->nnamed]);
        if (!copy)
            return handoff_error_no_memory(error);
        recovering->named[recovering->nnamed] = copy;
    }
    return handoff_scopes_of_text(scopes, "scope", arena, &recovering->bound, error);
}

void handoff_recover_memories(struct handoff_loop *loop, const char *id,
                              const struct handoff_recovery_query *query, const char *caller,
                              handoff_answered *answered, void *context)
{
    struct handoff_error error;
    BASE_CHECK_MAGIC(loop, HANDOFF_LOOP_MAGIC);
    if (check_named(query, &error) != HANDOFF_OK) {
        handoff_give_error(answered, context, &error);
        return;
    }
    struct recovering *recovering = base_calloc(1, sizeof *recovering);
    if (!recovering) {
        handoff_give_no_memory(answered, context);
        return;
    }
    recovering->magic = RECOVERING_MAGIC;
    recovering->loop = loop;
    recovering->answered = answered;
    recovering->context = context;
    base_arena_init(&recovering->arena, 0);
    loop->pending++;
    if (copy_query(recovering, id, query, caller, &error) != HANDOFF_OK) {
        fail_recovering(recovering, &error);
        return;
    }
    recovering->read.mailbox = loop->lane->mailbox;
    recovering->read.run = run_recovering;
    recovering->read.done = recovering_was_read;
    handoff_store_submit_read(loop->client->store, &recovering->read);
}
