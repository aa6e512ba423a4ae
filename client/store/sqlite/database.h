/* SPDX-License-Identifier: Apache-2.0 */
/*
 * database.h - one SQLite connection, its prepared statements, and its errors as values.
 *
 * Only client/store and client/spine include this. A connection is used by one thread at a time.
 *
 *     sqlite3_stmt *get = handoff_db_statement(db, "SELECT body FROM envelopes WHERE id = ?1",
 * error); if (!get) return error's code; sqlite3_bind_blob(get, 1, id, 16, SQLITE_STATIC); while
 * (handoff_db_row(get))
 *         ...
 *     return handoff_db_end(db, get, error);
 *
 * Every statement that was fetched is ended: an open one would pin a snapshot of the WAL.
 */
#ifndef HANDOFF_STORE_SQLITE_DATABASE_H
#define HANDOFF_STORE_SQLITE_DATABASE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/handoff.h"
#include "lib/base/sha256.h"
#include "lib/base/span.h"
#include "lib/base/uuid.h"

enum { HANDOFF_DB_STATEMENTS = 256 };

struct handoff_body_log;
struct handoff_known_tasks;
struct handoff_retention_clock;

/* What follows the writer's transactions, to keep in memory what they change. On its thread. */
struct handoff_db_follower {
    void (*begun)(void *context); /* whatever the one before did that is not committed is undone */
    void (*committed)(void *context); /* before anybody is told */
    void *context;
};

/* The publication that the writer's transaction has just stored: its deliveries, which come next,
   need not look for it. seq 0: none. */
struct handoff_db_published {
    int64_t seq;
    struct base_uuid id;
    uint8_t digest[BASE_SHA256_BYTES];
    int64_t cut_at, cut_size; /* of its body */
    bool is_first;            /* it has a contribution and no parent, so it is its own root */
};

struct handoff_db {
    unsigned magic;
    sqlite3 *sqlite;
    const char *path;                           /* lent; named in errors */
    struct handoff_db *next;                    /* in the pool of readers */
    sqlite3_file *bodies;                       /* the file of bodies that is being read, or NULL */
    int64_t bodies_number;                      /* its number */
    struct handoff_body_log *body_log;          /* on the writer's: where bodies may go; lent */
    struct handoff_known_tasks *known_tasks;    /* likewise: told of each that is written */
    const struct handoff_db_follower *follower; /* likewise: told of its transactions, or NULL */
    const struct handoff_retention_clock *retention_clock; /* likewise: the time of what finishes */
    struct handoff_db_published published;                 /* likewise */
    struct {
        const char *text; /* the literal's address is the key */
        sqlite3_stmt *statement;
    } cache[HANDOFF_DB_STATEMENTS];
};

enum handoff_db_mode {
    HANDOFF_DB_WRITE, /* makes the file if it is not there */
    HANDOFF_DB_READ,
};

/* Opens and sets what every connection needs; the schema is not looked at. */
enum handoff_code handoff_db_open(struct handoff_db *db, const char *path,
                                  enum handoff_db_mode mode, const char *vfs,
                                  struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Harmless on a zeroed one, or one that failed to open. */
void handoff_db_close(struct handoff_db *db);

/* Runs statements that give no rows. */
enum handoff_code handoff_db_exec(struct handoff_db *db, const char *sql,
                                  struct handoff_error *error) HANDOFF_MUST_CHECK;

/* The first column of the first row; 0 without one. */
enum handoff_code handoff_db_number(struct handoff_db *db, const char *sql, int64_t *number,
                                    struct handoff_error *error) HANDOFF_MUST_CHECK;

/* A statement ready to be bound, prepared once per connection. text is a string literal. NULL, with
   error filled, when it cannot be prepared. */
sqlite3_stmt *handoff_db_statement(struct handoff_db *db, const char *text,
                                   struct handoff_error *error);

/* One step: true while there is a row. */
bool handoff_db_row(sqlite3_stmt *statement);

/* Ends a statement: HANDOFF_OK, or why its last step failed. */
enum handoff_code handoff_db_end(struct handoff_db *db, sqlite3_stmt *statement,
                                 struct handoff_error *error);

/* Steps a statement that gives no rows, and ends it. */
enum handoff_code handoff_db_do(struct handoff_db *db, sqlite3_stmt *statement,
                                struct handoff_error *error);

/* Where a process was killed after a sync of the WAL had failed, commits may be found that are in
   the kernel's memory and not on the disk, and no sync would write them: they would be missing,
   with all that comes behind them, after a power failure. So the WAL is written anew, byte for
   byte. */
enum handoff_code handoff_db_save_wal(struct handoff_db *db,
                                      struct handoff_error *error) HANDOFF_MUST_CHECK;

/* On the writer's: NULL unless the transaction has just published this. */
const struct handoff_db_published *handoff_db_find_published(const struct handoff_db *db,
                                                             const struct base_uuid *id);

/* Undoes a transaction that is still open; some failures have undone it already. */
void handoff_db_roll_back(struct handoff_db *db);

/* What the connection's last failure was. Never HANDOFF_OK. */
enum handoff_code handoff_db_failure(struct handoff_db *db, struct handoff_error *error);
/* The same for a result that is not the connection's, but of a file beside the database. */
enum handoff_code handoff_db_result(struct handoff_db *db, int result, struct handoff_error *error);

/* Binding lends the bytes until the statement ends. An absent span is NULL. */
void handoff_db_bind_text(sqlite3_stmt *statement, int at, struct base_span text);
/* A column's bytes, valid until the next step. NULL gives an absent span. */
struct base_span handoff_db_column(sqlite3_stmt *statement, int at);

/* ---- readers of a store -------------------------------------------------------------------- */

struct handoff_store;

/* Borrows a read-only connection; there are as many as threads read at once. NULL on failure. */
struct handoff_db *handoff_store_reader(struct handoff_store *store, struct handoff_error *error);
void handoff_store_reader_done(struct handoff_store *store, struct handoff_db *db);

/* From now on it follows the writer's transactions; NULL: nobody does, and whoever did may go.
   Waits for the writer. */
void handoff_store_follow(struct handoff_store *store, const struct handoff_db_follower *follower);

#endif
