/* SPDX-License-Identifier: Apache-2.0 */
/* The set of known tasks, see known_tasks.h. Writer thread, except for asking. */
#include "client/store/sqlite/known_tasks.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/memory.h"

enum {
    STEP_TASKS = 2000, /* read in a step: about a millisecond */
    ROOM_AT_FIRST = 4096,
    READ_AGAIN = 65536, /* so many must have come, however few there are */
};

/* ---- a set ------------------------------------------------------------------------------------
 */

/* FNV-1a, and a mix because its upper bits lag behind. Senders who look for names with equal bits
   gain reads. Never 0. */
static uint32_t task_bits(struct base_span task_id)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < task_id.size; i++)
        hash = (hash ^ (unsigned char)task_id.data[i]) * 0x100000001b3u;
    hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15u;
    const uint32_t bits = (uint32_t)(hash >> 32);
    return bits != 0 ? bits : 1;
}

/* Where the bits are, or would be. */
static size_t slot_of(const struct handoff_task_set *set, uint32_t bits)
{
    size_t at = bits & (set->room - 1);
    while (set->slots[at] != 0 && set->slots[at] != bits)
        at = (at + 1) & (set->room - 1);
    return at;
}

static bool has_bits(const struct handoff_task_set *set, uint32_t bits)
{
    return set->slots && set->slots[slot_of(set, bits)] == bits;
}

static void put_bits(struct handoff_task_set *set, uint32_t bits)
{
    const size_t at = slot_of(set, bits);
    set->count += set->slots[at] == 0;
    set->slots[at] = bits;
}

/* A copy with twice the room. False: out of memory. */
static bool copy_larger(const struct handoff_task_set *set, struct handoff_task_set *larger)
{
    *larger = (struct handoff_task_set){.room = set->room ? set->room * 2 : ROOM_AT_FIRST};
    larger->slots = base_calloc(larger->room, sizeof *larger->slots);
    for (size_t i = 0; larger->slots && i < set->room; i++) {
        if (set->slots[i] != 0)
            put_bits(larger, set->slots[i]);
    }
    return larger->slots != NULL;
}

static bool is_full(const struct handoff_task_set *set)
{
    return (set->count + 1) * 2 > set->room;
}

static void free_set(struct handoff_task_set *set)
{
    base_free(set->slots);
    *set = (struct handoff_task_set){0};
}

/* ---- both sets ---------------------------------------------------------------------------------
 */

static void stop_reading(struct handoff_known_tasks *known)
{
    free_set(&known->next);
    base_free(known->after_task);
    known->after_task = NULL;
    known->after_size = 0;
    known->reading = false;
}

/* Without memory for it, every task may be known, until a set was read. */
static void give_up_tasks(struct handoff_known_tasks *known)
{
    stop_reading(known);
    pthread_mutex_lock(&known->lock);
    struct handoff_task_set old = known->set;
    known->set = (struct handoff_task_set){0};
    known->answers = false;
    pthread_mutex_unlock(&known->lock);
    free_set(&old);
}

/* Those who ask wait for two assignments, not for the copy. */
static bool make_room_for_task(struct handoff_known_tasks *known)
{
    struct handoff_task_set old = known->set, larger;
    if (!is_full(&old))
        return true;
    if (!copy_larger(&old, &larger))
        return false;
    pthread_mutex_lock(&known->lock);
    known->set = larger;
    pthread_mutex_unlock(&known->lock);
    free_set(&old);
    return true;
}

static bool add_to_next(struct handoff_known_tasks *known, uint32_t bits)
{
    struct handoff_task_set *next = &known->next, larger;
    if (is_full(next)) {
        if (!copy_larger(next, &larger))
            return false;
        free_set(next);
        *next = larger;
    }
    put_bits(next, bits);
    return true;
}

static bool add_to_both(struct handoff_known_tasks *known, uint32_t bits)
{
    if (known->reading && !add_to_next(known, bits))
        return false;
    if (!known->answers || has_bits(&known->set, bits))
        return true;
    if (!make_room_for_task(known))
        return false;
    pthread_mutex_lock(&known->lock);
    put_bits(&known->set, bits);
    pthread_mutex_unlock(&known->lock);
    return true;
}

