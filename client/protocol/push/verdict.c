/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of verdict.h. Pure; any thread. */
#include "client/protocol/push/verdict.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <yyjson.h>

#include "client/model/gaps.h"
#include "client/secrets/redact.h"
#include "lib/base/check.h"
#include "lib/base/memory.h"
#include "lib/base/utf8.h"

/* ---- memory that may run out ------------------------------------------------------------------
 */

static void *answer_malloc(void *unused, size_t size)
{
    (void)unused;
    return base_malloc(size);
}

static void *answer_realloc(void *unused, void *pointer, size_t old_size, size_t size)
{
    (void)unused;
    (void)old_size;
    return base_realloc(pointer, size);
}

static void answer_free(void *unused, void *pointer)
{
    (void)unused;
    base_free(pointer);
}

static const yyjson_alc answer_memory = {answer_malloc, answer_realloc, answer_free, NULL};

/* ---- what the answer says --------------------------------------------------------------------
 */

/* What the answer says about ids, from its header and its body together. */
struct statement {
    bool acks_ours, names_other; /* of an ack */
    bool nacks_ours;
    bool retry_said, retry; /* of a nack */
};

/* UUIDs are compared without case: an agent may have passed ours through a parser of its own. */
static bool names_id(const char *text, size_t size, const char *id)
{
    return size == strlen(id) && strncasecmp(text, id, size) == 0;
}

/* Agents that were written for handoffs acknowledge the id that the envelope has. */
static bool is_ours(const char *text, size_t size, const struct handoff_named *named)
{
    return names_id(text, size, named->handoff) ||
           (named->publication && names_id(text, size, named->publication));
}

static void read_header(struct statement *statement, const char *value,
                        const struct handoff_named *named)
{
    size_t size = strcspn(value, " \t\r\n;,");
    if (is_ours(value, size, named))
        statement->acks_ours = true;
    else
        statement->names_other = true;
}

static void read_object(struct statement *statement, struct handoff_finding *finding,
                        yyjson_val *root, const struct handoff_named *named)
{
    yyjson_val *ack = yyjson_obj_get(root, "ack");
    if (yyjson_is_str(ack)) {
        if (is_ours(yyjson_get_str(ack), yyjson_get_len(ack), named))
            statement->acks_ours = true;
        else
            statement->names_other = true;
    }
    yyjson_val *nack = yyjson_obj_get(root, "nack");
    if (!yyjson_is_str(nack) || !is_ours(yyjson_get_str(nack), yyjson_get_len(nack), named))
        return;
    statement->nacks_ours = true;
    yyjson_val *retry = yyjson_obj_get(root, "retry");
    statement->retry_said = yyjson_is_bool(retry);
    statement->retry = !statement->retry_said || yyjson_get_bool(retry);
    yyjson_val *reason = yyjson_obj_get(root, "reason");
    if (yyjson_is_str(reason))
        finding->secrets = handoff_secrets_cut(finding->said, sizeof finding->said,
                                               yyjson_get_str(reason), yyjson_get_len(reason));
}

/* Numbers keep their digits. What is no object is a request that will be refused. */
static void read_next(struct handoff_finding *finding, yyjson_val *root)
{
    yyjson_val *next = yyjson_obj_get(root, "next");
    if (!next || yyjson_is_null(next))
        return;
    finding->next = yyjson_val_write_opts(next, 0, &answer_memory, &finding->next_size, NULL);
    if (!finding->next)
        finding->shortage = HANDOFF_SHORTAGE_MEMORY;
}

/* What is no list of ids says nothing: the acknowledgement counts all the same. */
static void read_missing(struct handoff_finding *finding, yyjson_val *root)
{
    handoff_gaps_read_ids(yyjson_obj_get(root, "missing"), &finding->lacking);
    if (finding->lacking.failed)
        finding->shortage = HANDOFF_SHORTAGE_MEMORY;
}

