/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoffctl envelope: assembles an envelope from options or a JSON file and prints it. One
 * thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <yyjson.h>

#include "ctl/document.h"
#include "ctl/request.h"
#include "ctl/text.h"

static int print_pretty(const struct ctl_answer *answer)
{
    size_t size;
    yyjson_doc *doc = yyjson_read(answer->body, answer->size, YYJSON_READ_NUMBER_AS_RAW);
    char *text = yyjson_write(doc, YYJSON_WRITE_PRETTY_TWO_SPACES, &size);
    if (text) {
        ctl_put_document(text, size, true);
        putchar('\n');
    }
    free(text);
    yyjson_doc_free(doc);
    return text ? CTL_OK : CTL_FAILED;
}

static int print_envelope(const struct ctl_line *line, const struct ctl_answer *answer)
{
    if (ctl_flag(line, "markdown"))
        ctl_put_document(answer->body, answer->size, false);
    else if (line->format == CTL_TABLE || line->format == CTL_WIDE)
        return print_pretty(answer);
    else
        return ctl_show(line, answer, NULL);
    return CTL_OK;
}

int ctl_envelope(const struct ctl_line *line)
{
    const char *accept = ctl_flag(line, "markdown") ? "text/markdown" : NULL;
    struct ctl_answer answer = {0};
    char *body = NULL;
    if (accept && line->format != CTL_TABLE)
        return ctl_usage_error(line, "--markdown and another format are mutually exclusive");
    int code = ctl_request_body(line, ctl_operand(line, 0), &body);
    if (code == CTL_OK)
        code = ctl_api_call(line, "POST", "/v1/envelopes", accept, body, &answer);
    if (code == CTL_OK)
        code = print_envelope(line, &answer);
    free(body);
    ctl_answer_free(&answer);
    return code;
}
