/* SPDX-License-Identifier: Apache-2.0 */
/* decisions.h - decisions as a list. On the loop of the request. */
#ifndef EXPORTER_REVIEW_DECISIONS_H
#define EXPORTER_REVIEW_DECISIONS_H

#include <stdio.h>
#include <yyjson.h>

void review_write_decisions(FILE *out, yyjson_val *items);

#endif
