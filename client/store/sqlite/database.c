/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections. Each is opened without SQLite's own mutexes, because a connection is used by one
 * thread at a time: the writer's by the writer, a reader's by the thread that borrowed it.
 *
 * SQLite's result codes become the client's codes here and nowhere else, with a message that says
 * what to do. The result text of SQLite goes into `seen`, for the log.
 */
#include "client/store/sqlite/database.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/store/sqlite/bodies.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum { MAGIC = 0x68646220u };

/* Waiting only happens when another process (a backup, a shell) holds a lock for a moment. */
enum { BUSY_TIMEOUT_MS = 5000 };

static const struct failure {
    int result; /* primary result code of SQLite */
    enum handoff_code code;
    const char *message;
} failures[] = {
    {SQLITE_FULL, HANDOFF_ERR_STORE_FULL,
     "the store's disk is full; free space there or lower storage.retention; "
     "nothing that was acknowledged is lost"},
    {SQLITE_READONLY, HANDOFF_ERR_STORE_READ_ONLY,
     "the store cannot be written; give this user write access to the directory and its files"},
    {SQLITE_CANTOPEN, HANDOFF_ERR_STORE_READ_ONLY,
     "the store's files cannot be opened; give this user read and write access to the directory"},
    {SQLITE_PERM, HANDOFF_ERR_STORE_READ_ONLY,
     "the store's files cannot be opened; give this user read and write access to the directory"},
    {SQLITE_NOTADB, HANDOFF_ERR_STORE_FOREIGN,
     "the file is not a store; point storage.path at another directory, or restore a backup"},
    {SQLITE_CORRUPT, HANDOFF_ERR_STORE_CORRUPT,
     "the store is damaged; check it with `handoffctl store check` and restore a backup"},
    {SQLITE_IOERR, HANDOFF_ERR_STORE_IO,
     "the store's disk reported an error; see the kernel log; "
     "nothing that was acknowledged is lost"},
    {SQLITE_BUSY, HANDOFF_ERR_STORE_LOCKED,
     "another program holds the store's lock; stop it, or wait for it to exit"},
    {SQLITE_LOCKED, HANDOFF_ERR_STORE_LOCKED,
     "another program holds the store's lock; stop it, or wait for it to exit"},
    {SQLITE_NOMEM, HANDOFF_ERR_OUT_OF_MEMORY, "out of memory; retry later"},
    {SQLITE_TOOBIG, HANDOFF_ERR_TOO_LARGE, "the row is larger than the store can hold"},
    {SQLITE_CONSTRAINT, HANDOFF_ERR_CONFLICT, "the row conflicts with an existing one"},
};

static const struct failure unknown_failure = {SQLITE_ERROR, HANDOFF_ERR_INTERNAL,
                                               "SQLite rejected one of our statements"};

/* Whether this user may write the file and make others beside it. */
static bool may_write(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 1,
             slash ? path : ".");
    return faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) == 0 &&
           faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) == 0;
}

/* SQLite opens a file for reading where it cannot open it for writing, whatever kept it from that,
   and then has a read-only database. Permissions are not to blame for a descriptor that could not
   be had. */
static const struct failure refused_by_the_system = {
    SQLITE_READONLY, HANDOFF_ERR_STORE_IO,
    "the system could not open the store's files for writing, although this user has write access; "
    "see the kernel log and the open-file limit, then retry"};

static const struct failure *find_failure(int result, const char *path)
{
    int primary = result == SQLITE_IOERR_NOMEM ? SQLITE_NOMEM : result & 0xFF;
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
        if (failures[i].result == primary)
            return failures[i].code == HANDOFF_ERR_STORE_READ_ONLY && may_write(path)
                       ? &refused_by_the_system
                       : &failures[i];
    return &unknown_failure;
}

static enum handoff_code translate(int result, const char *text, const char *path,
                                   struct handoff_error *error)
{
    const struct failure *failure = find_failure(result, path);
    handoff_error_set(error, failure->code, failure->message, "storage.path", path);
    handoff_error_seen(error, "%s: %s (%d)", path, text, result);
    return failure->code;
}

enum handoff_code handoff_db_failure(struct handoff_db *db, struct handoff_error *error)
{
    if (!db->sqlite)
        return handoff_error_no_memory(error);
    return translate(sqlite3_extended_errcode(db->sqlite), sqlite3_errmsg(db->sqlite), db->path,
                     error);
}

enum handoff_code handoff_db_result(struct handoff_db *db, int result, struct handoff_error *error)
{
    return translate(result, sqlite3_errstr(result), db->path, error);
}

/* ---- the file, before SQLite believes it ---------------------------------------------------- */

