/* SPDX-License-Identifier: Apache-2.0 */
/* admission.h - whether a request may reach its handler at all. */
#ifndef EXPORTER_ADMISSION_H
#define EXPORTER_ADMISSION_H

#include <stddef.h>

#include "exporter/http.h"

/* Refuses the request with an answer, or calls exporter_request_admitted() for it, now or later. */
void exporter_admission_judge(struct exporter_request *request);

/* Headers that every answer to this request carries; answers how many were written. They live until
 * the loop's next turn. */
size_t exporter_admission_headers(const struct exporter_request *request,
                                  struct exporter_header *headers, size_t max);

#endif
