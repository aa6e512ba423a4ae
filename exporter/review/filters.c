/* SPDX-License-Identifier: Apache-2.0 */
/* The filters of lists, see filters.h. On the loop of the request. */
#include "exporter/review/filters.h"

#include <string.h>

#include "exporter/review/frame.h"

static const struct {
    const char *name, *label;
} labels[] = {
    {"query", "Words"},         {"target", "Target agent"},
    {"source", "Source agent"}, {"task", "Task"},
    {"reason", "Reason"},       {"error", "Error"},
    {"since", "Since"},         {"until", "Until"},
    {"order", "Order"},         {"handoff", "Handoff"},
    {"action", "Action"},       {"who", "Token of"},
    {"by", "Decided by"},       {"job", "Job"},
};

/* NULL: it is no filter for people. */
static const char *label_of(const struct handoff_field *row)
{
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        if (row->place == HANDOFF_IN_QUERY && strcmp(labels[i].name, row->name) == 0)
            return labels[i].label;
    }
    return NULL;
}

bool review_has_filters(struct review_visit *visit, const struct handoff_call *call)
{
    for (size_t i = 0; i < call->input.count; i++) {
        const struct handoff_field *row = &call->input.rows[i];
        if (label_of(row) != NULL && strcmp(row->name, "order") != 0 &&
            review_value(visit, row->name) != NULL)
            return true;
    }
    return false;
}

static void write_order(struct review_visit *visit)
{
    const char *order = review_value(visit, "order");
    fprintf(visit->out,
            "<p class=\"field\"><label for=\"order\">Order</label><select id=\"order\" "
            "name=\"order\"><option value=\"\">usual</option>"
            "<option%s>newest</option><option%s>oldest</option></select></p>\n",
            order != NULL && strcmp(order, "newest") == 0 ? " selected" : "",
            order != NULL && strcmp(order, "oldest") == 0 ? " selected" : "");
}

static void write_filter(struct review_visit *visit, const struct handoff_field *row)
{
    const bool is_time = strcmp(row->name, "since") == 0 || strcmp(row->name, "until") == 0;
    if (strcmp(row->name, "order") == 0)
        write_order(visit);
    else
        review_write_input(visit->out, row->name, row->name, label_of(row),
                           review_value(visit, row->name),
                           is_time ? "placeholder=\"2030-01-31T18:00:00Z\"" : "");
}

void review_write_filters(struct review_visit *visit, const struct handoff_call *call,
                          const char *path)
{
    fprintf(visit->out,
            "<details class=\"filters\"%s><summary>Filter</summary>\n"
            "<form method=\"get\" action=\"%s\" role=\"search\" aria-label=\"Filter\">\n"
            "<div class=\"fields\">\n",
            review_has_filters(visit, call) ? " open" : "", path);
    for (size_t i = 0; i < call->input.count; i++) {
        if (label_of(&call->input.rows[i]) != NULL)
            write_filter(visit, &call->input.rows[i]);
    }
    fprintf(visit->out,
            "</div>\n<p><button>Filter</button> <a href=\"%s\">Show all</a></p></form></details>\n",
            path);
}

static void write_link(struct review_visit *visit, const struct handoff_call *call,
                       const char *path, const char *cursor)
{
    bool first = true;
    fprintf(visit->out, "<a href=\"%s", path);
    for (size_t i = 0; i < call->input.count; i++) {
        const struct handoff_field *row = &call->input.rows[i];
        if (label_of(row) != NULL)
            review_write_parameter(visit->out, &first, row->name, review_value(visit, row->name));
    }
    review_write_parameter(visit->out, &first, "cursor", cursor);
    fputs("\">", visit->out);
}

void review_write_paging(struct review_visit *visit, const struct handoff_call *call,
                         const char *path, yyjson_val *list)
{
    const char *next = review_string(list, "next");
    const bool is_first = review_value(visit, "cursor") == NULL;
    if (is_first && *next == '\0')
        return;
    fputs("<nav class=\"paging\" aria-label=\"Pages of the list\"><p>", visit->out);
    if (!is_first) {
        write_link(visit, call, path, NULL);
        fputs("First page</a> ", visit->out);
    }
    if (*next != '\0') {
        write_link(visit, call, path, next);
        fputs("Next page</a>", visit->out);
    }
    fputs("</p></nav>\n", visit->out);
}

void review_write_hidden_filters(struct review_visit *visit)
{
    static const char *const names[][2] = {{"target", "filter.target"}, {"source", "filter.source"},
                                           {"task", "filter.task"},     {"reason", "filter.reason"},
                                           {"error", "filter.error"},   {"query", "filter.query"},
                                           {"since", "filter.since"},   {"until", "filter.until"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        review_write_hidden(visit->out, names[i][1],
                            review_value(visit, names[i][visit->is_post ? 1 : 0]));
}
