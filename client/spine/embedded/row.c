/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A memory as a row. Tags are stored one on each line, which can be read as it is;
 * a tag contains no control character, so there is nothing to escape. Any thread.
 */
#include <string.h>

#include "client/spine/embedded/embedded.h"
#include "lib/base/error.h"

void handoff_embedded_join_tags(const struct handoff_memory *memory, struct base_buffer *buffer)
{
    for (size_t i = 0; i < memory->tag_count; i++) {
        if (i > 0)
            base_buffer_byte(buffer, '\n');
        base_buffer_append(buffer, memory->tags[i].data, memory->tags[i].size);
    }
}

static bool copy(struct base_arena *arena, struct base_span from, struct base_span *to)
{
    *to = from;
    if (from.data)
        to->data = base_arena_copy(arena, from.data, from.size);
    return to->data || !from.data;
}

static bool split_tags(struct base_arena *arena, struct base_span joined,
                       struct handoff_memory *memory)
{
    struct base_span text;
    if (joined.size == 0)
        return true;
    if (!copy(arena, joined, &text))
        return false;
    size_t count = 1, filled = 0;
    for (size_t i = 0; i < text.size; i++)
        count += text.data[i] == '\n';
    struct base_span *tags = base_arena_alloc(arena, count * sizeof *tags);
    if (!tags)
        return false;
    for (const char *begin = text.data, *end = text.data + text.size; filled < count; filled++) {
        const char *line = memchr(begin, '\n', (size_t)(end - begin));
        size_t size = (size_t)((line ? line : end) - begin);
        tags[filled] = base_span(begin, size);
        begin += size + (line != NULL);
    }
    memory->tags = tags;
    memory->tag_count = count;
    return true;
}

enum handoff_code handoff_embedded_read_row(sqlite3_stmt *row, struct base_arena *arena,
                                            struct handoff_memory *memory,
                                            struct handoff_error *error)
{
    int importance = sqlite3_column_int(row, 2);
    memset(memory, 0, sizeof *memory);
    memory->version = sqlite3_column_int64(row, 0);
    memory->importance = importance < HANDOFF_IMPORTANCE_LOW ? HANDOFF_IMPORTANCE_LOW
                         : importance > HANDOFF_IMPORTANCE_CRITICAL
                             ? HANDOFF_IMPORTANCE_CRITICAL
                             : (enum handoff_importance)importance;
    memory->pinned = sqlite3_column_int(row, 3) != 0;
    memory->created_ms = sqlite3_column_int64(row, 4);
    memory->updated_ms = sqlite3_column_int64(row, 5);
    if (copy(arena, handoff_db_column(row, 1), &memory->id) &&
        split_tags(arena, handoff_db_column(row, 6), memory) &&
        copy(arena, handoff_db_column(row, 7), &memory->metadata) &&
        copy(arena, handoff_db_column(row, 8), &memory->summary) &&
        copy(arena, handoff_db_column(row, 9), &memory->content) &&
        copy(arena, handoff_db_column(row, 10), &memory->agent) &&
        copy(arena, handoff_db_column(row, 11), &memory->task_id) &&
        copy(arena, handoff_db_column(row, 12), &memory->scope))
        return HANDOFF_OK;
    return handoff_error_no_memory(error);
}
