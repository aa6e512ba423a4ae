/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding memories: those asked for, the pins, and the best ones for a query, in one snapshot. Runs
 * on a reader thread of the store.
 *
 * The steps collect numbers only (seq, and why it was found); the text of a memory is read once, at
 * the end, and only for what is given back. The best ones for the query come from the search index
 * (match.h), and are no more than fit it. Without words in it the newest are the best, first those
 * that were put for the task that asks.
 *
 * The index is viewed before the snapshot is taken, so it may lack what was put in between, and
 * have what was removed. Where that is one of the best, the rows or the index tell; then all of it
 * is done once more, until the time of the search is up; then the answer says that it may not be
 * complete.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/spine/embedded/embedded.h"
#include "client/spine/embedded/match.h"
#include "client/spine/embedded/place.h"
#include "client/spine/embedded/snippet.h"
#include "client/spine/embedded/visible.h"
#include "lib/base/error.h"

enum {
    ATTEMPTS = 2, /* at once */
    PAUSE_NS = 500 * 1000,
};

/* A memory on its way into the result. */
struct choice {
    int64_t seq;
    unsigned origin;
    const struct handoff_match_place *place; /* among the best for the query; or NULL */
};

struct resolving {
    struct handoff_embedded *embedded;
    struct handoff_spine_resolve *resolve;
    struct handoff_db *db;
    struct base_arena *arena;
    struct handoff_error *error;
    int64_t deadline_ns; /* of the search */
    struct search_view *view;
    struct handoff_visible visible;
    struct search_range ranges[HANDOFF_VISIBLE_MAX];
    size_t range_count;
    struct handoff_match *match;
    bool has_words;                    /* of the query: relevance is known */
    bool was_whole;                    /* the index was, before it was viewed */
    double best_relevance, best_score; /* of those that are left out, as they were given before */
    struct choice *choices;
    size_t count, room;
    size_t gone; /* chosen by the index, but without a row; what took its place may be missing */
};

static enum handoff_code choose_place(struct resolving *on, int64_t seq, unsigned origin,
                                      const struct handoff_match_place *place)
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
    on->choices[on->count++] = (struct choice){seq, origin, place};
    return HANDOFF_OK;
}

