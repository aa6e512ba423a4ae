/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query.h - the parameters of a request's query, decoded all at once before a handler looks for
 * one: what could not be copied later would look as if it had not been sent, and a filter that is
 * absent widens the answer.
 *
 * On the loop of the request.
 */
#ifndef EXPORTER_HTTP_QUERY_H
#define EXPORTER_HTTP_QUERY_H

#include <stdbool.h>
#include <stddef.h>

struct MHD_Connection;

struct exporter_parameter {
    const char *name, *value; /* NULL: it is not text; a parameter without "=" has the value "" */
};

struct exporter_query {
    struct exporter_parameter *all; /* in the order in which they were sent, with their texts */
    size_t count;
};

/* Into an empty one. False: out of memory. */
bool exporter_query_read(struct exporter_query *query, struct MHD_Connection *mhd);
void exporter_query_free(struct exporter_query *query);

#endif