void handoff_known_tasks_add(struct handoff_known_tasks *known, struct base_span task_id)
{
    if (!add_to_both(known, task_bits(task_id)))
        give_up_tasks(known);
}

bool handoff_known_tasks_may_have(struct handoff_known_tasks *known, struct base_span task_id)
{
    const uint32_t bits = task_bits(task_id);
    pthread_mutex_lock(&known->lock);
    const bool may = !known->answers || has_bits(&known->set, bits);
    pthread_mutex_unlock(&known->lock);
    return may;
}

/* ---- reading the store ------------------------------------------------------------------------
 */

/* The last one that was read is where the next step goes on. False: out of memory. */
static bool keep_place(struct handoff_known_tasks *known, struct base_span task_id, int64_t seq)
{
    char *copy = base_malloc(task_id.size + 1);
    if (!copy)
        return false;
    memcpy(copy, task_id.data, task_id.size);
    base_free(known->after_task);
    known->after_task = copy;
    known->after_size = task_id.size;
    known->after_seq = seq;
    return true;
}

static bool read_names(struct handoff_known_tasks *known, struct handoff_db *db,
                       sqlite3_stmt *select, bool in_order, int *count)
{
    bool done = true;
    *count = 0;
    while (done && handoff_db_row(select)) {
        const struct base_span task_id = handoff_db_column(select, 0);
        done = add_to_next(known, task_bits(task_id));
        if (++*count == STEP_TASKS && in_order && done)
            done = keep_place(known, task_id, sqlite3_column_int64(select, 1));
    }
    return handoff_db_end(db, select, NULL) == HANDOFF_OK && done;
}

/* Those that wait for the index (task_index.h), before all others: they may come into it behind the
   place that was read. */
static bool begin_task_read(struct handoff_known_tasks *known, struct handoff_db *db)
{
    int count;
    sqlite3_stmt *select = handoff_db_statement(
        db, "SELECT task_id FROM envelopes WHERE seq > (SELECT through FROM task_indexed)", NULL);
    known->reading = true;
    return select && read_names(known, db, select, false, &count);
}

static bool read_more_tasks(struct handoff_known_tasks *known, struct handoff_db *db, int *count)
{
    sqlite3_stmt *select =
        handoff_db_statement(db,
                             "SELECT task_id, seq FROM task_index WHERE (task_id, seq) > (?1, ?2)"
                             " ORDER BY task_id, seq LIMIT ?3",
                             NULL);
    if (!select)
        return false;
    sqlite3_bind_text64(select, 1, known->after_task ? known->after_task : "", known->after_size,
                        SQLITE_STATIC, SQLITE_UTF8);
    sqlite3_bind_int64(select, 2, known->after_task ? known->after_seq : INT64_MIN);
    sqlite3_bind_int(select, 3, STEP_TASKS);
    return read_names(known, db, select, true, count);
}

static void take_read_set(struct handoff_known_tasks *known)
{
    struct handoff_task_set old = known->set;
    pthread_mutex_lock(&known->lock);
    known->set = known->next;
    known->answers = true;
    pthread_mutex_unlock(&known->lock);
    known->next = (struct handoff_task_set){0};
    known->read = known->set.count;
    free_set(&old);
    stop_reading(known);
}

static bool is_to_be_read(const struct handoff_known_tasks *known)
{
    return !known->answers || known->set.count > known->read * 2 + READ_AGAIN;
}

bool handoff_known_tasks_step(struct handoff_known_tasks *known, struct handoff_db *db)
{
    int count = 0;
    if (!known->reading && !is_to_be_read(known))
        return false;
    if ((!known->reading && !begin_task_read(known, db)) || !read_more_tasks(known, db, &count)) {
        stop_reading(known); /* and from the start, some other time */
        return false;
    }
    if (count < STEP_TASKS)
        take_read_set(known);
    return known->reading;
}

/* ---- its life ---------------------------------------------------------------------------------
 */

void handoff_known_tasks_init(struct handoff_known_tasks *known)
{
    *known = (struct handoff_known_tasks){0};
    pthread_mutex_init(&known->lock, NULL);
}

void handoff_known_tasks_free(struct handoff_known_tasks *known)
{
    stop_reading(known);
    free_set(&known->set);
    pthread_mutex_destroy(&known->lock);
}
