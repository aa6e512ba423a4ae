/* SPDX-License-Identifier: Apache-2.0 */
/* Head, foot and pieces of the review page, see frame.h. On the loop of the request. */
#include "exporter/review/frame.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/status/html.h"
#include "exporter/version.h"
#include "lib/base/rfc3339.h"
#include "lib/base/utf8.h"

/* Style and script are files of ours; forms go nowhere else. */
const char review_policy[] =
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/* ---- the frame ------------------------------------------------------------------------------ */

static void write_tabs(FILE *out, enum review_tab tab)
{
    static const struct {
        const char *path, *name;
    } tabs[] = {
        [REVIEW_TAB_PARKED] = {"/review", "Parked"},
        [REVIEW_TAB_CAUSES] = {"/review/causes", "Causes"},
        [REVIEW_TAB_EXPIRED] = {"/review/expired", "Expired"},
        [REVIEW_TAB_CHANNELS] = {"/review/channels", "Channels"},
        [REVIEW_TAB_JOBS] = {"/review/jobs", "Jobs"},
        [REVIEW_TAB_DECISIONS] = {"/review/decisions", "Decisions"},
    };
    fputs("<nav aria-label=\"Review\"><ul>\n", out);
    for (size_t i = 0; i < sizeof tabs / sizeof *tabs; i++)
        fprintf(out, "<li><a href=\"%s\"%s>%s</a></li>\n", tabs[i].path,
                i == tab ? " aria-current=\"page\"" : "", tabs[i].name);
    fputs("</ul></nav>\n", out);
}

static void write_session(struct review_visit *visit)
{
    if (visit->session.cookie[0] == '\0')
        return;
    review_write_form(visit, "/review/sign-out");
    fputs("<p class=\"who\">Signed in", visit->out);
    if (visit->session.person[0] != '\0') {
        fputs(" as ", visit->out);
        review_write_text(visit->out, visit->session.person);
    }
    fputs(" <button class=\"quiet\">Sign out</button></p></form>\n", visit->out);
}

void review_begin_page(struct review_visit *visit, const char *title, enum review_tab tab)
{
    FILE *out = visit->out;
    fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
          out);
    exporter_html_text(out, title);
    fputs(" - review - handoff-exporter</title>\n"
          "<link rel=\"stylesheet\" href=\"/review/page.css\">\n"
          "<link rel=\"stylesheet\" href=\"/review/review.css\">\n"
          "<script src=\"/review/review.js\" defer></script>\n</head>\n<body>\n"
          "<a class=\"skip\" href=\"#content\">Skip to the content</a>\n"
          "<header>\n<p>handoff-exporter <span>",
          out);
    fprintf(out, "%s</span></p>\n", exporter_version());
    if (visit->session.who != NULL)
        write_tabs(out, tab);
    write_session(visit);
    fputs("</header>\n<main id=\"content\" tabindex=\"-1\">\n<h1>", out);
    review_write_text(out, title);
    fputs("</h1>\n", out);
}

void review_end_page(struct review_visit *visit, unsigned status)
{
    fputs("</main>\n<footer><p>Decisions are recorded with who made them, and why.</p></footer>\n"
          "</body>\n</html>\n",
          visit->out);
    review_respond_page(visit, status);
}

/* ---- reading -------------------------------------------------------------------------------- */

const char *review_string(yyjson_val *object, const char *name)
{
    const char *text = yyjson_get_str(yyjson_obj_get(object, name));
    return text != NULL ? text : "";
}

int64_t review_number(yyjson_val *object, const char *name)
{
    const char *raw = yyjson_get_raw(yyjson_obj_get(object, name));
    return raw != NULL ? strtoll(raw, NULL, 10) : 0;
}

/* ---- pieces --------------------------------------------------------------------------------- */

void review_write_text(FILE *out, const char *text)
{
    fputs("<bdi>", out);
    exporter_html_text(out, text);
    fputs("</bdi>", out);
}

void review_write_beginning(FILE *out, const char *text, size_t most)
{
    char cut[512];
    const size_t length = strlen(text);
    const size_t room = most < sizeof cut ? most : sizeof cut - 1;
    if (length <= room) {
        review_write_text(out, text);
        return;
    }
    size_t end = room;
    while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80)
        end--;
    memcpy(cut, text, end);
    cut[end] = '\0';
    review_write_text(out, cut);
    fputs("\u2026", out);
}

void review_write_time(FILE *out, const char *at)
{
    int64_t wall_ms;
    char text[BASE_RFC3339_SIZE];
    if (!base_rfc3339_parse(at, strlen(at), &wall_ms)) {
        fputs("-", out);
        return;
    }
    base_rfc3339_seconds(wall_ms, text);
    fprintf(out, "<time datetime=\"%s\">%.10s %.8s UTC</time>", text, text,
            strlen(text) > 11 ? text + 11 : "");
}

