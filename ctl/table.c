/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of answers; see table.h. One thread. */
#include "ctl/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl/text.h"
#include "lib/base/check.h"
#include "lib/base/rfc3339.h"

enum { COLUMNS_MAX = 16, GAP = 2, NOTE_INDENT = 4 };
static const char cut_mark[] = "\xE2\x80\xA6"; /* one column: an ellipsis */

struct cell {
    char *text; /* clean */
    enum ctl_tone tone;
};

struct note {
    size_t row, lines;
    const char *name;
    char *text; /* clean */
};

struct ctl_table {
    const struct ctl_column *columns;
    size_t ncolumns;
    size_t widths[COLUMNS_MAX]; /* 0: the column is not shown */
    struct cell *cells;
    size_t ncells;
    struct note *notes;
    size_t nnotes;
    size_t room; /* how wide it may be */
    bool wide;
};

/* ---- filling ----------------------------------------------------------------------------------
 */

static void *grown_list(void *array, size_t count, size_t size)
{
    /* doubled at powers of two */
    if (count & (count - 1))
        return array;
    array = realloc(array, (count ? 2 * count : 1) * size);
    BASE_CHECK(array);
    return array;
}

struct ctl_table *ctl_table_begin(const struct ctl_line *line, const struct ctl_column *columns)
{
    struct ctl_table *table = calloc(1, sizeof *table);
    BASE_CHECK(table);
    table->columns = columns;
    while (columns[table->ncolumns].title)
        table->ncolumns++;
    BASE_CHECK(table->ncolumns <= COLUMNS_MAX);
    table->wide = line->format == CTL_WIDE;
    table->room = table->wide ? SIZE_MAX : ctl_terminal_width(stdout);
    return table;
}

void ctl_table_put_in(struct ctl_table *table, const char *text, enum ctl_tone tone)
{
    table->cells = grown_list(table->cells, table->ncells, sizeof *table->cells);
    char *clean = ctl_clean(text);
    BASE_CHECK(clean);
    table->cells[table->ncells++] = (struct cell){clean, tone};
}

void ctl_table_put(struct ctl_table *table, const char *text)
{
    ctl_table_put_in(table, text, CTL_PLAIN);
}

void ctl_table_put_number(struct ctl_table *table, double number)
{
    char text[32];
    snprintf(text, sizeof text, "%.0f", number);
    ctl_table_put(table, text);
}

void ctl_age(const char *time, char text[CTL_AGE_SIZE])
{
    struct timespec now;
    int64_t then_ms;
    text[0] = '\0';
    if (!base_rfc3339_parse(time, strlen(time), &then_ms))
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    const int64_t s = (int64_t)now.tv_sec - then_ms / 1000, minute = 60, hour = 3600, day = 86400;
    if (s < 2 * minute)
        snprintf(text, CTL_AGE_SIZE, "%llds", (long long)(s > 0 ? s : 0));
    else if (s < 2 * hour)
        snprintf(text, CTL_AGE_SIZE, "%lldm", (long long)(s / minute));
    else if (s < 2 * day)
        snprintf(text, CTL_AGE_SIZE, "%lldh", (long long)(s / hour));
    else
        snprintf(text, CTL_AGE_SIZE, "%lldd", (long long)(s / day));
}

void ctl_table_put_age(struct ctl_table *table, const char *time)
{
    char age[CTL_AGE_SIZE];
    ctl_age(time, age);
    ctl_table_put(table, table->wide ? time : age);
}

void ctl_table_note(struct ctl_table *table, const char *name, const char *text, size_t lines)
{
    BASE_CHECK(table->ncells > 0 && table->ncells % table->ncolumns == 0);
    if (!*text)
        return;
    table->notes = grown_list(table->notes, table->nnotes, sizeof *table->notes);
    char *clean = ctl_clean(text);
    BASE_CHECK(clean);
    table->notes[table->nnotes++] = (struct note){
        .row = table->ncells / table->ncolumns - 1, .lines = lines, .name = name, .text = clean};
}

/* ---- how wide the columns are -----------------------------------------------------------------
 */

static void measure_columns(struct ctl_table *table)
{
    for (size_t c = 0; c < table->ncolumns; c++) {
        if ((table->columns[c].flags & CTL_ON_WIDE) && !table->wide)
            continue;
        size_t width = strlen(table->columns[c].title);
        for (size_t i = c; i < table->ncells; i += table->ncolumns) {
            const size_t needed = ctl_width(table->cells[i].text);
            width = needed > width ? needed : width;
        }
        table->widths[c] = width;
    }
}

static size_t total_width(const struct ctl_table *table)
{
    size_t total = 0;
    for (size_t c = 0; c < table->ncolumns; c++)
        total += table->widths[c] ? table->widths[c] + GAP : 0;
    return total > GAP ? total - GAP : 0;
}

