/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Editing one: the fields of its request with today's values; then the difference between the two
 * briefs and the new token count; then the new handoff is sent. What has expired is revived so,
 * with a later deadline.
 *
 * The fields are the rows of an edit in the API. A text is shown as it is, everything else as JSON.
 * Today's values are read at each step, so that only what differs from them is sent.
 *
 * On the loop of the request.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/calls/preview.h"
#include "exporter/http/problem.h"
#include "exporter/review/frame.h"
#include "exporter/status/html.h"
#include "lib/base/json.h"

enum { TODAY, PREVIEWED };

static const char no_edit[] = "{\"edit\":{}}";

static const struct handoff_fields *edit_fields(void)
{
    const struct handoff_call *call = &handoff_calls[HANDOFF_CALL_preview_edit];
    for (size_t i = 0; i < call->input.count; i++) {
        if (call->input.rows[i].members != NULL)
            return call->input.rows[i].members;
    }
    abort(); /* its row has an edit */
}

static bool is_shown_as_text(const struct handoff_field *field)
{
    switch (field->type) {
    case HANDOFF_FIELD_TEXT:
    case HANDOFF_FIELD_ID:
    case HANDOFF_FIELD_NAME:
    case HANDOFF_FIELD_UUID:
    case HANDOFF_FIELD_STRING:
    case HANDOFF_FIELD_WORD:
        return true;
    default:
        return false;
    }
}

static yyjson_val *today_of(const struct review_visit *visit, const struct handoff_field *field)
{
    return yyjson_obj_get(yyjson_obj_get(visit->answers[TODAY].root, "fields"), field->name);
}

/* What was typed for a field; "": nothing. */
static const char *typed(struct review_visit *visit, const struct handoff_field *field)
{
    const char *text = review_member(visit, "edit", field->name);
    return text != NULL ? text : "";
}

/* ---- the form ------------------------------------------------------------------------------- */

static void write_value_text(FILE *out, const struct handoff_field *field, yyjson_val *value)
{
    if (value == NULL || yyjson_is_null(value))
        return;
    if (is_shown_as_text(field) && yyjson_is_str(value)) {
        exporter_html_text(out, yyjson_get_str(value));
        return;
    }
    char *text = yyjson_val_write(value, YYJSON_WRITE_PRETTY_TWO_SPACES, NULL);
    if (text != NULL)
        exporter_html_text(out, text);
    free(text);
}

static bool is_long(const struct handoff_field *field)
{
    return field->type == HANDOFF_FIELD_TEXT || field->type == HANDOFF_FIELD_OBJECT ||
           field->type == HANDOFF_FIELD_ARRAY;
}

static void write_edit_field(struct review_visit *visit, const struct handoff_field *field)
{
    FILE *out = visit->out;
    fprintf(out,
            "<p class=\"field wide\"><label for=\"edit-%s\">%s%s</label>"
            "<textarea id=\"edit-%s\" name=\"edit.%s\" rows=\"%d\" spellcheck=\"%s\">\n",
            field->name, field->name, is_shown_as_text(field) ? "" : " (JSON)", field->name,
            field->name, is_long(field) ? 5 : 1,
            field->type == HANDOFF_FIELD_TEXT ? "true" : "false");
    if (visit->is_post)
        exporter_html_text(out, typed(visit, field));
    else
        write_value_text(out, field, today_of(visit, field));
    fputs("</textarea></p>\n", out);
}

static void write_edit_form(struct review_visit *visit, bool can_send)
{
    const struct handoff_fields *fields = edit_fields();
    char path[128];
    snprintf(path, sizeof path, "/review/handoffs/%.36s/edit", review_id(visit));
    review_write_form(visit, path);
    if (can_send)
        fputs("<p><button name=\"phase\" value=\"send\">Send it</button></p>\n", visit->out);
    fputs("<div class=\"fields\">\n", visit->out);
    for (size_t i = 0; i < fields->count; i++) {
        if (!fields->rows[i].fixed)
            write_edit_field(visit, &fields->rows[i]);
    }
    review_write_agents(visit, "edit-to", "target_agent", "To", review_value(visit, "target_agent"),
                        "the agent that has it");
    review_write_why(visit, "edit", false);
    fputs("</div>\n<p><button name=\"phase\" value=\"preview\">Show the difference</button> "
          "<a href=\"/review/handoffs/",
          visit->out);
    exporter_html_url_value(visit->out, review_id(visit));
    fputs("\">Leave it as it is</a></p></form>\n", visit->out);
}

