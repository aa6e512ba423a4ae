/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame.h - what the views of the review page share: their head and foot, and the pieces that they
 * are written with. Everything that is no literal goes through exporter_html_text.
 *
 * On the loop of the request.
 */
#ifndef EXPORTER_REVIEW_FRAME_H
#define EXPORTER_REVIEW_FRAME_H

#include <stdio.h>
#include <yyjson.h>

#include "exporter/review/visit.h"

enum review_tab {
    REVIEW_TAB_PARKED,
    REVIEW_TAB_CAUSES,
    REVIEW_TAB_EXPIRED,
    REVIEW_TAB_CHANNELS,
    REVIEW_TAB_JOBS,
    REVIEW_TAB_DECISIONS,
    REVIEW_TAB_NONE,
};

/* The Content-Security-Policy of every answer. */
extern const char review_policy[];

void review_begin_page(struct review_visit *visit, const char *title, enum review_tab tab);
/* Writes the foot, and answers. */
void review_end_page(struct review_visit *visit, unsigned status);

/* ---- reading what the client answered ------------------------------------------------------- */

/* A member as text; "": it is absent, or no string. */
const char *review_string(yyjson_val *object, const char *name);
/* A member as a whole number; 0: absent. */
int64_t review_number(yyjson_val *object, const char *name);

/* ---- pieces --------------------------------------------------------------------------------- */

/* Text from outside, kept from turning around what is beside it. */
void review_write_text(FILE *out, const char *text);
/* At most so many bytes of it, and an ellipsis. */
void review_write_beginning(FILE *out, const char *text, size_t most);
/* RFC 3339 as a time for people; "" is a dash. */
void review_write_time(FILE *out, const char *at);
void review_write_error(FILE *out, const struct handoff_error *error);
/* A link to the page of a handoff. */
void review_write_handoff_link(FILE *out, const char *id, const char *words);
/* "name=value" behind a "?" or "&amp;"; nothing where the value is NULL or "". */
void review_write_parameter(FILE *out, bool *first, const char *name, const char *value);

/* Opens a form that is posted, with its token. */
void review_write_form(struct review_visit *visit, const char *path);
void review_write_hidden(FILE *out, const char *name, const char *value);
/* A labelled field of one line; `id` is unique on its page. */
void review_write_input(FILE *out, const char *id, const char *name, const char *label,
                        const char *value, const char *more);
/* The reason of a decision, and who decides. */
void review_write_why(struct review_visit *visit, const char *id, bool required);
/* A choice of the agents; `chosen` "": the first choice, with these words. */
void review_write_agents(struct review_visit *visit, const char *id, const char *name,
                         const char *label, const char *chosen, const char *first);

#endif
