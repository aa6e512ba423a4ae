/* SPDX-License-Identifier: Apache-2.0 */
/* handoffctl status, attempts, deliver, ack, nack, extend, cancel and park: calls on one handoff,
   given its id. One thread. */
#include <stdio.h>
#include <stdlib.h>
#include <yyjson.h>

#include "ctl/document.h"
#include "ctl/handoff_id.h"
#include "ctl/show.h"

static int call_below(const struct ctl_line *line, const char *method, const char *prefix,
                      const char *id, const char *suffix, const char *body, ctl_shown *show)
{
    struct ctl_answer answer = {0};
    char *path = ctl_api_path(prefix, id, suffix);
    int code = ctl_api_call(line, method, path, NULL, body, &answer);
    if (code == CTL_OK)
        code = ctl_show(line, &answer, show);
    ctl_answer_free(&answer);
    free(path);
    return code;
}

/* On the handoff that the first operand names. */
static int call_and_show(const struct ctl_line *line, const char *method, const char *suffix,
                         const char *body, ctl_shown *show)
{
    int code;
    char *id = ctl_whole_id(line, ctl_operand(line, 0), &code);
    if (id)
        code = call_below(line, method, "/v1/handoffs/", id, suffix, body, show);
    free(id);
    return code;
}

int ctl_status(const struct ctl_line *line)
{
    return call_and_show(line, "GET", "", NULL, ctl_show_handoff);
}

int ctl_attempts(const struct ctl_line *line)
{
    return call_and_show(line, "GET", "/attempts", NULL, ctl_show_attempts);
}

/* Its envelope was assembled before; it has no handoff yet, whose id could be completed. */
int ctl_deliver(const struct ctl_line *line)
{
    return call_below(line, "POST", "/v1/envelopes/", ctl_operand(line, 0), "/deliver", NULL,
                      ctl_show_handoff_line);
}

int ctl_ack(const struct ctl_line *line)
{
    return call_and_show(line, "POST", "/ack", "{}", ctl_show_handoff_line);
}

/* Calls with the option's text as a member of the body, and for a nack whether to retry. */
static int call_with_text(const struct ctl_line *line, const char *suffix, const char *option,
                          const bool *retry)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    if (retry)
        yyjson_mut_obj_add_bool(doc, root, "retry", *retry);
    if (ctl_value(line, option))
        yyjson_mut_obj_add_str(doc, root, option, ctl_value(line, option));
    char *body = yyjson_mut_write(doc, 0, NULL);
    yyjson_mut_doc_free(doc);
    int code = body ? call_and_show(line, "POST", suffix, body, ctl_show_handoff_line)
                    : ctl_usage_error(line, "--%s is not UTF-8", option);
    free(body);
    return code;
}

int ctl_nack(const struct ctl_line *line)
{
    const bool retry = !ctl_flag(line, "final");
    return call_with_text(line, "/nack", "reason", &retry);
}

int ctl_cancel(const struct ctl_line *line)
{
    return call_with_text(line, "/cancel", "reason", NULL);
}

int ctl_park(const struct ctl_line *line)
{
    if (!ctl_value(line, "reason"))
        return ctl_usage_error(line, "missing --reason");
    return call_with_text(line, "/park", "reason", NULL);
}

int ctl_extend(const struct ctl_line *line)
{
    return call_with_text(line, "/extend", "progress", NULL);
}
