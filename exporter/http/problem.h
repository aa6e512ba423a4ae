/* SPDX-License-Identifier: Apache-2.0 */
/* problem.h - errors as answers: RFC 9457 application/problem+json, on both listeners. */
#ifndef EXPORTER_HTTP_PROBLEM_H
#define EXPORTER_HTTP_PROBLEM_H

#include "client/handoff.h"
#include "exporter/http/http.h"

struct exporter_problem {
    enum handoff_code code; /* HANDOFF_OK: there is none */
    const char *detail;     /* for people; any bytes, escaped on the way out */
    const char *field;      /* of the request, what was there, and what may be: each NULL or */
    const char *seen;       /* "" where it says nothing */
    const char *allowed;
    int64_t needed;      /* the number that would do; 0: none is known */
    const char *handoff; /* the handoff that it is about, as JSON; NULL: none */
    size_t handoff_size;
    bool is_publication;           /* instead of a handoff */
    struct exporter_header header; /* one more header, where its name is not NULL */
};

void exporter_respond_problem(struct exporter_request *request,
                              const struct exporter_problem *problem);

/* The HTTP status that the class of its code has. */
unsigned exporter_problem_status(const struct exporter_problem *problem);

#endif
