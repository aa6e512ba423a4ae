/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding memories: those asked for, the pins, and the best recent ones, in one snapshot. Runs
 * on a reader thread of the store.
 *
 * The steps collect numbers only (seq, and why it was found); the text of a memory is read once, at
 * the end, and only for what is given back. The best recent ones are chosen from a bounded set: the
 * best by BM25 among the ranking's candidates, and the newest, so that there are `recent` of them
 * even when the query matches nothing. What was put for the task that asks is chosen before all
 * else. Nothing here takes longer because the spine holds more.
 */
#include <stdlib.h>
#include <string.h>

#include "client/spine/embedded/embedded.h"
#include "client/spine/embedded/place.h"
#include "client/spine/embedded/rank.h"
#include "client/spine/embedded/score.h"
#include "client/spine/embedded/visible.h"
#include "lib/base/error.h"

/* A memory on its way into the result. */
struct choice {
    int64_t seq;
    unsigned origin;
    double bm25;
    double score; /* while the recent ones are chosen */
};

struct resolving {
    struct handoff_embedded *embedded;
    struct handoff_spine_resolve *resolve;
    struct handoff_db *db;
    struct base_arena *arena;
    struct handoff_error *error;
    struct handoff_visible visible;
    struct handoff_rank rank;
    int64_t now_ms;
    struct choice *choices;
    size_t count, room;
};

static enum handoff_code choose(struct resolving *on, int64_t seq, unsigned origin)
{
    if (on->count == on->room) {
        size_t room = on->room ? on->room * 2 : 64;
        struct choice *grown = base_arena_alloc(on->arena, room * sizeof *grown);
        if (!grown)
            return handoff_error_no_memory(on->error);
        if (on->count > 0)
            memcpy(grown, on->choices, on->count * sizeof *grown);
        on->choices = grown;
        on->room = room;
    }
    on->choices[on->count++] = (struct choice){.seq = seq, .origin = origin};
    return HANDOFF_OK;
}

/* ---- by id --------------------------------------------------------------------------------- */

static bool asked_before(const struct handoff_spine_resolve *resolve, size_t which)
{
    for (size_t i = 0; i < which; i++)
        if (base_span_equal(resolve->ids[i], resolve->ids[which]))
            return true;
    return false;
}

static enum handoff_code find_one(struct resolving *on, struct base_span id, bool *found)
{
    sqlite3_stmt *find =
        handoff_db_statement(on->db, "SELECT seq FROM memories WHERE id = ?1", on->error);
    if (!find)
        return handoff_db_failure(on->db, NULL);
    handoff_db_bind_text(find, 1, id);
    int64_t seq = handoff_db_row(find) ? sqlite3_column_int64(find, 0) : 0;
    *found = seq > 0 && handoff_visible_has(&on->visible, seq);
    enum handoff_code code = handoff_db_end(on->db, find, on->error);
    return code == HANDOFF_OK && *found ? choose(on, seq, HANDOFF_ORIGIN_ASKED) : code;
}

/* The loop over earlier ids is quadratic, but only those that are missing go through it: a found id
   that is asked for twice is merged with the rest later. */
static enum handoff_code find_asked(struct resolving *on)
{
    struct handoff_spine_resolve *resolve = on->resolve;
    enum handoff_code code = HANDOFF_OK;
    if (resolve->id_count == 0)
        return HANDOFF_OK;
    resolve->missing = base_arena_alloc(on->arena, resolve->id_count * sizeof *resolve->missing);
    if (!resolve->missing)
        return handoff_error_no_memory(on->error);
    for (size_t i = 0; i < resolve->id_count && code == HANDOFF_OK; i++) {
        bool found = false;
        code = find_one(on, resolve->ids[i], &found);
        if (code == HANDOFF_OK && !found && !asked_before(resolve, i))
            resolve->missing[resolve->missing_count++] = resolve->ids[i];
    }
    return code;
}

/* ---- pins ---------------------------------------------------------------------------------- */

static enum handoff_code find_pinned_in(struct resolving *on, int64_t scope)
{
    enum handoff_code code = HANDOFF_OK;
    sqlite3_stmt *pins = handoff_db_statement(
        on->db, "SELECT seq FROM memories WHERE pinned = 1 AND seq BETWEEN ?1 AND ?2", on->error);
    if (!pins)
        return handoff_db_failure(on->db, NULL);
    sqlite3_bind_int64(pins, 1, handoff_first_place(scope));
    sqlite3_bind_int64(pins, 2, handoff_last_place(scope));
    while (code == HANDOFF_OK && handoff_db_row(pins))
        code = choose(on, sqlite3_column_int64(pins, 0), HANDOFF_ORIGIN_PINNED);
    enum handoff_code end = handoff_db_end(on->db, pins, code == HANDOFF_OK ? on->error : NULL);
    return code != HANDOFF_OK ? code : end;
}

