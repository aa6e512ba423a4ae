/* SPDX-License-Identifier: Apache-2.0 */
/* Appends bodies to the newest body file and syncs it, see body_log.h. Writer thread. */
#include "client/store/sqlite/body_log.h"

#include <string.h>

/* What a group has beyond this goes into its rows, so that nothing gathers without limit; and no
   more memory than this is kept from one group to the next. */
enum { GATHERED_MAX = 4 * 1024 * 1024, GATHERED_KEPT = 1024 * 1024 };

/* ---- the file ------------------------------------------------------------------------------ */

static bool open_file(struct handoff_body_log *log, int64_t number)
{
    sqlite3_int64 size = 0;
    handoff_body_file_close(&log->file);
    log->number = number;
    if (handoff_body_file_open(log->db, number, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                               &log->file) != SQLITE_OK)
        return false;
    if (log->file->pMethods->xFileSize(log->file, &size) != SQLITE_OK ||
        (size == 0 && !handoff_body_file_protect(log->db, number))) {
        handoff_body_file_close(&log->file);
        return false;
    }
    log->end = size; /* behind what a crash left there, too */
    return true;
}

static int sync_file(struct handoff_body_log *log)
{
    return log->file->pMethods->xSync(log->file, SQLITE_SYNC_NORMAL | SQLITE_SYNC_DATAONLY);
}

void handoff_body_log_sync(struct handoff_body_log *log)
{
    if (log->file && !log->synced)
        (void)sync_file(log); /* what it could not save, its reader will notice */
}

void handoff_body_log_close(struct handoff_body_log *log)
{
    handoff_body_log_sync(log); /* closing the database is a checkpoint */
    handoff_body_file_close(&log->file);
    base_buffer_free(&log->gathered);
}

/* The newest file with room at its end. */
static bool have_file(struct handoff_body_log *log)
{
    if (log->number == 0 && handoff_body_files_newest(log->db, &log->number, NULL) != HANDOFF_OK)
        return false;
    if (!log->file && !open_file(log, log->number ? log->number : 1))
        return false;
    if (log->end < log->file_max)
        return true;
    handoff_body_log_sync(log);
    return open_file(log, log->number + 1);
}

/* ---- a group ------------------------------------------------------------------------------- */

void handoff_body_log_begin(struct handoff_body_log *log)
{
    log->batch = (struct handoff_body_batch){0};
    log->taking = true;
}

bool handoff_body_log_append(struct handoff_body_log *log, struct base_span body,
                             struct handoff_body_place *place)
{
    if (!log->taking || body.size < HANDOFF_BODY_OUTSIDE)
        return false;
    if (log->gathered.size == 0)
        log->taking = have_file(log);
    if (!log->taking)
        return false;
    place->file = log->number;
    place->at = log->end + (int64_t)log->gathered.size;
    place->size = (int64_t)body.size;
    log->gathered.limit = GATHERED_MAX;
    char *room = base_buffer_reserve(&log->gathered, body.size);
    if (!room) /* there is no more room or memory; what was gathered is whole */
        return false;
    memcpy(room, body.data, body.size);
    base_buffer_grow(&log->gathered, body.size);
    return true;
}

void handoff_body_log_named(struct handoff_body_log *log, const struct handoff_body_place *place,
                            int64_t seq)
{
    struct handoff_body_batch *batch = &log->batch;
    if (batch->count == 0 || seq < batch->first_seq)
        batch->first_seq = seq;
    if (batch->count == 0 || seq > batch->last_seq)
        batch->last_seq = seq;
    batch->count++;
    batch->bytes += place->size;
}

/* As no write of SQLite's is larger than its largest page, a VFS need not take more at once; the
   one for unix does not. */
static int write_gathered(struct handoff_body_log *log)
{
    enum { AT_ONCE = 65536 };
    int result = SQLITE_OK;
    for (size_t at = 0; at < log->gathered.size && result == SQLITE_OK; at += AT_ONCE) {
        size_t left = log->gathered.size - at;
        result = log->file->pMethods->xWrite(log->file, log->gathered.data + at,
                                             left < AT_ONCE ? (int)left : AT_ONCE,
                                             log->end + (int64_t)at);
    }
    if (result == SQLITE_OK)
        log->end += (int64_t)log->gathered.size;
    return result;
}

enum handoff_code handoff_body_log_flush(struct handoff_body_log *log, struct handoff_error *error)
{
    if (!log->taking || log->batch.count == 0)
        return HANDOFF_OK;
    int result = write_gathered(log);
    if (result == SQLITE_OK && log->synced)
        result = sync_file(log);
    if (result != SQLITE_OK)
        return handoff_db_result(log->db, result, error);
    return handoff_body_files_add(log->db, log->number, &log->batch, error);
}

void handoff_body_log_end(struct handoff_body_log *log)
{
    log->taking = false;
    base_buffer_clear(&log->gathered);
    if (log->gathered.capacity > GATHERED_KEPT)
        base_buffer_free(&log->gathered);
}
