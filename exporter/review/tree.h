/* SPDX-License-Identifier: Apache-2.0 */
/* tree.h - the handoffs of a task as a tree. On the loop of the request. */
#ifndef EXPORTER_REVIEW_TREE_H
#define EXPORTER_REVIEW_TREE_H

#include <stdio.h>
#include <yyjson.h>

enum { REVIEW_TREE_MAX = 100 }; /* handoffs of a task that a page shows */

/* `current` is the id of the one that the page is about. */
void review_write_tree(FILE *out, yyjson_val *items, const char *current);

#endif
