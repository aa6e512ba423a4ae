/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filters.h - the filters of a list, as a form and in links: the rows of its call, so that a list
 * of the page has those of the API. On the loop of the request.
 */
#ifndef EXPORTER_REVIEW_FILTERS_H
#define EXPORTER_REVIEW_FILTERS_H

#include "exporter/review/visit.h"

/* A form with the filters of a call, filled in with those in force; `path` is where it leads. */
void review_write_filters(struct review_visit *visit, const struct handoff_call *call,
                          const char *path);
/* A link to the next page of the list, and one back to its beginning. */
void review_write_paging(struct review_visit *visit, const struct handoff_call *call,
                         const char *path, yyjson_val *list);
/* The filters in force as hidden fields "filter.NAME", for a job. */
void review_write_hidden_filters(struct review_visit *visit);
/* Whether any is in force. */
bool review_has_filters(struct review_visit *visit, const struct handoff_call *call);

#endif
