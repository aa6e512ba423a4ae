/* SPDX-License-Identifier: Apache-2.0 */
/* Keeping publications, and letting them go; see shelves.h. Writer thread. */
#include "client/store/sqlite/shelves.h"

#include <string.h>

#include "client/store/sqlite/retention_clock.h"
#include "lib/base/check.h"
#include "lib/base/error.h"

/* Values of the column; any other is a time. */
enum { SHELF_LET_GO = -1, SHELF_NONE = 0, SHELF_WANTED = 1 };

enum {
    LET_GO_IN_STEP = 64,  /* a transaction of around a millisecond */
    SHELF_NAME_MAX = 128, /* bytes of the name of a channel, as the configuration allows them */
};

static enum handoff_code run_for_shelf(struct handoff_db *db, const char *text, int64_t seq,
                                       int64_t value, struct handoff_error *error)
{
    sqlite3_stmt *statement = handoff_db_statement(db, text, error);
    if (!statement)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(statement, 1, seq);
    if (sqlite3_bind_parameter_count(statement) > 1)
        sqlite3_bind_int64(statement, 2, value);
    return handoff_db_do(db, statement, error);
}

/* ---- keeping ----------------------------------------------------------------------------------
 */

static const char put_on_shelf[] =
    "UPDATE publications SET shelf = ?2, shelf_bytes ="
    " (SELECT body_bytes + row_bytes FROM envelope_state s WHERE s.seq = ?1)"
    " WHERE seq = ?1 AND shelf = 1";

static const char count_on_shelf[] =
    "INSERT INTO channel_shelves SELECT channel, 1, shelf_bytes FROM publications WHERE seq = ?1"
    " ON CONFLICT (channel) DO UPDATE SET publications = publications + 1,"
    " bytes = bytes + excluded.bytes";

/* One that a late delivery took from it is still counted, and keeps its time. */
enum handoff_code handoff_shelves_put(struct handoff_db *db, int64_t seq, int64_t over_ms,
                                      struct handoff_error *error)
{
    const int64_t since_ms = handoff_retention_clock_mark(db, over_ms);
    enum handoff_code code = run_for_shelf(
        db, put_on_shelf, seq, since_ms > SHELF_WANTED ? since_ms : SHELF_WANTED + 1, error);
    if (code != HANDOFF_OK || sqlite3_changes(db->sqlite) == 0)
        return code;
    return run_for_shelf(db, count_on_shelf, seq, 0, error);
}

/* ---- who has not read it ----------------------------------------------------------------------
 */

/* The channel is looked up first, alone: most of what retention takes is no publication, and then
   no subscription is looked at. What was published since the subscription may have appeared behind
   its position, which goes back for it at the end. */
static const char count_unread[] =
    "UPDATE subscriptions SET dropped = dropped + 1 WHERE state = 3"
    " AND channel = (SELECT p.channel FROM publications p JOIN envelopes e ON e.seq = p.seq"
    "  WHERE p.seq = ?1 AND p.named = 0 AND p.shelf >= 0 AND e.body <> '')"
    " AND EXISTS (SELECT 1 FROM publications p WHERE p.seq = ?1"
    "  AND p.source <> subscriptions.receiver"
    "  AND (p.seq > subscriptions.position OR p.at >= subscriptions.at)"
    "  AND (p.at >= subscriptions.from_at OR p.seq >= subscriptions.newer))"
    " AND NOT EXISTS (SELECT 1 FROM channel_deliveries d"
    "  WHERE d.publication = ?1 AND d.receiver = subscriptions.receiver)"
    " AND NOT EXISTS (SELECT 1 FROM channel_received r"
    "  WHERE r.publication = ?1 AND r.receiver = subscriptions.receiver)";

enum handoff_code handoff_shelves_note_unread(struct handoff_db *db, int64_t seq,
                                              struct handoff_error *error)
{
    return run_for_shelf(db, count_unread, seq, 0, error);
}

