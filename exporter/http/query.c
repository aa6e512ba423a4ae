/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a query, see query.h: one allocation, which the second of two walks fills. */
#include "exporter/http/query.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/http/router.h"

/* A walk over the parameters. */
struct walk {
    struct exporter_query *query;
    size_t bytes; /* of their texts so far, with an end for each */
    char *texts;
};

static enum MHD_Result measure_parameter(void *arg, enum MHD_ValueKind kind, const char *name,
                                         const char *value)
{
    struct walk *walk = arg;
    (void)kind;
    walk->query->count++;
    walk->bytes += strlen(name) + 1 + (value != NULL ? strlen(value) : 0) + 1;
    return MHD_YES;
}

/* NULL: it is not text. */
static const char *decode(struct walk *walk, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = memcpy(walk->texts + walk->bytes, text, size);
    walk->bytes += size;
    return exporter_percent_decode(copy) ? copy : NULL;
}

static enum MHD_Result take_parameter(void *arg, enum MHD_ValueKind kind, const char *name,
                                      const char *value)
{
    struct walk *walk = arg;
    (void)kind;
    struct exporter_parameter *parameter = &walk->query->all[walk->query->count++];
    parameter->name = decode(walk, name);
    parameter->value = decode(walk, value != NULL ? value : "");
    return MHD_YES;
}

bool exporter_query_read(struct exporter_query *query, struct MHD_Connection *mhd)
{
    struct walk walk = {.query = query};
    *query = (struct exporter_query){0};
    MHD_get_connection_values(mhd, MHD_GET_ARGUMENT_KIND, measure_parameter, &walk);
    if (query->count == 0)
        return true;
    const size_t rows = query->count * sizeof *query->all;
    query->all = malloc(rows + walk.bytes);
    query->count = 0;
    if (query->all == NULL)
        return false;
    walk.texts = (char *)query->all + rows;
    walk.bytes = 0;
    MHD_get_connection_values(mhd, MHD_GET_ARGUMENT_KIND, take_parameter, &walk);
    return true;
}

void exporter_query_free(struct exporter_query *query)
{
    free(query->all);
    *query = (struct exporter_query){0};
}
