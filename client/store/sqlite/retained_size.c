/* SPDX-License-Identifier: Apache-2.0 */
/* The totals of what is kept, and what a row adds to them; see retained_size.h. */
#include "client/store/sqlite/retained_size.h"

#include <string.h>

/* Beside its texts, with numbers, digests and the entries of indexes. */
enum {
    ENVELOPE_ROW = 190, /* id and digest, the index of ids, the state and its index */
    HANDOFF_ROW = 40,
    KEY_ROW = 60, /* and the digest of the request */
    ATTEMPT_ROW = 40,
    PUBLICATION_ROW = 30,
    DELIVERY_ROW = 25, /* and its entry in the index of publications */
    CONTRIBUTION_ROW = 12,
    REFUSAL_ROW = 20,
    LINEAGE_ROW = 30, /* and its entry in the index of parents */
};

enum handoff_code handoff_retained_read(struct handoff_db *db, struct handoff_retained *kept,
                                        struct handoff_error *error)
{
    *kept = (struct handoff_retained){0};
    sqlite3_stmt *select = handoff_db_statement(db, "SELECT bodies, rows FROM kept", error);
    if (!select)
        return handoff_db_failure(db, NULL);
    if (handoff_db_row(select)) {
        kept->bodies = sqlite3_column_int64(select, 0);
        kept->rows = sqlite3_column_int64(select, 1);
    }
    return handoff_db_end(db, select, error);
}

/* ---- the oldest ------------------------------------------------------------------------------ */

#define FIRST(condition, index)                                                                    \
    "SELECT finished_at FROM envelope_state INDEXED BY " index                                     \
    " WHERE finished_at > 0 AND body_bytes " condition " ORDER BY finished_at LIMIT 1"

/* The first one that is finished, among so many keys that a look is short. */
static enum handoff_code find_oldest_key(struct handoff_db *db, int64_t *key_from, int64_t *ms,
                                         struct handoff_error *error)
{
    enum { LOOK = 256 };
    *ms = 0;
    sqlite3_stmt *select = handoff_db_statement(
        db,
        "SELECT i.seq, s.finished_at FROM idempotency i INDEXED BY idempotency_seq"
        " JOIN envelope_state s ON s.seq = i.seq WHERE i.seq >= ?1 ORDER BY i.seq LIMIT ?2",
        error);
    if (!select)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(select, 1, *key_from);
    sqlite3_bind_int64(select, 2, LOOK);
    bool any = false;
    while (*ms == 0 && handoff_db_row(select)) {
        *key_from = sqlite3_column_int64(select, 0);
        *ms = sqlite3_column_int64(select, 1);
        any = true;
    }
    if (!any)
        *key_from = 0; /* numbers may come again (task_index.h) */
    return handoff_db_end(db, select, error);
}

enum handoff_code handoff_retained_find_oldest(struct handoff_db *db,
                                               struct handoff_retained_oldest *oldest,
                                               int64_t *key_from, struct handoff_error *error)
{
    int64_t bare = 0;
    *oldest = (struct handoff_retained_oldest){0};
    enum handoff_code code =
        handoff_db_number(db, FIRST("> 0", "finished_with_body"), &oldest->body_ms, error);
    if (code == HANDOFF_OK)
        code = handoff_db_number(db, FIRST("= 0", "finished_without_body"), &bare, error);
    oldest->row_ms =
        bare == 0 || (oldest->body_ms != 0 && oldest->body_ms < bare) ? oldest->body_ms : bare;
    return code == HANDOFF_OK ? find_oldest_key(db, key_from, &oldest->key_ms, error) : code;
}

/* ---- what a row adds ------------------------------------------------------------------------- */

/* Names come in no order, so that their pages are two thirds full. */
static size_t with_page_slack(size_t size)
{
    return size + size / 2;
}

/* Its pages are filled one after the other, but a large text leaves part of its last one empty. */
static size_t contribution_size(const struct handoff_store_put_envelope *put)
{
    if (!put->contribution.data && put->nparents == 0)
        return 0;
    return CONTRIBUTION_ROW + put->contribution.size + put->source.size + put->target.size +
           put->nparents * LINEAGE_ROW;
}

int64_t handoff_retained_envelope_row(const struct handoff_store_put_envelope *put)
{
    /* in its row, and in the index of tasks */
    const size_t task = put->task_id.size + with_page_slack(put->task_id.size);
    return (int64_t)(ENVELOPE_ROW + task + put->inheritance.size + contribution_size(put));
}

/* In the table of keys, and in its index by number. */
static size_t key_size(struct base_span source, struct base_span key)
{
    if (!key.data)
        return 0;
    return with_page_slack(KEY_ROW + source.size + key.size) + source.size + key.size;
}

static bool is_delivery(const struct handoff_store_accept *accept)
{
    static const struct base_uuid nil;
    return memcmp(&accept->publication, &nil, sizeof nil) != 0;
}

int64_t handoff_retained_handoff_row(const struct handoff_store_accept *accept)
{
    size_t size = HANDOFF_ROW + 2 * accept->asked_target.size + accept->source.size +
                  accept->excerpt.size + accept->summary.size;
    if (is_delivery(accept))
        size += DELIVERY_ROW + accept->asked_target.size;
    return (int64_t)(size + key_size(accept->source, accept->idempotency_key));
}

int64_t handoff_retained_publication_row(const struct handoff_store_publish *publish)
{
    const size_t size = PUBLICATION_ROW + publish->channel.size +
                        with_page_slack(publish->channel.size) + publish->source.size;
    return (int64_t)(size + key_size(publish->source, publish->idempotency_key));
}

int64_t handoff_retained_refusal_row(const struct handoff_store_refuse_next *refuse)
{
    return (int64_t)(REFUSAL_ROW + refuse->code.size + refuse->detail.size + refuse->request.size);
}

int64_t handoff_retained_attempt_row(const struct handoff_attempt *attempt)
{
    return (int64_t)(ATTEMPT_ROW + attempt->target.size + attempt->error.size + attempt->peer.size +
                     attempt->answer.size);
}
