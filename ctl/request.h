/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.h - the request of a handoff, as sub-commands read it from the command line: a JSON file,
 * options that set its fields, or both. One thread.
 */
#ifndef CTL_REQUEST_H
#define CTL_REQUEST_H

#include "ctl/command_line.h"

/* Whether the line has any of it; `file` is the operand that names the file, or NULL. */
bool ctl_request_is_given(const struct ctl_line *line, const char *file);
/* The request as JSON; the caller frees *body. CTL_OK, or the exit code after reporting the reason.
 */
int ctl_request_body(const struct ctl_line *line, const char *file, char **body);

#endif
