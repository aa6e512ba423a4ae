/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bodies.h - bodies of envelopes that lie beside the database, in separate files.
 *
 * What SQLite stores in WAL mode is written twice: to the WAL, and from there to the database. For
 * the body of an envelope, which never changes, once is enough. So where many are accepted at once,
 * their bodies are appended to a file, and the row says where: its column `body` holds a TEXT such
 * as "3:1048576:9216" (file, offset, size) instead of the BLOB that the body is otherwise. Which of
 * the two a row holds, no reader outside client/store can tell. The empty TEXT stands for a body
 * that retention removed.
 *
 * The files are named after the database: handoff.db-bodies-3. They are opened through the VFS of
 * the connection, so that a disk that fails in a test fails here too. Nothing in them is trusted:
 * the row has the digest.
 *
 *   bodies.c       places, and reading
 *   body_log.h     the writer's end: appending, and the sync that comes before the commit
 *   body_files.h   which files there are, and when one may go
 */
#ifndef HANDOFF_STORE_SQLITE_BODIES_H
#define HANDOFF_STORE_SQLITE_BODIES_H

#include "client/store/sqlite/database.h"

struct handoff_body_place {
    int64_t file; /* from 1 */
    int64_t at;
    int64_t size;
};

enum { HANDOFF_BODY_PLACE_TEXT = 64 }; /* three numbers, two colons, and the NUL */

/* Gives the length of the text. */
size_t handoff_body_place_format(const struct handoff_body_place *place,
                                 char text[HANDOFF_BODY_PLACE_TEXT]);
/* false: no place that we would have written. */
bool handoff_body_place_parse(struct base_span text, struct handoff_body_place *place);

/* The body's place, if this column of a row holds one. */
bool handoff_body_place_column(sqlite3_stmt *row, int at, struct handoff_body_place *place);

/* Whether this column of a row says that retention removed the body. */
bool handoff_body_removed_column(sqlite3_stmt *row, int at);

/* Reads place->size bytes; what lies behind the end of the file is zeros. store_corrupt: the file
   is not there. Opens the file if it is not the one that this connection read last. */
enum handoff_code handoff_body_read(struct handoff_db *db, const struct handoff_body_place *place,
                                    char *into, struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Puts a body into its row, which no longer names a file then. */
enum handoff_code handoff_body_store_in_row(struct handoff_db *db, int64_t seq, const char *body,
                                            int64_t size,
                                            struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Opens a file by its number; flags as in sqlite3_open_v2. An SQLite result. */
int handoff_body_file_open(struct handoff_db *db, int64_t number, int flags, sqlite3_file **file);
/* Closes and releases. Takes pointers to NULL. */
void handoff_body_file_close(sqlite3_file **file);
/* Lets those at a new file that may read the database, and no one else. false: it could not. */
bool handoff_body_file_protect(struct handoff_db *db, int64_t number);
/* Removes a file; one that is not there is removed. An SQLite result. */
int handoff_body_file_remove(struct handoff_db *db, int64_t number);

#endif
