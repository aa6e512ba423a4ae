/* SPDX-License-Identifier: Apache-2.0 */
/* Contributions and lineage: storing them, and removing them with their envelopes; see
 * contribution_rows.h. Writer thread. */
#include "client/store/sqlite/contribution_rows.h"

#include <string.h>

#include "client/store/sqlite/addressed.h"
#include "client/store/sqlite/bodies.h"
#include "client/store/sqlite/envelope_row.h"
#include "client/store/sqlite/retained_size.h"
#include "lib/base/arena.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

/* For statements whose parameters are one or two numbers. */
static enum handoff_code do_with(struct handoff_db *db, const char *text, int64_t first,
                                 int64_t second, struct handoff_error *error)
{
    sqlite3_stmt *statement = handoff_db_statement(db, text, error);
    if (!statement)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(statement, 1, first);
    if (sqlite3_bind_parameter_count(statement) > 1)
        sqlite3_bind_int64(statement, 2, second);
    return handoff_db_do(db, statement, error);
}

/* The first column of the first row; 0 without one. */
static enum handoff_code ask_for(struct handoff_db *db, const char *text, int64_t seq,
                                 int64_t *number, struct handoff_error *error)
{
    sqlite3_stmt *select = handoff_db_statement(db, text, error);
    *number = 0;
    if (!select)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(select, 1, seq);
    if (handoff_db_row(select))
        *number = sqlite3_column_int64(select, 0);
    return handoff_db_end(db, select, error);
}

/* ---- storing ----------------------------------------------------------------------------------
 */

static bool is_nil(const struct base_uuid *id)
{
    static const struct base_uuid nil;
    return memcmp(id, &nil, sizeof nil) == 0;
}

