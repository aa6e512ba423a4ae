/* SPDX-License-Identifier: Apache-2.0 */
/* input.h - files and options that sub-commands read. */
#ifndef CTL_INPUT_H
#define CTL_INPUT_H

#include <stddef.h>

#include "ctl/command.h"

/* The whole of a file, or of stdin where the path is "-", NUL-terminated; free() it. NULL on
 * failure, which is reported on stderr. */
char *ctl_read_file(const struct ctl_command *command, const char *path, size_t *size);

/* The value of the option at argv[*i], as --name VALUE or --name=VALUE; moves *i to its last word.
 * NULL: argv[*i] is another option. For a missing value: "", with *i past the end. */
const char *ctl_option(const char *name, int argc, char *const argv[], int *i);

#endif
