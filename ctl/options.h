/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - the command line of a sub-command: its options are rows of a table, each with the
 * variable that it sets; the options of every call (ctl/api.h) are accepted too.
 */
#ifndef CTL_OPTIONS_H
#define CTL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "ctl/api.h"
#include "ctl/command.h"

struct ctl_option {
    const char *name;   /* "--target" */
    const char **value; /* for an option with a value; else NULL */
    bool *flag;         /* for an option without a value; else NULL */
};

struct ctl_line {
    const struct ctl_option *options;
    size_t noptions;
    const char **words; /* the positional arguments, in order; NULL if it takes none */
    size_t nwords;      /* at most this many */
    struct ctl_api *api;
};

/* Takes the option at argv[*i] and moves *i to its last word. False: it is another option, or its
 * value is missing. */
bool ctl_take_option(const struct ctl_option *options, size_t count, int argc, char *const argv[],
                     int *i);

/* Parses argv[first] and all that follows. Returns CTL_OK, or CTL_USAGE after reporting the reason.
 */
int ctl_take_line(const struct ctl_command *command, const struct ctl_line *line, int first,
                  int argc, char *const argv[]);

/* The verb of a group ("list" in "parked list") and its function. */
struct ctl_verb {
    const char *name;
    int (*run)(const struct ctl_command *command, int argc, char *const argv[]);
};

/* Runs the verb that argv[1] names; argv[0] is then the verb. */
int ctl_run_verb(const struct ctl_command *command, const struct ctl_verb *verbs, size_t count,
                 int argc, char *const argv[]);

#endif
