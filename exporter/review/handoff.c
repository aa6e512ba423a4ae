/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One handoff whole: what it is, whether it would be delivered now, what can be decided, every
 * attempt, the brief as its agent got it, what was missing and omitted, its task, and what was
 * decided before. All of it is read at once; the task, whose id is not known before, after that.
 *
 * On the loop of the request.
 */
#include <inttypes.h>
#include <string.h>

#include "exporter/review/decisions.h"
#include "exporter/review/frame.h"
#include "exporter/review/tree.h"
#include "exporter/status/html.h"

/* In the order of asking. */
enum { HANDOFF, ATTEMPTS, BRIEF, ENVELOPE, PROSPECT, DECISIONS, TASK };
enum { TITLE_MOST = 120, ERROR_MOST = 500, ATTEMPTS_SHOWN = 100, MISSING_SHOWN = 200 };

static yyjson_val *root_of(const struct review_visit *visit, int which)
{
    return visit->answers[which].root;
}

/* Whether it could not be read, which is said in its place. */
static bool write_failed(struct review_visit *visit, int which)
{
    const struct handoff_error *error = &visit->answers[which].error;
    if (error->code != HANDOFF_OK)
        review_write_error(visit->out, error);
    return error->code != HANDOFF_OK;
}

static bool is_in_state(struct review_visit *visit, enum handoff_state state)
{
    return strcmp(review_string(root_of(visit, HANDOFF), "state"), handoff_state_name(state)) == 0;
}

/* What has expired is open to one edit. */
static bool is_open_to_decisions(struct review_visit *visit)
{
    return is_in_state(visit, HANDOFF_STATE_PARKED) ||
           (is_in_state(visit, HANDOFF_STATE_EXPIRED) &&
            *review_string(root_of(visit, HANDOFF), "replaced_by") == '\0');
}

/* ---- what it is ----------------------------------------------------------------------------- */

static void write_fact(FILE *out, const char *name, const char *text)
{
    if (*text == '\0')
        return;
    fprintf(out, "<div><dt>%s</dt><dd>", name);
    review_write_beginning(out, text, ERROR_MOST);
    fputs("</dd></div>\n", out);
}

static void write_counted(FILE *out, const char *name, int64_t number)
{
    fprintf(out, "<div><dt>%s</dt><dd>%" PRId64 "</dd></div>\n", name, number);
}

static void write_memories_fact(FILE *out, yyjson_val *handoff)
{
    yyjson_val *completeness = yyjson_obj_get(handoff, "completeness");
    if (review_number(completeness, "requested") > 0)
        fprintf(out, "<div><dt>Memories</dt><dd>%" PRId64 " of %" PRId64 "</dd></div>\n",
                review_number(completeness, "included"), review_number(completeness, "requested"));
}

static void write_moment(FILE *out, const char *name, const char *at)
{
    fprintf(out, "<div><dt>%s</dt><dd>", name);
    review_write_time(out, at);
    fputs("</dd></div>\n", out);
}

/* Of an edit: the handoff before or after it. */
static void write_linked_fact(FILE *out, const char *name, const char *id)
{
    if (*id == '\0')
        return;
    fprintf(out, "<div><dt>%s</dt><dd>", name);
    review_write_handoff_link(out, id, "");
    fputs("</dd></div>\n", out);
}

static void write_facts(struct review_visit *visit)
{
    FILE *out = visit->out;
    yyjson_val *handoff = root_of(visit, HANDOFF);
    fputs("<dl class=\"figures\">\n", out);
    write_fact(out, "State", review_string(handoff, "state"));
    write_fact(out, "Reason", review_string(handoff, "reason"));
    write_fact(out, "From", review_string(handoff, "source_agent"));
    write_fact(out, "To", review_string(handoff, "target_agent"));
    write_fact(out, "Task", review_string(handoff, "task_id"));
    write_counted(out, "Tokens", review_number(handoff, "token_count"));
    write_memories_fact(out, handoff);
    write_counted(out, "Attempts", review_number(handoff, "attempts"));
    write_moment(out, "Accepted", review_string(handoff, "created_at"));
    write_moment(out, "In this state since", review_string(handoff, "settled_at"));
    write_fact(out, "Progress", review_string(handoff, "progress"));
    write_linked_fact(out, "Replaced by", review_string(handoff, "replaced_by"));
    write_linked_fact(out, "In the place of",
                      review_string(yyjson_obj_get(root_of(visit, ENVELOPE), "replaces"), "id"));
    write_fact(out, "Id", review_string(handoff, "id"));
    fputs("</dl>\n", out);
}