static void read_body(struct statement *statement, struct handoff_finding *finding,
                      const struct handoff_answer *answer, const struct handoff_named *named)
{
    if (answer->body_size == 0)
        return;
    yyjson_read_err why;
    yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)answer->body, answer->body_size,
                                       YYJSON_READ_NUMBER_AS_RAW, &answer_memory, &why);
    if (!doc && why.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
        finding->shortage = HANDOFF_SHORTAGE_MEMORY;
    if (!doc)
        return; /* anything but an object (a page of an error, say) is no statement */
    if (yyjson_is_obj(yyjson_doc_get_root(doc))) {
        read_object(statement, finding, yyjson_doc_get_root(doc), named);
        read_missing(finding, yyjson_doc_get_root(doc));
        if (statement->acks_ours)
            read_next(finding, yyjson_doc_get_root(doc));
    }
    yyjson_doc_free(doc);
}

static void set_finding(struct handoff_finding *finding, enum handoff_verdict verdict,
                        enum handoff_attempt_result result, const char *reason)
{
    finding->verdict = verdict;
    finding->result = result;
    finding->reason = reason;
}

/* Is it about the request that was sent, whoever answered? */
static bool is_refusal(int status)
{
    return status >= 400 && status < 500 && status != 408 && status != 425 && status != 429;
}

/* The setting to look at where an answer says that this is not the place, or not the way in; NULL:
   it says neither. Such an answer seldom comes from the agent itself, but from what serves its
   host. */
static const char *rejection(int status)
{
    switch (status) {
    case 401:
        return "the credentials are missing or wrong; check the agent's token_file";
    case 403:
        return "the credentials do not allow this; check the agent's token_file and url";
    case 404:
    case 410:
        return "nothing is served at this path; check the agent's url";
    case 405:
        return "this path does not take a POST; check the agent's url";
    case 407:
        return "a proxy demands credentials; check the agent's url";
    default:
        return status >= 300 && status < 400
                   ? "redirects are not followed; set the agent's url to where it leads"
                   : NULL;
    }
}

/* ---- the answer's words ------------------------------------------------------------------------
 */

enum { ANSWER_MAX = 4096 }; /* so much is searched for credentials: more than is shown */

static bool moves_the_cursor(uint32_t character)
{
    return character < 0x20 || (character >= 0x7f && character <= 0x9f);
}

/* The bytes of a body as text: what is no character, or would move a cursor, is replaced. */
static size_t copy_as_text(char to[ANSWER_MAX], const char *from, size_t left)
{
    size_t used = 0;
    while (left > 0) {
        uint32_t character;
        const size_t length = base_utf8_next(from, left, &character);
        if (used + length > ANSWER_MAX)
            break;
        memcpy(to + used, from, length);
        if (character == BASE_UTF8_INVALID)
            to[used] = '?';
        else if (moves_the_cursor(character))
            to[used] = ' ';
        used += character == BASE_UTF8_INVALID || moves_the_cursor(character) ? 1 : length;
        from += length;
        left -= length;
    }
    return used;
}

static void say_what_is_missing(struct handoff_finding *finding,
                                const struct handoff_answer *answer)
{
    char text[ANSWER_MAX];
    const size_t size = answer->body_size ? copy_as_text(text, answer->body, answer->body_size) : 0;
    const size_t used =
        (size_t)snprintf(finding->said, sizeof finding->said,
                         "%d did not acknowledge: answer with the header Handoff-Ack: ID or "
                         "{\"ack\": \"ID\"}, or set "
                         "ack: status; %s",
                         answer->status, size ? "it said: " : "its answer was empty");
    BASE_CHECK(used < sizeof finding->said);
    if (size)
        finding->secrets =
            handoff_secrets_cut(finding->said + used, sizeof finding->said - used, text, size);
}

static bool acknowledges(const struct statement *statement, int status, enum handoff_ack_mode mode)
{
    if (statement->acks_ours)
        return true;
    return mode == HANDOFF_ACK_STATUS && status != 202 && !statement->names_other;
}