/* root NULL: it has no parent. */
static enum handoff_code insert_contribution(struct handoff_db *db, int64_t seq,
                                             const struct handoff_store_put_envelope *put,
                                             const struct base_uuid *root,
                                             struct handoff_error *error)
{
    sqlite3_stmt *insert = handoff_db_statement(
        db,
        "INSERT INTO contributions (seq, hop, source, target, text, handed_off, root)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        error);
    if (!insert)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(insert, 1, seq);
    sqlite3_bind_int64(insert, 2, put->hop);
    handoff_db_bind_text(insert, 3, put->source);
    handoff_db_bind_text(insert, 4, put->target);
    handoff_db_bind_text(insert, 5, put->contribution);
    sqlite3_bind_int(insert, 6, !put->finished);
    if (root)
        sqlite3_bind_blob(insert, 7, root->bytes, sizeof root->bytes, SQLITE_STATIC);
    else
        sqlite3_bind_null(insert, 7);
    return handoff_db_do(db, insert, error);
}

struct found_envelope {
    int64_t seq;           /* 0: neither it nor its contribution is there */
    struct base_uuid root; /* its oldest ancestor, or itself */
    bool has_contribution, replaced;
};

static void read_root(sqlite3_stmt *row, int at, struct base_uuid *root)
{
    struct base_span found = handoff_db_column(row, at);
    if (found.size == sizeof root->bytes)
        memcpy(root->bytes, found.data, found.size);
}

static enum handoff_code find_by_id(struct handoff_db *db, const struct base_uuid *id,
                                    struct found_envelope *found, struct handoff_error *error)
{
    sqlite3_stmt *find = handoff_db_statement(
        db,
        "SELECT f.seq, c.seq IS NOT NULL, c.replaced_by IS NOT NULL, c.root FROM"
        " (SELECT " HANDOFF_SEQ_OF_ID(
            "?1") " AS seq) f"
                  " LEFT JOIN contributions c ON c.seq = f.seq WHERE f.seq IS NOT NULL",
        error);
    *found = (struct found_envelope){.root = *id};
    if (!find)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_blob(find, 1, id->bytes, sizeof id->bytes, SQLITE_STATIC);
    if (handoff_db_row(find)) {
        found->seq = sqlite3_column_int64(find, 0);
        found->has_contribution = sqlite3_column_int(find, 1) == 1;
        found->replaced = sqlite3_column_int(find, 2) == 1;
        read_root(find, 3, &found->root);
    }
    return handoff_db_end(db, find, error);
}

static enum handoff_code parent_is_gone(const struct base_uuid *id, struct handoff_error *error)
{
    char text[BASE_UUID_TEXT];
    base_uuid_format(id, text);
    return handoff_error_set(error, HANDOFF_ERR_NOT_FOUND, "no envelope with this id",
                             "previous_id", text);
}

/* The request was assembled before the edit was committed. */
static enum handoff_code parent_is_replaced(const struct base_uuid *id, struct handoff_error *error)
{
    char text[BASE_UUID_TEXT];
    base_uuid_format(id, text);
    return handoff_error_set(error, HANDOFF_ERR_CONFLICT,
                             "an operator has just replaced this envelope by an edited one; retry, "
                             "or continue that one",
                             "previous_id", text);
}

static enum handoff_code insert_lineage(struct handoff_db *db, int64_t child, size_t place,
                                        int64_t parent, struct handoff_error *error)
{
    sqlite3_stmt *insert = handoff_db_statement(
        db, "INSERT OR IGNORE INTO lineage (child, place, parent) VALUES (?1, ?2, ?3)", error);
    if (!insert)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(insert, 1, child);
    sqlite3_bind_int64(insert, 2, (int64_t)place);
    sqlite3_bind_int64(insert, 3, parent);
    return handoff_db_do(db, insert, error);
}

/* A parent that an older version stored gets a row without a text: its envelope stands for it. An
 * edit has the parents of what it replaces, even where they were replaced meanwhile. */
static enum handoff_code find_parent(struct handoff_db *db, const struct base_uuid *id,
                                     bool is_edit, struct found_envelope *parent,
                                     struct handoff_error *error)
{
    const struct handoff_db_published *published = handoff_db_find_published(db, id);
    if (published && published->is_first) {
        *parent =
            (struct found_envelope){.seq = published->seq, .root = *id, .has_contribution = true};
        return HANDOFF_OK;
    }
    enum handoff_code code = find_by_id(db, id, parent, error);
    if (code == HANDOFF_OK && parent->seq == 0)
        return parent_is_gone(id, error);
    if (code == HANDOFF_OK && parent->replaced && !is_edit)
        return parent_is_replaced(id, error);
    if (code == HANDOFF_OK && !parent->has_contribution)
        code = do_with(db, "INSERT INTO contributions (seq, hop) VALUES (?1, 0)", parent->seq, 0,
                       error);
    return code;
}

/* Their numbers, and the oldest ancestor of all. */
static enum handoff_code find_parents(struct handoff_db *db,
                                      const struct handoff_store_put_envelope *put,
                                      int64_t *parents, struct base_uuid *root,
                                      struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    for (size_t i = 0; i < put->nparents && code == HANDOFF_OK; i++) {
        struct found_envelope parent;
        code = find_parent(db, &put->parents[i], !is_nil(&put->replaces), &parent, error);
        parents[i] = parent.seq;
        if (i == 0 || memcmp(&parent.root, root, sizeof *root) < 0)
            *root = parent.root;
    }
    return code;
}

/* The parents are found before its row is inserted, since that names the root; their links come
   behind it, since a trigger reads it. */
static enum handoff_code insert_with_parents(struct handoff_db *db, int64_t seq,
                                             const struct handoff_store_put_envelope *put,
                                             struct handoff_error *error)
{
    struct base_uuid root;
    int64_t one = 0,
            *parents = put->nparents > 1 ? base_calloc(put->nparents, sizeof *parents) : &one;
    if (!parents)
        return handoff_error_no_memory(error);
    enum handoff_code code = find_parents(db, put, parents, &root, error);
    if (code == HANDOFF_OK)
        code = insert_contribution(db, seq, put, put->nparents > 0 ? &root : NULL, error);
    for (size_t i = 0; i < put->nparents && code == HANDOFF_OK; i++) {
        BASE_CHECK(parents[i] < seq);
        code = insert_lineage(db, seq, i, parents[i], error);
    }
    if (parents != &one)
        base_free(parents);
    return code;
}

/* Where the replaced one has no row yet, it is of an older version. */
static enum handoff_code mark_replaced(struct handoff_db *db, int64_t seq,
                                       const struct base_uuid *by, struct handoff_error *error)
{
    sqlite3_stmt *mark =
        handoff_db_statement(db,
                             "INSERT INTO contributions (seq, hop, replaced_by) VALUES (?1, 0, ?2)"
                             " ON CONFLICT (seq) DO UPDATE SET replaced_by = excluded.replaced_by",
                             error);
    if (!mark)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(mark, 1, seq);
    sqlite3_bind_blob(mark, 2, by->bytes, sizeof by->bytes, SQLITE_STATIC);
    return handoff_db_do(db, mark, error);
}

/* What has expired may be gone without a trace meanwhile. */
static enum handoff_code take_its_place(struct handoff_db *db,
                                        const struct handoff_store_put_envelope *put,
                                        struct handoff_error *error)
{
    struct found_envelope old;
    enum handoff_code code = find_by_id(db, &put->replaces, &old, error);
    if (code == HANDOFF_OK && old.replaced)
        return parent_is_replaced(&put->replaces, error);
    if (code == HANDOFF_OK && old.seq != 0)
        code = mark_replaced(db, old.seq, &put->id, error);
    return code == HANDOFF_OK ? handoff_addressed_anew(db, old.seq, error) : code;
}

enum handoff_code handoff_contribution_insert(struct handoff_db *db, int64_t seq,
                                              const struct handoff_store_put_envelope *put,
                                              struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    if (put->contribution.data || put->nparents > 0)
        code = insert_with_parents(db, seq, put, error);
    if (code == HANDOFF_OK && !is_nil(&put->replaces))
        code = take_its_place(db, put, error);
    return code;
}

enum handoff_code handoff_contribution_hand_off(struct handoff_db *db, int64_t seq,
                                                struct handoff_error *error)
{
    return do_with(db, "UPDATE contributions SET handed_off = 1 WHERE seq = ?1", seq, 0, error);
}

/* ---- what stands for a contribution ------------------------------------------------------------
 */

static enum handoff_code put_stand_in(struct handoff_db *db, int64_t seq,
                                      enum handoff_kept_form form, struct base_span text,
                                      struct handoff_error *error)
{
    sqlite3_stmt *update = handoff_db_statement(
        db, "UPDATE contributions SET form = ?2, text = ?3 WHERE seq = ?1", error);
    if (!update)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(update, 1, seq);
    sqlite3_bind_int(update, 2, (int)form);
    handoff_db_bind_text(update, 3, text);
    enum handoff_code code = handoff_db_do(db, update, error);
    if (code != HANDOFF_OK)
        return code;
    return do_with(db, "UPDATE envelope_state SET row_bytes = row_bytes + ?2 WHERE seq = ?1", seq,
                   (int64_t)text.size, error);
}

/* A damaged body stands for nothing; then the child has what its own envelope repeats. */
static enum handoff_code keep_stand_in(struct handoff_db *db, int64_t seq,
                                       struct handoff_error *error)
{
    struct base_arena arena;
    struct handoff_stored_envelope stored = {0};
    struct handoff_error ignored;
    base_arena_init(&arena, 0);
    enum handoff_code code = handoff_envelope_look_up_seq(db, seq, &arena, &stored, &ignored);
    handoff_body_file_close(&db->bodies);
    if (code == HANDOFF_OK)
        code = put_stand_in(db, seq, HANDOFF_KEPT_BODY, stored.body, error);
    else if (code == HANDOFF_ERR_ENVELOPE_REMOVED && stored.inheritance.data)
        code = put_stand_in(db, seq, HANDOFF_KEPT_INHERITANCE, stored.inheritance, error);
    else if (code == HANDOFF_ERR_OUT_OF_MEMORY)
        code = handoff_error_no_memory(error);
    else
        code = HANDOFF_OK;
    base_arena_free(&arena);
    return code;
}

enum handoff_code handoff_contribution_keep_body(struct handoff_db *db, int64_t seq,
                                                 struct handoff_error *error)
{
    int64_t lacks_text;
    enum handoff_code code = ask_for(db, "SELECT text IS NULL FROM contributions WHERE seq = ?1",
                                     seq, &lacks_text, error);
    return code == HANDOFF_OK && lacks_text ? keep_stand_in(db, seq, error) : code;
}

/* ---- removing ---------------------------------------------------------------------------------
 */

static enum handoff_code find_youngest_child(struct handoff_db *db, int64_t seq, int64_t *child,
                                             struct handoff_error *error)
{
    return ask_for(db, "SELECT max(child) FROM lineage WHERE parent = ?1", seq, child, error);
}

/* The orphan's bytes count with the youngest child's, which has its envelope, or is charged to one
   that has. */
static enum handoff_code charge_orphan(struct handoff_db *db, int64_t seq, int64_t child,
                                       struct handoff_error *error)
{
    enum handoff_code code =
        do_with(db,
                "UPDATE contributions SET charged_to ="
                " (SELECT coalesce(charged_to, seq) FROM contributions WHERE seq = ?2)"
                " WHERE seq = ?1",
                seq, child, error);
    if (code == HANDOFF_OK)
        code = do_with(db,
                       "UPDATE envelope_state AS s SET row_bytes = row_bytes + c.bytes"
                       " FROM contributions c WHERE c.seq = ?1 AND s.seq = c.charged_to",
                       seq, 0, error);
    return code;
}

/* Takes from its envelope and handoff what only they have. */
static enum handoff_code make_orphan(struct handoff_db *db, int64_t seq, int64_t child,
                                     struct handoff_error *error)
{
    enum handoff_code code = handoff_contribution_keep_body(db, seq, error);
    if (code == HANDOFF_OK)
        code = handoff_addressed_leave(db, seq, error);
    if (code == HANDOFF_OK)
        code = do_with(db,
                       "UPDATE contributions SET (id, task_id, created_at, digest) ="
                       " (SELECT id, task_id, created_at, digest FROM envelopes WHERE seq = ?1),"
                       " source = coalesce((SELECT source FROM handoffs WHERE seq = ?1), source),"
                       " target = coalesce((SELECT target FROM handoffs WHERE seq = ?1), target),"
                       " asked_target = (SELECT asked_target FROM handoffs"
                       "  WHERE seq = ?1 AND asked_target <> target) WHERE seq = ?1",
                       seq, 0, error);
    if (code == HANDOFF_OK)
        code = do_with(db,
                       "UPDATE contributions SET bytes = ?2 + length(task_id)"
                       " + coalesce(length(CAST(text AS BLOB)), 0) WHERE seq = ?1",
                       seq, HANDOFF_RETAINED_ORPHAN_ROW, error);
    return code == HANDOFF_OK ? charge_orphan(db, seq, child, error) : code;
}

/* One parent of it, which is its parent no more; 0: there is none. */
static enum handoff_code take_parent(struct handoff_db *db, int64_t child, int64_t *parent,
                                     struct handoff_error *error)
{
    enum handoff_code code =
        ask_for(db, "SELECT parent FROM lineage WHERE child = ?1 ORDER BY place LIMIT 1", child,
                parent, error);
    if (code != HANDOFF_OK || *parent == 0)
        return code;
    return do_with(db, "DELETE FROM lineage WHERE child = ?1 AND parent = ?2", child, *parent,
                   error);
}

static enum handoff_code is_childless_orphan(struct handoff_db *db, int64_t seq, bool *childless,
                                             struct handoff_error *error)
{
    int64_t found;
    enum handoff_code code = ask_for(db,
                                     "SELECT charged_to IS NOT NULL AND NOT EXISTS"
                                     " (SELECT 1 FROM lineage WHERE parent = ?1)"
                                     " FROM contributions WHERE seq = ?1",
                                     seq, &found, error);
    *childless = found != 0;
    return code;
}

/* With the orphans among its ancestors that nothing else needs. As deep as a chain is long. */
static enum handoff_code remove_contribution(struct handoff_db *db, int64_t seq,
                                             struct handoff_error *error)
{
    int64_t parent = 0;
    bool childless = false;
    enum handoff_code code =
        do_with(db,
                "UPDATE envelope_state AS s SET row_bytes = row_bytes - c.bytes"
                " FROM contributions c WHERE c.seq = ?1 AND s.seq = c.charged_to",
                seq, 0, error);
    if (code == HANDOFF_OK)
        code = do_with(db, "DELETE FROM contributions WHERE seq = ?1", seq, 0, error);
    if (code == HANDOFF_OK)
        code = do_with(db, "DELETE FROM addressed WHERE seq = ?1", seq, 0, error);
    while (code == HANDOFF_OK) {
        code = take_parent(db, seq, &parent, error);
        if (code != HANDOFF_OK || parent == 0)
            return code;
        code = is_childless_orphan(db, parent, &childless, error);
        if (code == HANDOFF_OK && childless)
            code = remove_contribution(db, parent, error);
    }
    return code;
}

static enum handoff_code find_charged(struct handoff_db *db, int64_t seq, int64_t *orphan,
                                      struct handoff_error *error)
{
    return ask_for(db, "SELECT max(seq) FROM contributions WHERE charged_to = ?1", seq, orphan,
                   error);
}

/* The youngest first, so that no child of the next one is charged to `seq` any more. */
static enum handoff_code charge_others(struct handoff_db *db, int64_t seq,
                                       struct handoff_error *error)
{
    int64_t orphan = 0, child = 0;
    enum handoff_code code = find_charged(db, seq, &orphan, error);
    while (code == HANDOFF_OK && orphan != 0) {
        code = find_youngest_child(db, orphan, &child, error);
        if (code == HANDOFF_OK)
            code = child > orphan
                       ? charge_orphan(db, orphan, child, error)
                       : remove_contribution(db, orphan, error); /* only where rows are damaged */
        if (code == HANDOFF_OK)
            code = find_charged(db, seq, &orphan, error);
    }
    return code;
}

enum handoff_code handoff_contribution_leave(struct handoff_db *db, int64_t seq,
                                             struct handoff_error *error)
{
    int64_t child;
    enum handoff_code code = find_youngest_child(db, seq, &child, error);
    if (code == HANDOFF_OK)
        code =
            child != 0 ? make_orphan(db, seq, child, error) : remove_contribution(db, seq, error);
    return code == HANDOFF_OK ? charge_others(db, seq, error) : code;
}