/* ---- would it be delivered ------------------------------------------------------------------ */

static void write_obstacles(FILE *out, yyjson_val *obstacles)
{
    size_t i, count;
    yyjson_val *obstacle;
    fputs("<ul>\n", out);
    yyjson_arr_foreach(obstacles, i, count, obstacle)
    {
        fputs("<li>", out);
        review_write_text(out, review_string(obstacle, "detail"));
        fputs(" <code>", out);
        review_write_text(out, review_string(obstacle, "code"));
        fputs("</code></li>\n", out);
    }
    fputs("</ul>\n", out);
}

static void write_prospect_verdict(struct review_visit *visit)
{
    FILE *out = visit->out;
    yyjson_val *prospect = root_of(visit, PROSPECT);
    const bool deliverable = yyjson_is_true(yyjson_obj_get(prospect, "deliverable"));
    fprintf(out, "<section class=\"verdict %s\"><h2>%s, to ", deliverable ? "ok" : "attention",
            deliverable ? "It would be delivered now" : "It would not be delivered now");
    review_write_text(out, review_string(prospect, "target_agent"));
    fputs("</h2>\n", out);
    if (!deliverable)
        write_obstacles(out, yyjson_obj_get(prospect, "obstacles"));
    if (*review_string(prospect, "note") != '\0') {
        fputs("<p>", out);
        review_write_text(out, review_string(prospect, "note"));
        fputs("</p>\n", out);
    }
}

static void write_delivery_prospect(struct review_visit *visit)
{
    FILE *out = visit->out;
    if (visit->answers[PROSPECT].error.code == HANDOFF_OK) {
        write_prospect_verdict(visit);
    } else {
        fputs("<section><h2>Would it be delivered now?</h2>\n", out);
        write_failed(visit, PROSPECT);
    }
    fputs("<form method=\"get\" action=\"/review/handoffs/", out);
    exporter_html_url_value(out, review_id(visit));
    fputs("\">\n", out);
    review_write_agents(visit, "asked", "target", "Ask for another agent",
                        review_value(visit, "target"), "the one it was parked for");
    fputs("<p><button class=\"quiet\">Ask</button></p></form>\n</section>\n", out);
}

/* ---- deciding ------------------------------------------------------------------------------- */

static void begin_action(struct review_visit *visit, const char *action, const char *title)
{
    char path[128];
    fprintf(visit->out, "<section aria-labelledby=\"%s-head\"><h3 id=\"%s-head\">%s</h3>\n", action,
            action, title);
    snprintf(path, sizeof path, "/review/handoffs/%.36s/%s",
             review_string(root_of(visit, HANDOFF), "id"), action);
    review_write_form(visit, path);
}

/* Whether a further replay needs a second word. */
static bool was_replayed_often(struct review_visit *visit)
{
    size_t i, count;
    yyjson_val *obstacle;
    yyjson_arr_foreach(yyjson_obj_get(root_of(visit, PROSPECT), "obstacles"), i, count, obstacle)
    {
        if (strcmp(review_string(obstacle, "code"), handoff_code_name(HANDOFF_ERR_CONFLICT)) == 0)
            return true;
    }
    return false;
}

