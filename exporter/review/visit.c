/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A visit from its begin to its end, see visit.h. On the loop of the request; the client answers
 * there too.
 */
#include "exporter/review/visit.h"

#include <stdlib.h>
#include <string.h>

#include "exporter/client_host.h"
#include "exporter/http/problem.h"
#include "exporter/http/router.h"
#include "exporter/log/log.h"
#include "exporter/review/frame.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/loop.h"

enum { VISIT_MAGIC = 0x76697374, MEMBER_NAME_MAX = 63 };

/* ---- beginning and ending ------------------------------------------------------------------- */

void review_forget_answers(struct review_visit *visit)
{
    for (size_t i = 0; i < visit->nanswers; i++) {
        yyjson_doc_free(visit->answers[i].doc);
        free(visit->answers[i].body);
        visit->answers[i] = (struct review_answer){.visit = visit};
    }
    visit->nanswers = 0;
}

static void end_visit(struct review_visit *visit)
{
    review_forget_answers(visit);
    if (visit->out != NULL)
        fclose(visit->out);
    free(visit->bytes);
    base_arena_free(&visit->arena);
    visit->magic = 0;
    free(visit);
}

static void visit_cancelled(void *arg)
{
    struct review_visit *visit = arg;
    BASE_CHECK_MAGIC(visit, VISIT_MAGIC);
    struct base_loop *loop = exporter_request_loop(visit->request);
    visit->request = NULL;
    if (!base_timer_started(&visit->pause))
        return; /* what was asked still comes back */
    base_timers_stop(&loop->timers, &visit->pause);
    end_visit(visit);
}

static struct review_visit *begin_visit(struct exporter_request *request,
                                        struct exporter_review *review)
{
    static const struct exporter_problem no_memory = {.code = HANDOFF_ERR_OUT_OF_MEMORY,
                                                      .detail = "out of memory (page)"};
    struct review_visit *visit = calloc(1, sizeof *visit);
    if (visit != NULL)
        visit->out = open_memstream(&visit->bytes, &visit->length);
    if (visit == NULL || visit->out == NULL) {
        free(visit);
        exporter_respond_problem(request, &no_memory);
        return NULL;
    }
    visit->magic = VISIT_MAGIC;
    visit->request = request;
    visit->review = review;
    visit->loop = exporter_client_host_loop(review->client_host, exporter_request_loop(request));
    visit->is_post = strcmp(exporter_request_method(request), "POST") == 0;
    visit->waiting = 1;
    base_arena_init(&visit->arena, 0);
    review_session_find(&review->sessions, request, &visit->session);
    exporter_request_defer(request, visit_cancelled, visit);
    exporter_request_answers_soon(request);
    return visit;
}

/* ---- what was posted ------------------------------------------------------------------------ */

/* Browsers send lines of a text area with \r\n. */
static void join_lines(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        if (*from != '\r' || from[1] != '\n')
            *to++ = *from;
    }
    *to = '\0';
}

static bool decode_form_text(char *text)
{
    for (char *at = strchr(text, '+'); at != NULL; at = strchr(at, '+'))
        *at = ' ';
    if (!exporter_percent_decode(text))
        return false;
    join_lines(text);
    return true;
}

static bool read_pairs(struct review_visit *visit, char *text)
{
    while (text != NULL && *text != '\0') {
        char *value = strsep(&text, "&");
        char *name = strsep(&value, "=");
        if (visit->nfields == REVIEW_FIELDS_MAX || value == NULL || !decode_form_text(name) ||
            !decode_form_text(value))
            return false;
        visit->fields[visit->nfields].name = name;
        visit->fields[visit->nfields++].value = value;
    }
    return true;
}

static bool read_form(struct review_visit *visit, struct handoff_error *error)
{
    static const char form_type[] = "application/x-www-form-urlencoded";
    size_t size;
    const char *body = exporter_request_body(visit->request, &size);
    const char *type = exporter_request_header(visit->request, "Content-Type");
    *error = (struct handoff_error){.code = HANDOFF_ERR_INVALID,
                                    .message = "the form cannot be read; load the page again"};
    if (type == NULL || strncasecmp(type, form_type, sizeof form_type - 1) != 0)
        return false;
    char *copy = base_arena_copy(&visit->arena, body, size);
    return copy != NULL && strlen(copy) == size && read_pairs(visit, copy);
}

