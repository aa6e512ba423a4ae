/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps copies, see copies.h. A thread takes what was handed over and writes it in one job of the
 * store; most of it only says that a copy is still the same, which costs one row.
 *
 * The table memory_copies has a row for each copy: when it was fetched and used last, and what it
 * counts. It is in the store of copies alone, and made where it is missing.
 */
#include "client/spine/embedded/copies.h"

#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/queue.h>

#include "client/spine/embedded/embedded.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"
#include "lib/base/serving.h"

enum {
    COPIES_MAGIC = 0x636f7079,
    ROW_BYTES = 512,                /* what a copy costs besides its texts, about */
    WAITING_MAX = 16 * 1024 * 1024, /* bytes that wait to be written */
};

/* What was handed over in one call. */
struct copies_letter {
    STAILQ_ENTRY(copies_letter) entry;
    struct base_arena arena;
    struct handoff_memory *memories; /* as the remote spine has them */
    size_t count;
    struct base_span *gone, *used;
    size_t ngone, nused;
    struct handoff_scopes scopes; /* of what is gone */
    int64_t at_ms;
    size_t bytes;
    bool failed; /* out of memory */
};

STAILQ_HEAD(copies_letters, copies_letter);

struct handoff_copies {
    unsigned magic;
    struct handoff_store *store;
    struct handoff_spine *spine;
    struct handoff_embedded *embedded;
    int64_t bytes_max;
    _Atomic(int64_t) bytes;
    pthread_t thread;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct copies_letters letters; /* under the lock, like all below */
    size_t waiting;                /* bytes of what is not written yet */
    bool closing;
};

/* ---- one copy: on the store's writer thread -------------------------------------------------- */

struct copies_job {
    struct handoff_store_job job;
    struct handoff_copies *copies;
    struct copies_letters *letters;
    int64_t bytes; /* result */
};

struct copy_row {
    int64_t seq; /* 0: there is none */
    struct handoff_memory memory;
};

static enum handoff_code find_copy(struct handoff_db *db, struct base_span id,
                                   struct base_arena *arena, struct copy_row *row,
                                   struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    sqlite3_stmt *find = handoff_db_statement(
        db, "SELECT " HANDOFF_MEMORY_COLUMNS " FROM memories WHERE id = ?1", error);
    *row = (struct copy_row){0};
    if (!find)
        return handoff_db_failure(db, NULL);
    handoff_db_bind_text(find, 1, id);
    if (handoff_db_row(find)) {
        code = handoff_embedded_read_row(find, arena, &row->memory, error);
        row->seq = row->memory.version;
    }
    enum handoff_code end = handoff_db_end(db, find, code == HANDOFF_OK ? error : NULL);
    return code != HANDOFF_OK ? code : end;
}

static bool has_same_tags(const struct handoff_memory *a, const struct handoff_memory *b)
{
    bool same = a->tag_count == b->tag_count;
    for (size_t i = 0; same && i < a->tag_count; i++)
        same = base_span_equal(a->tags[i], b->tags[i]);
    return same;
}

/* Times are left out: an answer without them has that at which it came. */
static bool is_same_memory(const struct handoff_memory *a, const struct handoff_memory *b)
{
    return base_span_equal(a->content, b->content) && base_span_equal(a->summary, b->summary) &&
           base_span_equal(a->metadata, b->metadata) && base_span_equal(a->agent, b->agent) &&
           base_span_equal(a->scope, b->scope) && base_span_equal(a->task_id, b->task_id) &&
           a->importance == b->importance && a->pinned == b->pinned && has_same_tags(a, b);
}

static enum handoff_code add_copies_bytes(struct handoff_db *db, int64_t change,
                                          struct handoff_error *error)
{
    sqlite3_stmt *add =
        handoff_db_statement(db, "UPDATE memory_copies_size SET bytes = bytes + ?1", error);
    if (!add)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(add, 1, change);
    return handoff_db_do(db, add, error);
}

static enum handoff_code touch_copy(struct handoff_db *db, int64_t seq, int64_t at_ms, bool fetched,
                                    struct handoff_error *error)
{
    sqlite3_stmt *touch =
        handoff_db_statement(db,
                             "UPDATE memory_copies SET used = max(used, ?2),"
                             " fetched = CASE WHEN ?3 THEN ?2 ELSE fetched END WHERE seq = ?1",
                             error);
    if (!touch)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(touch, 1, seq);
    sqlite3_bind_int64(touch, 2, at_ms);
    sqlite3_bind_int(touch, 3, fetched);
    return handoff_db_do(db, touch, error);
}