static void write_replay_form(struct review_visit *visit)
{
    begin_action(visit, "replay", "Replay");
    review_write_agents(visit, "replay-to", "target_agent", "To", review_value(visit, "target"),
                        "the agent that it was parked for");
    review_write_why(visit, "replay", false);
    if (was_replayed_often(visit))
        fputs(
            "<p><input type=\"checkbox\" id=\"again\" name=\"again\" value=\"true\"> "
            "<label for=\"again\">Once more, although it was replayed several times</label></p>\n",
            visit->out);
    fputs("<p><button>Replay</button></p></form></section>\n", visit->out);
}

static void write_discard_form(struct review_visit *visit)
{
    begin_action(visit, "discard", "Discard");
    review_write_why(visit, "discard", true);
    fputs("<p><button class=\"danger\">Discard</button></p></form></section>\n", visit->out);
}

static void write_edit_link(struct review_visit *visit)
{
    const bool expired = is_in_state(visit, HANDOFF_STATE_EXPIRED);
    fprintf(visit->out, "<section><h3>%s</h3>\n<p><a href=\"/review/handoffs/",
            expired ? "Revive" : "Edit");
    exporter_html_url_value(visit->out, review_id(visit));
    fprintf(visit->out, "/edit\">%s</a></p></section>\n",
            expired ? "Edit it, with a later deadline" : "Edit it, and see the difference first");
}

static void write_actions(struct review_visit *visit)
{
    const bool parked = is_in_state(visit, HANDOFF_STATE_PARKED);
    if (!is_open_to_decisions(visit))
        return;
    fputs("<section aria-labelledby=\"decide\"><h2 id=\"decide\">Decide</h2>\n"
          "<div class=\"actions\">\n",
          visit->out);
    if (parked)
        write_replay_form(visit);
    write_edit_link(visit);
    if (parked)
        write_discard_form(visit);
    fputs("</div></section>\n", visit->out);
}

/* ---- attempts ------------------------------------------------------------------------------- */

static void write_attempt(FILE *out, yyjson_val *attempt)
{
    const char *duration = yyjson_get_raw(yyjson_obj_get(attempt, "duration_seconds"));
    fputs("<li><p><strong>", out);
    review_write_text(out, review_string(attempt, "result"));
    fputs("</strong> ", out);
    review_write_text(out, review_string(attempt, "target_agent"));
    if (review_number(attempt, "status") > 0)
        fprintf(out, ", status %" PRId64, review_number(attempt, "status"));
    fputs("</p>\n", out);
    if (*review_string(attempt, "error") != '\0') {
        fputs("<p>", out);
        review_write_beginning(out, review_string(attempt, "error"), ERROR_MOST);
        fputs("</p>\n", out);
    }
    if (*review_string(attempt, "answer") != '\0') {
        fputs("<p>It answered: <q>", out);
        review_write_beginning(out, review_string(attempt, "answer"), ERROR_MOST);
        fputs("</q></p>\n", out);
    }
    fputs("<p class=\"soft\">", out);
    if (review_number(attempt, "attempt") > 0) /* not where it was passed over */
        fprintf(out, "attempt %" PRId64 ", ", review_number(attempt, "attempt"));
    review_write_time(out, review_string(attempt, "at"));
    fprintf(out, ", %s s ", duration != NULL ? duration : "0");
    review_write_text(out, review_string(attempt, "peer"));
    fputs("</p></li>\n", out);
}

/* The newest first; thousands of replays leave as many attempts. They are kept in a ring, because
 * finding one by its number walks over those before it. */
static void write_newest_attempts(FILE *out, yyjson_val *items)
{
    yyjson_val *newest[ATTEMPTS_SHOWN];
    size_t i, count;
    yyjson_val *attempt;
    yyjson_arr_foreach(items, i, count, attempt)
    {
        newest[i % ATTEMPTS_SHOWN] = attempt;
    }
    fputs("<ul class=\"list\">\n", out);
    for (i = 0; i < count && i < ATTEMPTS_SHOWN; i++)
        write_attempt(out, newest[(count - 1 - i) % ATTEMPTS_SHOWN]);
    fputs("</ul>\n", out);
}

