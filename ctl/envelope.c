/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoffctl envelope: assembles an envelope from options or a JSON file and prints it. One
 * thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <yyjson.h>

#include "ctl/api.h"
#include "ctl/command.h"
#include "ctl/request.h"

static int print_pretty(const struct ctl_answer *answer)
{
    yyjson_doc *doc = yyjson_read(answer->body, answer->size, YYJSON_READ_NUMBER_AS_RAW);
    char *text = yyjson_write(doc, YYJSON_WRITE_PRETTY_TWO_SPACES, NULL);
    if (text)
        puts(text);
    free(text);
    yyjson_doc_free(doc);
    return text ? CTL_OK : CTL_FAILED;
}

static int assemble_and_print(const struct ctl_command *command, const struct ctl_request *request,
                              bool markdown, bool json)
{
    struct ctl_answer answer = {0};
    char *body = yyjson_mut_write(request->body, 0, NULL);
    int code = CTL_FAILED;
    if (body)
        code = ctl_api_call(command, &request->api, "POST", "/v1/envelopes",
                            markdown ? "text/markdown" : NULL, body, &answer);
    if (code == CTL_OK && (json || markdown))
        fwrite(answer.body, 1, answer.size, stdout);
    else if (code == CTL_OK)
        code = print_pretty(&answer);
    if (code == CTL_OK && json)
        putchar('\n');
    free(body);
    ctl_answer_free(&answer);
    return code;
}

int ctl_envelope(const struct ctl_command *command, int argc, char *const argv[])
{
    bool markdown = false, json = false;
    const struct ctl_option options[] = {{"--markdown", NULL, &markdown}, {"--json", NULL, &json}};
    struct ctl_request request = {.options = options, .noptions = 2};
    int code = ctl_request_read(command, &request, argc, argv);
    if (code == CTL_OK && json && markdown)
        code = ctl_usage_error(command, "--json and --markdown are mutually exclusive");
    if (code == CTL_OK)
        code = assemble_and_print(command, &request, markdown, json);
    yyjson_mut_doc_free(request.body);
    return code;
}
