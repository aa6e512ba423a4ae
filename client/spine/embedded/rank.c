/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranking by BM25 over an FTS5 index, in time that does not grow with the number of memories. Runs
 * on a reader thread of the store.
 *
 * Each visible scope is a range of the index (place.h), and is looked into by itself.
 *
 * FTS5 has bm25(), but it counts the occurrences of every word in the whole index before it looks
 * at the first row: 160 ms for six words at 100,000 memories. So the index only finds rows and
 * tells the occurrences in each, newest first, and we stop after SAMPLE of them:
 *
 *   - If the query ran out before that, everything that matches was seen and all numbers are exact.
 *     This is the case for small spines and for queries of rare words.
 *   - Otherwise some words are common. Those that more than a quarter of the sample have are
 * dropped from what a row must match (not from what counts), and the rest is looked for once more,
 * which reaches further back. How many memories have a dropped word is estimated from the sample.
 *
 * "The N most relevant recent memories" thus means: among the newest few hundred that have common
 * words of the query, and further back the more telling the word is. The same content always gives
 * the same result.
 *
 * The occurrences come out of FTS5 through an auxiliary function, handoff_terms(), that returns
 * them as an array of doubles: memories, words in all of them, words in this one, then a weighted
 * count per phrase of the expression. FTS5 numbers the phrases in the order in which they are
 * written.
 */
#include "client/spine/embedded/rank.h"

#include <stdlib.h>
#include <string.h>

#include "client/spine/embedded/full_text.h"
#include "client/spine/embedded/place.h"
#include "client/spine/embedded/score.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum {
    SAMPLE = 256,
    ROUNDS = 2,
    COMMON_SHARE = 4,                  /* a word in more than 1/4 of the sample is common */
    HEAD = 3,                          /* numbers before the counts in what handoff_terms gives */
    PHRASES = 2 * HANDOFF_QUERY_TERMS, /* an expression may name each term twice */
};

/* ---- inside FTS5 --------------------------------------------------------------------------- */

static int read_totals(const Fts5ExtensionApi *api, Fts5Context *row, double *numbers)
{
    sqlite3_int64 rows = 0, words = 0;
    int length = 0;
    int result = api->xRowCount(row, &rows);
    if (result == SQLITE_OK)
        result = api->xColumnTotalSize(row, -1, &words);
    if (result == SQLITE_OK)
        result = api->xColumnSize(row, -1, &length);
    numbers[0] = (double)rows;
    numbers[1] = (double)words;
    numbers[2] = (double)length;
    return result;
}

static int read_occurrences(const Fts5ExtensionApi *api, Fts5Context *row, double *counts)
{
    static const double weights[] = {HANDOFF_WEIGHT_CONTENT, HANDOFF_WEIGHT_SUMMARY,
                                     HANDOFF_WEIGHT_TAGS};
    int occurrences = 0;
    int result = api->xInstCount(row, &occurrences);
    for (int i = 0; i < occurrences && result == SQLITE_OK; i++) {
        int phrase, column, word;
        result = api->xInst(row, i, &phrase, &column, &word);
        if (result == SQLITE_OK && phrase < PHRASES)
            counts[phrase] += weights[column];
    }
    return result;
}

static void give_terms(const Fts5ExtensionApi *api, Fts5Context *row, sqlite3_context *context,
                       int argument_count, sqlite3_value **arguments)
{
    double numbers[HEAD + PHRASES] = {0};
    int phrases = api->xPhraseCount(row);
    (void)argument_count;
    (void)arguments;
    int result = read_totals(api, row, numbers);
    if (result == SQLITE_OK)
        result = read_occurrences(api, row, numbers + HEAD);
    if (result != SQLITE_OK)
        sqlite3_result_error_code(context, result);
    else
        sqlite3_result_blob(context, numbers,
                            (HEAD + (phrases < PHRASES ? phrases : PHRASES)) * (int)sizeof *numbers,
                            SQLITE_TRANSIENT);
}