static void write_attempts(struct review_visit *visit)
{
    yyjson_val *items = yyjson_obj_get(root_of(visit, ATTEMPTS), "items");
    fputs("<h2>Attempts</h2>\n", visit->out);
    if (write_failed(visit, ATTEMPTS))
        return;
    if (yyjson_arr_size(items) == 0)
        fputs("<p class=\"none\">None.</p>\n", visit->out);
    else
        write_newest_attempts(visit->out, items);
}

/* ---- what it carries ------------------------------------------------------------------------ */

static void write_missing_memories(FILE *out, yyjson_val *missing)
{
    size_t i, count;
    yyjson_val *memory;
    if (yyjson_arr_size(missing) == 0)
        return;
    fputs("<h3>Missing</h3>\n<ul>\n", out);
    yyjson_arr_foreach(missing, i, count, memory)
    {
        if (i == MISSING_SHOWN)
            break;
        fputs("<li><code>", out);
        review_write_text(out, review_string(memory, "id"));
        fputs("</code>: ", out);
        review_write_text(out, review_string(memory, "reason"));
        if (*review_string(memory, "detail") != '\0') {
            fputs(" (", out);
            review_write_text(out, review_string(memory, "detail"));
            fputs(")", out);
        }
        fputs("</li>\n", out);
    }
    fputs("</ul>\n", out);
}

static void write_omitted_counts(struct review_visit *visit)
{
    FILE *out = visit->out;
    yyjson_val *omitted = yyjson_obj_get(root_of(visit, ENVELOPE), "omitted");
    size_t i, count;
    yyjson_val *name, *value;
    if (visit->answers[ENVELOPE].error.code == HANDOFF_OK && yyjson_obj_size(omitted) == 0)
        return;
    fputs("<h3>Omitted for want of tokens</h3>\n", out);
    if (write_failed(visit, ENVELOPE))
        return;
    fputs("<ul>\n", out);
    yyjson_obj_foreach(omitted, i, count, name, value)
    {
        const char *number = yyjson_get_raw(value);
        if (number == NULL)
            continue;
        fputs("<li>", out);
        review_write_text(out, yyjson_get_str(name));
        fputs(": ", out);
        exporter_html_text(out, number);
        fputs("</li>\n", out);
    }
    fputs("</ul>\n", out);
}

static void write_brief_link(struct review_visit *visit)
{
    fputs("<p><a href=\"/review/handoffs/", visit->out);
    exporter_html_url_value(visit->out, review_id(visit));
    fputs("/brief\">The whole brief as text</a></p>\n", visit->out);
}

static void write_brief(struct review_visit *visit)
{
    struct review_answer *brief = &visit->answers[BRIEF];
    fputs("<h2>The brief, as the agent gets it</h2>\n", visit->out);
    if (brief->body == NULL) {
        review_write_error(visit->out, &brief->error);
        return;
    }
    if (brief->size > REVIEW_TEXT_MAX) {
        size_t end = REVIEW_TEXT_MAX;
        while (end > 0 && ((unsigned char)brief->body[end] & 0xc0) == 0x80)
            end--; /* not within a character */
        brief->body[end] = '\0';
        fprintf(visit->out, "<p>Its first %zu bytes.</p>\n", end);
    }
    fputs("<pre tabindex=\"0\" aria-label=\"Brief\">", visit->out);
    review_write_text(visit->out, brief->body);
    fputs("</pre>\n", visit->out);
    write_brief_link(visit);
}

/* ---- the page ------------------------------------------------------------------------------- */

static void write_task_tree(struct review_visit *visit)
{
    const struct review_answer *task = &visit->answers[TASK];
    fputs("<h2 id=\"task\">Task</h2>\n", visit->out);
    if (!write_failed(visit, TASK))
        review_write_tree(visit->out, yyjson_obj_get(task->root, "items"), review_id(visit));
    if (*review_string(task->root, "next") != '\0')
        fprintf(visit->out, "<p>The first %d handoffs of it.</p>\n", REVIEW_TREE_MAX);
}

