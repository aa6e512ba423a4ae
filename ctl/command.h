/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command.h - what a sub-command of handoffctl is. They are the rows of one table, commands.def,
 * from which the command line is parsed (command_line.h) and the help, the completions of shells
 * and the man page are written. Each has a run function in the file of its subject.
 *
 * Constant data.
 */
#ifndef CTL_COMMAND_H
#define CTL_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

/* Exit codes, the same for every sub-command. */
enum {
    CTL_OK = 0,
    CTL_FAILED = 1, /* the command is valid but did not succeed; stderr says why */
    CTL_USAGE = 2,  /* the command line is invalid */
    CTL_UNREACHABLE = 3,
    CTL_NOT_FOUND = 4,
};

/* What a value is: completions offer such values, and the two that only this program knows are
 * checked (WHOLE, CHOICE); of all others the sidecar decides what is valid. */
enum ctl_kind {
    CTL_TEXT,
    CTL_WHOLE,  /* a whole number from `least` to `most` */
    CTL_CHOICE, /* one of `choices` */
    CTL_WORD,   /* one of `choices`, or whatever a newer sidecar knows */
    CTL_STATE,  /* of a handoff */
    CTL_REASON, /* why a handoff is parked */
    CTL_FILE,
    CTL_AGENT,
    CTL_HANDOFF, /* an id, or the beginning of one */
    CTL_PARKED,  /* the same, of one that is parked */
    CTL_COMMAND, /* a word of a command's name */
};

struct ctl_option {
    const char *name;     /* without "--" */
    const char *argument; /* how the help calls its value; NULL: it takes none */
    const char *help;
    const char *choices; /* "a|b" */
    long least, most;
    enum ctl_kind kind;
    char letter; /* of its short form; 0: none */
    bool repeatable;
};

struct ctl_operand {
    const char *name;
    enum ctl_kind kind;
    const char *choices;
    bool optional;
    bool many; /* only the last one */
};

struct ctl_line;

struct ctl_command {
    const char *name;    /* one word, or a group and its verb: "parked list" */
    const char *alias;   /* an older name that keeps working; NULL: none */
    const char *heading; /* of the overview, above the first command of a section; else NULL */
    const char *help;    /* one line */
    const char *details; /* paragraphs, each ending in a newline; NULL: none */
    const char *exits;   /* what its exit codes mean; NULL: as for every command */
    const struct ctl_operand *operands; /* each of these lists ends with an empty row */
    const struct ctl_option *options;
    const char *const *examples;
    bool calls_api; /* takes the options of ctl/api.h */
    bool calls_web; /* takes --web.url */
    bool formats;   /* takes -o and --json */
    bool hidden;    /* is in no help */
    int (*run)(const struct ctl_line *line);
};

/* The table. */
extern const struct ctl_command ctl_commands[];
extern const size_t ctl_command_count;

/* Options that several commands have: of calls_api, calls_web and formats, and of all. */
enum ctl_shared { CTL_SHARED_OUTPUT, CTL_SHARED_API, CTL_SHARED_WEB, CTL_SHARED_ALL };
enum { CTL_SHARED_COUNT = CTL_SHARED_ALL + 1 };
/* NULL: the command does not take them. */
const struct ctl_option *ctl_shared_options(const struct ctl_command *command,
                                            enum ctl_shared which);

/* The command with this name or alias; NULL: there is none. */
const struct ctl_command *ctl_find_command(const char *name);
/* Whether a command has this word before its verb. */
bool ctl_is_group(const char *word);

#define COMMAND(function, ...) int function(const struct ctl_line *line);
#include "ctl/commands.def"
#undef COMMAND

#endif
