/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_line.h - a command line, parsed by the table of commands.
 *
 * Options may be anywhere, also before the command: --name VALUE, --name=VALUE, and -o VALUE for
 * those with a letter. Of the shared options, a later one overrides an earlier one; an option of
 * the command is refused the second time, unless it is repeatable: a value would be lost in
 * silence. After "--" all is operands.
 */
#ifndef CTL_COMMAND_LINE_H
#define CTL_COMMAND_LINE_H

#include "ctl/command.h"

enum ctl_format { CTL_TABLE, CTL_WIDE, CTL_JSON, CTL_YAML, CTL_NAME };

struct ctl_given {
    const struct ctl_option *option;
    const char *value; /* "" for an option that takes none */
    char *whole;       /* of the beginning of an id: what `value` points to then; else NULL */
};

struct ctl_line {
    const struct ctl_command *command; /* NULL: no command was named */
    const char *group;                 /* the first word where it names only a group; or NULL */
    const char **operands;
    size_t noperands;
    struct ctl_given *given; /* in order */
    size_t ngiven;
    enum ctl_format format;
    bool help, version;
};

/* Texts of the line point into argv. CTL_OK, or CTL_USAGE after reporting the reason; the caller
 * frees the line in every case. */
int ctl_line_parse(struct ctl_line *line, int argc, char *const argv[]);
void ctl_line_free(struct ctl_line *line);

/* NULL: it has fewer. */
const char *ctl_operand(const struct ctl_line *line, size_t i);
/* The value of an option that the command has in its table; NULL: it was not given. */
const char *ctl_value(const struct ctl_line *line, const char *option);
bool ctl_flag(const struct ctl_line *line, const char *option);
/* Of kind WHOLE, which parsing has checked. */
long ctl_whole(const struct ctl_line *line, const char *option, long fallback);

/* Prints the problem and the usage line on stderr; returns CTL_USAGE. */
int ctl_usage_error(const struct ctl_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The row of an option as it is written ("--target", "-o"), of `length` bytes; NULL: the command
 * has none of this name. With a NULL command, that of any. */
const struct ctl_option *ctl_find_option(const struct ctl_command *command, const char *word,
                                         size_t length);

#endif