static enum handoff_code find_pinned(struct resolving *on)
{
    enum handoff_code code = HANDOFF_OK;
    for (size_t i = 0; on->resolve->pins && i < on->visible.count && code == HANDOFF_OK; i++)
        code = find_pinned_in(on, on->visible.scopes[i]);
    return code;
}

/* ---- the recent ones ----------------------------------------------------------------------- */

/* Candidates that are scored in full: four times what is wanted, since recency and importance may
   change the order, but never so few that they could not. */
static size_t scored_candidates(size_t recent)
{
    return recent * 4 > 64 ? recent * 4 : 64;
}

static int newer_first(int64_t left, int64_t right)
{
    left = handoff_recency_of(left);
    right = handoff_recency_of(right);
    return (left < right) - (left > right);
}

static int by_bm25(const void *a, const void *b)
{
    const struct handoff_candidate *left = a, *right = b;
    if (left->bm25 != right->bm25)
        return left->bm25 < right->bm25 ? 1 : -1;
    return newer_first(left->seq, right->seq);
}

static enum handoff_code choose_matching(struct resolving *on, size_t most)
{
    size_t count = on->rank.count;
    if (count == 0)
        return HANDOFF_OK;
    struct handoff_candidate *best = base_arena_alloc(on->arena, count * sizeof *best);
    if (!best)
        return handoff_error_no_memory(on->error);
    memcpy(best, on->rank.candidates, count * sizeof *best);
    qsort(best, count, sizeof *best, by_bm25);
    enum handoff_code code = HANDOFF_OK;
    for (size_t i = 0; i < count && i < most && code == HANDOFF_OK; i++)
        code = choose(on, best[i].seq, HANDOFF_ORIGIN_RECENT);
    return code;
}

static enum handoff_code choose_newest_of(struct resolving *on, const char *statement,
                                          struct base_span text, size_t most)
{
    int64_t *seqs;
    size_t count;
    enum handoff_code code =
        handoff_visible_newest(&on->visible, on->db, statement, text, handoff_first_place(1), most,
                               on->arena, &seqs, &count, on->error);
    for (size_t i = 0; code == HANDOFF_OK && i < count; i++)
        code = choose(on, seqs[i], HANDOFF_ORIGIN_RECENT);
    return code;
}

static enum handoff_code choose_newest(struct resolving *on, size_t most)
{
    return choose_newest_of(on,
                            "SELECT seq FROM memories WHERE seq BETWEEN ?1 AND ?2"
                            " ORDER BY seq DESC LIMIT ?3",
                            base_span(NULL, 0), most);
}

static enum handoff_code choose_of_task(struct resolving *on, size_t most)
{
    if (!on->resolve->task.data)
        return HANDOFF_OK;
    return choose_newest_of(on,
                            "SELECT seq FROM memories WHERE task_id = ?4 AND seq BETWEEN ?1 AND ?2"
                            " ORDER BY seq DESC LIMIT ?3",
                            on->resolve->task, most);
}

static int by_seq(const void *a, const void *b)
{
    const struct choice *left = a, *right = b;
    return (left->seq > right->seq) - (left->seq < right->seq);
}

/* One entry for each memory from `first` on, with all its origins. */
static void merge(struct resolving *on, size_t first)
{
    size_t kept = first;
    if (on->count == first)
        return;
    qsort(on->choices + first, on->count - first, sizeof *on->choices, by_seq);
    for (size_t i = first; i < on->count; i++) {
        if (kept > first && on->choices[kept - 1].seq == on->choices[i].seq)
            on->choices[kept - 1].origin |= on->choices[i].origin;
        else
            on->choices[kept++] = on->choices[i];
    }
    on->count = kept;
}

static double score_of(const struct resolving *on, double bm25, int64_t updated_ms, int importance)
{
    double relevance = on->rank.best > 0 ? bm25 / on->rank.best : 0;
    return handoff_score(relevance, on->now_ms - updated_ms, on->embedded->half_life_ms,
                         (enum handoff_importance)importance);
}

