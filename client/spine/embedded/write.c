/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes of the embedded spine: jobs for the store's writer, so that they share its commits with
 * everything else that is written. `run` is called on the writer's thread, all else on the
 * caller's. `run` may run twice; it reads the call's inputs and sets results.
 *
 * Every refusal comes before the first change, so that a refused job costs its neighbours nothing.
 */
#include <string.h>

#include "client/spine/embedded/describe.h"
#include "client/spine/embedded/embedded.h"
#include "client/spine/embedded/place.h"
#include "lib/base/check.h"
#include "lib/base/error.h"

static struct handoff_embedded_scratch *scratch_of(struct handoff_store_job *job)
{
    return BASE_CONTAINER_OF(job, struct handoff_embedded_scratch, work);
}

static struct handoff_spine_call *call_of(struct handoff_store_job *job)
{
    return handoff_embedded_call(scratch_of(job));
}

static void finished(struct handoff_store_job *job)
{
    struct handoff_spine_call *call = call_of(job);
    call->error = job->error;
    call->done(call);
}

static enum handoff_spine_progress
submit(struct handoff_spine *spine, struct handoff_spine_call *call, size_t bytes,
       enum handoff_code (*run)(struct handoff_store_job *, struct handoff_db *,
                                struct handoff_error *))
{
    struct handoff_embedded_scratch *scratch = handoff_embedded_scratch(call);
    scratch->embedded = handoff_embedded_of(spine);
    scratch->work =
        (struct handoff_store_job){.mailbox = call->mailbox,
                                   .done = finished,
                                   .run = run,
                                   .bytes = bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX};
    handoff_store_submit(scratch->embedded->store, &scratch->work);
    return HANDOFF_SPINE_PENDING;
}

static enum handoff_code no_such_memory(struct base_span id, struct handoff_error *error)
{
    handoff_error_set(error, HANDOFF_ERR_NOT_FOUND, "no memory has this id", "id", NULL);
    handoff_error_seen(error, "%.*s", (int)id.size, id.data);
    return HANDOFF_ERR_NOT_FOUND;
}

/* ---- token counts -------------------------------------------------------------------------- */

/* A count of a text that is not there any more finds no row of its version, and is dropped. */
static enum handoff_code keep_one(struct handoff_db *db, struct base_span encoding,
                                  const struct handoff_token_count *count,
                                  struct handoff_error *error)
{
    sqlite3_stmt *keep = handoff_db_statement(
        db,
        "INSERT OR REPLACE INTO memory_tokens (seq, encoding, rendering, tokens)"
        " SELECT seq, ?3, ?4, ?5 FROM memories WHERE id = ?1 AND seq = ?2",
        error);
    if (!keep)
        return handoff_db_failure(db, NULL);
    handoff_db_bind_text(keep, 1, count->id);
    sqlite3_bind_int64(keep, 2, count->version);
    handoff_db_bind_text(keep, 3, encoding);
    sqlite3_bind_int(keep, 4, (int)count->rendering);
    sqlite3_bind_int64(keep, 5, count->tokens);
    return handoff_db_do(db, keep, error);
}

/* ---- put ----------------------------------------------------------------------------------- */

/* A text of the row, with room for it; absent where it is NULL. */
struct stored_text {
    struct base_span text;
    char room[HANDOFF_MEMORY_TASK_MAX];
};

_Static_assert((int)HANDOFF_MEMORY_TASK_MAX >= (int)HANDOFF_MEMORY_AGENT_MAX &&
                   (int)HANDOFF_MEMORY_TASK_MAX >= (int)HANDOFF_SCOPE_MAX,
               "a text of a memory's row has too little room");

struct stored {
    int64_t seq; /* 0: not there */
    int64_t created_ms;
    bool pinned;
    struct stored_text owner, scope, task;
};

/* A longer text than any that is valid is cut; it was none before. */
static void read_stored_text(sqlite3_stmt *row, int at, size_t most, struct stored_text *stored)
{
    struct base_span text = handoff_db_column(row, at);
    if (!text.data)
        return;
    stored->text = base_span(stored->room, text.size < most ? text.size : most);
    memcpy(stored->room, text.data, stored->text.size);
}

