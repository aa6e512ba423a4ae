/* SPDX-License-Identifier: Apache-2.0 */
/*
 * visit.h - one request of the review page, from its input to its answer.
 *
 * A view asks the client several things at once (review_ask), and goes on when all have answered
 * (review_wait), as often as it likes; then it answers exactly once. The request sleeps meanwhile.
 * If it is cancelled, what was asked still comes back, and the visit ends then.
 *
 * What is posted or queried is read by the rows of the client's calls, as the API reads it.
 *
 * On the loop of the request.
 */
#ifndef EXPORTER_REVIEW_VISIT_H
#define EXPORTER_REVIEW_VISIT_H

#include <stdio.h>
#include <yyjson.h>

#include "client/calls/call.h"
#include "client/handoff.h"
#include "exporter/http/http.h"
#include "exporter/review/review.h"
#include "exporter/review/session.h"
#include "lib/base/arena.h"
#include "lib/base/timers.h"

enum {
    REVIEW_ANSWERS_MAX = 10,
    REVIEW_FIELDS_MAX = 64,
    REVIEW_FORM_MAX = 256 * 1024,  /* bytes: what an edit of a long handoff takes */
    REVIEW_TEXT_MAX = 64 * 1024,   /* of a text that a page shows, so that writing it is quick */
    REVIEW_JSON_MAX = 1024 * 1024, /* larger answers are not read on a loop */
};

struct review_visit;

/* What the client answered. */
struct review_answer {
    struct review_visit *visit;
    struct handoff_error error;
    char *body; /* NULL: none */
    size_t size;
    yyjson_doc *doc;
    yyjson_val *root; /* NULL: it is a text, or there is an error */
};

struct review_visit {
    unsigned magic;
    struct exporter_request *request; /* NULL once it was cancelled */
    struct exporter_review *review;
    struct handoff_loop *loop;
    struct review_session session;
    struct base_arena arena;
    struct {
        const char *name, *value;
    } fields[REVIEW_FIELDS_MAX]; /* what was posted */
    size_t nfields;
    bool is_post;
    struct review_answer answers[REVIEW_ANSWERS_MAX]; /* in the order of asking */
    size_t nanswers;
    size_t waiting; /* for so many answers, and 1 while a view is asking */
    void (*then)(struct review_visit *visit);
    int64_t look_until_ms; /* for news; 0: not yet */
    struct base_timer pause;
    FILE *out; /* the page */
    char *bytes;
    size_t length;
};

#define VIEW(method, path, function, who) void review_view_##function(struct review_visit *visit);
#include "exporter/review/views.def"
#undef VIEW

/* ---- input ---------------------------------------------------------------------------------- */

/* A field of the form, or of the query; NULL: it is absent, or empty. */
const char *review_value(struct review_visit *visit, const char *name);
/* The field "object.member". Its name needs no memory: a filter that got lost for want of it would
 * widen what is decided about. */
const char *review_member(struct review_visit *visit, const char *object, const char *member);
/* As if it had been posted; both are lent. False: there are too many fields. */
bool review_put_value(struct review_visit *visit, const char *name, const char *value);
/* The value that the {segment} of the path took. */
const char *review_id(struct review_visit *visit);
/* Reads the inputs of a call by its rows; members of an object come as "object.member". What is
 * wrong is in the error. */
enum handoff_code review_read_input(struct review_visit *visit, const struct handoff_call *call,
                                    struct handoff_call_input *input, struct handoff_error *error);
/* Who decides, and why. */
struct handoff_author review_author(struct review_visit *visit, const char *reason);

/* ---- asking --------------------------------------------------------------------------------- */

/* The context of the next question, with review_answered as its function. */
void *review_ask(struct review_visit *visit);
void review_answered(void *context, const struct handoff_result *result);
/* Makes room for further answers; what was read is gone. */
void review_forget_answers(struct review_visit *visit);
/* Goes on with `then` when everything that was asked is answered, which may be within the call. */
void review_wait(struct review_visit *visit, void (*then)(struct review_visit *visit));

/* Goes on with `then` in a while, unless the request is cancelled. Nothing is asked meanwhile. */
void review_pause(struct review_visit *visit, int64_t delay_ms,
                  void (*then)(struct review_visit *visit));

/* ---- answering: ends the visit -------------------------------------------------------------- */

/* The page that was written to visit->out. */
void review_respond_page(struct review_visit *visit, unsigned status);
/* The same of another type. */
void review_respond_written(struct review_visit *visit, unsigned status, const char *type);
/* `set_cookie` may be NULL. The path is ours and ASCII. */
void review_redirect(struct review_visit *visit, const char *path, const char *set_cookie);
/* Bytes that live for ever. */
void review_respond_static(struct review_visit *visit, const char *type, const char *bytes,
                           size_t length);
/* The body of an answer as it is. */
void review_respond_text(struct review_visit *visit, const struct review_answer *answer);
void review_fail(struct review_visit *visit, const struct handoff_error *error);

#endif