/* ---- the difference ------------------------------------------------------------------------- */

static void write_line_of_brief(FILE *out, yyjson_val *line)
{
    const char *change = review_string(line, "change");
    const char *tag = strcmp(change, "added") == 0     ? "ins"
                      : strcmp(change, "removed") == 0 ? "del"
                                                       : "span";
    fprintf(out, "<%s>", tag);
    exporter_html_text(out, review_string(line, "line"));
    fprintf(out, "</%s>%s", tag, *tag == 's' ? "\n" : "");
}

static void write_edit_difference(struct review_visit *visit)
{
    yyjson_val *preview = visit->answers[PREVIEWED].root;
    yyjson_val *lines = yyjson_obj_get(preview, "difference");
    size_t i, count;
    yyjson_val *line;
    fprintf(visit->out,
            "<section class=\"verdict ok\" role=\"status\"><p>%" PRId64 " tokens of %" PRId64
            ", before it was %" PRId64 ". To ",
            review_number(preview, "token_count"), review_number(preview, "token_budget"),
            review_number(preview, "token_count_before"));
    review_write_text(visit->out, review_string(preview, "target_agent"));
    fputs(".</p></section>\n<h2>The difference</h2>\n", visit->out);
    if (yyjson_arr_size(lines) == 0) {
        fputs("<p class=\"none\">The brief stays the same.</p>\n", visit->out);
        return;
    }
    fputs("<pre tabindex=\"0\" aria-label=\"Difference\">", visit->out);
    yyjson_arr_foreach(lines, i, count, line)
    {
        write_line_of_brief(visit->out, line);
    }
    fputs("</pre>\n", visit->out);
}

/* ---- what differs from today ---------------------------------------------------------------- */

/* A value that could not be made is NULL, and would leave the field as it is today. */
static enum handoff_code put_typed(yyjson_mut_doc *doc, yyjson_mut_val *edit,
                                   const struct handoff_field *field, yyjson_mut_val *value)
{
    return yyjson_mut_obj_put(edit, yyjson_mut_strcpy(doc, field->name), value)
               ? HANDOFF_OK
               : HANDOFF_ERR_OUT_OF_MEMORY;
}

static enum handoff_code put_typed_json(yyjson_mut_doc *doc, yyjson_mut_val *edit,
                                        const struct handoff_field *field, const char *text,
                                        yyjson_val *today)
{
    yyjson_doc *read = yyjson_read(text, strlen(text), YYJSON_READ_NUMBER_AS_RAW);
    yyjson_val *value = yyjson_doc_get_root(read);
    enum handoff_code code = value != NULL ? HANDOFF_OK : HANDOFF_ERR_INVALID_JSON;
    if (value != NULL && (today == NULL || !base_json_equal(value, today)))
        code = put_typed(doc, edit, field, yyjson_val_mut_copy(doc, value));
    yyjson_doc_free(read);
    return code;
}

/* Browsers send lines with \r\n, which reading the form makes \n: today's text may have either. */
static bool is_same_text(const char *typed_text, const char *today)
{
    for (; *today != '\0'; today++) {
        if (*today == '\r' && today[1] == '\n')
            continue;
        if (*typed_text++ != *today)
            return false;
    }
    return *typed_text == '\0';
}

static enum handoff_code put_change(struct review_visit *visit, yyjson_mut_doc *doc,
                                    yyjson_mut_val *edit, const struct handoff_field *field)
{
    const char *text = typed(visit, field);
    yyjson_val *today = today_of(visit, field);
    const bool is_absent = today == NULL || yyjson_is_null(today);
    if (*text == '\0')
        return is_absent ? HANDOFF_OK : put_typed(doc, edit, field, yyjson_mut_null(doc));
    if (!is_shown_as_text(field))
        return put_typed_json(doc, edit, field, text, is_absent ? NULL : today);
    if (is_absent || !is_same_text(text, yyjson_get_str(today)))
        return put_typed(doc, edit, field, yyjson_mut_strcpy(doc, text));
    return HANDOFF_OK;
}

static enum handoff_code put_changes(struct review_visit *visit, yyjson_mut_doc *doc,
                                     yyjson_mut_val *edit, struct handoff_error *error)
{
    const struct handoff_fields *fields = edit_fields();
    *error = (struct handoff_error){.code = HANDOFF_OK};
    for (size_t i = 0; i < fields->count && error->code == HANDOFF_OK; i++) {
        if (!fields->rows[i].fixed)
            error->code = put_change(visit, doc, edit, &fields->rows[i]);
        if (error->code != HANDOFF_ERR_INVALID_JSON)
            continue;
        error->message = "this field is not JSON";
        snprintf(error->field, sizeof error->field, "edit.%s", fields->rows[i].name);
    }
    return error->code;
}