enum handoff_code handoff_rank_prepare(struct handoff_db *db, struct handoff_error *error)
{
    if (db->spine_ready)
        return HANDOFF_OK;
    fts5_api *api = handoff_full_text_api(db, error);
    if (!api)
        return handoff_db_failure(db, NULL);
    if (api->xCreateFunction(api, "handoff_terms", NULL, give_terms, NULL) != SQLITE_OK)
        return handoff_error_no_memory(error);
    enum handoff_code code = handoff_full_text_register(db, api, error);
    db->spine_ready = code == HANDOFF_OK;
    return code;
}

/* ---- the query in a scope ------------------------------------------------------------------- */

/* Its terms as the scope has them. */
struct scoped_query {
    struct handoff_query query;
    struct base_buffer text; /* of the terms; empty where they are the query's own */
};

static enum handoff_code scope_query(struct scoped_query *scoped, struct handoff_db *db,
                                     const struct handoff_query *query, int64_t scope,
                                     struct handoff_error *error)
{
    size_t at[HANDOFF_QUERY_TERMS + 1] = {0};
    *scoped = (struct scoped_query){.query = *query};
    if (scope == 0)
        return HANDOFF_OK;
    fts5_api *api = handoff_full_text_api(db, error);
    if (!api)
        return handoff_db_failure(db, NULL);
    for (int i = 0; i < query->count; i++) {
        if (!handoff_full_text_words(api, scope, query->terms[i], &scoped->text))
            return handoff_error_no_memory(error);
        at[i + 1] = scoped->text.size;
    }
    for (int i = 0; i < query->count; i++)
        scoped->query.terms[i] = base_span(scoped->text.data + at[i], at[i + 1] - at[i]);
    return HANDOFF_OK;
}

/* ---- one round ----------------------------------------------------------------------------- */

/* A row that was seen: its counts by term of the query. */
struct seen {
    int64_t seq;
    double length;
    float counts[HANDOFF_QUERY_TERMS];
};

struct collection {
    struct seen *seen; /* of all rounds; room for one more round */
    size_t count;
    double memories, words; /* in the spine */
    int64_t scope;          /* the one that is looked into, and the query in it */
    struct scoped_query scoped;
    double with[HANDOFF_QUERY_TERMS]; /* about how many of its memories have a term */
};

static int bits_in(uint32_t bits)
{
    return __builtin_popcount(bits);
}

static uint32_t all_terms(const struct handoff_query *query)
{
    return (1u << query->count) - 1;
}

/* Matches rows that have one of `must`, and counts all terms: phrases of `must` come first in the
   expression, those that we read after them. */
static void write_expression(struct base_buffer *buffer, const struct handoff_query *query,
                             uint32_t must)
{
    uint32_t all = all_terms(query);
    base_buffer_clear(buffer);
    if (must != all) {
        base_buffer_byte(buffer, '(');
        handoff_query_append(buffer, query, must);
        base_buffer_text(buffer, ") AND (");
    }
    handoff_query_append(buffer, query, all);
    if (must != all)
        base_buffer_byte(buffer, ')');
}

/* false: FTS5 gave something else than was agreed. */
static bool read_seen(sqlite3_stmt *row, struct collection *collection, struct seen *seen,
                      int skipped_phrases, int terms)
{
    double numbers[HEAD + PHRASES];
    size_t size = (size_t)sqlite3_column_bytes(row, 1);
    size_t wanted = (size_t)(HEAD + skipped_phrases + terms) * sizeof *numbers;
    const void *data = sqlite3_column_blob(row, 1);
    if (!data || size != wanted)
        return false;
    memcpy(numbers, data, size);
    collection->memories = numbers[0];
    collection->words = numbers[1];
    seen->seq = sqlite3_column_int64(row, 0);
    seen->length = numbers[2];
    memset(seen->counts, 0, sizeof seen->counts);
    for (int i = 0; i < terms; i++)
        seen->counts[i] = (float)numbers[HEAD + skipped_phrases + i];
    return true;
}

static enum handoff_code foreign_answer(struct handoff_error *error)
{
    return handoff_error_set(error, HANDOFF_ERR_INTERNAL,
                             "unexpected result format from the full-text index", NULL, NULL);
}