static enum handoff_code score_choice(struct resolving *on, struct choice *choice)
{
    enum handoff_code code =
        handoff_rank_one(&on->rank, on->db, choice->seq, &choice->bm25, on->error);
    if (code != HANDOFF_OK)
        return code;
    sqlite3_stmt *row = handoff_db_statement(
        on->db, "SELECT importance, updated_at, task_id FROM memories WHERE seq = ?1", on->error);
    if (!row)
        return handoff_db_failure(on->db, NULL);
    sqlite3_bind_int64(row, 1, choice->seq);
    if (handoff_db_row(row)) {
        const struct base_span task = handoff_db_column(row, 2);
        choice->score =
            score_of(on, choice->bm25, sqlite3_column_int64(row, 1), sqlite3_column_int(row, 0));
        if (task.data && on->resolve->task.data && base_span_equal(task, on->resolve->task))
            choice->origin |= HANDOFF_ORIGIN_TASK;
    }
    return handoff_db_end(on->db, row, on->error);
}

/* What was put for the task first. Equal scores: the newer one, so that the choice does not depend
   on anything outside the rows. */
static int by_choice_score(const void *a, const void *b)
{
    const struct choice *left = a, *right = b;
    const unsigned of_task = HANDOFF_ORIGIN_TASK;
    if ((left->origin & of_task) != (right->origin & of_task))
        return left->origin & of_task ? -1 : 1;
    if (left->score != right->score)
        return left->score < right->score ? 1 : -1;
    return newer_first(left->seq, right->seq);
}

static enum handoff_code find_recent(struct resolving *on)
{
    size_t first = on->count, wanted = on->resolve->recent;
    if (wanted == 0)
        return HANDOFF_OK;
    enum handoff_code code = choose_matching(on, scored_candidates(wanted));
    if (code == HANDOFF_OK)
        code = choose_newest(on, wanted);
    if (code == HANDOFF_OK)
        code = choose_of_task(on, scored_candidates(wanted));
    if (code != HANDOFF_OK)
        return code;
    merge(on, first);
    for (size_t i = first; i < on->count && code == HANDOFF_OK; i++)
        code = score_choice(on, &on->choices[i]);
    if (on->count - first > wanted) {
        qsort(on->choices + first, on->count - first, sizeof *on->choices, by_choice_score);
        on->count = first + wanted;
    }
    return code;
}

/* ---- the result ---------------------------------------------------------------------------- */

static enum handoff_code read_tokens(struct resolving *on, struct handoff_found_memory *found)
{
    for (int i = 0; i < HANDOFF_RENDERINGS; i++)
        found->tokens[i] = -1;
    if (!on->resolve->encoding.data)
        return HANDOFF_OK;
    sqlite3_stmt *tokens = handoff_db_statement(
        on->db, "SELECT rendering, tokens FROM memory_tokens WHERE seq = ?1 AND encoding = ?2",
        on->error);
    if (!tokens)
        return handoff_db_failure(on->db, NULL);
    sqlite3_bind_int64(tokens, 1, found->memory.version);
    handoff_db_bind_text(tokens, 2, on->resolve->encoding);
    while (handoff_db_row(tokens)) {
        int rendering = sqlite3_column_int(tokens, 0);
        if (rendering >= 0 && rendering < HANDOFF_RENDERINGS)
            found->tokens[rendering] = sqlite3_column_int64(tokens, 1);
    }
    return handoff_db_end(on->db, tokens, on->error);
}

static enum handoff_code read_memory(struct resolving *on, const struct choice *choice,
                                     struct handoff_found_memory *found)
{
    enum handoff_code code = HANDOFF_OK;
    sqlite3_stmt *row = handoff_db_statement(
        on->db, "SELECT " HANDOFF_MEMORY_COLUMNS " FROM memories WHERE seq = ?1", on->error);
    if (!row)
        return handoff_db_failure(on->db, NULL);
    sqlite3_bind_int64(row, 1, choice->seq);
    if (handoff_db_row(row)) {
        code = handoff_embedded_read_row(row, on->arena, &found->memory, on->error);
        on->resolve->found_count++;
    }
    enum handoff_code end = handoff_db_end(on->db, row, code == HANDOFF_OK ? on->error : NULL);
    found->origin = choice->origin;
    found->relevance = choice->bm25; /* becomes a share when the best is known */
    if (code == HANDOFF_OK && end == HANDOFF_OK)
        code = read_tokens(on, found);
    return code != HANDOFF_OK ? code : end;
}

static int by_score(const void *a, const void *b)
{
    const struct handoff_found_memory *left = a, *right = b;
    if (left->score != right->score)
        return left->score < right->score ? 1 : -1;
    size_t shorter =
        left->memory.id.size < right->memory.id.size ? left->memory.id.size : right->memory.id.size;
    int order = memcmp(left->memory.id.data, right->memory.id.data, shorter);
    if (order != 0)
        return order;
    return (left->memory.id.size > right->memory.id.size) -
           (left->memory.id.size < right->memory.id.size);
}

