/* SPDX-License-Identifier: Apache-2.0 */
/* input.h - files that sub-commands read. */
#ifndef CTL_INPUT_H
#define CTL_INPUT_H

#include <stddef.h>

#include "ctl/command_line.h"

/* The whole of a file, or of stdin where the path is "-", NUL-terminated; free() it. NULL on
 * failure, which is reported on stderr. */
char *ctl_read_file(const struct ctl_line *line, const char *path, size_t *size);

#endif