/* Appends up to SAMPLE rows of the scope, newest first. */
static enum handoff_code run_round(struct handoff_rank *rank, struct handoff_db *db, uint32_t must,
                                   struct collection *collection, struct handoff_error *error)
{
    struct base_buffer expression = {0};
    int skipped = must == all_terms(&rank->query) ? 0 : bits_in(must);
    bool understood = true;
    sqlite3_stmt *match =
        handoff_db_statement(db,
                             "SELECT rowid, handoff_terms(memories_text) FROM memories_text"
                             " WHERE memories_text MATCH ?1 AND rowid BETWEEN ?3 AND ?4"
                             " ORDER BY rowid DESC LIMIT ?2",
                             error);
    if (!match)
        return handoff_db_failure(db, NULL);
    write_expression(&expression, &collection->scoped.query, must);
    handoff_db_bind_text(match, 1, base_buffer_span(&expression));
    sqlite3_bind_int64(match, 2, SAMPLE);
    sqlite3_bind_int64(match, 3, handoff_first_place(collection->scope));
    sqlite3_bind_int64(match, 4, handoff_last_place(collection->scope));
    while (!expression.failed && understood && handoff_db_row(match))
        understood = read_seen(match, collection, &collection->seen[collection->count++], skipped,
                               rank->query.count);
    enum handoff_code code = handoff_db_end(db, match, error);
    bool failed = expression.failed;
    base_buffer_free(&expression);
    if (failed)
        return handoff_error_no_memory(error);
    return code == HANDOFF_OK && !understood ? foreign_answer(error) : code;
}

/* ---- all rounds ---------------------------------------------------------------------------- */

/* How many of the rows seen since `first` have a term. */
static double with_term(const struct collection *collection, size_t first, int term)
{
    double with = 0;
    for (size_t i = first; i < collection->count; i++)
        with += collection->seen[i].counts[term] > 0;
    return with;
}

/* Estimates how many memories of the scope have the terms in `must`, from the round that began at
   `first`: exactly when the round saw all there is, else from the share of the scope it went
   through, whose oldest memory is at `start`. */
static void count_with(const struct handoff_rank *rank, struct collection *collection, size_t first,
                       uint32_t must, bool complete, int64_t start)
{
    if (collection->count == first)
        return;
    double share = 1;
    if (!complete) {
        const int64_t newest = collection->seen[first].seq;
        const int64_t oldest = collection->seen[collection->count - 1].seq;
        share = (double)(newest - oldest + 1) / (double)(newest - start + 1);
    }
    for (int term = 0; term < rank->query.count; term++) {
        if (must >> term & 1)
            collection->with[term] = with_term(collection, first, term) / share;
    }
}

static enum handoff_code find_start(struct handoff_db *db, int64_t scope, int64_t *start,
                                    struct handoff_error *error)
{
    sqlite3_stmt *find = handoff_db_statement(
        db, "SELECT min(seq) FROM memories WHERE seq BETWEEN ?1 AND ?2", error);
    if (!find)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(find, 1, handoff_first_place(scope));
    sqlite3_bind_int64(find, 2, handoff_last_place(scope));
    *start = handoff_db_row(find) ? sqlite3_column_int64(find, 0) : 0;
    return handoff_db_end(db, find, error);
}

static uint32_t drop_common(const struct handoff_rank *rank, const struct collection *collection,
                            size_t first, uint32_t must)
{
    double common = (double)(collection->count - first) / (double)COMMON_SHARE;
    for (int term = 0; term < rank->query.count; term++)
        if (with_term(collection, first, term) > common)
            must &= ~(1u << term);
    return must;
}

static enum handoff_code make_room(struct collection *collection, struct handoff_error *error)
{
    size_t size = (collection->count + SAMPLE) * sizeof *collection->seen;
    struct seen *grown = base_realloc(collection->seen, size);
    if (!grown)
        return handoff_error_no_memory(error);
    collection->seen = grown;
    return HANDOFF_OK;
}

