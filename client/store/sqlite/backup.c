/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying a store while it is used. The whole copy is one step of SQLite's backup: it holds one
 * read snapshot, which in WAL mode keeps no writer waiting. (In several steps it would begin anew
 * whenever the daemon commits, and on a busy store never end.) The copy grows under another name,
 * is checked and synced, and only then linked to its own, so that a file of that name is a whole
 * one.
 *
 * On the caller's thread, which may block; handoffctl runs it beside the daemon.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/store/sqlite/bodies.h"
#include "client/store/sqlite/data_dir.h"
#include "client/store/sqlite/migrate.h"
#include "client/store/sqlite/retention.h"
#include "client/store/sqlite/task_index.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"
#include "lib/base/uuid.h"

static enum handoff_code destination_failure(const char *path, int number,
                                             struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_ERR_STORE_READ_ONLY;
    const char *message = "the destination cannot be written; choose a writable directory";
    if (number == EEXIST) {
        code = HANDOFF_ERR_EXISTS;
        message = "the destination already exists and will not be overwritten; choose another name";
    } else if (number == ENOSPC || number == EDQUOT) {
        code = HANDOFF_ERR_STORE_FULL;
        message = "the disk at the destination is full";
    }
    handoff_error_set(error, code, message, "destination", NULL);
    handoff_error_seen(error, "%s: %s", path, strerror(number));
    return code;
}

/* SQLite's failures at the destination name the destination. */
static enum handoff_code copy_failure(struct handoff_db *to, struct handoff_error *error)
{
    enum handoff_code code = handoff_db_failure(to, error);
    handoff_error_field(error, "destination");
    return code;
}

static enum handoff_code copy_pages(struct handoff_db *from, struct handoff_db *to,
                                    struct handoff_error *error)
{
    sqlite3_backup *backup = sqlite3_backup_init(to->sqlite, "main", from->sqlite, "main");
    if (!backup)
        return copy_failure(to, error);
    sqlite3_backup_step(backup, -1);
    return sqlite3_backup_finish(backup) == SQLITE_OK ? HANDOFF_OK : copy_failure(to, error);
}

/* ---- bodies -------------------------------------------------------------------------------- */

struct outside {
    int64_t seq;
    struct base_uuid id;
    struct handoff_body_place place;
};

/* The first envelope after a number whose body is in a file. seq 0: there is none. */
static enum handoff_code next_outside(struct handoff_db *to, int64_t after, struct outside *next,
                                      struct handoff_error *error)
{
    sqlite3_stmt *find = handoff_db_statement(to,
                                              "SELECT seq, body, id FROM envelopes WHERE seq > ?1"
                                              " AND typeof(body) = 'text' AND body <> ''"
                                              " AND substr(body, 1, 1) <> '@'"
                                              " ORDER BY seq LIMIT 1",
                                              error);
    if (!find)
        return copy_failure(to, error);
    sqlite3_bind_int64(find, 1, after);
    *next = (struct outside){0};
    if (handoff_db_row(find) && handoff_body_place_column(find, 1, &next->place)) {
        next->seq = sqlite3_column_int64(find, 0);
        struct base_span id = handoff_db_column(find, 2);
        if (id.size == sizeof next->id.bytes)
            memcpy(next->id.bytes, id.data, id.size);
    }
    return handoff_db_end(to, find, error);
}

/* Since the pages were copied, the body may have come into its row, or retention may have taken it,
   alone or with its envelope; then its file is gone. By its id: another may have its number by now.
 */
static enum handoff_code copy_what_is_now(struct handoff_db *from, struct handoff_db *to,
                                          const struct outside *outside,
                                          struct handoff_error *error)
{
    struct handoff_error failure;
    sqlite3_stmt *find =
        handoff_db_statement(from, "SELECT body FROM envelopes WHERE id = ?1", &failure);
    if (!find)
        return handoff_db_failure(from, error);
    sqlite3_bind_blob(find, 1, outside->id.bytes, sizeof outside->id.bytes, SQLITE_STATIC);
    enum handoff_code code = error->code; /* it still lies in a file that cannot be read */
    if (!handoff_db_row(find)) {
        code = handoff_retention_remove(to, outside->seq, error);
        if (code == HANDOFF_OK)
            code = handoff_task_index_trim(to, error);
    } else if (handoff_body_removed_column(find, 0)) {
        code = handoff_retention_remove_body(to, outside->seq, error);
    } else if (sqlite3_column_type(find, 0) == SQLITE_BLOB) {
        struct base_span body = handoff_db_column(find, 0);
        code = handoff_body_store_in_row(to, outside->seq, body.data, (int64_t)body.size, error);
    }
    enum handoff_code end = handoff_db_end(from, find, code == HANDOFF_OK ? error : &failure);
    return code != HANDOFF_OK ? code : end;
}

