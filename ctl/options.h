/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - the command line of a sub-command: its options are rows of a table, each with the
 * place that it fills; the options of every call (ctl/api.h) are taken beside them.
 */
#ifndef CTL_OPTIONS_H
#define CTL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "ctl/api.h"
#include "ctl/command.h"

struct ctl_option {
    const char *name;   /* "--target" */
    const char **value; /* of an option that takes one; else NULL */
    bool *flag;         /* of one that takes none */
};

struct ctl_line {
    const struct ctl_option *options;
    size_t noptions;
    const char **words; /* what is no option, in its order; NULL where there is none */
    size_t nwords;      /* the most there may be */
    struct ctl_api *api;
};

/* Takes the option at argv[*i] and moves *i to its last word. False: it is none of these, or its
 * value is not there. */
bool ctl_take_option(const struct ctl_option *options, size_t count, int argc, char *const argv[],
                     int *i);

/* Takes argv[first] and all that follows. Answers CTL_OK, or CTL_USAGE with the reason said. */
int ctl_take_line(const struct ctl_command *command, const struct ctl_line *line, int first,
                  int argc, char *const argv[]);

/* The verb of a group ("list" of "parked list"), with what it does. */
struct ctl_verb {
    const char *name;
    int (*run)(const struct ctl_command *command, int argc, char *const argv[]);
};

/* Runs the verb that argv[1] names; argv[0] is then the verb. */
int ctl_run_verb(const struct ctl_command *command, const struct ctl_verb *verbs, size_t count,
                 int argc, char *const argv[]);

#endif
