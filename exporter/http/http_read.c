/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a handler can read of a request; strings made for it are in the request's scratch memory.
 * On the request's loop thread.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "exporter/http/http_private.h"
#include "exporter/http/input.h"
#include "exporter/http/prefer.h"
#include "lib/base/check.h"

const char *exporter_request_method(const struct exporter_request *request)
{
    return request->method;
}

const char *exporter_request_path(const struct exporter_request *request)
{
    return request->raw_path;
}

const char *exporter_request_param(const struct exporter_request *request, size_t i)
{
    BASE_CHECK(i < request->match.nparams);
    return request->match.params[i];
}

const char *exporter_request_header(const struct exporter_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->mhd, MHD_HEADER_KIND, name);
}

static char *scratch_new(struct exporter_request *request, size_t length)
{
    struct exporter_scratch *scratch = malloc(sizeof *scratch + length + 1);
    if (scratch == NULL)
        return NULL;
    scratch->next = request->scratch;
    request->scratch = scratch;
    return scratch->text;
}

/* What a walk over the headers of one name collects. */
struct collected {
    const char *name;
    char *text; /* where the next value goes; NULL while lengths are summed */
    size_t length;
    size_t count;
};

static enum MHD_Result collect_header(void *arg, enum MHD_ValueKind kind, const char *name,
                                      const char *value)
{
    (void)kind;
    struct collected *list = arg;
    if (strcasecmp(name, list->name) != 0 || value == NULL)
        return MHD_YES;
    const size_t length = strlen(value);
    if (list->text != NULL) {
        memcpy(list->text + list->length, value, length);
        list->text[list->length + length] = ',';
    }
    list->length += length + 1;
    list->count++;
    return MHD_YES;
}

const char *exporter_request_header_list(struct exporter_request *request, const char *name)
{
    struct collected list = {.name = name};
    MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, collect_header, &list);
    if (list.count == 0)
        return "";
    if (list.count == 1)
        return exporter_request_header(request, name);
    list.text = scratch_new(request, list.length);
    if (list.text == NULL)
        return NULL;
    const size_t total = list.length;
    list.length = 0;
    MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, collect_header, &list);
    list.text[total - 1] = '\0'; /* in the place of the last comma */
    return list.text;
}

const char *exporter_request_query_no_text(struct exporter_request *request)
{
    const struct exporter_query *query = &request->query;
    for (size_t i = 0; i < query->count; i++)
        if (query->all[i].name != NULL && query->all[i].value == NULL)
            return query->all[i].name; /* no parameter of ours has a name that is not text */
    return NULL;
}

const char *exporter_request_query_unknown(struct exporter_request *request,
                                           bool (*is_known)(void *arg, const char *name), void *arg)
{
    const struct exporter_query *query = &request->query;
    for (size_t i = 0; i < query->count; i++) {
        const char *name = query->all[i].name;
        if (name == NULL || !is_known(arg, name))
            return name != NULL ? name : "";
    }
    return NULL;
}

size_t exporter_request_query_all(struct exporter_request *request, const char *name,
                                  const char **values, size_t max)
{
    const struct exporter_query *query = &request->query;
    size_t count = 0;
    for (size_t i = 0; i < query->count; i++) {
        const struct exporter_parameter *parameter = &query->all[i];
        if (parameter->name == NULL || parameter->value == NULL ||
            strcmp(parameter->name, name) != 0)
            continue;
        if (count < max)
            values[count] = parameter->value;
        count++;
    }
    return count;
}

const char *exporter_request_query(struct exporter_request *request, const char *name)
{
    const char *value = NULL;
    return exporter_request_query_all(request, name, &value, 1) > 0 ? value : NULL;
}

const char *exporter_request_problem_field(const struct exporter_request *request)
{
    return request->problem_field;
}

const char *exporter_request_body(const struct exporter_request *request, size_t *length)
{
    *length = request->body_length;
    return request->body.bytes != NULL ? request->body.bytes : "";
}

bool exporter_request_is_lenient(struct exporter_request *request)
{
    struct exporter_preferences preferences;
    if (exporter_request_header(request, "Prefer") == NULL)
        return false; /* a look costs less than the walk that joins several */
    exporter_read_prefer(exporter_request_header_list(request, "Prefer"), &preferences);
    request->lenient = preferences.lenient;
    return request->lenient;
}

void exporter_request_warn(struct exporter_request *request, const char *warnings)
{
    const size_t size = warnings != NULL ? strlen(warnings) + 1 : 0;
    char *copy = size > 0 ? scratch_new(request, size) : NULL;
    if (copy != NULL)
        request->warnings = memcpy(copy, warnings, size);
}

void exporter_request_name_source(struct exporter_request *request, const char *source)
{
    const size_t size = source != NULL ? strlen(source) + 1 : 0;
    char *copy = size > 0 ? scratch_new(request, size) : NULL;
    request->named_source = copy != NULL ? memcpy(copy, source, size) : NULL;
}

const char *exporter_request_named_source(const struct exporter_request *request)
{
    return request->named_source;
}

void exporter_request_shorten_body(struct exporter_request *request, const char *bytes,
                                   size_t length)
{
    BASE_CHECK(length <= request->body_length);
    memcpy(request->body.bytes, bytes, length);
    request->body.bytes[length] = '\0';
    request->body_length = length;
}

const struct handoff_call_input *exporter_request_input(const struct exporter_request *request)
{
    BASE_CHECK(request->input != NULL);
    return &request->input->values;
}

const char *exporter_request_document(const struct exporter_request *request, size_t *length)
{
    BASE_CHECK(request->input != NULL);
    *length = request->input->document.size;
    return request->input->document.data;
}

const char *exporter_request_caller(const struct exporter_request *request)
{
    return request->caller.agent[0] != '\0' ? request->caller.agent : NULL;
}

bool exporter_request_is_operator(const struct exporter_request *request)
{
    return request->caller.is_operator;
}

const char *exporter_request_sender(const struct exporter_request *request)
{
    return request->caller.sender[0] != '\0' ? request->caller.sender : NULL;
}

const char *exporter_request_scopes(const struct exporter_request *request)
{
    return request->caller.scopes[0] != '\0' ? request->caller.scopes : NULL;
}

const char *exporter_request_publish_channels(const struct exporter_request *request)
{
    return request->caller.binds_publish ? request->caller.publish : NULL;
}

const char *exporter_request_receive_channels(const struct exporter_request *request)
{
    return request->caller.binds_receive ? request->caller.receive : NULL;
}

const char *exporter_request_peer(const struct exporter_request *request)
{
    return request->connection->peer;
}

struct base_loop *exporter_request_loop(const struct exporter_request *request)
{
    return request->server->options.loop;
}

bool exporter_request_has_left(const struct exporter_request *request)
{
    return exporter_connection_has_left(request->connection);
}

int64_t exporter_request_began_ms(const struct exporter_request *request)
{
    return request->began_ms;
}

const struct exporter_server *exporter_request_server(const struct exporter_request *request)
{
    return request->server;
}