void review_write_error(FILE *out, const struct handoff_error *error)
{
    char text[1024];
    handoff_error_text(error, text, sizeof text);
    fputs("<section class=\"verdict trouble\" role=\"alert\"><p>", out);
    review_write_text(out, text);
    fprintf(out, " <code>%s</code>", handoff_code_name(error->code));
    if (error->needed > 0)
        fprintf(out, " needed: %" PRId64, error->needed);
    fputs("</p></section>\n", out);
}

void review_write_handoff_link(FILE *out, const char *id, const char *words)
{
    fputs("<a href=\"/review/handoffs/", out);
    exporter_html_url_value(out, id);
    fputs("\">", out);
    if (*words != '\0')
        review_write_beginning(out, words, 200);
    else
        exporter_html_text(out, id);
    fputs("</a>", out);
}

void review_write_parameter(FILE *out, bool *first, const char *name, const char *value)
{
    if (value == NULL || *value == '\0')
        return;
    fprintf(out, "%s%s=", *first ? "?" : "&amp;", name);
    exporter_html_url_value(out, value);
    *first = false;
}

/* ---- forms ---------------------------------------------------------------------------------- */

void review_write_hidden(FILE *out, const char *name, const char *value)
{
    if (value == NULL)
        return;
    fprintf(out, "<input type=\"hidden\" name=\"%s\" value=\"", name);
    exporter_html_text(out, value);
    fputs("\">\n", out);
}

void review_write_form(struct review_visit *visit, const char *path)
{
    fputs("<form method=\"post\" action=\"", visit->out);
    exporter_html_text(visit->out, path);
    fputs("\">\n", visit->out);
    review_write_hidden(visit->out, "form", visit->session.form);
}

void review_write_input(FILE *out, const char *id, const char *name, const char *label,
                        const char *value, const char *more)
{
    fprintf(out,
            "<p class=\"field\"><label for=\"%s\">%s</label>"
            "<input id=\"%s\" name=\"%s\" value=\"",
            id, label, id, name);
    exporter_html_text(out, value != NULL ? value : "");
    fprintf(out, "\" %s></p>\n", more);
}

void review_write_why(struct review_visit *visit, const char *id, bool required)
{
    char field[64];
    snprintf(field, sizeof field, "%s-reason", id);
    review_write_input(visit->out, field, "reason", "Reason", review_value(visit, "reason"),
                       required ? "required maxlength=\"4096\"" : "maxlength=\"4096\"");
    snprintf(field, sizeof field, "%s-by", id);
    const char *by = visit->is_post ? review_value(visit, "by") : visit->session.person;
    review_write_input(visit->out, field, "by", "Decided by", by,
                       "maxlength=\"64\" autocomplete=\"name\"");
}

static void write_agent_choices(FILE *out, yyjson_val *agents, const char *chosen)
{
    size_t i, count;
    yyjson_val *agent;
    yyjson_arr_foreach(agents, i, count, agent)
    {
        const char *name = review_string(agent, "name");
        const char *circuit = review_string(agent, "circuit");
        fputs("<option value=\"", out);
        exporter_html_text(out, name);
        fprintf(out, "\"%s>", strcmp(name, chosen) == 0 ? " selected" : "");
        exporter_html_text(out, name);
        if (strcmp(circuit, handoff_circuit_name(HANDOFF_CIRCUIT_CLOSED)) != 0)
            fprintf(out, " (circuit %s)", circuit);
        fputs("</option>\n", out);
    }
}

void review_write_agents(struct review_visit *visit, const char *id, const char *name,
                         const char *label, const char *chosen, const char *first)
{
    FILE *out = visit->out;
    struct handoff_text text;
    struct handoff_error error;
    yyjson_doc *doc = NULL;
    if (handoff_list_agents(exporter_client_host_client(visit->review->client_host), &text,
                            &error) == HANDOFF_OK) {
        doc = yyjson_read(text.data, text.size, YYJSON_READ_NUMBER_AS_RAW);
        handoff_text_free(&text);
    }
    fprintf(out,
            "<p class=\"field\"><label for=\"%s\">%s</label><select id=\"%s\" name=\"%s\">"
            "<option value=\"\">%s</option>\n",
            id, label, id, name, first);
    write_agent_choices(out, yyjson_obj_get(yyjson_doc_get_root(doc), "items"),
                        chosen != NULL ? chosen : "");
    fputs("</select></p>\n", out);
    yyjson_doc_free(doc);
}
