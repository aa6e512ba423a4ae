/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The longest common subsequence of lines, see difference.h. What both texts begin and end with is
 * set aside first, which leaves little to compare after an edit. Pure; any thread.
 */
#include "client/calls/difference.h"

#include <string.h>

#include "lib/base/json.h"

enum { CELLS_MAX = 1024 * 1024, BESIDE = 2 };

enum change { SAME, REMOVED, ADDED };

struct changed_line {
    enum change change;
    struct base_span text;
};

struct lines {
    struct base_span *list;
    size_t count;
};

struct comparison {
    struct base_arena arena;
    struct lines before, after;
    size_t from, before_to, after_to; /* what is left to compare */
    uint32_t *cells;                  /* lengths of what the rests have in common */
    struct changed_line *result;
    size_t nresult;
};

static size_t count_text_lines(struct base_span text)
{
    size_t count = 1;
    for (size_t i = 0; i < text.size; i++)
        count += text.data[i] == '\n';
    return count;
}

static bool cut_into_lines(struct base_arena *arena, struct base_span text, struct lines *lines)
{
    const char *at = text.data, *end = text.data + text.size;
    lines->list = base_arena_calloc(arena, count_text_lines(text), sizeof *lines->list);
    while (lines->list && at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const size_t size = (size_t)((stop ? stop : end) - at);
        lines->list[lines->count++] = base_span(at, size);
        at += size + 1;
    }
    return lines->list != NULL;
}

static void set_ends_aside(struct comparison *comparison)
{
    const struct lines *before = &comparison->before, *after = &comparison->after;
    comparison->before_to = before->count;
    comparison->after_to = after->count;
    while (comparison->from < before->count && comparison->from < after->count &&
           base_span_equal(before->list[comparison->from], after->list[comparison->from]))
        comparison->from++;
    while (comparison->before_to > comparison->from && comparison->after_to > comparison->from &&
           base_span_equal(before->list[comparison->before_to - 1],
                           after->list[comparison->after_to - 1])) {
        comparison->before_to--;
        comparison->after_to--;
    }
}

/* cells[i * width + j]: what the lines from i and from j on have in common. */
static bool fill_cells(struct comparison *comparison)
{
    const size_t height = comparison->before_to - comparison->from;
    const size_t width = comparison->after_to - comparison->from + 1;
    if (height > CELLS_MAX / width)
        return true; /* without cells all of it is replaced */
    uint32_t *cells = base_arena_calloc(&comparison->arena, (height + 1) * width, sizeof *cells);
    for (size_t i = height; cells && i-- > 0;) {
        for (size_t j = width - 1; j-- > 0;) {
            const bool same = base_span_equal(comparison->before.list[comparison->from + i],
                                              comparison->after.list[comparison->from + j]);
            const uint32_t down = cells[(i + 1) * width + j], right = cells[i * width + j + 1];
            cells[i * width + j] = same           ? cells[(i + 1) * width + j + 1] + 1
                                   : down > right ? down
                                                  : right;
        }
    }
    comparison->cells = cells;
    return cells != NULL;
}

static void take_changed_line(struct comparison *comparison, enum change change,
                              struct base_span text)
{
    comparison->result[comparison->nresult++] = (struct changed_line){change, text};
}

/* Whether a line of the old text goes next. */
static bool removes_next(const struct comparison *comparison, size_t i, size_t j)
{
    const size_t width = comparison->after_to - comparison->from + 1;
    if (j == comparison->after_to || !comparison->cells)
        return true;
    const size_t row = i - comparison->from, column = j - comparison->from;
    return comparison->cells[(row + 1) * width + column] >=
           comparison->cells[row * width + column + 1];
}

static void take_middle(struct comparison *comparison)
{
    const struct lines *before = &comparison->before, *after = &comparison->after;
    size_t i = comparison->from, j = i;
    while (i < comparison->before_to || j < comparison->after_to) {
        if (comparison->cells && i < comparison->before_to && j < comparison->after_to &&
            base_span_equal(before->list[i], after->list[j])) {
            take_changed_line(comparison, SAME, before->list[i++]);
            j++;
        } else if (i < comparison->before_to && removes_next(comparison, i, j)) {
            take_changed_line(comparison, REMOVED, before->list[i++]);
        } else {
            take_changed_line(comparison, ADDED, after->list[j++]);
        }
    }
}

static bool compare_lines(struct comparison *comparison)
{
    const struct lines *before = &comparison->before, *after = &comparison->after;
    set_ends_aside(comparison);
    comparison->result = base_arena_calloc(&comparison->arena, before->count + after->count + 1,
                                           sizeof *comparison->result);
    if (!comparison->result || !fill_cells(comparison))
        return false;
    for (size_t i = 0; i < comparison->from; i++)
        take_changed_line(comparison, SAME, before->list[i]);
    take_middle(comparison);
    for (size_t i = comparison->before_to; i < before->count; i++)
        take_changed_line(comparison, SAME, before->list[i]);
    return true;
}

/* Whether something differs within a few lines. */
static bool is_near_change(const struct comparison *comparison, size_t at)
{
    const size_t from = at > BESIDE ? at - BESIDE : 0;
    for (size_t i = from; i <= at + BESIDE && i < comparison->nresult; i++) {
        if (comparison->result[i].change != SAME)
            return true;
    }
    return false;
}

static void write_changed_line(struct base_buffer *out, const struct changed_line *line)
{
    static const char *const names[] = {[SAME] = "same", [REMOVED] = "removed", [ADDED] = "added"};
    base_buffer_text(out, out->data[out->size - 1] == '[' ? "{" : ",{");
    base_json_write_name(out, "change");
    base_json_write_string(out, base_span_text(names[line->change]));
    base_json_write_name(out, "line");
    base_json_write_string(out, line->text);
    base_buffer_byte(out, '}');
}

void handoff_difference_write(struct base_buffer *out, struct base_span before,
                              struct base_span after)
{
    struct comparison comparison = {.from = 0};
    base_arena_init(&comparison.arena, 0);
    base_buffer_byte(out, '[');
    if (!cut_into_lines(&comparison.arena, before, &comparison.before) ||
        !cut_into_lines(&comparison.arena, after, &comparison.after) || !compare_lines(&comparison))
        out->failed = true;
    for (size_t i = 0; !out->failed && i < comparison.nresult; i++) {
        if (is_near_change(&comparison, i))
            write_changed_line(out, &comparison.result[i]);
    }
    base_buffer_byte(out, ']');
    base_arena_free(&comparison.arena);
}