static enum handoff_code copy_body(struct handoff_db *from, struct handoff_db *to,
                                   const struct outside *outside, struct handoff_error *error)
{
    char *body = base_malloc((size_t)outside->place.size + 1);
    if (!body)
        return handoff_error_no_memory(error);
    enum handoff_code code = handoff_body_read(from, &outside->place, body, error);
    if (code == HANDOFF_OK)
        code = handoff_body_store_in_row(to, outside->seq, body, outside->place.size, error);
    else if (code == HANDOFF_ERR_STORE_CORRUPT)
        code = copy_what_is_now(from, to, outside, error);
    base_free(body);
    return code;
}

/* The copy is one file: the bodies that lie beside the store come into their rows. */
static enum handoff_code copy_bodies(struct handoff_db *from, struct handoff_db *to,
                                     struct handoff_error *error)
{
    struct outside next = {0};
    enum handoff_code code = handoff_db_exec(to, "BEGIN IMMEDIATE", error);
    do {
        if (code == HANDOFF_OK)
            code = next_outside(to, next.seq, &next, error);
        if (code == HANDOFF_OK && next.seq > 0)
            code = copy_body(from, to, &next, error);
    } while (code == HANDOFF_OK && next.seq > 0);
    return code == HANDOFF_OK ? handoff_db_exec(to, "DELETE FROM body_files; COMMIT", error) : code;
}

static enum handoff_code finish_copy(struct handoff_db *to, struct handoff_error *error)
{
    int64_t problems = 0;
    enum handoff_code code = handoff_db_number(
        to, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'", &problems,
        error);
    if (code == HANDOFF_OK && problems > 0)
        return handoff_error_set(error, HANDOFF_ERR_STORE_CORRUPT,
                                 "the store is damaged, and so is any copy of it; check it with "
                                 "`handoffctl store check`",
                                 "path", to->path);
    return code;
}

static enum handoff_code copy_into(struct handoff_db *from, int version, const char *partial,
                                   struct handoff_error *error)
{
    struct handoff_db to = {0};
    enum handoff_code code = handoff_db_open(&to, partial, HANDOFF_DB_WRITE, NULL, error);
    if (code == HANDOFF_OK)
        code = copy_pages(from, &to, error);
    if (code == HANDOFF_OK) /* a file that stands alone; and the bodies are written once */
        code = handoff_db_exec(&to, "PRAGMA journal_mode = DELETE", error);
    if (code == HANDOFF_OK && version >= HANDOFF_SCHEMA_BODY_FILES)
        code = copy_bodies(from, &to, error);
    if (code == HANDOFF_OK && version >= HANDOFF_SCHEMA_SEARCH) /* made anew where it is restored */
        code =
            handoff_db_exec(&to, "DELETE FROM search_segments; DELETE FROM memories_gone", error);
    if (code == HANDOFF_OK)
        code = finish_copy(&to, error);
    handoff_db_close(&to);
    return code;
}

/* link refuses a name that is taken, as rename would not. */
static enum handoff_code name_copy(const char *partial, const char *destination,
                                   struct handoff_error *error)
{
    int number = handoff_path_sync(partial);
    if (number == 0 && link(partial, destination) != 0)
        number = errno;
    if (number == 0)
        number = handoff_path_sync_name(destination);
    return number == 0 ? HANDOFF_OK : destination_failure(destination, number, error);
}

/* The name is made by us alone: O_EXCL also refuses a link that was left there. NULL on
   failure, with error filled. */
static char *make_partial(const char *destination, struct handoff_error *error)
{
    size_t size = strlen(destination) + 32;
    char *path = base_malloc(size);
    if (!path) {
        handoff_error_no_memory(error);
        return NULL;
    }
    snprintf(path, size, "%s.partial-%ld", destination, (long)getpid());
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        destination_failure(path, errno, error);
        base_free(path);
        return NULL;
    }
    close(fd);
    return path;
}

static enum handoff_code back_up(struct handoff_db *from, const char *destination,
                                 struct handoff_error *error)
{
    int version;
    if (access(destination, F_OK) == 0) /* before the work; link decides */
        return destination_failure(destination, EEXIST, error);
    enum handoff_code code = handoff_migrate_version(from, &version, error);
    if (code != HANDOFF_OK)
        return code;
    char *partial = make_partial(destination, error);
    if (!partial)
        return error->code;
    code = copy_into(from, version, partial, error);
    if (code == HANDOFF_OK)
        code = name_copy(partial, destination, error);
    unlink(partial);
    base_free(partial);
    return code;
}

enum handoff_code handoff_store_backup(const char *path, const char *destination,
                                       struct handoff_error *error)
{
    struct handoff_db from = {0};
    struct handoff_error own = {0};
    char *database;
    error = error ? error : &own;
    enum handoff_code code = handoff_data_dir_find_database(path, &database, error);
    if (code == HANDOFF_OK)
        code = handoff_db_open(&from, database, HANDOFF_DB_READ, NULL, error);
    if (code == HANDOFF_OK)
        code = back_up(&from, destination, error);
    handoff_db_close(&from);
    base_free(database);
    return code;
}
