/* SPDX-License-Identifier: Apache-2.0 */
/* bulk.h - decisions about many, as forms. On the loop of the request. */
#ifndef EXPORTER_REVIEW_BULK_H
#define EXPORTER_REVIEW_BULK_H

#include "exporter/review/visit.h"

/* The form that begins a decision about all that the filters in force find. */
void review_write_bulk_form(struct review_visit *visit);

#endif
