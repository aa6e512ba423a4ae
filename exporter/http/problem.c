/* SPDX-License-Identifier: Apache-2.0 */
/* How an error looks on the wire: one writer for all of them, so that no answer is hand-made JSON.
 */
#include "exporter/http/problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "exporter/http/http_private.h"

const char *exporter_status_title(unsigned status)
{
    static const struct {
        unsigned status;
        const char *title;
    } titles[] = {
        {400, "Bad Request"},        {401, "Unauthorized"},
        {403, "Forbidden"},          {404, "Not Found"},
        {405, "Method Not Allowed"}, {409, "Conflict"},
        {413, "Content Too Large"},  {422, "Unprocessable Content"},
        {429, "Too Many Requests"},  {500, "Internal Server Error"},
        {502, "Bad Gateway"},        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
    };
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++) {
        if (titles[i].status == status)
            return titles[i].title;
    }
    return "Error";
}

static void add_text(yyjson_mut_doc *doc, const char *key, const char *text)
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
static char *problem_json(const struct exporter_problem *problem, size_t *length)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    if (doc == NULL)
        return NULL;
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_str(doc, root, "type", "about:blank");
    yyjson_mut_obj_add_str(doc, root, "title", exporter_status_title(problem->status));
    yyjson_mut_obj_add_uint(doc, root, "status", problem->status);
    yyjson_mut_obj_add_str(doc, root, "detail", problem->detail);
    yyjson_mut_obj_add_str(doc, root, "code", problem->code);
    add_text(doc, "field", problem->field);
    add_text(doc, "seen", problem->seen);
    add_text(doc, "allowed", problem->allowed);
    if (problem->needed != 0)
        yyjson_mut_obj_add_sint(doc, root, "needed", problem->needed);
    if (problem->handoff != NULL)
        yyjson_mut_obj_add_val(doc, root, "handoff",
                               yyjson_mut_rawn(doc, problem->handoff, problem->handoff_size));
    char *json = yyjson_mut_write(doc, YYJSON_WRITE_NOFLAG, length);
    yyjson_mut_doc_free(doc);
    return json != NULL ? with_newline(json, length) : NULL;
}

static char *problem_text(const struct exporter_problem *problem, size_t *length)
{
    char *text = NULL;
    int written =
        asprintf(&text, "%s: %s\n", exporter_status_title(problem->status), problem->detail);
    if (written < 0)
        return NULL;
    *length = (size_t)written;
    return text;
}

/* Who is told to come later is told when: soon, unless the problem knows better. */
static struct exporter_header header_of(const struct exporter_problem *problem)
{
    if (problem->header.name == NULL && (problem->status == 429 || problem->status == 503))
        return (struct exporter_header){"Retry-After", "1"};
    return problem->header;
}

void exporter_respond_problem(struct exporter_request *request,
                              const struct exporter_problem *problem)
{
    const bool json = exporter_request_server(request)->options.problem_json;
    struct exporter_reply reply = {.status = problem->status, .body = EXPORTER_BODY_GIVEN};
    reply.headers[0] = header_of(problem);
    reply.content_type = json ? "application/problem+json" : "text/plain; charset=utf-8";
    char *bytes =
        json ? problem_json(problem, &reply.length) : problem_text(problem, &reply.length);
    if (bytes == NULL) { /* no memory, or bytes that are no text: the status alone still tells */
        reply.length = 0;
        reply.body = EXPORTER_BODY_STATIC;
    }
    reply.bytes = bytes != NULL ? bytes : "";
    exporter_respond(request, &reply);
}