/* {"edit": {...}, "target_agent": ...}; yyjson's. NULL: a field is no JSON, or there is no memory,
 * which is said. */
static char *write_edit_body(struct review_visit *visit, size_t *size, struct handoff_error *error)
{
    static const struct handoff_error no_memory = {.code = HANDOFF_ERR_OUT_OF_MEMORY,
                                                   .message = "out of memory (edit)"};
    const char *target = review_value(visit, "target_agent");
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_val *edit = yyjson_mut_obj_add_obj(doc, root, "edit");
    char *body = NULL;
    if (put_changes(visit, doc, edit, error) == HANDOFF_OK &&
        (target == NULL || yyjson_mut_obj_add_strcpy(doc, root, "target_agent", target)))
        body = yyjson_mut_write(doc, 0, size);
    yyjson_mut_doc_free(doc);
    if (body == NULL && error->code != HANDOFF_ERR_INVALID_JSON)
        *error = no_memory;
    return body;
}

/* ---- the steps ------------------------------------------------------------------------------ */

static void write_edit_page(struct review_visit *visit, const struct handoff_error *error)
{
    const bool failed = error->code != HANDOFF_OK;
    const struct exporter_problem problem = {.code = failed ? error->code : HANDOFF_OK};
    review_begin_page(visit, "Edit", REVIEW_TAB_NONE);
    if (failed)
        review_write_error(visit->out, error);
    else if (visit->nanswers > PREVIEWED)
        write_edit_difference(visit);
    fputs(
        "<p>The edited request is sent as a new handoff in the place of this one. Constraints can "
        "be tightened, not loosened; a deadline may be later, which revives what has "
        "expired.</p>\n",
        visit->out);
    write_edit_form(visit, !failed && visit->nanswers > PREVIEWED);
    review_end_page(visit, failed ? exporter_problem_status(&problem) : 200);
}

static void show_edit_preview(struct review_visit *visit)
{
    write_edit_page(visit, &visit->answers[PREVIEWED].error);
}

static void edit_was_sent(struct review_visit *visit)
{
    char path[96];
    if (visit->answers[PREVIEWED].error.code != HANDOFF_OK) {
        write_edit_page(visit, &visit->answers[PREVIEWED].error);
        return;
    }
    snprintf(path, sizeof path, "/review/handoffs/%.36s",
             review_string(visit->answers[PREVIEWED].root, "id"));
    review_redirect(visit, path, NULL);
}

static void send_or_preview(struct review_visit *visit, const char *body, size_t size)
{
    const char *phase = review_value(visit, "phase");
    if (phase != NULL && strcmp(phase, "send") == 0) {
        const struct handoff_author author = review_author(visit, review_value(visit, "reason"));
        handoff_replay_edited(visit->loop, review_id(visit), body, size, &author, review_answered,
                              review_ask(visit));
        review_wait(visit, edit_was_sent);
    } else {
        handoff_preview_edit(visit->loop, review_id(visit), body, size, review_answered,
                             review_ask(visit));
        review_wait(visit, show_edit_preview);
    }
}

static void go_on_with_edit(struct review_visit *visit)
{
    struct handoff_error error;
    size_t size;
    if (visit->answers[TODAY].error.code != HANDOFF_OK) {
        review_fail(visit, &visit->answers[TODAY].error);
        return;
    }
    if (!visit->is_post) {
        write_edit_page(visit, &(struct handoff_error){.code = HANDOFF_OK});
        return;
    }
    char *body = write_edit_body(visit, &size, &error);
    if (body != NULL)
        send_or_preview(visit, body, size); /* may be the end of the visit */
    else
        write_edit_page(visit, &error);
    free(body);
}

static void begin_edit(struct review_visit *visit)
{
    handoff_preview_edit(visit->loop, review_id(visit), no_edit, sizeof no_edit - 1,
                         review_answered, review_ask(visit));
    review_wait(visit, go_on_with_edit);
}

void review_view_edit(struct review_visit *visit)
{
    begin_edit(visit);
}

void review_view_send_edit(struct review_visit *visit)
{
    begin_edit(visit);
}
