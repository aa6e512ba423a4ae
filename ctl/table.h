/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - tables of answers. A table is filled cell by cell and printed at the end, when it is
 * known how wide each column must be: those marked SHRINKS give way until it fits the terminal, or
 * 100 columns. Ids are never cut. A row may have notes, which are printed under it.
 *
 * One thread; a table is one function's.
 */
#ifndef CTL_TABLE_H
#define CTL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl/command_line.h"
#include "ctl/terminal.h"

enum {
    CTL_SHRINKS = 1, /* may be cut, down to `least` */
    CTL_RIGHT = 2,   /* numbers */
    CTL_ON_WIDE = 4, /* only with -o wide */
};

struct ctl_column {
    const char *title;
    unsigned flags;
    size_t least;
};

struct ctl_table;

/* `columns` ends with a row without a title, and is kept. */
struct ctl_table *ctl_table_begin(const struct ctl_line *line, const struct ctl_column *columns);
/* The next cell, of the next row after the last column; a text of anybody, which is cleaned. */
void ctl_table_put(struct ctl_table *table, const char *text);
void ctl_table_put_in(struct ctl_table *table, const char *text, enum ctl_tone tone);
void ctl_table_put_number(struct ctl_table *table, double number);
/* How long ago that was, such as 3m; "" for an empty time. With -o wide, the time itself. */
void ctl_table_put_age(struct ctl_table *table, const char *time);
/* Text under the row that was filled last, with `name` in front; an empty one is none. `lines`: at
 * most so many. */
void ctl_table_note(struct ctl_table *table, const char *name, const char *text, size_t lines);
/* Prints it on stdout and frees it. */
void ctl_table_end(struct ctl_table *table);

/* "45s", "3m", "2h", "4d" into `text`; "" for an empty or strange time. */
enum { CTL_AGE_SIZE = 24 };
void ctl_age(const char *time, char text[CTL_AGE_SIZE]);

#endif