static enum handoff_code forget_copy_row(struct handoff_db *db, int64_t seq,
                                         struct handoff_error *error)
{
    sqlite3_stmt *forget =
        handoff_db_statement(db, "DELETE FROM memory_copies WHERE seq = ?1 RETURNING bytes", error);
    if (!forget)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(forget, 1, seq);
    const int64_t bytes = handoff_db_row(forget) ? sqlite3_column_int64(forget, 0) : 0;
    enum handoff_code code = handoff_db_end(db, forget, error);
    return code == HANDOFF_OK ? add_copies_bytes(db, -bytes, error) : code;
}

static enum handoff_code remove_copy(const struct handoff_copies *copies, struct handoff_db *db,
                                     int64_t seq, struct handoff_error *error)
{
    enum handoff_code code = forget_copy_row(db, seq, error);
    return code == HANDOFF_OK ? handoff_embedded_remove_row(copies->embedded, db, seq, error)
                              : code;
}

static enum handoff_code add_copy_row(struct handoff_db *db, const struct handoff_memory *memory,
                                      int64_t at_ms, struct handoff_error *error)
{
    const int64_t bytes = (int64_t)(memory->id.size + handoff_memory_bytes(memory)) + ROW_BYTES;
    sqlite3_stmt *add = handoff_db_statement(
        db, "INSERT INTO memory_copies (seq, fetched, used, bytes) VALUES (?1, ?2, ?2, ?3)", error);
    if (!add)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(add, 1, memory->version);
    sqlite3_bind_int64(add, 2, at_ms);
    sqlite3_bind_int64(add, 3, bytes);
    enum handoff_code code = handoff_db_do(db, add, error);
    return code == HANDOFF_OK ? add_copies_bytes(db, bytes, error) : code;
}

static enum handoff_code write_copy(const struct handoff_copies *copies, struct handoff_db *db,
                                    struct copies_letter *letter, struct handoff_memory *memory,
                                    struct handoff_error *error)
{
    struct copy_row old;
    enum handoff_code code = find_copy(db, memory->id, &letter->arena, &old, error);
    if (code != HANDOFF_OK)
        return code;
    if (old.seq != 0 && is_same_memory(&old.memory, memory))
        return touch_copy(db, old.seq, letter->at_ms, true, error);
    if (old.seq != 0)
        code = forget_copy_row(db, old.seq, error);
    if (code == HANDOFF_OK)
        code = handoff_embedded_write_row(copies->embedded, db, old.seq, memory, error);
    return code == HANDOFF_OK ? add_copy_row(db, memory, letter->at_ms, error) : code;
}

/* It may be there for others. */
static enum handoff_code drop_copy(const struct handoff_copies *copies, struct handoff_db *db,
                                   struct copies_letter *letter, struct base_span id,
                                   struct handoff_error *error)
{
    struct copy_row old;
    enum handoff_code code = find_copy(db, id, &letter->arena, &old, error);
    if (code != HANDOFF_OK || old.seq == 0 ||
        !handoff_scopes_see(&letter->scopes, old.memory.scope))
        return code;
    return remove_copy(copies, db, old.seq, error);
}

static enum handoff_code use_copy(struct handoff_db *db, struct copies_letter *letter,
                                  struct base_span id, struct handoff_error *error)
{
    struct copy_row old;
    enum handoff_code code = find_copy(db, id, &letter->arena, &old, error);
    return code == HANDOFF_OK && old.seq != 0 ? touch_copy(db, old.seq, letter->at_ms, false, error)
                                              : code;
}

static enum handoff_code write_letter(const struct handoff_copies *copies, struct handoff_db *db,
                                      struct copies_letter *letter, struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    for (size_t i = 0; i < letter->count && code == HANDOFF_OK; i++)
        code = write_copy(copies, db, letter, &letter->memories[i], error);
    for (size_t i = 0; i < letter->ngone && code == HANDOFF_OK; i++)
        code = drop_copy(copies, db, letter, letter->gone[i], error);
    for (size_t i = 0; i < letter->nused && code == HANDOFF_OK; i++)
        code = use_copy(db, letter, letter->used[i], error);
    return code;
}

