/* SPDX-License-Identifier: Apache-2.0 */
/* The table of turns, see turns.h. Any thread. */
#include "client/deliver/turns.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/memory.h"

bool handoff_turns_init(struct handoff_turns *turns)
{
    turns->shards = base_calloc(HANDOFF_TURN_SHARDS, sizeof turns->shards[0]);
    for (size_t i = 0; turns->shards && i < HANDOFF_TURN_SHARDS; i++)
        pthread_mutex_init(&turns->shards[i].lock, NULL);
    return turns->shards != NULL;
}

void handoff_turns_free(struct handoff_turns *turns)
{
    for (size_t i = 0; turns->shards && i < HANDOFF_TURN_SHARDS; i++) {
        for (size_t k = 0; k < HANDOFF_TURN_BUCKETS; k++)
            BASE_CHECK(!turns->shards[i].buckets[k]);
        pthread_mutex_destroy(&turns->shards[i].lock);
    }
    base_free(turns->shards);
    turns->shards = NULL;
}

/* FNV-1a; agents often have the same task, so the task alone would do for most. */
static uint32_t hash_place(const struct handoff_turn *turn)
{
    uint32_t bits = 2166136261u ^ (uint32_t)((uintptr_t)turn->agent >> 6);
    if (turn->feed)
        bits = (bits ^ (uint32_t)((uintptr_t)turn->feed >> 6)) * 2654435761u;
    for (size_t i = 0; !turn->feed && i < turn->task_id.size; i++)
        bits = (bits ^ (unsigned char)turn->task_id.data[i]) * 16777619u;
    return bits ^ bits >> 15;
}

static bool is_of_same_line(const struct handoff_turn *one, const struct handoff_turn *other)
{
    return one->agent == other->agent && one->feed == other->feed &&
           (one->feed || base_span_equal(one->task_id, other->task_id));
}

static struct handoff_turn_shard *shard_of_place(struct handoff_turns *turns, uint32_t bits)
{
    return &turns->shards[bits % HANDOFF_TURN_SHARDS];
}

static struct handoff_turn **bucket_of_place(struct handoff_turn_shard *shard, uint32_t bits)
{
    return &shard->buckets[bits / HANDOFF_TURN_SHARDS % HANDOFF_TURN_BUCKETS];
}

/* Where the first of its line is named, or would be. */
static struct handoff_turn **find_turn_line(struct handoff_turn_shard *shard, uint32_t bits,
                                            const struct handoff_turn *of)
{
    struct handoff_turn **line = bucket_of_place(shard, bits);
    while (*line && !is_of_same_line(*line, of)) {
        line = &(*line)->next_line;
        shard->looked_at++;
    }
    return line;
}

static void begin_turn_line(struct handoff_turn **line, struct handoff_turn *turn)
{
    turn->next = turn->previous = turn;
    turn->next_line = NULL;
    *line = turn;
}

static void join_turn_line(struct handoff_turn *first, struct handoff_turn *turn)
{
    turn->next = first;
    turn->previous = first->previous;
    turn->previous->next = turn;
    first->previous = turn;
}

static void leave_turn_line(struct handoff_turn **line, struct handoff_turn *turn)
{
    if (*line == turn && turn->next == turn) {
        *line = turn->next_line;
        return;
    }
    if (*line == turn) {
        turn->next->next_line = turn->next_line;
        *line = turn->next;
    }
    turn->previous->next = turn->next;
    turn->next->previous = turn->previous;
}

/* `to` is a copy of `from`, which may be alone. */
static void take_place_in_line(struct handoff_turn **line, const struct handoff_turn *from,
                               struct handoff_turn *to)
{
    if (from->next == from)
        to->next = to->previous = to;
    to->previous->next = to;
    to->next->previous = to;
    if (*line == from)
        *line = to;
}

void handoff_turns_join(struct handoff_turns *turns, struct handoff_turn *turn)
{
    BASE_CHECK(turn->agent != NULL);
    const uint32_t bits = hash_place(turn);
    struct handoff_turn_shard *shard = shard_of_place(turns, bits);
    pthread_mutex_lock(&shard->lock);
    struct handoff_turn **line = find_turn_line(shard, bits, turn);
    if (*line)
        join_turn_line(*line, turn);
    else
        begin_turn_line(line, turn);
    pthread_mutex_unlock(&shard->lock);
}

void handoff_turns_replace(struct handoff_turns *turns, struct handoff_turn *from,
                           struct handoff_turn *to, struct base_span task_id)
{
    BASE_CHECK(from->agent != NULL);
    const uint32_t bits = hash_place(from);
    struct handoff_turn_shard *shard = shard_of_place(turns, bits);
    pthread_mutex_lock(&shard->lock);
    *to = *from;
    to->task_id = task_id;
    take_place_in_line(find_turn_line(shard, bits, from), from, to);
    pthread_mutex_unlock(&shard->lock);
    from->agent = NULL;
}

void handoff_turns_leave(struct handoff_turns *turns, struct handoff_turn *turn)
{
    if (!turn->agent)
        return;
    const uint32_t bits = hash_place(turn);
    struct handoff_turn_shard *shard = shard_of_place(turns, bits);
    pthread_mutex_lock(&shard->lock);
    struct handoff_turn **line = find_turn_line(shard, bits, turn);
    BASE_CHECK(*line != NULL);
    leave_turn_line(line, turn);
    pthread_mutex_unlock(&shard->lock);
    turn->agent = NULL;
}

bool handoff_turns_is_first(struct handoff_turns *turns, const struct handoff_turn *turn)
{
    struct base_uuid id;
    struct handoff_lane *lane;
    BASE_CHECK(turn->agent != NULL);
    return handoff_turns_first(turns, turn, &id, &lane) &&
           memcmp(id.bytes, turn->id.bytes, sizeof id.bytes) == 0;
}

bool handoff_turns_first(struct handoff_turns *turns, const struct handoff_turn *of,
                         struct base_uuid *id, struct handoff_lane **lane)
{
    const uint32_t bits = hash_place(of);
    struct handoff_turn_shard *shard = shard_of_place(turns, bits);
    pthread_mutex_lock(&shard->lock);
    const struct handoff_turn *first = *find_turn_line(shard, bits, of);
    if (first) {
        *id = first->id;
        *lane = first->lane;
    }
    pthread_mutex_unlock(&shard->lock);
    return first != NULL;
}
