/* SPDX-License-Identifier: Apache-2.0 */
/* document.h - an answer in the format that -o asks for. One thread. */
#ifndef CTL_DOCUMENT_H
#define CTL_DOCUMENT_H

#include <yyjson.h>

#include "ctl/api.h"

/* Prints an answer for people, as a table or as lines. */
typedef void ctl_shown(const struct ctl_line *line, yyjson_val *root);

/* Prints the answer as JSON or YAML, its ids alone, or by `show`; nothing for an empty one. Returns
 * the exit code. */
int ctl_show(const struct ctl_line *line, const struct ctl_answer *answer, ctl_shown *show);
/* The same for a document that was put together here. */
int ctl_show_built(const struct ctl_line *line, yyjson_mut_doc *doc, ctl_shown *show);

/* Prints a value as YAML in block style, with all strings in double quotes. */
void ctl_put_yaml(yyjson_val *value);

#endif
