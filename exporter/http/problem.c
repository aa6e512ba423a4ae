/* SPDX-License-Identifier: Apache-2.0 */
/* Writes every error response, so that none contains hand-made JSON. On the request's loop thread.
 */
#include "exporter/http/problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "exporter/http/http_private.h"

static const struct status {
    unsigned number;
    const char *title; /* the reason phrase */
} statuses[] = {
    [HANDOFF_CLASS_NONE] = {200, "OK"},
    [HANDOFF_CLASS_INVALID] = {400, "Bad Request"},
    [HANDOFF_CLASS_TOO_LARGE] = {413, "Content Too Large"},
    [HANDOFF_CLASS_NOT_FOUND] = {404, "Not Found"},
    [HANDOFF_CLASS_GONE] = {410, "Gone"},
    [HANDOFF_CLASS_CONFLICT] = {409, "Conflict"},
    [HANDOFF_CLASS_REFUSED] = {422, "Unprocessable Content"},
    [HANDOFF_CLASS_BUSY] = {429, "Too Many Requests"},
    [HANDOFF_CLASS_UNAUTHENTICATED] = {401, "Unauthorized"},
    [HANDOFF_CLASS_FORBIDDEN] = {403, "Forbidden"},
    [HANDOFF_CLASS_FAILED] = {502, "Bad Gateway"},
    [HANDOFF_CLASS_TIMEOUT] = {504, "Gateway Timeout"},
    [HANDOFF_CLASS_UNAVAILABLE] = {503, "Service Unavailable"},
    [HANDOFF_CLASS_INTERNAL] = {500, "Internal Server Error"},
    [HANDOFF_CLASS_METHOD] = {405, "Method Not Allowed"},
    [HANDOFF_CLASS_UNIMPLEMENTED] = {501, "Not Implemented"},
    [HANDOFF_CLASS_MEDIA_TYPE] = {415, "Unsupported Media Type"},
};

static const struct status *status_of(const struct exporter_problem *problem)
{
    return &statuses[handoff_code_class(problem->code)];
}

unsigned exporter_problem_status(const struct exporter_problem *problem)
{
    return status_of(problem)->number;
}

static const char retry_after[] = "Retry-After";

static void add_problem_member(yyjson_mut_doc *doc, const char *key, const char *text)
{
    if (text != NULL && *text != '\0')
        yyjson_mut_obj_add_str(doc, yyjson_mut_doc_get_root(doc), key, text);
}

/* For terminals. Takes the text over. */
static char *with_newline(char *text, size_t *length)
{
    char *longer = realloc(text, *length + 1);
    if (longer == NULL)
        return text;
    longer[(*length)++] = '\n';
    return longer;
}

/* RFC 9457 3.1.1: the type "about:blank" says that the title is the status; `code` tells more. */
static char *problem_json(const struct exporter_problem *problem,
                          const struct exporter_header *header, size_t *length)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    if (doc == NULL)
        return NULL;
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_str(doc, root, "type", "about:blank");
    yyjson_mut_obj_add_str(doc, root, "title", status_of(problem)->title);
    yyjson_mut_obj_add_uint(doc, root, "status", status_of(problem)->number);
    yyjson_mut_obj_add_str(doc, root, "detail", problem->detail);
    yyjson_mut_obj_add_str(doc, root, "code", handoff_code_name(problem->code));
    add_problem_member(doc, "field", problem->field);
    add_problem_member(doc, "seen", problem->seen);
    add_problem_member(doc, "allowed", problem->allowed);
    if (problem->needed != 0)
        yyjson_mut_obj_add_sint(doc, root, "needed", problem->needed);
    if (header->name != NULL && strcmp(header->name, retry_after) == 0)
        yyjson_mut_obj_add_uint(doc, root, "retry_after_seconds",
                                strtoull(header->value, NULL, 10));
    if (problem->handoff != NULL)
        yyjson_mut_obj_add_val(doc, root, problem->is_publication ? "publication" : "handoff",
                               yyjson_mut_rawn(doc, problem->handoff, problem->handoff_size));
    char *json = yyjson_mut_write(doc, YYJSON_WRITE_NOFLAG, length);
    yyjson_mut_doc_free(doc);
    return json != NULL ? with_newline(json, length) : NULL;
}

/* A client that must retry is told when: soon, unless the problem knows better. */
static struct exporter_header header_of(const struct exporter_problem *problem)
{
    const enum handoff_class class = handoff_code_class(problem->code);
    if (problem->header.name == NULL &&
        (class == HANDOFF_CLASS_BUSY || class == HANDOFF_CLASS_UNAVAILABLE))
        return (struct exporter_header){retry_after, "1"};
    return problem->header;
}

void exporter_respond_problem(struct exporter_request *request,
                              const struct exporter_problem *problem)
{
    struct exporter_reply reply = {.status = exporter_problem_status(problem),
                                   .content_type = "application/problem+json",
                                   .body = EXPORTER_BODY_GIVEN};
    reply.headers[0] = header_of(problem);
    char *bytes = problem_json(problem, &reply.headers[0], &reply.length);
    if (bytes == NULL) { /* no memory, or bytes that are not text: the status alone still tells */
        reply.length = 0;
        reply.body = EXPORTER_BODY_STATIC;
    }
    reply.bytes = bytes != NULL ? bytes : "";
    request->problem = problem->code;
    snprintf(request->problem_field, sizeof request->problem_field, "%s",
             problem->field != NULL ? problem->field : "");
    exporter_respond(request, &reply);
}