/* In one scope. */
static enum handoff_code run_rounds(struct handoff_rank *rank, struct handoff_db *db,
                                    struct collection *collection, int64_t *seen_from,
                                    struct handoff_error *error)
{
    uint32_t must = all_terms(&rank->query);
    int64_t start = 0;
    for (int round = 0; round < ROUNDS && must != 0; round++) {
        size_t first = collection->count;
        enum handoff_code code = make_room(collection, error);
        if (code == HANDOFF_OK)
            code = run_round(rank, db, must, collection, error);
        bool complete = collection->count - first < SAMPLE;
        if (code == HANDOFF_OK && round == 0 && !complete)
            code = find_start(db, collection->scope, &start, error);
        if (code != HANDOFF_OK)
            return code;
        if (round == 0 && !complete)
            *seen_from = collection->seen[collection->count - 1].seq;
        count_with(rank, collection, first, must, complete, start);
        uint32_t rest = complete ? 0 : drop_common(rank, collection, first, must);
        must = rest == must ? 0 : rest;
    }
    return HANDOFF_OK;
}

/* Of all visible memories. */
static enum handoff_code look_into_scopes(struct handoff_rank *rank, struct handoff_db *db,
                                          struct collection *collection,
                                          struct handoff_error *error)
{
    double with[HANDOFF_QUERY_TERMS] = {0};
    for (size_t i = 0; i < rank->visible->count; i++) {
        collection->scope = rank->visible->scopes[i];
        memset(collection->with, 0, sizeof collection->with);
        rank->seen_from[i] = handoff_first_place(collection->scope);
        struct scoped_query *scoped = &collection->scoped;
        enum handoff_code code = scope_query(scoped, db, &rank->query, collection->scope, error);
        if (code == HANDOFF_OK)
            code = run_rounds(rank, db, collection, &rank->seen_from[i], error);
        base_buffer_free(&scoped->text);
        if (code != HANDOFF_OK)
            return code;
        for (int term = 0; term < rank->query.count; term++)
            with[term] += collection->with[term];
    }
    for (int term = 0; term < rank->query.count; term++)
        rank->idf[term] = handoff_score_idf(with[term], (double)rank->visible->memories);
    return HANDOFF_OK;
}

static double bm25_of(const struct handoff_rank *rank, const struct collection *collection,
                      const struct seen *seen)
{
    double average = collection->memories > 0 ? collection->words / collection->memories : 0;
    double sum = 0;
    for (int term = 0; term < rank->query.count; term++)
        if (seen->counts[term] > 0)
            sum += handoff_score_term(seen->counts[term], seen->length, average, rank->idf[term]);
    return sum;
}

static int newest_first(const void *a, const void *b)
{
    int64_t left = ((const struct handoff_candidate *)a)->seq;
    int64_t right = ((const struct handoff_candidate *)b)->seq;
    return (left < right) - (left > right);
}

/* Rounds may have seen a row twice; it has the same score both times. */
static void drop_repeated(struct handoff_rank *rank)
{
    size_t kept = 0;
    qsort(rank->candidates, rank->count, sizeof *rank->candidates, newest_first);
    for (size_t i = 0; i < rank->count; i++)
        if (kept == 0 || rank->candidates[kept - 1].seq != rank->candidates[i].seq)
            rank->candidates[kept++] = rank->candidates[i];
    rank->count = kept;
}

static enum handoff_code score_all(struct handoff_rank *rank, const struct collection *collection,
                                   struct base_arena *arena, struct handoff_error *error)
{
    if (collection->count == 0)
        return HANDOFF_OK;
    rank->candidates = base_arena_alloc(arena, collection->count * sizeof *rank->candidates);
    if (!rank->candidates)
        return handoff_error_no_memory(error);
    for (size_t i = 0; i < collection->count; i++) {
        double bm25 = bm25_of(rank, collection, &collection->seen[i]);
        rank->candidates[i] = (struct handoff_candidate){collection->seen[i].seq, bm25};
        if (bm25 > rank->best)
            rank->best = bm25;
    }
    rank->count = collection->count;
    drop_repeated(rank);
    return HANDOFF_OK;
}