static const char *posted(const struct review_visit *visit, const char *name)
{
    for (size_t i = 0; i < visit->nfields; i++) {
        if (strcmp(visit->fields[i].name, name) == 0)
            return visit->fields[i].value;
    }
    return NULL;
}

const char *review_value(struct review_visit *visit, const char *name)
{
    const char *value =
        visit->is_post ? posted(visit, name) : exporter_request_query(visit->request, name);
    return value != NULL && *value != '\0' ? value : NULL;
}

bool review_put_value(struct review_visit *visit, const char *name, const char *value)
{
    size_t at = 0;
    while (at < visit->nfields && strcmp(visit->fields[at].name, name) != 0)
        at++;
    if (at == REVIEW_FIELDS_MAX)
        return false;
    visit->fields[at].name = name;
    visit->fields[at].value = value;
    if (at == visit->nfields)
        visit->nfields++;
    return true;
}

const char *review_id(struct review_visit *visit)
{
    return exporter_request_param(visit->request, 0);
}

const char *review_member(struct review_visit *visit, const char *object, const char *member)
{
    char name[MEMBER_NAME_MAX + 1];
    const int length = snprintf(name, sizeof name, "%s.%s", object, member);
    BASE_CHECK(length > 0 && (size_t)length < sizeof name);
    return review_value(visit, name);
}

static enum handoff_code read_row(const struct handoff_field *row, const char *text, void *into,
                                  struct handoff_error *error)
{
    if (text != NULL)
        return handoff_field_read_text(row, text, into, error);
    return row->required ? handoff_field_refuse_missing(error, row) : HANDOFF_OK;
}

static enum handoff_code read_form_members(struct review_visit *visit,
                                           const struct handoff_field *row, void *into,
                                           struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    for (size_t i = 0; i < row->members->count && code == HANDOFF_OK; i++) {
        const struct handoff_field *member = &row->members->rows[i];
        code = read_row(member, review_member(visit, row->name, member->name),
                        (char *)into + row->offset, error);
    }
    return code;
}

enum handoff_code review_read_input(struct review_visit *visit, const struct handoff_call *call,
                                    struct handoff_call_input *input, struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    *input = (struct handoff_call_input){0};
    for (size_t i = 0; i < call->input.count && code == HANDOFF_OK; i++) {
        const struct handoff_field *row = &call->input.rows[i];
        if (row->place == HANDOFF_IN_HEADER || row->check != NULL)
            continue; /* documents are built by the view that has one */
        if (row->place == HANDOFF_IN_PATH)
            input->id = review_id(visit);
        else if (row->type == HANDOFF_FIELD_OBJECT)
            code = read_form_members(visit, row, input, error);
        else
            code = read_row(row, review_value(visit, row->name), input, error);
    }
    return code;
}

struct handoff_author review_author(struct review_visit *visit, const char *reason)
{
    const char *by = review_value(visit, "by");
    return (struct handoff_author){.who = visit->session.who,
                                   .by = by,
                                   .reason = reason,
                                   .again = review_value(visit, "again") != NULL};
}

/* ---- asking --------------------------------------------------------------------------------- */

void *review_ask(struct review_visit *visit)
{
    BASE_CHECK(visit->nanswers < REVIEW_ANSWERS_MAX);
    struct review_answer *answer = &visit->answers[visit->nanswers++];
    answer->visit = visit;
    visit->waiting++;
    return answer;
}

static void review_release(struct review_visit *visit)
{
    if (--visit->waiting > 0)
        return;
    visit->waiting = 1;
    if (visit->request != NULL)
        visit->then(visit);
    else
        end_visit(visit);
}