static enum handoff_code find_stored(struct handoff_db *db, struct base_span id,
                                     struct stored *stored, struct handoff_error *error)
{
    sqlite3_stmt *find = handoff_db_statement(
        db,
        "SELECT seq, created_at, pinned, agent, task_id,"
        " (SELECT name FROM memory_scopes WHERE number = seq >> 40) FROM memories WHERE id = ?1",
        error);
    *stored = (struct stored){0};
    if (!find)
        return handoff_db_failure(db, NULL);
    handoff_db_bind_text(find, 1, id);
    if (handoff_db_row(find)) {
        stored->seq = sqlite3_column_int64(find, 0);
        stored->created_ms = sqlite3_column_int64(find, 1);
        stored->pinned = sqlite3_column_int(find, 2) != 0;
        read_stored_text(find, 3, HANDOFF_MEMORY_AGENT_MAX, &stored->owner);
        read_stored_text(find, 4, HANDOFF_MEMORY_TASK_MAX, &stored->task);
        read_stored_text(find, 5, HANDOFF_SCOPE_MAX, &stored->scope);
    }
    return handoff_db_end(db, find, error);
}

static bool is_seen(const struct stored *stored, const struct handoff_scopes *scopes)
{
    return stored->seq && handoff_scopes_see(scopes, stored->scope.text);
}

/* Of who is bound to scopes; what is shared belongs to others too. */
static enum handoff_code check_scope(const struct handoff_scopes *scopes, struct base_span scope,
                                     struct handoff_error *error)
{
    if (handoff_scopes_may_store(scopes, scope))
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_FORBIDDEN,
                      "the token allows storing and changing memories only in its scopes", "scope",
                      NULL);
    handoff_error_seen(error, "%.*s", scope.size ? (int)scope.size : 6,
                       scope.size ? scope.data : "shared");
    handoff_scopes_allow(scopes, error);
    return HANDOFF_ERR_FORBIDDEN;
}

/* The error does not name the owner: a caller that may read the memory finds it there. */
static enum handoff_code check_owner(const struct stored *stored, struct base_span caller,
                                     struct handoff_error *error)
{
    if (!stored->seq || !caller.data || base_span_equal(caller, stored->owner.text))
        return HANDOFF_OK;
    handoff_error_set(
        error, HANDOFF_ERR_FORBIDDEN,
        "this memory belongs to another agent, or to none; store yours under another id", "id",
        NULL);
    handoff_error_seen(error, "%.*s", (int)caller.size, caller.data);
    handoff_error_allow(error, "its owner or @operator");
    return HANDOFF_ERR_FORBIDDEN;
}

/* Whether one more may be pinned in the scope of this seq: so many are in every envelope that sees
   it, and no scope takes another one's room. */
static enum handoff_code check_pins(struct handoff_db *db, const struct handoff_spine *spine,
                                    int64_t scope, struct handoff_error *error)
{
    sqlite3_stmt *count = handoff_db_statement(
        db, "SELECT count(*) FROM memories WHERE pinned = 1 AND seq BETWEEN ?1 AND ?2", error);
    if (!count)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(count, 1, handoff_first_place(scope));
    sqlite3_bind_int64(count, 2, handoff_last_place(scope));
    const int64_t pinned = handoff_db_row(count) ? sqlite3_column_int64(count, 0) : 0;
    enum handoff_code code = handoff_db_end(db, count, error);
    if (code != HANDOFF_OK || (size_t)pinned < spine->limits.pins)
        return code;
    handoff_error_set(error, HANDOFF_ERR_TOO_MANY_PINS,
                      "pinned memory limit of the scope reached; unpin one first", "pinned", NULL);
    handoff_error_seen(error, "%lld pinned", (long long)pinned);
    handoff_error_allow(error, "up to %zu", spine->limits.pins);
    return HANDOFF_ERR_TOO_MANY_PINS;
}

