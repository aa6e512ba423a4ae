/* SPDX-License-Identifier: Apache-2.0 */
/* list.h - handoffs as rows of a table. On the loop of the request. */
#ifndef EXPORTER_REVIEW_LIST_H
#define EXPORTER_REVIEW_LIST_H

#include <stdio.h>
#include <yyjson.h>

/* The caption is ours. */
void review_write_handoffs(FILE *out, yyjson_val *items, const char *caption);

#endif