/* A page that showed an answer without its members would say that there are none. */
static void read_json(struct review_answer *answer)
{
    if (*answer->body != '{' && *answer->body != '[')
        return; /* a text */
    if (answer->size > REVIEW_JSON_MAX) {
        answer->error =
            (struct handoff_error){.code = HANDOFF_ERR_TOO_LARGE,
                                   .message = "too large for this page; use handoffctl or the API"};
        return;
    }
    answer->doc = yyjson_read(answer->body, answer->size, YYJSON_READ_NUMBER_AS_RAW);
    answer->root = yyjson_doc_get_root(answer->doc);
    if (answer->root == NULL)
        answer->error = (struct handoff_error){.code = HANDOFF_ERR_OUT_OF_MEMORY,
                                               .message = "out of memory (page)"};
}

static void keep_body(struct review_answer *answer, const struct handoff_result *result)
{
    answer->body = malloc(result->size + 1);
    if (answer->body == NULL) {
        answer->error = (struct handoff_error){.code = HANDOFF_ERR_OUT_OF_MEMORY,
                                               .message = "out of memory (page)"};
        return;
    }
    memcpy(answer->body, result->body, result->size);
    answer->body[result->size] = '\0';
    answer->size = result->size;
    if (answer->error.code == HANDOFF_OK)
        read_json(answer);
}

void review_answered(void *context, const struct handoff_result *result)
{
    struct review_answer *answer = context;
    struct review_visit *visit = answer->visit;
    BASE_CHECK_MAGIC(visit, VISIT_MAGIC);
    answer->error = result->error;
    if (result->body != NULL && visit->request != NULL)
        keep_body(answer, result);
    review_release(visit);
}

void review_wait(struct review_visit *visit, void (*then)(struct review_visit *visit))
{
    visit->then = then;
    review_release(visit);
}

static void pause_is_over(struct base_timer *timer)
{
    struct review_visit *visit = BASE_CONTAINER_OF(timer, struct review_visit, pause);
    BASE_CHECK_MAGIC(visit, VISIT_MAGIC);
    visit->then(visit);
}

void review_pause(struct review_visit *visit, int64_t delay_ms,
                  void (*then)(struct review_visit *visit))
{
    visit->then = then;
    visit->pause.fire = pause_is_over;
    base_loop_start_timer(exporter_request_loop(visit->request), &visit->pause, delay_ms);
}

/* ---- answering ------------------------------------------------------------------------------ */

static void respond_and_end(struct review_visit *visit, struct exporter_reply *reply,
                            const char *set_cookie)
{
    const struct exporter_header headers[] = {
        {"Content-Security-Policy", review_policy},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "same-origin"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Cache-Control", "no-store"},
        {set_cookie != NULL ? "Set-Cookie" : NULL, set_cookie},
    };
    size_t at = 0;
    while (reply->headers[at].name != NULL)
        at++;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        reply->headers[at + i] = headers[i];
    exporter_respond(visit->request, reply);
    end_visit(visit);
}

static void respond_page_without_memory(struct review_visit *visit)
{
    static const struct exporter_problem no_memory = {.code = HANDOFF_ERR_OUT_OF_MEMORY,
                                                      .detail = "out of memory (page)"};
    exporter_respond_problem(visit->request, &no_memory);
    end_visit(visit);
}

void review_respond_written(struct review_visit *visit, unsigned status, const char *type)
{
    const bool whole = ferror(visit->out) == 0;
    const bool closed = fclose(visit->out) == 0;
    visit->out = NULL;
    if (!whole || !closed) {
        respond_page_without_memory(visit);
        return;
    }
    struct exporter_reply reply = {.status = status,
                                   .content_type = type,
                                   .bytes = visit->bytes,
                                   .length = visit->length,
                                   .body = EXPORTER_BODY_GIVEN};
    visit->bytes = NULL;
    respond_and_end(visit, &reply, NULL);
}

void review_respond_page(struct review_visit *visit, unsigned status)
{
    review_respond_written(visit, status, "text/html; charset=utf-8");
}

void review_redirect(struct review_visit *visit, const char *path, const char *set_cookie)
{
    struct exporter_reply reply = {.status = 303, .headers = {{"Location", path}}};
    respond_and_end(visit, &reply, set_cookie);
}

