/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admission.h - whether a request may reach its handler at all. Asked in three steps: when its
 * headers are there, when it is complete, and when its route is about to be taken.
 */
#ifndef EXPORTER_ACCESS_ADMISSION_H
#define EXPORTER_ACCESS_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>

#include "exporter/http/http.h"

/* What can be told from the headers at once: the page it came from, the bearer token. Bars a
 * request that may not come in, so that its body is not kept. */
void exporter_admission_check_headers(struct exporter_request *request);

/* Refuses the request with an answer, or calls exporter_request_admitted() for it, now or later. */
void exporter_admission_authenticate(struct exporter_request *request);

/* Whether the caller may take the route; otherwise that is answered. */
bool exporter_admission_authorize(struct exporter_request *request);

/* The same once more, for a request that has waited: its token may have been revoked meanwhile. */
bool exporter_admission_reauthorize(struct exporter_request *request);
/* The same for one whose answer has begun: nothing is answered. */
bool exporter_admission_holds(struct exporter_request *request);

/* Headers that every answer to this request carries; answers how many were written. They live until
 * the loop's next turn. */
size_t exporter_admission_headers(const struct exporter_request *request,
                                  struct exporter_header *headers, size_t max);

#endif