static void score_found(struct resolving *on)
{
    struct handoff_found_memory *found = on->resolve->found;
    for (size_t i = 0; i < on->resolve->found_count; i++) {
        found[i].score = score_of(on, found[i].relevance, found[i].memory.updated_ms,
                                  (int)found[i].memory.importance);
        found[i].relevance = on->rank.best > 0 ? found[i].relevance / on->rank.best : 0;
    }
    if (on->resolve->found_count > 1)
        qsort(found, on->resolve->found_count, sizeof *found, by_score);
}

static enum handoff_code read_found(struct resolving *on)
{
    enum handoff_code code = HANDOFF_OK;
    merge(on, 0);
    if (on->count == 0)
        return HANDOFF_OK;
    on->resolve->found = base_arena_alloc(on->arena, on->count * sizeof *on->resolve->found);
    if (!on->resolve->found)
        return handoff_error_no_memory(on->error);
    for (size_t i = 0; i < on->count && code == HANDOFF_OK; i++) {
        struct choice *choice = &on->choices[i];
        code = handoff_rank_one(&on->rank, on->db, choice->seq, &choice->bm25, on->error);
        if (code == HANDOFF_OK)
            code = read_memory(on, choice, &on->resolve->found[on->resolve->found_count]);
    }
    if (code == HANDOFF_OK)
        score_found(on);
    return code;
}

static enum handoff_code run(struct resolving *on)
{
    enum handoff_code code =
        handoff_visible_read(&on->visible, on->db, &on->resolve->scopes, on->error);
    if (code == HANDOFF_OK)
        code = handoff_rank_collect(&on->rank, on->db, &on->visible, on->resolve->query, on->arena,
                                    on->error);
    if (code == HANDOFF_OK)
        code = find_asked(on);
    if (code == HANDOFF_OK)
        code = find_pinned(on);
    if (code == HANDOFF_OK)
        code = find_recent(on);
    return code == HANDOFF_OK ? read_found(on) : code;
}

/* Whether there is one in any scope, visible or not. */
static enum handoff_code learn_of_pins(struct resolving *on)
{
    int unknown = HANDOFF_EMBEDDED_PINS_UNKNOWN;
    int64_t some;
    if (!on->resolve->pins || atomic_load(&on->embedded->pins) != unknown)
        return HANDOFF_OK;
    enum handoff_code code = handoff_db_number(
        on->db, "SELECT EXISTS (SELECT 1 FROM memories WHERE pinned = 1)", &some, on->error);
    if (code == HANDOFF_OK)
        atomic_compare_exchange_strong(&on->embedded->pins, &unknown,
                                       some ? HANDOFF_EMBEDDED_PINS_SOME
                                            : HANDOFF_EMBEDDED_PINS_NONE);
    return code;
}

/* A read transaction makes the steps see one state of the spine. */
static enum handoff_code run_in_snapshot(struct resolving *on)
{
    sqlite3_stmt *begin = handoff_db_statement(on->db, "BEGIN", on->error);
    enum handoff_code code =
        begin ? handoff_db_do(on->db, begin, on->error) : handoff_db_failure(on->db, NULL);
    if (code != HANDOFF_OK)
        return code;
    code = run(on);
    if (code == HANDOFF_OK)
        code = learn_of_pins(on);
    handoff_db_roll_back(on->db);
    return code;
}

static bool asks_for_nothing(struct handoff_embedded *embedded,
                             const struct handoff_spine_resolve *resolve)
{
    return resolve->id_count == 0 && resolve->recent == 0 &&
           (!resolve->pins || atomic_load(&embedded->pins) == HANDOFF_EMBEDDED_PINS_NONE);
}

static void run_resolve(struct handoff_store_read *read)
{
    struct handoff_embedded_scratch *scratch = handoff_embedded_scratch_of_read(read);
    struct handoff_spine_resolve *resolve = (void *)handoff_embedded_call(scratch);
    struct resolving on = {.embedded = scratch->embedded,
                           .resolve = resolve,
                           .arena = resolve->arena,
                           .error = &resolve->call.error};
    on.now_ms = base_wall_ms(on.embedded->clock);
    on.db = handoff_store_reader(on.embedded->store, on.error);
    if (!on.db)
        return;
    if (run_in_snapshot(&on) != HANDOFF_OK)
        resolve->found_count = resolve->missing_count = 0;
    handoff_store_reader_done(on.embedded->store, on.db);
}

enum handoff_spine_progress handoff_embedded_resolve(struct handoff_spine *spine,
                                                     struct handoff_spine_resolve *resolve)
{
    if (asks_for_nothing(handoff_embedded_of(spine), resolve)) {
        resolve->call.asked = false;
        return HANDOFF_SPINE_DONE;
    }
    return handoff_embedded_read(spine, &resolve->call, run_resolve);
}