enum handoff_code handoff_rank_collect(struct handoff_rank *rank, struct handoff_db *db,
                                       const struct handoff_visible *visible,
                                       struct base_span query, struct base_arena *arena,
                                       struct handoff_error *error)
{
    struct collection collection = {0};
    memset(rank, 0, sizeof *rank);
    rank->visible = visible;
    handoff_query_split(&rank->query, query);
    if (rank->query.count == 0)
        return HANDOFF_OK;
    enum handoff_code code = handoff_rank_prepare(db, error);
    if (code == HANDOFF_OK)
        code = look_into_scopes(rank, db, &collection, error);
    if (code == HANDOFF_OK)
        code = score_all(rank, &collection, arena, error);
    base_free(collection.seen);
    return code;
}

/* ---- a single memory ----------------------------------------------------------------------- */

static const struct handoff_candidate *find_candidate(const struct handoff_rank *rank, int64_t seq)
{
    struct handoff_candidate key = {.seq = seq};
    return rank->count == 0
               ? NULL
               : bsearch(&key, rank->candidates, rank->count, sizeof key, newest_first);
}

static enum handoff_code measure_scoped(struct handoff_rank *rank, struct handoff_db *db,
                                        const struct handoff_query *query, int64_t seq,
                                        double *bm25, struct handoff_error *error)
{
    struct base_buffer expression = {0};
    struct collection collection = {0};
    struct seen seen;
    bool understood = true;
    sqlite3_stmt *match =
        handoff_db_statement(db,
                             "SELECT rowid, handoff_terms(memories_text) FROM memories_text"
                             " WHERE memories_text MATCH ?1 AND rowid = ?2",
                             error);
    if (!match)
        return handoff_db_failure(db, NULL);
    write_expression(&expression, query, all_terms(query));
    handoff_db_bind_text(match, 1, base_buffer_span(&expression));
    sqlite3_bind_int64(match, 2, seq);
    if (!expression.failed && handoff_db_row(match)) {
        understood = read_seen(match, &collection, &seen, 0, query->count);
        if (understood)
            *bm25 = bm25_of(rank, &collection, &seen);
    }
    enum handoff_code code = handoff_db_end(db, match, error);
    bool failed = expression.failed;
    base_buffer_free(&expression);
    if (failed)
        return handoff_error_no_memory(error);
    return code == HANDOFF_OK && !understood ? foreign_answer(error) : code;
}

static enum handoff_code measure_one(struct handoff_rank *rank, struct handoff_db *db, int64_t seq,
                                     double *bm25, struct handoff_error *error)
{
    struct scoped_query scoped;
    enum handoff_code code = scope_query(&scoped, db, &rank->query, handoff_scope_of(seq), error);
    if (code == HANDOFF_OK)
        code = measure_scoped(rank, db, &scoped.query, seq, bm25, error);
    base_buffer_free(&scoped.text);
    return code;
}

/* Whether every memory of its scope, from this one on, that has a word of the query is a
   candidate. */
static bool was_within_sample(const struct handoff_rank *rank, int64_t seq)
{
    for (size_t i = 0; i < rank->visible->count; i++)
        if (rank->visible->scopes[i] == handoff_scope_of(seq))
            return seq >= rank->seen_from[i];
    return false;
}

enum handoff_code handoff_rank_one(struct handoff_rank *rank, struct handoff_db *db, int64_t seq,
                                   double *bm25, struct handoff_error *error)
{
    *bm25 = 0;
    if (rank->query.count == 0 || rank->count == 0)
        return HANDOFF_OK; /* no words, or no memory has any of them */
    const struct handoff_candidate *candidate = find_candidate(rank, seq);
    if (candidate)
        *bm25 = candidate->bm25;
    if (candidate || was_within_sample(rank, seq))
        return HANDOFF_OK;
    enum handoff_code code = measure_one(rank, db, seq, bm25, error);
    if (code == HANDOFF_OK && *bm25 > rank->best)
        rank->best = *bm25;
    return code;
}
