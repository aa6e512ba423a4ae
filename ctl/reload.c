/* SPDX-License-Identifier: Apache-2.0 */
/* handoffctl reload: asks the web listener to read the configuration again. One thread. */
#include <stdio.h>

#include "ctl/api.h"
#include "ctl/text.h"

int ctl_reload(const struct ctl_line *line)
{
    const struct ctl_call call = {.method = "POST", .path = "/-/reload", .body = "{}", .web = true};
    struct ctl_answer answer;
    int code = ctl_api_exchange(line, &call, &answer);
    if (code == CTL_OK)
        code = ctl_api_check_answer(line, &answer);
    if (code == CTL_OK && answer.body)
        ctl_put_lines(answer.body);
    ctl_answer_free(&answer);
    return code;
}
