/* SPDX-License-Identifier: Apache-2.0 */
/* handoffctl send: hands work to an agent and waits until the handoff is settled. One thread. */
#include <stdlib.h>
#include <yyjson.h>

#include "ctl/document.h"
#include "ctl/follow.h"
#include "ctl/request.h"
#include "ctl/show.h"

/* The id of the handoff in the answer: the new one, or an earlier one with this idempotency key
 * that was not acknowledged. NULL: nothing was accepted. */
static const char *handoff_id_of(const struct ctl_answer *answer, yyjson_val *root)
{
    const char *id = answer->status / 100 == 2 ? ctl_text(root, "id")
                                               : ctl_text(yyjson_obj_get(root, "handoff"), "id");
    return *id ? id : NULL;
}

static int follow_or_show(const struct ctl_line *line, const struct ctl_answer *answer)
{
    yyjson_doc *doc = answer->body ? yyjson_read(answer->body, answer->size, 0) : NULL;
    const char *id = handoff_id_of(answer, yyjson_doc_get_root(doc));
    const bool async = ctl_flag(line, "async");
    int code = ctl_api_check_answer(line, answer);
    if (async && code == CTL_OK)
        code = ctl_show(line, answer, ctl_show_handoff_line);
    else if (!async && id)
        code = ctl_follow(line, id);
    yyjson_doc_free(doc);
    return code;
}

int ctl_send(const struct ctl_line *line)
{
    struct ctl_answer answer = {0};
    char *body = NULL;
    int code = ctl_request_body(line, ctl_operand(line, 0), &body);
    const struct ctl_call call = {.method = "POST",
                                  .path = "/v1/handoffs",
                                  .prefer = "respond-async",
                                  .body = body,
                                  .idempotency_key = ctl_value(line, "idempotency-key")};
    if (code == CTL_OK)
        code = ctl_api_exchange(line, &call, &answer);
    if (code == CTL_OK)
        code = follow_or_show(line, &answer);
    ctl_answer_free(&answer);
    free(body);
    return code;
}
