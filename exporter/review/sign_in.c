/* SPDX-License-Identifier: Apache-2.0 */
/* Signing in with an operator's token, and out. On the loop of the request. */
#include <string.h>

#include "exporter/log/log.h"
#include "exporter/review/frame.h"

static void write_sign_in(struct review_visit *visit, const char *refusal, unsigned status)
{
    review_begin_page(visit, "Sign in", REVIEW_TAB_NONE);
    if (refusal != NULL)
        fprintf(visit->out,
                "<section class=\"verdict trouble\" role=\"alert\"><p>%s</p></section>\n", refusal);
    fputs("<p>What is parked is for operators. Sign in with a token of <code>@operator</code> "
          "from the file <code>api.tokens_file</code>.</p>\n",
          visit->out);
    review_write_form(visit, "/review/sign-in");
    fputs("<div class=\"fields\">\n", visit->out);
    review_write_input(visit->out, "token", "token", "Token", NULL,
                       "type=\"password\" autocomplete=\"current-password\" required "
                       "maxlength=\"512\"");
    review_write_input(visit->out, "person", "person", "Your name, for the record",
                       review_value(visit, "person"), "autocomplete=\"name\" maxlength=\"64\"");
    fputs("</div>\n<p><button>Sign in</button></p></form>\n", visit->out);
    review_end_page(visit, status);
}

void review_view_sign_in(struct review_visit *visit)
{
    if (visit->session.who != NULL)
        review_redirect(visit, "/review", NULL);
    else
        write_sign_in(visit, NULL, 200);
}

void review_view_signed_in(struct review_visit *visit)
{
    char set_cookie[REVIEW_SET_COOKIE_SIZE];
    const char *token = review_value(visit, "token"), *person = review_value(visit, "person");
    if (!review_sessions_ask(&visit->review->sessions)) {
        review_redirect(visit, "/review", NULL);
        return;
    }
    const enum review_sign_in result =
        token != NULL ? review_session_open(&visit->review->sessions, token,
                                            person != NULL ? person : "", set_cookie)
                      : REVIEW_NO_SUCH_TOKEN;
    if (result == REVIEW_SIGNED_IN) {
        review_redirect(visit, "/review", set_cookie);
        return;
    }
    log_warn("authentication_failed", LOG_STR("peer", exporter_request_peer(visit->request)),
             LOG_STR("reason", result == REVIEW_NOT_OPERATOR ? "not_operator" : "unknown_token"));
    if (result == REVIEW_NOT_OPERATOR)
        write_sign_in(visit, "This token is an agent's; only an operator may decide.", 403);
    else
        write_sign_in(visit, "Unknown token (api.tokens_file).", 401);
}

void review_view_sign_out(struct review_visit *visit)
{
    char set_cookie[REVIEW_SET_COOKIE_SIZE];
    review_session_end(&visit->review->sessions, &visit->session, set_cookie);
    review_redirect(visit, "/review/sign-in", set_cookie);
}