/* ---- how much is kept ------------------------------------------------------------------------ */

static enum handoff_code read_copies_bytes(struct handoff_db *db, int64_t *bytes,
                                           struct handoff_error *error)
{
    return handoff_db_number(db, "SELECT bytes FROM memory_copies_size", bytes, error);
}

static enum handoff_code find_least_used(struct handoff_db *db, int64_t *seq,
                                         struct handoff_error *error)
{
    return handoff_db_number(db, "SELECT seq FROM memory_copies ORDER BY used, seq LIMIT 1", seq,
                             error);
}

static enum handoff_code make_room_for_copies(const struct handoff_copies *copies,
                                              struct handoff_db *db, int64_t *bytes,
                                              struct handoff_error *error)
{
    int64_t seq = 1;
    enum handoff_code code = read_copies_bytes(db, bytes, error);
    while (code == HANDOFF_OK && *bytes > copies->bytes_max && seq != 0) {
        code = find_least_used(db, &seq, error);
        if (code == HANDOFF_OK && seq != 0)
            code = remove_copy(copies, db, seq, error);
        if (code == HANDOFF_OK)
            code = read_copies_bytes(db, bytes, error);
    }
    return code;
}

static enum handoff_code run_copies(struct handoff_store_job *job, struct handoff_db *db,
                                    struct handoff_error *error)
{
    struct copies_job *work = (void *)job;
    enum handoff_code code = HANDOFF_OK;
    struct copies_letter *letter;
    STAILQ_FOREACH (letter, work->letters, entry) {
        if (code == HANDOFF_OK)
            code = write_letter(work->copies, db, letter, error);
    }
    return code == HANDOFF_OK ? make_room_for_copies(work->copies, db, &work->bytes, error) : code;
}