enum handoff_code handoff_shelves_tell_unread(struct handoff_db *db,
                                              const struct handoff_store_options *options,
                                              struct handoff_error *error)
{
    if (!options->on_unread)
        return HANDOFF_OK;
    sqlite3_stmt *select = handoff_db_statement(
        db, "SELECT channel, receiver, at, dropped FROM subscriptions WHERE dropped > 0", error);
    if (!select)
        return handoff_db_failure(db, NULL);
    while (handoff_db_row(select))
        options->on_unread(options->observer, handoff_db_column(select, 0),
                           handoff_db_column(select, 1), sqlite3_column_int64(select, 2),
                           sqlite3_column_int64(select, 3));
    return handoff_db_end(db, select, error);
}

/* ---- letting go -------------------------------------------------------------------------------
 */

/* A channel that keeps too much. */
struct full_shelf {
    char name[SHELF_NAME_MAX + 1];
    size_t name_size;
    int64_t before_ms; /* what it has kept since then or longer goes */
    int64_t excess;    /* and as long as this is positive, others */
    int64_t state;     /* of what goes */
    int64_t seqs[LET_GO_IN_STEP], since_ms[LET_GO_IN_STEP], bytes[LET_GO_IN_STEP];
    int count;
};

#define KEPT_PUBLICATIONS                                                                          \
    " FROM publications p INDEXED BY publications_kept"                                            \
    " WHERE p.shelf > 1 AND p.unfinished = 0 AND p.channel = "

static const char select_shelves[] = "SELECT channel, bytes, (SELECT p.shelf" KEPT_PUBLICATIONS
                                     "s.channel ORDER BY p.shelf LIMIT 1) FROM channel_shelves s";

static const char select_oldest[] =
    "SELECT p.seq, p.shelf, p.shelf_bytes" KEPT_PUBLICATIONS "?1 ORDER BY p.shelf, p.seq LIMIT ?2";

/* false: it keeps no more than it may. Where it has no retention any more, that is nothing. */
static bool keeps_too_much(sqlite3_stmt *row, const struct handoff_shelves_step *step,
                           struct full_shelf *full)
{
    const struct handoff_store_options *options = step->options;
    const struct base_span name = handoff_db_column(row, 0);
    const int64_t oldest_ms = sqlite3_column_int64(row, 2); /* 0: nothing may go */
    struct handoff_store_shelf_limits may = {0};
    if (oldest_ms == 0 || name.size > SHELF_NAME_MAX || !options->shelf_limits ||
        !options->shelf_limits(options->observer, name, &may))
        return false;
    *full = (struct full_shelf){.name_size = name.size,
                                .before_ms = step->now_ms - may.age_ms,
                                .excess = sqlite3_column_int64(row, 1) - may.bytes,
                                .state = may.age_ms > 0 ? SHELF_LET_GO : SHELF_NONE};
    memcpy(full->name, name.data, name.size);
    return oldest_ms < full->before_ms || full->excess > 0;
}

static enum handoff_code find_full_shelf(struct handoff_db *db,
                                         const struct handoff_shelves_step *step,
                                         struct full_shelf *full, bool *found,
                                         struct handoff_error *error)
{
    *found = false;
    sqlite3_stmt *select = handoff_db_statement(db, select_shelves, error);
    if (!select)
        return handoff_db_failure(db, NULL);
    while (!*found && handoff_db_row(select))
        *found = keeps_too_much(select, step, full);
    return handoff_db_end(db, select, error);
}

static enum handoff_code choose_from_shelf(struct handoff_db *db, struct full_shelf *full,
                                           struct handoff_error *error)
{
    sqlite3_stmt *select = handoff_db_statement(db, select_oldest, error);
    if (!select)
        return handoff_db_failure(db, NULL);
    handoff_db_bind_text(select, 1, base_span(full->name, full->name_size));
    sqlite3_bind_int(select, 2, LET_GO_IN_STEP);
    while (handoff_db_row(select)) {
        const int at = full->count;
        full->seqs[at] = sqlite3_column_int64(select, 0);
        full->since_ms[at] = sqlite3_column_int64(select, 1);
        full->bytes[at] = sqlite3_column_int64(select, 2);
        if (full->since_ms[at] >= full->before_ms && full->excess <= 0)
            break;
        full->excess -= full->bytes[at];
        full->count++;
    }
    return handoff_db_end(db, select, error);
}

static const char take_from_shelf[] =
    "UPDATE publications SET shelf = ?2, shelf_bytes = 0 WHERE seq = ?1";