static enum handoff_code foreign(struct handoff_db *db, const char *message,
                                 struct handoff_error *error)
{
    return handoff_error_set(error, HANDOFF_ERR_STORE_FOREIGN, message, "storage.path", db->path);
}

static bool holds_something(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && found.st_size > 0;
}

/* Two things that SQLite would take on trust
   (https://sqlite.org/fileformat.html#the_database_header). It overwrites a file that is shorter
   than a page; and it plays any WAL into the database beside it, which ruins a backup that was
   copied over a database that had not been closed. A backup is not in WAL mode and an empty file
   neither, so a WAL beside them belongs to another database. Read through SQLite's own descriptor:
   closing one of ours would drop the locks that this process has on the file. */
static enum handoff_code check_file(struct handoff_db *db, struct handoff_error *error)
{
    enum { WRITE_VERSION = 18, IN_WAL_MODE = 2 };
    static const char begins[16] = "SQLite format 3";
    const char *name = sqlite3_db_filename(db->sqlite, "main");
    char head[WRITE_VERSION + 1] = {0};
    sqlite3_file *file = NULL;
    sqlite3_int64 size = 0;
    sqlite3_file_control(db->sqlite, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    int result = file->pMethods->xFileSize(file, &size);
    if (result == SQLITE_OK && size > 0)
        result = file->pMethods->xRead(file, head, sizeof head, 0);
    if (result != SQLITE_OK && result != SQLITE_IOERR_SHORT_READ)
        return handoff_db_result(db, result, error);
    if (holds_something(sqlite3_filename_journal(name)))
        return HANDOFF_OK; /* the power failed as the database was made: SQLite undoes that */
    if (size > 0 && memcmp(head, begins, sizeof begins) != 0)
        return foreign(db,
                       "the file is not a store; point storage.path at another directory, or "
                       "restore a backup",
                       error);
    if (head[WRITE_VERSION] != IN_WAL_MODE && holds_something(sqlite3_filename_wal(name)))
        return foreign(db,
                       "handoff.db-wal, handoff.db-shm and handoff.db-bodies-* belong to a "
                       "different database; move them to another directory",
                       error);
    return HANDOFF_OK;
}

/* ---- connections ---------------------------------------------------------------------------- */

/* temp_store MEMORY: nothing of a statement spills into files beside the store.
   cache_size: a reader keeps 4 MiB of pages, the upper levels of every index; the kernel has the
   rest.
   mmap_size 0: an I/O error must be an error value, not a SIGBUS.
   page_size 4096, of new stores: under load the bodies of envelopes lie beside the database, and
   what a commit writes is the few pages that its small rows touch. */
#define EVERY_CONNECTION                                                                           \
    "PRAGMA page_size = 4096; PRAGMA temp_store = MEMORY;"                                         \
    "PRAGMA cache_size = -4096; PRAGMA mmap_size = 0"

enum handoff_code handoff_db_open(struct handoff_db *db, const char *path,
                                  enum handoff_db_mode mode, const char *vfs,
                                  struct handoff_error *error)
{
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
                (mode == HANDOFF_DB_WRITE ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
                                          : SQLITE_OPEN_READONLY);
    memset(db, 0, sizeof *db);
    db->magic = MAGIC;
    db->path = path;
    enum handoff_code code = HANDOFF_OK;
    if (sqlite3_open_v2(path, &db->sqlite, flags, vfs) != SQLITE_OK ||
        sqlite3_busy_timeout(db->sqlite, BUSY_TIMEOUT_MS) != SQLITE_OK)
        code = handoff_db_failure(db, error);
    else
        code = check_file(db, error);
    if (code == HANDOFF_OK)
        code = handoff_db_exec(db, EVERY_CONNECTION, error);
    if (code != HANDOFF_OK)
        handoff_db_close(db);
    return code;
}

void handoff_db_close(struct handoff_db *db)
{
    if (!db->sqlite)
        return;
    BASE_CHECK_MAGIC(db, MAGIC);
    for (size_t i = 0; i < HANDOFF_DB_STATEMENTS; i++)
        sqlite3_finalize(db->cache[i].statement);
    handoff_body_file_close(&db->bodies);
    int result = sqlite3_close(db->sqlite);
    BASE_CHECK(result == SQLITE_OK); /* anything else is a statement that was not reset */
    memset(db, 0, sizeof *db);
}

enum handoff_code handoff_db_exec(struct handoff_db *db, const char *sql,
                                  struct handoff_error *error)
{
    if (sqlite3_exec(db->sqlite, sql, NULL, NULL, NULL) == SQLITE_OK)
        return HANDOFF_OK;
    return handoff_db_failure(db, error);
}

void handoff_db_roll_back(struct handoff_db *db)
{
    if (!sqlite3_get_autocommit(db->sqlite))
        sqlite3_exec(db->sqlite, "ROLLBACK", NULL, NULL, NULL);
}

static int write_anew(sqlite3_file *file)
{
    enum { AT_ONCE = 65536 };
    sqlite3_int64 size = 0;
    char *some = base_malloc(AT_ONCE);
    int result = some ? file->pMethods->xFileSize(file, &size) : SQLITE_NOMEM;
    for (sqlite3_int64 at = 0; result == SQLITE_OK && at < size; at += AT_ONCE) {
        int amount = size - at < AT_ONCE ? (int)(size - at) : AT_ONCE;
        result = file->pMethods->xRead(file, some, amount, at);
        if (result == SQLITE_OK)
            result = file->pMethods->xWrite(file, some, amount, at);
    }
    if (result == SQLITE_OK && size > 0)
        result = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
    base_free(some);
    return result;
}

/* In a transaction that writes: so nothing else does. */
enum handoff_code handoff_db_save_wal(struct handoff_db *db, struct handoff_error *error)
{
    sqlite3_file *wal = NULL;
    enum handoff_code code = handoff_db_exec(db, "BEGIN IMMEDIATE", error);
    if (code != HANDOFF_OK)
        return code;
    sqlite3_file_control(db->sqlite, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal);
    int result = wal && wal->pMethods ? write_anew(wal) : SQLITE_OK;
    if (result != SQLITE_OK)
        code = handoff_db_result(db, result, error);
    handoff_db_roll_back(db);
    return code;
}

enum handoff_code handoff_db_number(struct handoff_db *db, const char *sql, int64_t *number,
                                    struct handoff_error *error)
{
    sqlite3_stmt *statement = handoff_db_statement(db, sql, error);
    *number = 0;
    if (!statement)
        return handoff_db_failure(db, NULL);
    if (handoff_db_row(statement))
        *number = sqlite3_column_int64(statement, 0);
    return handoff_db_end(db, statement, error);
}

/* Open addressing on the literal's address: the statements of a program are few and never change.
 */
static size_t statement_slot(struct handoff_db *db, const char *text)
{
    size_t slot = (size_t)((uintptr_t)text * UINT64_C(0x9E3779B97F4A7C15) >> 56);
    for (size_t tries = 0; db->cache[slot].text && db->cache[slot].text != text; tries++) {
        BASE_CHECK(tries < HANDOFF_DB_STATEMENTS);
        slot = (slot + 1) % HANDOFF_DB_STATEMENTS;
    }
    return slot;
}

const struct handoff_db_published *handoff_db_find_published(const struct handoff_db *db,
                                                             const struct base_uuid *id)
{
    const struct handoff_db_published *published = &db->published;
    return published->seq != 0 && memcmp(&published->id, id, sizeof *id) == 0 ? published : NULL;
}

sqlite3_stmt *handoff_db_statement(struct handoff_db *db, const char *text,
                                   struct handoff_error *error)
{
    BASE_CHECK_MAGIC(db, MAGIC);
    size_t slot = statement_slot(db, text);
    if (!db->cache[slot].text) {
        sqlite3_stmt *statement;
        if (sqlite3_prepare_v3(db->sqlite, text, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL) !=
            SQLITE_OK) {
            handoff_db_failure(db, error);
            return NULL;
        }
        db->cache[slot].text = text;
        db->cache[slot].statement = statement;
    }
    return db->cache[slot].statement;
}

bool handoff_db_row(sqlite3_stmt *statement)
{
    return sqlite3_step(statement) == SQLITE_ROW;
}

enum handoff_code handoff_db_end(struct handoff_db *db, sqlite3_stmt *statement,
                                 struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    if (sqlite3_reset(statement) != SQLITE_OK) /* repeats the result of the last step */
        code = handoff_db_failure(db, error);
    sqlite3_clear_bindings(statement); /* what was lent is not kept */
    return code;
}

enum handoff_code handoff_db_do(struct handoff_db *db, sqlite3_stmt *statement,
                                struct handoff_error *error)
{
    bool row = handoff_db_row(statement);
    BASE_CHECK(!row);
    return handoff_db_end(db, statement, error);
}

void handoff_db_bind_text(sqlite3_stmt *statement, int at, struct base_span text)
{
    sqlite3_bind_text64(statement, at, text.data, text.size, SQLITE_STATIC, SQLITE_UTF8);
}

struct base_span handoff_db_column(sqlite3_stmt *statement, int at)
{
    if (sqlite3_column_type(statement, at) == SQLITE_NULL)
        return base_span(NULL, 0);
    const char *data = sqlite3_column_blob(statement, at); /* NULL for an empty value */
    return base_span(data ? data : "", (size_t)sqlite3_column_bytes(statement, at));
}