static void write_title(struct review_visit *visit, char *title, size_t size)
{
    yyjson_val *context = yyjson_obj_get(root_of(visit, ENVELOPE), "context");
    const char *summary = review_string(yyjson_obj_get(context, "task"), "summary");
    size_t length = strlen(summary);
    if (length > TITLE_MOST) {
        length = TITLE_MOST;
        while (length > 0 && ((unsigned char)summary[length] & 0xc0) == 0x80)
            length--;
    }
    snprintf(title, size, "%.*s%s", (int)length, summary,
             summary[length] != '\0' ? "\u2026"
             : length == 0           ? "Handoff"
                                     : "");
}

static void write_handoff_page(struct review_visit *visit)
{
    char title[TITLE_MOST + 16];
    write_title(visit, title, sizeof title);
    review_begin_page(visit, title, REVIEW_TAB_NONE);
    write_facts(visit);
    if (is_open_to_decisions(visit))
        write_delivery_prospect(visit);
    write_actions(visit);
    write_attempts(visit);
    write_brief(visit);
    write_missing_memories(visit->out, yyjson_obj_get(root_of(visit, HANDOFF), "missing"));
    write_omitted_counts(visit);
    write_task_tree(visit);
    fputs("<h2>Decisions</h2>\n", visit->out);
    if (!write_failed(visit, DECISIONS))
        review_write_decisions(visit->out, yyjson_obj_get(root_of(visit, DECISIONS), "items"));
    review_end_page(visit, 200);
}

/* Without the handoff there is nothing to show; what else failed is said in its place. */
static void read_task_of_handoff(struct review_visit *visit)
{
    const struct review_answer *handoff = &visit->answers[HANDOFF];
    const struct handoff_list_query query = {.task_id = review_string(handoff->root, "task_id"),
                                             .limit = REVIEW_TREE_MAX};
    if (handoff->error.code != HANDOFF_OK) {
        review_fail(visit, &handoff->error);
        return;
    }
    handoff_list(visit->loop, &query, review_answered, review_ask(visit));
    review_wait(visit, write_handoff_page);
}

void review_view_handoff(struct review_visit *visit)
{
    struct handoff_call_input input;
    struct handoff_error error;
    if (review_read_input(visit, &handoff_calls[HANDOFF_CALL_check_parked], &input, &error) !=
        HANDOFF_OK) {
        review_fail(visit, &error);
        return;
    }
    const struct handoff_decision_query decisions = {.handoff = input.id, .limit = 50};
    handoff_get(visit->loop, input.id, NULL, review_answered, review_ask(visit));
    handoff_get_attempts(visit->loop, input.id, NULL, review_answered, review_ask(visit));
    handoff_envelope_get(visit->loop, input.id, NULL, HANDOFF_RENDER_MARKDOWN, review_answered,
                         review_ask(visit));
    handoff_envelope_get(visit->loop, input.id, NULL, HANDOFF_RENDER_STORED, review_answered,
                         review_ask(visit));
    handoff_prospect(visit->loop, input.id, input.prospect.target, review_answered,
                     review_ask(visit));
    handoff_decisions(visit->loop, &decisions, review_answered, review_ask(visit));
    review_wait(visit, read_task_of_handoff);
}

/* ---- the brief alone ------------------------------------------------------------------------ */

static void show_brief(struct review_visit *visit)
{
    if (visit->answers[0].error.code != HANDOFF_OK)
        review_fail(visit, &visit->answers[0].error);
    else
        review_respond_text(visit, &visit->answers[0]);
}

void review_view_brief(struct review_visit *visit)
{
    handoff_envelope_get(visit->loop, review_id(visit), NULL, HANDOFF_RENDER_MARKDOWN,
                         review_answered, review_ask(visit));
    review_wait(visit, show_brief);
}