static enum handoff_code run_make_tables(struct handoff_store_job *job, struct handoff_db *db,
                                         struct handoff_error *error)
{
    struct copies_job *work = (void *)job;
    enum handoff_code code = handoff_db_exec(
        db,
        "CREATE TABLE IF NOT EXISTS memory_copies (seq INTEGER PRIMARY KEY,"
        " fetched INTEGER NOT NULL, used INTEGER NOT NULL, bytes INTEGER NOT NULL);"
        "CREATE INDEX IF NOT EXISTS memory_copies_used ON memory_copies (used, seq);"
        "CREATE TABLE IF NOT EXISTS memory_copies_size (bytes INTEGER NOT NULL);"
        "INSERT INTO memory_copies_size SELECT 0 WHERE NOT EXISTS"
        " (SELECT 1 FROM memory_copies_size);",
        error);
    return code == HANDOFF_OK ? make_room_for_copies(work->copies, db, &work->bytes, error) : code;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void free_letter(struct copies_letter *letter)
{
    base_arena_free(&letter->arena);
    base_free(letter);
}

static void write_letters(struct handoff_copies *copies, struct copies_letters *letters)
{
    struct copies_job work = {.job.run = run_copies, .copies = copies, .letters = letters};
    struct copies_letter *letter;
    size_t bytes = 0;
    if (handoff_store_run(copies->store, &work.job) == HANDOFF_OK)
        atomic_store(&copies->bytes, work.bytes);
    while ((letter = STAILQ_FIRST(letters))) {
        STAILQ_REMOVE_HEAD(letters, entry);
        bytes += letter->bytes;
        free_letter(letter);
    }
    pthread_mutex_lock(&copies->lock);
    copies->waiting -= bytes;
    pthread_mutex_unlock(&copies->lock);
    pthread_cond_broadcast(&copies->changed);
}

/* false: there will be no more. */
static bool take_letters(struct handoff_copies *copies, struct copies_letters *letters)
{
    pthread_mutex_lock(&copies->lock);
    while (STAILQ_EMPTY(&copies->letters) && !copies->closing)
        pthread_cond_wait(&copies->changed, &copies->lock);
    STAILQ_CONCAT(letters, &copies->letters);
    pthread_mutex_unlock(&copies->lock);
    return !STAILQ_EMPTY(letters);
}

static void *run_copies_thread(void *argument)
{
    struct handoff_copies *copies = argument;
    struct copies_letters letters = STAILQ_HEAD_INITIALIZER(letters);
    base_thread_gives_way();
    while (take_letters(copies, &letters))
        write_letters(copies, &letters);
    return NULL;
}

/* ---- handing over: any thread ---------------------------------------------------------------- */

static struct base_span keep_letter_text(struct copies_letter *letter, struct base_span text)
{
    if (!text.data)
        return text;
    const char *kept = base_arena_copy(&letter->arena, text.data, text.size);
    letter->failed = letter->failed || !kept;
    letter->bytes += text.size;
    return base_span(kept, text.size);
}

static struct base_span *keep_letter_list(struct copies_letter *letter,
                                          const struct base_span *texts, size_t count)
{
    struct base_span *kept = base_arena_calloc(&letter->arena, count + 1, sizeof *kept);
    letter->failed = letter->failed || !kept;
    for (size_t i = 0; i < count && !letter->failed; i++)
        kept[i] = keep_letter_text(letter, texts[i]);
    return kept;
}

static void keep_letter_memory(struct copies_letter *letter, const struct handoff_memory *memory)
{
    struct handoff_memory *kept = &letter->memories[letter->count++];
    *kept = *memory;
    kept->id = keep_letter_text(letter, memory->id);
    kept->content = keep_letter_text(letter, memory->content);
    kept->summary = keep_letter_text(letter, memory->summary);
    kept->metadata = keep_letter_text(letter, memory->metadata);
    kept->agent = keep_letter_text(letter, memory->agent);
    kept->scope = keep_letter_text(letter, memory->scope);
    kept->task_id = keep_letter_text(letter, memory->task_id);
    kept->tags = keep_letter_list(letter, memory->tags, memory->tag_count);
}

static struct copies_letter *begin_letter(const struct handoff_copies *copies)
{
    struct copies_letter *letter = base_calloc(1, sizeof *letter);
    BASE_CHECK_MAGIC(copies, COPIES_MAGIC);
    if (!letter)
        return NULL;
    base_arena_init(&letter->arena, 0);
    letter->at_ms = base_wall_ms(copies->embedded->clock);
    letter->bytes = sizeof *letter;
    return letter;
}

static void hand_over_letter(struct handoff_copies *copies, struct copies_letter *letter)
{
    bool taken = false;
    pthread_mutex_lock(&copies->lock);
    if (!letter->failed && copies->waiting + letter->bytes <= WAITING_MAX) {
        STAILQ_INSERT_TAIL(&copies->letters, letter, entry);
        copies->waiting += letter->bytes;
        taken = true;
    }
    pthread_mutex_unlock(&copies->lock);
    if (taken)
        pthread_cond_broadcast(&copies->changed);
    else
        free_letter(letter);
}

/* Before it is written, so that nobody misses it. */
static void expect_copies(struct handoff_copies *copies, const struct handoff_copies_news *news)
{
    if (news->count > 0)
        atomic_store(&copies->embedded->memories, HANDOFF_EMBEDDED_SOME);
    for (size_t i = 0; i < news->count; i++) {
        if (news->found[i].memory.pinned)
            atomic_store(&copies->embedded->pins, HANDOFF_EMBEDDED_SOME);
    }
}

void handoff_copies_renew(struct handoff_copies *copies, const struct handoff_copies_news *news)
{
    struct copies_letter *letter = news->count + news->ngone > 0 ? begin_letter(copies) : NULL;
    if (!letter)
        return;
    letter->memories = base_arena_calloc(&letter->arena, news->count + 1, sizeof *letter->memories);
    letter->failed = !letter->memories;
    for (size_t i = 0; i < news->count && !letter->failed; i++)
        keep_letter_memory(letter, &news->found[i].memory);
    letter->gone = keep_letter_list(letter, news->gone, news->ngone);
    letter->ngone = news->ngone;
    letter->scopes = news->scopes;
    letter->scopes.names = keep_letter_list(letter, news->scopes.names, news->scopes.count);
    expect_copies(copies, news);
    hand_over_letter(copies, letter);
}

void handoff_copies_used(struct handoff_copies *copies, const struct handoff_found_memory *found,
                         size_t count)
{
    struct copies_letter *letter = count > 0 ? begin_letter(copies) : NULL;
    if (!letter)
        return;
    letter->used = base_arena_calloc(&letter->arena, count, sizeof *letter->used);
    letter->failed = !letter->used;
    for (size_t i = 0; i < count && !letter->failed; i++) {
        if (found[i].memory.copied_ms != 0)
            letter->used[letter->nused++] = keep_letter_text(letter, found[i].memory.id);
    }
    hand_over_letter(copies, letter);
}

void handoff_copies_settle(struct handoff_copies *copies)
{
    pthread_mutex_lock(&copies->lock);
    while (copies->waiting > 0)
        pthread_cond_wait(&copies->changed, &copies->lock);
    pthread_mutex_unlock(&copies->lock);
}

struct handoff_spine *handoff_copies_spine(struct handoff_copies *copies)
{
    BASE_CHECK_MAGIC(copies, COPIES_MAGIC);
    return copies->spine;
}

int64_t handoff_copies_bytes(const struct handoff_copies *copies)
{
    return atomic_load(&copies->bytes);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int remove_entry(const char *path, const struct stat *found, int kind, struct FTW *place)
{
    (void)found;
    (void)kind;
    (void)place;
    return remove(path);
}

/* Copies that cannot be read are worth nothing, and are fetched again. */
static bool is_worth_nothing(enum handoff_code code)
{
    return code == HANDOFF_ERR_STORE_CORRUPT || code == HANDOFF_ERR_STORE_NEWER ||
           code == HANDOFF_ERR_STORE_FOREIGN;
}

static enum handoff_code open_parts_of_copies(struct handoff_copies *copies,
                                              const struct handoff_copies_options *options,
                                              struct handoff_error *error)
{
    const struct handoff_store_options store = {.path = options->path,
                                                .durability = HANDOFF_DURABILITY_NONE,
                                                .clock = options->embedded.clock};
    struct copies_job tables = {.job.run = run_make_tables, .copies = copies};
    enum handoff_code code = handoff_store_open(&copies->store, &store, error);
    if (code == HANDOFF_OK)
        code =
            handoff_embedded_spine_open(&copies->spine, copies->store, &options->embedded, error);
    if (code != HANDOFF_OK)
        return code;
    copies->embedded = handoff_embedded_of(copies->spine);
    copies->embedded->has_copies = true;
    code = handoff_store_run(copies->store, &tables.job);
    atomic_store(&copies->bytes, tables.bytes);
    if (code != HANDOFF_OK && error)
        *error = tables.job.error;
    return code;
}

static void close_parts_of_copies(struct handoff_copies *copies)
{
    handoff_spine_close(&copies->spine);
    handoff_store_close(&copies->store);
}

static enum handoff_code open_or_make_anew(struct handoff_copies *copies,
                                           const struct handoff_copies_options *options,
                                           struct handoff_error *error)
{
    enum handoff_code code = open_parts_of_copies(copies, options, error);
    if (!is_worth_nothing(code))
        return code;
    close_parts_of_copies(copies);
    nftw(options->path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return open_parts_of_copies(copies, options, error);
}

static void free_copies(struct handoff_copies *copies)
{
    close_parts_of_copies(copies);
    pthread_mutex_destroy(&copies->lock);
    pthread_cond_destroy(&copies->changed);
    copies->magic = 0;
    base_free(copies);
}

enum handoff_code handoff_copies_open(struct handoff_copies **copies,
                                      const struct handoff_copies_options *options,
                                      struct handoff_error *error)
{
    struct handoff_copies *made = base_calloc(1, sizeof *made);
    *copies = NULL;
    if (!made)
        return handoff_error_no_memory(error);
    made->magic = COPIES_MAGIC;
    made->bytes_max = options->bytes_max;
    STAILQ_INIT(&made->letters);
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    enum handoff_code code = open_or_make_anew(made, options, error);
    if (code == HANDOFF_OK && pthread_create(&made->thread, NULL, run_copies_thread, made) != 0)
        code = handoff_error_no_memory(error);
    if (code != HANDOFF_OK)
        free_copies(made);
    else
        *copies = made;
    return code;
}

void handoff_copies_close(struct handoff_copies **copies)
{
    struct handoff_copies *dying = *copies;
    *copies = NULL;
    if (!dying)
        return;
    BASE_CHECK_MAGIC(dying, COPIES_MAGIC);
    pthread_mutex_lock(&dying->lock);
    dying->closing = true;
    pthread_mutex_unlock(&dying->lock);
    pthread_cond_broadcast(&dying->changed);
    pthread_join(dying->thread, NULL);
    free_copies(dying);
}