static enum handoff_code choose(struct resolving *on, int64_t seq, unsigned origin)
{
    return choose_place(on, seq, origin, NULL);
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

/* ---- the query ------------------------------------------------------------------------------- */

static int by_first_key(const void *left, const void *right)
{
    const struct search_range *l = left, *r = right;
    return (l->first > r->first) - (l->first < r->first);
}

static void find_ranges(struct resolving *on)
{
    on->range_count = on->visible.count;
    for (size_t i = 0; i < on->visible.count; i++)
        on->ranges[i] = (struct search_range){handoff_first_place(on->visible.scopes[i]),
                                              handoff_last_place(on->visible.scopes[i])};
    qsort(on->ranges, on->range_count, sizeof *on->ranges, by_first_key);
}

static struct handoff_match_boosts boosts_in_force(const struct handoff_embedded *embedded)
{
    const struct handoff_search_boosts percents = {.importance = atomic_load(&embedded->importance),
                                                   .recency = atomic_load(&embedded->recency),
                                                   .task = atomic_load(&embedded->task),
                                                   .agent = atomic_load(&embedded->agent),
                                                   .half_life_ms =
                                                       atomic_load(&embedded->half_life_ms)};
    return handoff_match_boosts(&percents);
}

static enum handoff_code begin_match(struct resolving *on)
{
    const struct handoff_spine_resolve *resolve = on->resolve;
    const struct handoff_match_query query = {.text = resolve->query,
                                              .intent = resolve->intent,
                                              .task = resolve->task,
                                              .agents = resolve->agents,
                                              .agent_count = resolve->agent_count,
                                              .flags = on->embedded->words,
                                              .boosts = boosts_in_force(on->embedded),
                                              .now_ms = base_wall_ms(on->embedded->clock),
                                              .deadline_ns = on->deadline_ns};
    find_ranges(on);
    if (!on->match)
        on->match = base_arena_alloc(on->arena, sizeof *on->match);
    if (!on->match)
        return handoff_error_no_memory(on->error);
    on->has_words = handoff_match_begin(on->match, &query, on->view, on->ranges, on->range_count);
    return HANDOFF_OK;
}

/* ---- the recent ones ----------------------------------------------------------------------- */

static enum handoff_code newest_of(struct resolving *on, const char *statement,
                                   struct base_span text, size_t most, int64_t **seqs,
                                   size_t *count)
{
    return handoff_visible_newest(&on->visible, on->db, statement, text, handoff_first_place(1),
                                  most, on->arena, seqs, count, on->error);
}

static enum handoff_code newest_of_task(struct resolving *on, size_t most, int64_t **seqs,
                                        size_t *count)
{
    *count = 0;
    if (!on->resolve->task.data)
        return HANDOFF_OK;
    return newest_of(on,
                     "SELECT seq FROM memories WHERE task_id = ?4 AND seq BETWEEN ?1 AND ?2"
                     " ORDER BY seq DESC LIMIT ?3",
                     on->resolve->task, most, seqs, count);
}

static int by_recency(const void *left, const void *right)
{
    const int64_t l = handoff_recency_of(*(const int64_t *)left);
    const int64_t r = handoff_recency_of(*(const int64_t *)right);
    return (l < r) - (l > r);
}

/* Those of earlier pages only say what the best one was worth. */
static enum handoff_code choose_matching(struct resolving *on)
{
    enum handoff_code code = HANDOFF_OK;
    for (size_t i = 0; i < on->match->count && code == HANDOFF_OK; i++) {
        const struct handoff_match_place *place = &on->match->places[i];
        if (i >= on->resolve->skip) {
            code = choose_place(on, place->seq, HANDOFF_ORIGIN_RECENT, place);
        } else {
            on->best_relevance = fmax(on->best_relevance, (double)place->relevance);
            on->best_score = fmax(on->best_score, (double)place->score);
        }
    }
    return code;
}

static bool is_seq_among(const int64_t *seqs, size_t count, int64_t seq)
{
    for (size_t i = 0; i < count; i++)
        if (seqs[i] == seq)
            return true;
    return false;
}

/* `before` come before them, and are not chosen twice. */
static enum handoff_code choose_newest(struct resolving *on, const int64_t *seqs, size_t count,
                                       const int64_t *before, size_t before_count)
{
    const size_t wanted = on->resolve->recent;
    enum handoff_code code = HANDOFF_OK;
    for (size_t i = 0, place = before_count; i < count && place < wanted && code == HANDOFF_OK; i++)
        if (!is_seq_among(before, before_count, seqs[i]) && place++ >= on->resolve->skip)
            code = choose(on, seqs[i], HANDOFF_ORIGIN_RECENT);
    return code;
}

static enum handoff_code find_newest(struct resolving *on)
{
    int64_t *of_task = NULL, *seqs;
    size_t task_count, count;
    enum handoff_code code = newest_of_task(on, on->resolve->recent, &of_task, &task_count);
    if (code == HANDOFF_OK)
        code = choose_newest(on, of_task, task_count, NULL, 0);
    if (code == HANDOFF_OK)
        code = newest_of(on,
                         "SELECT seq FROM memories WHERE seq BETWEEN ?1 AND ?2"
                         " ORDER BY seq DESC LIMIT ?3",
                         base_span(NULL, 0), on->resolve->recent, &seqs, &count);
    return code == HANDOFF_OK ? choose_newest(on, seqs, count, of_task, task_count) : code;
}

/* What is not searched in time, or is damaged, is the match's; what is not indexed yet, it cannot
   know. It was whole before it was viewed, and is after what was committed meanwhile. */
static void note_what_was_searched(struct resolving *on)
{
    struct handoff_spine_resolve *resolve = on->resolve;
    struct handoff_memory_index *index = on->embedded->index;
    const bool cut = on->match->cut;
    resolve->call.cut = cut && base_monotonic_ns(&base_clock_system) > on->deadline_ns;
    resolve->incomplete = cut || !on->was_whole || !handoff_memory_index_is_complete(index);
    if (on->match->damaged)
        handoff_memory_index_mend(index);
}

static enum handoff_code find_recent(struct resolving *on)
{
    if (on->resolve->recent == 0)
        return HANDOFF_OK;
    if (!on->has_words)
        return find_newest(on);
    if (!handoff_match_best(on->match, on->resolve->recent, on->arena))
        return handoff_error_no_memory(on->error);
    note_what_was_searched(on);
    on->gone += on->match->behind;
    return choose_matching(on);
}

static int by_seq(const void *a, const void *b)
{
    const struct choice *left = a, *right = b;
    return (left->seq > right->seq) - (left->seq < right->seq);
}

/* One entry for each memory, with all its origins. */
static void merge_choices(struct resolving *on)
{
    size_t kept = 0;
    if (on->count == 0)
        return;
    qsort(on->choices, on->count, sizeof *on->choices, by_seq);
    for (size_t i = 0; i < on->count; i++) {
        const struct choice *choice = &on->choices[i];
        if (kept > 0 && on->choices[kept - 1].seq == choice->seq) {
            on->choices[kept - 1].origin |= choice->origin;
            if (choice->place)
                on->choices[kept - 1].place = choice->place;
        } else {
            on->choices[kept++] = *choice;
        }
    }
    on->count = kept;
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

static bool keep_words(struct resolving *on, const struct handoff_match_fit *fit,
                       struct handoff_found_memory *found)
{
    struct base_span *words = base_arena_calloc(on->arena, fit->word_count + 1, sizeof *words);
    if (!words)
        return false;
    memcpy(words, fit->words, fit->word_count * sizeof *words);
    found->words = words;
    found->word_count = fit->word_count;
    return true;
}

static bool keep_snippet(struct resolving *on, struct handoff_found_memory *found)
{
    struct handoff_snippet snippet;
    if (!on->resolve->snippets || !on->has_words)
        return true;
    handoff_snippet_find(on->match, found->memory.content, &snippet);
    struct base_span *pieces = base_arena_calloc(on->arena, snippet.count, sizeof *pieces);
    if (!pieces)
        return false;
    memcpy(pieces, snippet.pieces, snippet.count * sizeof *pieces);
    found->snippet = pieces;
    found->snippet_count = snippet.count;
    return true;
}

static enum handoff_code read_age(struct resolving *on, struct handoff_memory *memory)
{
    if (!on->embedded->has_copies)
        return HANDOFF_OK;
    sqlite3_stmt *copy =
        handoff_db_statement(on->db, "SELECT fetched FROM memory_copies WHERE seq = ?1", on->error);
    if (!copy)
        return handoff_db_failure(on->db, NULL);
    sqlite3_bind_int64(copy, 1, memory->version);
    if (handoff_db_row(copy))
        memory->copied_ms = sqlite3_column_int64(copy, 0);
    return handoff_db_end(on->db, copy, on->error);
}

static bool is_of_task(const struct handoff_spine_resolve *resolve,
                       const struct handoff_memory *memory)
{
    return resolve->task.data && memory->task_id.data &&
           base_span_equal(resolve->task, memory->task_id);
}

/* What is not among the best, such as a pin, is measured by itself. That reads texts: when the time
   of the search is up, what follows has neither words nor a snippet. */
static bool measure_found(struct resolving *on, const struct choice *choice,
                          struct handoff_found_memory *found)
{
    const bool late = base_monotonic_ns(&base_clock_system) > on->deadline_ns;
    struct handoff_match_fit fit;
    handoff_match_fit(on->match, &found->memory, !late, &fit);
    const struct handoff_match_place *place = choice->place;
    found->relevance = (double)(place ? place->relevance : fit.relevance);
    found->score = (double)(place ? place->score : fit.relevance * fit.boost);
    found->similar = place ? place->similar : 0;
    if (!on->has_words)
        found->score = (double)fit.boost;
    return keep_words(on, &fit, found) && (late || keep_snippet(on, found));
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
    const bool there = handoff_db_row(row);
    if (there)
        code = handoff_embedded_read_row(row, on->arena, &found->memory, on->error);
    enum handoff_code end = handoff_db_end(on->db, row, code == HANDOFF_OK ? on->error : NULL);
    if (code != HANDOFF_OK || end != HANDOFF_OK)
        return code != HANDOFF_OK ? code : end;
    if (!there) {
        on->gone++;
        return HANDOFF_OK;
    }
    found->origin = choice->origin;
    if ((found->origin & HANDOFF_ORIGIN_RECENT) && is_of_task(on->resolve, &found->memory))
        found->origin |= HANDOFF_ORIGIN_TASK;
    if (!measure_found(on, choice, found))
        return handoff_error_no_memory(on->error);
    on->resolve->found_count++;
    code = read_age(on, &found->memory);
    return code == HANDOFF_OK ? read_tokens(on, found) : code;
}

/* Equal ones: the newest first, as the search has them, so that pages of a list fit together. */
static int by_score(const void *a, const void *b)
{
    const struct handoff_found_memory *left = a, *right = b;
    if (left->score != right->score)
        return left->score < right->score ? 1 : -1;
    return by_recency(&left->memory.version, &right->memory.version);
}

/* Shares of the best. */
static void scale_scores(const struct resolving *on, struct handoff_found_memory *found,
                         size_t count)
{
    double relevance = on->best_relevance, score = on->best_score;
    for (size_t i = 0; i < count; i++) {
        relevance = found[i].relevance > relevance ? found[i].relevance : relevance;
        score = found[i].score > score ? found[i].score : score;
    }
    for (size_t i = 0; i < count; i++) {
        found[i].relevance = relevance > 0 ? found[i].relevance / relevance : 0;
        found[i].score = score > 0 ? found[i].score / score : 0;
    }
}

static enum handoff_code read_found(struct resolving *on)
{
    struct handoff_spine_resolve *resolve = on->resolve;
    enum handoff_code code = HANDOFF_OK;
    merge_choices(on);
    if (on->count == 0)
        return HANDOFF_OK;
    resolve->found = base_arena_calloc(on->arena, on->count, sizeof *resolve->found);
    if (!resolve->found)
        return handoff_error_no_memory(on->error);
    for (size_t i = 0; i < on->count && code == HANDOFF_OK; i++)
        code = read_memory(on, &on->choices[i], &resolve->found[resolve->found_count]);
    scale_scores(on, resolve->found, resolve->found_count);
    if (resolve->found_count > 1)
        qsort(resolve->found, resolve->found_count, sizeof *resolve->found, by_score);
    return code;
}

static enum handoff_code run(struct resolving *on)
{
    on->count = on->gone = 0;
    on->best_relevance = on->best_score = 0;
    on->resolve->found_count = on->resolve->missing_count = 0;
    enum handoff_code code =
        handoff_visible_read(&on->visible, on->db, &on->resolve->scopes, on->error);
    if (code == HANDOFF_OK)
        code = begin_match(on);
    if (code == HANDOFF_OK)
        code = find_asked(on);
    if (code == HANDOFF_OK)
        code = find_pinned(on);
    if (code == HANDOFF_OK)
        code = find_recent(on);
    return code == HANDOFF_OK ? read_found(on) : code;
}

static enum handoff_code learn_whether_some(struct resolving *on, _Atomic(int) *what,
                                            const char *statement)
{
    int unknown = HANDOFF_EMBEDDED_UNKNOWN;
    int64_t some;
    if (atomic_load(what) != unknown)
        return HANDOFF_OK;
    enum handoff_code code = handoff_db_number(on->db, statement, &some, on->error);
    if (code == HANDOFF_OK)
        atomic_compare_exchange_strong(what, &unknown,
                                       some ? HANDOFF_EMBEDDED_SOME : HANDOFF_EMBEDDED_NONE);
    return code;
}

/* In any scope, visible or not. */
static enum handoff_code learn_what_there_is(struct resolving *on)
{
    enum handoff_code code =
        learn_whether_some(on, &on->embedded->memories, "SELECT EXISTS (SELECT 1 FROM memories)");
    if (code != HANDOFF_OK || !on->resolve->pins)
        return code;
    return learn_whether_some(on, &on->embedded->pins,
                              "SELECT EXISTS (SELECT 1 FROM memories WHERE pinned = 1)");
}

/* A read transaction makes the steps see one state of the spine. */
static enum handoff_code run_in_snapshot(struct resolving *on)
{
    on->was_whole = handoff_memory_index_is_complete(on->embedded->index);
    on->view = search_view_open(handoff_memory_index_search(on->embedded->index));
    if (!on->view)
        return handoff_error_no_memory(on->error);
    sqlite3_stmt *begin = handoff_db_statement(on->db, "BEGIN", on->error);
    enum handoff_code code =
        begin ? handoff_db_do(on->db, begin, on->error) : handoff_db_failure(on->db, NULL);
    if (code == HANDOFF_OK) {
        code = run(on);
        if (code == HANDOFF_OK)
            code = learn_what_there_is(on);
        handoff_db_roll_back(on->db);
    }
    search_view_close(&on->view);
    return code;
}

/* What is committed is in the index a moment later: a group of large memories takes tens of
   milliseconds. False: the time of the search is up. */
static bool wait_for_index(const struct resolving *on, int attempts)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    if (attempts < ATTEMPTS)
        return true;
    if (base_monotonic_ns(&base_clock_system) + PAUSE_NS > on->deadline_ns)
        return false;
    (void)nanosleep(&pause, NULL);
    return true;
}

static enum handoff_code run_until_nothing_is_gone(struct resolving *on)
{
    int attempts = 0;
    enum handoff_code code;
    do
        code = run_in_snapshot(on);
    while (code == HANDOFF_OK && on->gone > 0 && wait_for_index(on, ++attempts));
    on->resolve->incomplete |= on->gone > 0;
    return code;
}

static bool is_without(_Atomic(int) *what)
{
    return atomic_load(what) == HANDOFF_EMBEDDED_NONE;
}

static bool asks_for_nothing(struct handoff_embedded *embedded,
                             const struct handoff_spine_resolve *resolve)
{
    return resolve->id_count == 0 && resolve->recent == 0 &&
           (!resolve->pins || is_without(&embedded->pins) || is_without(&embedded->memories));
}

/* Where there is no memory, a few ids are missing at once, on the thread of the caller. */
static bool misses_all(struct handoff_embedded *embedded, struct handoff_spine_resolve *resolve)
{
    enum { FEW = 64 };
    if (resolve->id_count > FEW || !is_without(&embedded->memories))
        return false;
    resolve->missing = base_arena_alloc(resolve->arena, (FEW + 1) * sizeof *resolve->missing);
    for (size_t i = 0; resolve->missing && i < resolve->id_count; i++) {
        if (!asked_before(resolve, i))
            resolve->missing[resolve->missing_count++] = resolve->ids[i];
    }
    return resolve->missing != NULL;
}

static void run_resolve(struct handoff_store_read *read)
{
    struct handoff_embedded_scratch *scratch = handoff_embedded_scratch_of_read(read);
    struct handoff_spine_resolve *resolve = (void *)handoff_embedded_call(scratch);
    struct resolving on = {.embedded = scratch->embedded,
                           .resolve = resolve,
                           .arena = resolve->arena,
                           .error = &resolve->call.error,
                           .deadline_ns = scratch->deadline_ns};
    on.db = handoff_store_reader(on.embedded->store, on.error);
    if (!on.db)
        return;
    if (run_until_nothing_is_gone(&on) != HANDOFF_OK)
        resolve->found_count = resolve->missing_count = 0;
    handoff_store_reader_done(on.embedded->store, on.db);
}

enum handoff_spine_progress handoff_embedded_resolve(struct handoff_spine *spine,
                                                     struct handoff_spine_resolve *resolve)
{
    struct handoff_embedded *embedded = handoff_embedded_of(spine);
    if (asks_for_nothing(embedded, resolve) || misses_all(embedded, resolve)) {
        resolve->call.asked = false;
        return HANDOFF_SPINE_DONE;
    }
    handoff_embedded_scratch(&resolve->call)->deadline_ns =
        base_monotonic_ns(&base_clock_system) + embedded->search_timeout_ms * INT64_C(1000000);
    return handoff_embedded_read(spine, &resolve->call, run_resolve);
}
