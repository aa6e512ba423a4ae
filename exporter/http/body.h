/* SPDX-License-Identifier: Apache-2.0 */
/* body.h - bodies of a few fields: a JSON object, or nothing. */
#ifndef EXPORTER_HTTP_BODY_H
#define EXPORTER_HTTP_BODY_H

#include <yyjson.h>

#include "exporter/http/http.h"

/* The object; *root is NULL where the body is empty. yyjson_doc_free(*doc) when it is done with.
 * False: it was neither, and that is answered. */
bool exporter_body_object(struct exporter_request *request, yyjson_doc **doc, yyjson_val **root);

/* The fields that a body may have. */
struct exporter_body_field {
    const char *name;
    const char **text; /* one of the three: where the value goes; left alone where it is absent */
    uint64_t *number;
    bool *flag;
};

/* Reads all fields of an object. False: one is unknown or of another type, and that is answered. */
bool exporter_body_read(struct exporter_request *request, yyjson_val *root,
                        const struct exporter_body_field *fields, size_t count);

/* The same, but other fields may be there, whatever they are. */
bool exporter_body_pick(struct exporter_request *request, yyjson_val *root,
                        const struct exporter_body_field *fields, size_t count);

#endif