static void judge_success(struct handoff_finding *finding, const struct handoff_answer *answer,
                          const struct statement *statement, enum handoff_ack_mode mode)
{
    if (acknowledges(statement, answer->status, mode)) {
        set_finding(finding, HANDOFF_VERDICT_ACKNOWLEDGED, HANDOFF_RESULT_ACK, "");
    } else if (statement->names_other) {
        set_finding(finding, HANDOFF_VERDICT_RETRY, HANDOFF_RESULT_PROTOCOL,
                    "the acknowledgement names a different handoff");
    } else if (answer->status == 202) {
        set_finding(finding, HANDOFF_VERDICT_DEFERRED, HANDOFF_RESULT_ACK, "");
    } else {
        set_finding(finding, HANDOFF_VERDICT_RETRY, HANDOFF_RESULT_PROTOCOL,
                    "the answer does not acknowledge the handoff");
        say_what_is_missing(finding, answer);
    }
}

static const char *failure_reason(enum handoff_attempt_result failure)
{
    switch (failure) {
    case HANDOFF_RESULT_TIMEOUT:
        return "no answer in time";
    case HANDOFF_RESULT_CONNECT:
        return "connect failed";
    default:
        return "the answer was incomplete or not HTTP";
    }
}

/* A nack has said why; any other answer may say it in words of its own. */
static void keep_first_bytes(struct handoff_finding *finding, const struct handoff_answer *answer)
{
    char text[ANSWER_MAX];
    const size_t size = answer->body_size ? copy_as_text(text, answer->body, answer->body_size) : 0;
    if (size)
        finding->secrets |=
            handoff_secrets_cut(finding->answer, sizeof finding->answer, text, size);
}

static void judge_status(struct handoff_finding *finding, const struct handoff_answer *answer,
                         bool names_ours)
{
    const int status = answer->status;
    if (!names_ours)
        keep_first_bytes(finding, answer);
    if (rejection(status) && !names_ours)
        set_finding(finding, HANDOFF_VERDICT_REJECTED, HANDOFF_RESULT_HTTP, rejection(status));
    else if (is_refusal(status))
        set_finding(finding, HANDOFF_VERDICT_REFUSED, HANDOFF_RESULT_HTTP,
                    "the agent rejected the request");
    else
        set_finding(finding, HANDOFF_VERDICT_RETRY, HANDOFF_RESULT_HTTP,
                    "the agent answered with an error status");
}

static void judge_answer(struct handoff_finding *finding, const struct handoff_answer *answer,
                         const struct statement *statement, enum handoff_ack_mode mode)
{
    const int status = answer->status;
    if (statement->nacks_ours && (statement->retry_said || !is_refusal(status)))
        set_finding(finding, statement->retry ? HANDOFF_VERDICT_RETRY : HANDOFF_VERDICT_REFUSED,
                    HANDOFF_RESULT_NACK, "the agent declined the handoff");
    else if (status >= 200 && status < 300)
        judge_success(finding, answer, statement, mode);
    else
        judge_status(finding, answer, statement->nacks_ours);
}

/* What is not acknowledged has no next, and lacks nothing. */
static void drop_next(struct handoff_finding *finding)
{
    base_buffer_free(&finding->lacking);
    base_free(finding->next);
    finding->next = NULL;
    finding->next_size = 0;
}

void handoff_judge(const struct handoff_answer *answer, const struct handoff_named *named,
                   enum handoff_ack_mode mode, struct handoff_finding *finding)
{
    *finding = (struct handoff_finding){.retry_after_ms = answer->retry_after_ms};
    if (!answer->answered) {
        set_finding(finding, HANDOFF_VERDICT_RETRY, answer->failure,
                    failure_reason(answer->failure));
        return;
    }
    struct statement statement = {0};
    if (answer->ack_header)
        read_header(&statement, answer->ack_header, named);
    read_body(&statement, finding, answer, named);
    if (finding->shortage != HANDOFF_SHORTAGE_NONE) {
        drop_next(finding);
        return;
    }
    judge_answer(finding, answer, &statement, mode);
    if (finding->verdict != HANDOFF_VERDICT_ACKNOWLEDGED)
        drop_next(finding);
}
