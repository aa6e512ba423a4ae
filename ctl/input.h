/* SPDX-License-Identifier: Apache-2.0 */
/* input.h - what sub-commands read besides their arguments. */
#ifndef CTL_INPUT_H
#define CTL_INPUT_H

#include <stddef.h>

#include "ctl/command.h"

/* The whole of a file, or of stdin where the path is "-", NUL-terminated; free() it. NULL with a
 * line on stderr where that fails. */
char *ctl_read_file(const struct ctl_command *command, const char *path, size_t *size);

/* The value of the option at argv[*i], as --name VALUE or --name=VALUE; moves *i to its last word.
 * NULL where argv[*i] is another option. A value that is not there gives "" with *i past the end.
 */
const char *ctl_option(const char *name, int argc, char *const argv[], int *i);

#endif