static const char finish_kept[] =
    "UPDATE envelope_state SET finished_at = ?2 WHERE seq = ?1 AND finished_at = 0";

static enum handoff_code let_one_go(struct handoff_db *db, const struct full_shelf *full, int at,
                                    struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    if (full->state == SHELF_LET_GO)
        code = handoff_shelves_note_unread(db, full->seqs[at], error);
    if (code == HANDOFF_OK)
        code = run_for_shelf(db, take_from_shelf, full->seqs[at], full->state, error);
    return code == HANDOFF_OK
               ? run_for_shelf(db, finish_kept, full->seqs[at], full->since_ms[at], error)
               : code;
}

static enum handoff_code drop_empty_totals(struct handoff_db *db, struct handoff_error *error)
{
    return handoff_db_exec(db, "DELETE FROM channel_shelves WHERE publications = 0", error);
}

static enum handoff_code lower_totals(struct handoff_db *db, const struct full_shelf *full,
                                      struct handoff_error *error)
{
    int64_t bytes = 0;
    for (int i = 0; i < full->count; i++)
        bytes += full->bytes[i];
    sqlite3_stmt *update =
        handoff_db_statement(db,
                             "UPDATE channel_shelves SET publications = publications - ?2,"
                             " bytes = bytes - ?3 WHERE channel = ?1",
                             error);
    if (!update)
        return handoff_db_failure(db, NULL);
    handoff_db_bind_text(update, 1, base_span(full->name, full->name_size));
    sqlite3_bind_int(update, 2, full->count);
    sqlite3_bind_int64(update, 3, bytes);
    enum handoff_code code = handoff_db_do(db, update, error);
    return code == HANDOFF_OK ? drop_empty_totals(db, error) : code;
}

static const char forget_kept[] =
    "UPDATE channel_shelves SET publications = publications - 1,"
    " bytes = bytes - (SELECT shelf_bytes FROM publications WHERE seq = ?1)"
    " WHERE channel = (SELECT channel FROM publications WHERE seq = ?1 AND shelf > 1)";

enum handoff_code handoff_shelves_forget(struct handoff_db *db, int64_t seq,
                                         struct handoff_error *error)
{
    enum handoff_code code = run_for_shelf(db, forget_kept, seq, 0, error);
    return code == HANDOFF_OK && sqlite3_changes(db->sqlite) > 0 ? drop_empty_totals(db, error)
                                                                 : code;
}

static enum handoff_code let_some_go(struct handoff_db *db, struct full_shelf *full,
                                     struct handoff_error *error)
{
    enum handoff_code code = choose_from_shelf(db, full, error);
    for (int i = 0; i < full->count && code == HANDOFF_OK; i++)
        code = let_one_go(db, full, i, error);
    return code == HANDOFF_OK ? lower_totals(db, full, error) : code;
}

enum handoff_code handoff_shelves_step(struct handoff_db *db, struct handoff_shelves_step *step,
                                       struct handoff_error *error)
{
    struct full_shelf full;
    bool found;
    step->let_go = 0;
    enum handoff_code code = find_full_shelf(db, step, &full, &found, error);
    if (code == HANDOFF_OK && found)
        code = handoff_db_exec(db, "BEGIN IMMEDIATE", error);
    if (code != HANDOFF_OK || !found)
        return code;
    code = let_some_go(db, &full, error);
    if (code == HANDOFF_OK)
        code = handoff_db_exec(db, "COMMIT", error);
    if (code != HANDOFF_OK)
        handoff_db_roll_back(db);
    else
        step->let_go = full.count;
    return code;
}

/* ---- checking ------------------------------------------------------------------------------- */

static const char count_wrong_shelves[] =
    "SELECT (SELECT count(*) FROM channel_shelves s WHERE (publications, bytes) <>"
    "  (SELECT count(*), total(shelf_bytes) FROM publications p WHERE p.channel = s.channel"
    "   AND p.shelf > 1)) + (SELECT count(*) FROM publications WHERE shelf > 1"
    "  AND channel NOT IN (SELECT channel FROM channel_shelves))";

enum handoff_code handoff_shelves_count_wrong(struct handoff_db *db, int64_t *wrong,
                                              struct handoff_error *error)
{
    return handoff_db_number(db, count_wrong_shelves, wrong, error);
}