void review_respond_static(struct review_visit *visit, const char *type, const char *bytes,
                           size_t length)
{
    struct exporter_reply reply = {.status = 200,
                                   .content_type = type,
                                   .bytes = bytes,
                                   .length = length,
                                   .body = EXPORTER_BODY_STATIC};
    respond_and_end(visit, &reply, NULL);
}

void review_respond_text(struct review_visit *visit, const struct review_answer *answer)
{
    struct exporter_reply reply = {.status = 200,
                                   .content_type = "text/plain; charset=utf-8",
                                   .bytes = answer->body,
                                   .length = answer->size,
                                   .body = EXPORTER_BODY_COPY};
    respond_and_end(visit, &reply, NULL);
}

void review_fail(struct review_visit *visit, const struct handoff_error *error)
{
    const struct exporter_problem problem = {.code = error->code, .detail = error->message};
    review_begin_page(visit, "Not done", REVIEW_TAB_NONE);
    review_write_error(visit->out, error);
    review_end_page(visit, exporter_problem_status(&problem));
}

/* ---- from the request ----------------------------------------------------------------------- */

static const struct {
    void (*begin)(struct review_visit *visit);
    bool for_anybody;
} views[] = {
#define OPERATOR                          false
#define ANYBODY                           true
#define VIEW(method, path, function, who) {review_view_##function, who},
#include "exporter/review/views.def"
#undef VIEW
#undef OPERATOR
#undef ANYBODY
};

/* Where to go on after signing in: a page, and not a decision. */
static void ask_to_sign_in(struct review_visit *visit)
{
    static const struct handoff_error signed_out = {
        .code = HANDOFF_ERR_UNAUTHENTICATED,
        .message = "you are signed out, and nothing was done; sign in, and try again"};
    if (visit->is_post)
        review_fail(visit, &signed_out);
    else
        review_redirect(visit, "/review/sign-in", NULL);
}

static void refuse_forged(struct review_visit *visit)
{
    static const struct handoff_error forged = {
        .code = HANDOFF_ERR_FORBIDDEN,
        .message = "this form is not from this page, or older than this session or process, and "
                   "nothing was done; load the page again"};
    log_warn("review_form_refused", LOG_STR("peer", exporter_request_peer(visit->request)),
             LOG_STR("path", exporter_request_path(visit->request)));
    review_fail(visit, &forged);
}

static void serve_review(struct exporter_request *request, void *context)
{
    const struct exporter_review_entry *entry = context;
    struct handoff_error error;
    struct review_visit *visit = begin_visit(request, entry->review);
    if (visit == NULL)
        return;
    if (visit->session.who == NULL && !views[entry->view].for_anybody)
        ask_to_sign_in(visit);
    else if (visit->is_post && !read_form(visit, &error))
        review_fail(visit, &error);
    else if (visit->is_post && !review_session_owns_form(&visit->session, posted(visit, "form")))
        refuse_forged(visit);
    else
        views[entry->view].begin(visit);
}

void exporter_review_init(struct exporter_review *review, struct exporter_client_host *client_host,
                          struct exporter_callers *callers)
{
    review->client_host = client_host;
    review_sessions_init(&review->sessions, callers);
    for (size_t i = 0; i < EXPORTER_REVIEW_ROUTES; i++)
        review->entries[i] = (struct exporter_review_entry){review, i};
}

void exporter_review_fill(struct exporter_review *review,
                          struct exporter_route rows[EXPORTER_REVIEW_ROUTES])
{
    static const struct {
        const char *method, *path;
    } paths[] = {
#define VIEW(method, path, function, who) {method, path},
#include "exporter/review/views.def"
#undef VIEW
    };
    for (size_t i = 0; i < EXPORTER_REVIEW_ROUTES; i++)
        rows[i] = (struct exporter_route){.method = paths[i].method,
                                          .pattern = paths[i].path,
                                          .handle = serve_review,
                                          .context = &review->entries[i],
                                          .body_limit = REVIEW_FORM_MAX,
                                          .access = HANDOFF_FOR_ALL,
                                          .is_page = true};
}
