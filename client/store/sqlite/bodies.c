/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places of bodies and reading from body files, see bodies.h. Any thread that owns the connection:
 * the writer or a reader.
 */
#include "client/store/sqlite/bodies.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/decimal.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

/* ---- places -------------------------------------------------------------------------------- */

size_t handoff_body_place_format(const struct handoff_body_place *place,
                                 char text[HANDOFF_BODY_PLACE_TEXT])
{
    size_t length = base_decimal(place->file, text);
    text[length++] = ':';
    length += base_decimal(place->at, text + length);
    text[length++] = ':';
    return length + base_decimal(place->size, text + length);
}

/* Digits up to `after` or the end; false without any, or for more than an int64_t holds. */
static bool read_number(struct base_span *text, char after, int64_t *number)
{
    size_t i = 0;
    for (*number = 0; i < text->size && text->data[i] >= '0' && text->data[i] <= '9'; i++) {
        if (__builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, text->data[i] - '0', number))
            return false;
    }
    bool whole = i > 0 && (after ? i < text->size && text->data[i] == after : i == text->size);
    if (whole && after)
        *text = base_span(text->data + i + 1, text->size - i - 1);
    return whole;
}

bool handoff_body_place_parse(struct base_span text, struct handoff_body_place *place)
{
    return read_number(&text, ':', &place->file) && read_number(&text, ':', &place->at) &&
           read_number(&text, '\0', &place->size) && place->file > 0 && place->size <= INT_MAX;
}

bool handoff_body_place_column(sqlite3_stmt *row, int at, struct handoff_body_place *place)
{
    return sqlite3_column_type(row, at) == SQLITE_TEXT &&
           handoff_body_place_parse(handoff_db_column(row, at), place);
}

bool handoff_body_removed_column(sqlite3_stmt *row, int at)
{
    return sqlite3_column_type(row, at) == SQLITE_TEXT && sqlite3_column_bytes(row, at) == 0;
}

/* ---- files --------------------------------------------------------------------------------- */

/* As SQLite found it: absolute, and where a link led to; its WAL is there, too. */
static const char *database_name(struct handoff_db *db)
{
    return sqlite3_db_filename(db->sqlite, "main");
}

static size_t name_size(struct handoff_db *db)
{
    return strlen(database_name(db)) + sizeof "-bodies-9223372036854775807";
}

static char *write_name(struct handoff_db *db, int64_t number, char *name)
{
    snprintf(name, name_size(db), "%s-bodies-%lld", database_name(db), (long long)number);
    return name;
}

static sqlite3_vfs *vfs_of(struct handoff_db *db)
{
    sqlite3_vfs *vfs = NULL;
    sqlite3_file_control(db->sqlite, "main", SQLITE_FCNTL_VFS_POINTER, &vfs);
    return vfs;
}

/* As a super-journal: a file that SQLite does not lock, and whose first sync also syncs the folder
   that it was made in. The VFS keeps the name that it is given, so that lies behind the file. */
int handoff_body_file_open(struct handoff_db *db, int64_t number, int flags, sqlite3_file **file)
{
    sqlite3_vfs *vfs = vfs_of(db);
    *file = base_calloc(1, (size_t)vfs->szOsFile + name_size(db));
    if (!*file)
        return SQLITE_NOMEM;
    char *name = write_name(db, number, (char *)*file + vfs->szOsFile);
    int opened = flags;
    int result = vfs->xOpen(vfs, name, *file, flags | SQLITE_OPEN_SUPER_JOURNAL, &opened);
    if (result == SQLITE_OK && (flags & SQLITE_OPEN_READWRITE) && (opened & SQLITE_OPEN_READONLY))
        result = SQLITE_READONLY; /* a VFS tries that where more is refused */
    if (result != SQLITE_OK)
        handoff_body_file_close(file);
    return result;
}

void handoff_body_file_close(sqlite3_file **file)
{
    if (*file && (*file)->pMethods)
        (*file)->pMethods->xClose(*file);
    base_free(*file);
    *file = NULL;
}

bool handoff_body_file_protect(struct handoff_db *db, int64_t number)
{
    struct stat database;
    char *name = base_malloc(name_size(db));
    bool done = name && stat(database_name(db), &database) == 0;
    if (done && geteuid() == 0)
        done = chown(write_name(db, number, name), database.st_uid, database.st_gid) == 0;
    if (done)
        done = chmod(write_name(db, number, name), database.st_mode & 0777) == 0;
    base_free(name);
    return done;
}

int handoff_body_file_remove(struct handoff_db *db, int64_t number)
{
    sqlite3_vfs *vfs = vfs_of(db);
    char *name = base_malloc(name_size(db));
    if (!name)
        return SQLITE_NOMEM;
    int result = vfs->xDelete(vfs, write_name(db, number, name), 1); /* and syncs the folder */
    base_free(name);
    return result == SQLITE_IOERR_DELETE_NOENT ? SQLITE_OK : result;
}

/* ---- reading ------------------------------------------------------------------------------- */

static enum handoff_code missing(struct handoff_db *db, int64_t number, struct handoff_error *error)
{
    handoff_error_set(error, HANDOFF_ERR_STORE_CORRUPT,
                      "a file of envelope bodies cannot be opened; if it is missing, restore a "
                      "backup",
                      "storage.path", db->path);
    handoff_error_seen(error, "%s-bodies-%lld", database_name(db), (long long)number);
    return HANDOFF_ERR_STORE_CORRUPT;
}

/* Where it cannot be told, it is there. */
static bool is_gone(struct handoff_db *db, int64_t number)
{
    sqlite3_vfs *vfs = vfs_of(db);
    int there = 1;
    char *name = base_malloc(name_size(db));
    bool told = name && vfs->xAccess(vfs, write_name(db, number, name), SQLITE_ACCESS_EXISTS,
                                     &there) == SQLITE_OK;
    base_free(name);
    return told && !there;
}

enum handoff_code handoff_body_read(struct handoff_db *db, const struct handoff_body_place *place,
                                    char *into, struct handoff_error *error)
{
    if (db->bodies && db->bodies_number != place->file)
        handoff_body_file_close(&db->bodies);
    int result = SQLITE_OK;
    if (!db->bodies)
        result = handoff_body_file_open(db, place->file, SQLITE_OPEN_READONLY, &db->bodies);
    if ((result & 0xff) == SQLITE_CANTOPEN && is_gone(db, place->file))
        return missing(db, place->file, error);
    db->bodies_number = place->file;
    if (result == SQLITE_OK)
        result = db->bodies->pMethods->xRead(db->bodies, into, (int)place->size, place->at);
    if (result == SQLITE_OK || result == SQLITE_IOERR_SHORT_READ)
        return HANDOFF_OK;
    return handoff_db_result(db, result, error);
}

/* ---- back into its row ---------------------------------------------------------------------- */

enum handoff_code handoff_body_store_in_row(struct handoff_db *db, int64_t seq, const char *body,
                                            int64_t size, struct handoff_error *error)
{
    sqlite3_stmt *update =
        handoff_db_statement(db, "UPDATE envelopes SET body = ?2 WHERE seq = ?1", error);
    if (!update)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(update, 1, seq);
    sqlite3_bind_blob64(update, 2, body, (sqlite3_uint64)size, SQLITE_STATIC);
    return handoff_db_do(db, update, error);
}