/* The widest of those that may still shrink; NULL: none. */
static size_t *widest_to_shrink(struct ctl_table *table)
{
    size_t *widest = NULL;
    for (size_t c = 0; c < table->ncolumns; c++) {
        const bool gives =
            (table->columns[c].flags & CTL_SHRINKS) && table->widths[c] > table->columns[c].least;
        if (gives && (!widest || table->widths[c] > *widest))
            widest = &table->widths[c];
    }
    return widest;
}

static void fit_columns(struct ctl_table *table)
{
    measure_columns(table);
    for (size_t *widest; total_width(table) > table->room;) {
        widest = widest_to_shrink(table);
        if (!widest)
            break;
        --*widest;
    }
    /* a terminal that is narrower than that loses columns from the right, but never the first */
    for (size_t c = table->ncolumns; c-- > 1 && total_width(table) > table->room;)
        table->widths[c] = 0;
}

/* ---- printing ---------------------------------------------------------------------------------
 */

static void put_blanks(size_t count)
{
    for (; count > 0; count--)
        putchar(' ');
}

/* The text in `width` columns, cut with a mark if it is longer; answers the columns it took. */
static size_t put_cut(const char *text, size_t width)
{
    const size_t columns = ctl_width(text);
    if (columns <= width) {
        fputs(text, stdout);
        return columns;
    }
    const size_t bytes = ctl_fitting(text, width - 1);
    fwrite(text, 1, bytes, stdout);
    fputs(cut_mark, stdout);
    return width;
}

static void print_cell(const char *text, size_t width, bool right, bool last, enum ctl_tone tone)
{
    const size_t columns = ctl_width(text);
    if (right && columns < width)
        put_blanks(width - columns);
    ctl_tone_begin(stdout, tone);
    put_cut(text, width);
    ctl_tone_end(stdout, tone);
    if (!right && !last && columns < width)
        put_blanks(width - columns);
}

static bool is_last_shown(const struct ctl_table *table, size_t c)
{
    while (++c < table->ncolumns) {
        if (table->widths[c])
            return false;
    }
    return true;
}

/* `cells` NULL: the titles. */
static void print_row_of_table(const struct ctl_table *table, const struct cell *cells)
{
    for (size_t c = 0; c < table->ncolumns; c++) {
        if (!table->widths[c])
            continue;
        const bool last = is_last_shown(table, c);
        print_cell(cells ? cells[c].text : table->columns[c].title, table->widths[c],
                   table->columns[c].flags & CTL_RIGHT, last, cells ? cells[c].tone : CTL_STRONG);
        if (!last)
            put_blanks(GAP);
    }
    putchar('\n');
}

/* The bytes of the next line of a note: as many whole words as fit. */
static size_t line_of_note(const char *text, size_t room)
{
    const size_t fitting = ctl_fitting(text, room);
    if (!text[fitting])
        return fitting;
    for (size_t end = fitting; end > 0; end--) {
        if (text[end] == ' ')
            return end;
    }
    return fitting > 0 ? fitting : strlen(text);
}

static void print_note(const struct ctl_table *table, const struct note *note)
{
    const size_t indent = NOTE_INDENT + strlen(note->name) + GAP;
    const size_t room = table->room > indent + NOTE_INDENT ? table->room - indent : NOTE_INDENT;
    const char *text = note->text;
    ctl_tone_begin(stdout, CTL_FAINT);
    printf("%*s%s:", NOTE_INDENT, "", note->name);
    ctl_tone_end(stdout, CTL_FAINT);
    put_blanks(1);
    for (size_t line = 1; *text; line++) {
        if (line == note->lines) {
            put_cut(text, room);
            break;
        }
        const size_t bytes = line_of_note(text, room);
        fwrite(text, 1, bytes, stdout);
        text += bytes + (text[bytes] == ' ');
        if (*text) {
            putchar('\n');
            put_blanks(indent);
        }
    }
    putchar('\n');
}

static void free_table(struct ctl_table *table)
{
    for (size_t i = 0; i < table->ncells; i++)
        free(table->cells[i].text);
    for (size_t i = 0; i < table->nnotes; i++)
        free(table->notes[i].text);
    free(table->cells);
    free(table->notes);
    free(table);
}

void ctl_table_end(struct ctl_table *table)
{
    size_t note = 0;
    BASE_CHECK(table->ncells % table->ncolumns == 0);
    fit_columns(table);
    print_row_of_table(table, NULL);
    for (size_t row = 0; row < table->ncells / table->ncolumns; row++) {
        print_row_of_table(table, table->cells + row * table->ncolumns);
        for (; note < table->nnotes && table->notes[note].row == row; note++)
            print_note(table, &table->notes[note]);
    }
    free_table(table);
}