static enum handoff_code remove_seq(const struct handoff_embedded *embedded, struct handoff_db *db,
                                    int64_t seq, struct handoff_error *error)
{
    sqlite3_stmt *remove = handoff_db_statement(db, "DELETE FROM memories WHERE seq = ?1", error);
    if (!remove)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(remove, 1, seq);
    enum handoff_code code = handoff_db_do(db, remove, error);
    return code == HANDOFF_OK ? handoff_memory_index_remove(embedded->index, seq, error) : code;
}

/* The next place in a scope; no memory ever had it. */
static enum handoff_code take_place(struct handoff_db *db, int64_t scope, int64_t *seq,
                                    struct handoff_error *error)
{
    sqlite3_stmt *tick =
        handoff_db_statement(db, "UPDATE memory_clock SET last = last + 1 RETURNING last", error);
    if (!tick)
        return handoff_db_failure(db, NULL);
    const int64_t last = handoff_db_row(tick) ? sqlite3_column_int64(tick, 0) : 0;
    enum handoff_code code = handoff_db_end(db, tick, error);
    BASE_CHECK(code != HANDOFF_OK || (last > 0 && last < handoff_first_place(1)));
    *seq = handoff_first_place(scope) + last;
    return code;
}

static enum handoff_code insert(struct handoff_db *db, const struct handoff_memory *memory,
                                struct base_span tags, struct handoff_error *error)
{
    sqlite3_stmt *insert = handoff_db_statement(
        db,
        "INSERT INTO memories (id, importance, pinned, created_at, updated_at, tags, metadata,"
        " summary, content, agent, seq, task_id)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        error);
    if (!insert)
        return handoff_db_failure(db, NULL);
    handoff_db_bind_text(insert, 1, memory->id);
    sqlite3_bind_int(insert, 2, (int)memory->importance);
    sqlite3_bind_int(insert, 3, memory->pinned);
    sqlite3_bind_int64(insert, 4, memory->created_ms);
    sqlite3_bind_int64(insert, 5, memory->updated_ms);
    handoff_db_bind_text(insert, 6, tags);
    handoff_db_bind_text(insert, 7, memory->metadata);
    handoff_db_bind_text(insert, 8, memory->summary);
    handoff_db_bind_text(insert, 9, memory->content);
    handoff_db_bind_text(insert, 10, memory->agent);
    sqlite3_bind_int64(insert, 11, memory->version);
    handoff_db_bind_text(insert, 12, memory->task_id);
    return handoff_db_do(db, insert, error);
}

/* `old`: the row in whose place it comes; 0: none. */
static enum handoff_code replace(const struct handoff_embedded *embedded, struct handoff_db *db,
                                 int64_t old, struct handoff_memory *memory, const void *prepared,
                                 int64_t scope, struct handoff_error *error)
{
    struct base_buffer tags = {0};
    enum handoff_code code = HANDOFF_OK;
    handoff_embedded_join_tags(memory, &tags);
    if (tags.failed)
        code = handoff_error_no_memory(error);
    if (code == HANDOFF_OK && old != 0)
        code = remove_seq(embedded, db, old, error);
    if (code == HANDOFF_OK)
        code = take_place(db, scope, &memory->version, error);
    if (code == HANDOFF_OK)
        code = insert(db, memory, base_buffer_span(&tags), error);
    if (code == HANDOFF_OK)
        code = handoff_memory_index_put(embedded->index, memory, prepared, error);
    base_buffer_free(&tags);
    return code;
}

/* The caller owns what is new, unless told otherwise. The texts of the row do not outlive the job.
 */
static void settle_owner_and_task(struct handoff_spine_put *put, const struct stored *old)
{
    struct base_span owner = put->agent.data ? put->agent : old->owner.text;
    struct base_span task = put->task_id.data ? put->task_id : old->task.text;
    if (!put->agent.data && !old->seq)
        owner = put->caller;
    put->memory.agent = base_span(owner.data ? put->owner : NULL, owner.size);
    put->memory.task_id = base_span(task.size ? put->task : NULL, task.size);
    if (owner.data)
        memcpy(put->owner, owner.data, owner.size);
    if (task.size)
        memcpy(put->task, task.data, task.size);
}

static enum handoff_code refuse_id(struct base_span id, struct handoff_error *error)
{
    handoff_error_set(error, HANDOFF_ERR_ID_TAKEN,
                      "this id is taken by a memory of another scope; store yours under another id",
                      "id", NULL);
    handoff_error_seen(error, "%.*s", (int)id.size, id.data);
    return HANDOFF_ERR_ID_TAKEN;
}

static enum handoff_code name_a_scope(const struct handoff_scopes *scopes,
                                      struct handoff_error *error)
{
    handoff_error_set(error, HANDOFF_ERR_INVALID,
                      "the token is bound to several scopes; name one of them", "scope", NULL);
    handoff_scopes_allow(scopes, error);
    return HANDOFF_ERR_INVALID;
}

/* As told, else as it was, else the caller's only one. */
static enum handoff_code settle_scope(struct handoff_spine_put *put, const struct stored *old,
                                      struct handoff_error *error)
{
    struct base_span scope = put->scope;
    if (old->seq && !is_seen(old, &put->scopes))
        return refuse_id(put->memory.id, error);
    if (!scope.data && old->seq)
        scope = old->scope.text;
    else if (!scope.data && put->scopes.count > 1)
        return name_a_scope(&put->scopes, error);
    else if (!scope.data && put->scopes.count == 1)
        scope = put->scopes.names[0];
    enum handoff_code code = check_scope(&put->scopes, scope, error);
    if (code == HANDOFF_OK && old->seq && !base_span_equal(scope, old->scope.text))
        code = refuse_id(put->memory.id, error);
    put->memory.scope = base_span(put->scope_name, scope.size);
    if (scope.data)
        memcpy(put->scope_name, scope.data, scope.size);
    return code;
}

/* A new number is one more than the greatest, also of those that were forgotten and whose removed
   memories the index still counts: what a word is worth in a scope must not tell of another one.
   Where that is too great, the least that is free. */
static enum handoff_code number_scope(const struct handoff_embedded *embedded,
                                      struct handoff_db *db, struct base_span name, int64_t *number,
                                      struct handoff_error *error)
{
    sqlite3_stmt *add = handoff_db_statement(
        db,
        "INSERT INTO memory_scopes (name, number) SELECT ?1, CASE"
        " WHEN max(max(number), ?2) < 8388607 THEN max(max(number), ?2) + 1"
        " ELSE (SELECT min(s.number) + 1 FROM memory_scopes s WHERE s.number < 8388607 AND NOT"
        " EXISTS (SELECT 1 FROM memory_scopes n WHERE n.number = s.number + 1)) END"
        " FROM memory_scopes RETURNING number",
        error);
    if (!add)
        return handoff_db_failure(db, NULL);
    handoff_db_bind_text(add, 1, name);
    sqlite3_bind_int64(add, 2, handoff_scope_of(handoff_memory_index_last(embedded->index)));
    *number = handoff_db_row(add) ? sqlite3_column_int64(add, 0) : 0;
    return handoff_db_end(db, add, error);
}

static enum handoff_code find_or_number_scope(const struct handoff_embedded *embedded,
                                              struct handoff_db *db, struct base_span name,
                                              int64_t *number, struct handoff_error *error)
{
    sqlite3_stmt *find =
        handoff_db_statement(db, "SELECT number FROM memory_scopes WHERE name = ?1", error);
    if (!find)
        return handoff_db_failure(db, NULL);
    handoff_db_bind_text(find, 1, name);
    const bool found = handoff_db_row(find);
    *number = found ? sqlite3_column_int64(find, 0) : 0;
    enum handoff_code code = handoff_db_end(db, find, error);
    return code == HANDOFF_OK && !found ? number_scope(embedded, db, name, number, error) : code;
}

/* A scope without memories is forgotten. */
static enum handoff_code forget_scope(struct handoff_db *db, int64_t number,
                                      struct handoff_error *error)
{
    sqlite3_stmt *forget = handoff_db_statement(
        db, "DELETE FROM memory_scopes WHERE number = ?1 AND number > 0 AND memories = 0", error);
    if (!forget)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(forget, 1, number);
    return handoff_db_do(db, forget, error);
}

enum handoff_code handoff_embedded_write_row(const struct handoff_embedded *embedded,
                                             struct handoff_db *db, int64_t old,
                                             struct handoff_memory *memory,
                                             struct handoff_error *error)
{
    int64_t scope = 0;
    enum handoff_code code = HANDOFF_OK;
    if (memory->scope.size > 0)
        code = find_or_number_scope(embedded, db, memory->scope, &scope, error);
    if (code == HANDOFF_OK)
        code = replace(embedded, db, old, memory, NULL, scope, error);
    if (code == HANDOFF_OK && old != 0)
        code = forget_scope(db, handoff_scope_of(old), error);
    return code;
}

enum handoff_code handoff_embedded_remove_row(const struct handoff_embedded *embedded,
                                              struct handoff_db *db, int64_t seq,
                                              struct handoff_error *error)
{
    enum handoff_code code = remove_seq(embedded, db, seq, error);
    return code == HANDOFF_OK ? forget_scope(db, handoff_scope_of(seq), error) : code;
}

static enum handoff_code keep_put_tokens(struct handoff_db *db, const struct handoff_spine_put *put,
                                         struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    for (int rendering = 0; rendering < HANDOFF_RENDERINGS && code == HANDOFF_OK; rendering++) {
        const struct handoff_token_count count = {.id = put->memory.id,
                                                  .version = put->memory.version,
                                                  .rendering =
                                                      (enum handoff_memory_rendering)rendering,
                                                  .tokens = put->tokens[rendering]};
        if (count.tokens > 0)
            code = keep_one(db, put->encoding, &count, error);
    }
    return code;
}

static enum handoff_code run_put(struct handoff_store_job *job, struct handoff_db *db,
                                 struct handoff_error *error)
{
    struct handoff_spine_put *put = (void *)call_of(job);
    const struct handoff_embedded *embedded = scratch_of(job)->embedded;
    struct stored old;
    int64_t scope = 0;
    enum handoff_code code = find_stored(db, put->memory.id, &old, error);
    if (code == HANDOFF_OK)
        code = settle_scope(put, &old, error);
    if (code == HANDOFF_OK)
        code = check_owner(&old, put->caller, error);
    if (code != HANDOFF_OK)
        return code;
    settle_owner_and_task(put, &old);
    put->created = old.seq == 0;
    put->memory.pinned = put->pin == HANDOFF_PIN_KEEP ? old.pinned : put->pin == HANDOFF_PIN_YES;
    put->memory.updated_ms = base_wall_ms(embedded->clock);
    put->memory.created_ms = put->created_ms ? put->created_ms
                             : old.seq       ? old.created_ms
                                             : put->memory.updated_ms;
    if (put->memory.scope.size > 0) /* a new scope has no pins: what follows refuses nothing then */
        code = find_or_number_scope(embedded, db, put->memory.scope, &scope, error);
    if (code == HANDOFF_OK && put->memory.pinned && !old.pinned)
        code = check_pins(db, &embedded->spine, scope, error);
    if (code == HANDOFF_OK)
        code = replace(embedded, db, old.seq, &put->memory, put->prepared, scope, error);
    return code == HANDOFF_OK ? keep_put_tokens(db, put, error) : code;
}

/* Before the write is submitted, so that nobody misses a memory or a pin that is there. */
static void expect_some(_Atomic(int) *what)
{
    atomic_store(what, HANDOFF_EMBEDDED_SOME);
}

static const struct words_document *keep_description(const struct words_document *described,
                                                     struct base_arena *arena)
{
    const size_t size = described->count * sizeof *described->terms;
    struct words_document *kept = base_arena_alloc(arena, sizeof *kept);
    struct words_count *terms = base_arena_alloc(arena, size + 1);
    if (!kept || !terms)
        return NULL;
    *kept = *described;
    kept->table = NULL;
    kept->terms = terms;
    if (size > 0)
        memcpy(terms, described->terms, size);
    return kept;
}

/* The writer then only copies it. */
void handoff_embedded_prepare_put(struct handoff_spine *spine, struct handoff_spine_put *put,
                                  struct base_arena *arena)
{
    struct words_document described = {0};
    if (handoff_memory_describe(&put->memory, handoff_embedded_of(spine)->words, &described))
        put->prepared = keep_description(&described, arena);
    words_document_clear(&described);
}

enum handoff_spine_progress handoff_embedded_put(struct handoff_spine *spine,
                                                 struct handoff_spine_put *put)
{
    expect_some(&handoff_embedded_of(spine)->memories);
    if (put->pin == HANDOFF_PIN_YES)
        expect_some(&handoff_embedded_of(spine)->pins);
    return submit(spine, &put->call, handoff_memory_bytes(&put->memory), run_put);
}

/* ---- remove and pin ------------------------------------------------------------------------ */

/* A memory that the caller may change. */
static enum handoff_code find_changing(struct handoff_db *db, struct base_span id,
                                       const struct handoff_scopes *scopes, struct base_span caller,
                                       struct stored *old, struct handoff_error *error)
{
    enum handoff_code code = find_stored(db, id, old, error);
    if (code == HANDOFF_OK && !is_seen(old, scopes))
        code = no_such_memory(id, error);
    if (code == HANDOFF_OK)
        code = check_owner(old, caller, error);
    return code == HANDOFF_OK ? check_scope(scopes, old->scope.text, error) : code;
}

static enum handoff_code run_remove(struct handoff_store_job *job, struct handoff_db *db,
                                    struct handoff_error *error)
{
    const struct handoff_spine_remove *remove = (const void *)call_of(job);
    struct stored old;
    enum handoff_code code =
        find_changing(db, remove->id, &remove->scopes, remove->caller, &old, error);
    if (code != HANDOFF_OK)
        return code;
    return handoff_embedded_remove_row(scratch_of(job)->embedded, db, old.seq, error);
}

enum handoff_spine_progress handoff_embedded_remove(struct handoff_spine *spine,
                                                    struct handoff_spine_remove *remove)
{
    return submit(spine, &remove->call, 0, run_remove);
}

static enum handoff_code set_pinned(struct handoff_db *db, int64_t seq, bool pinned,
                                    struct handoff_error *error)
{
    sqlite3_stmt *update =
        handoff_db_statement(db, "UPDATE memories SET pinned = ?2 WHERE seq = ?1", error);
    if (!update)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(update, 1, seq);
    sqlite3_bind_int(update, 2, pinned);
    return handoff_db_do(db, update, error);
}

static enum handoff_code run_pin(struct handoff_store_job *job, struct handoff_db *db,
                                 struct handoff_error *error)
{
    const struct handoff_spine_pin *pin = (const void *)call_of(job);
    const struct handoff_spine *spine = &scratch_of(job)->embedded->spine;
    struct stored old;
    enum handoff_code code = find_changing(db, pin->id, &pin->scopes, pin->caller, &old, error);
    if (code != HANDOFF_OK || old.pinned == pin->pinned)
        return code;
    if (pin->pinned)
        code = check_pins(db, spine, handoff_scope_of(old.seq), error);
    return code == HANDOFF_OK ? set_pinned(db, old.seq, pin->pinned, error) : code;
}

enum handoff_spine_progress handoff_embedded_pin(struct handoff_spine *spine,
                                                 struct handoff_spine_pin *pin)
{
    if (pin->pinned)
        expect_some(&handoff_embedded_of(spine)->pins);
    return submit(spine, &pin->call, 0, run_pin);
}

/* ---- counts of several memories ------------------------------------------------------------- */

static enum handoff_code run_keep_tokens(struct handoff_store_job *job, struct handoff_db *db,
                                         struct handoff_error *error)
{
    const struct handoff_spine_keep_tokens *keep = (const void *)call_of(job);
    enum handoff_code code = HANDOFF_OK;
    for (size_t i = 0; i < keep->count && code == HANDOFF_OK; i++)
        code = keep_one(db, keep->encoding, &keep->counts[i], error);
    return code;
}

enum handoff_spine_progress handoff_embedded_keep_tokens(struct handoff_spine *spine,
                                                         struct handoff_spine_keep_tokens *keep)
{
    if (keep->count == 0)
        return HANDOFF_SPINE_DONE;
    return submit(spine, &keep->call, 0, run_keep_tokens);
}
