/* SPDX-License-Identifier: Apache-2.0 */
/* What an answer means: one row for each rule of the delivery contract. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "client/protocol/push/verdict.h"
#include "lib/base/memory.h"
#include "tests/support/failing_memory.h"

#define OUR_ID    "0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b"
#define OTHER_ID  "0199a1b2-c3d4-7e5f-8a9b-ffffffffffff"
#define PUBLISHED "0199A1B2-c3d4-7e5f-8a9b-aaaaaaaaaaaa"

static const struct handoff_named ours = {.handoff = OUR_ID};

struct row {
    const char *rule;
    int status; /* 0: nothing came */
    const char *header, *body;
    enum handoff_ack_mode mode;
    enum handoff_verdict verdict;
    enum handoff_attempt_result result;
};

#define ACKED    HANDOFF_VERDICT_ACKNOWLEDGED
#define LATER    HANDOFF_VERDICT_DEFERRED
#define REFUSED  HANDOFF_VERDICT_REFUSED
#define REJECTED HANDOFF_VERDICT_REJECTED
#define RETRY    HANDOFF_VERDICT_RETRY
#define EXPLICIT HANDOFF_ACK_EXPLICIT
#define STATUS   HANDOFF_ACK_STATUS
#define R(name)  HANDOFF_RESULT_##name

static const struct row rows[] = {
    {"header names the id", 200, OUR_ID, NULL, EXPLICIT, ACKED, R(ACK)},
    {"204 with the header", 204, OUR_ID, NULL, EXPLICIT, ACKED, R(ACK)},
    {"upper-case id", 200, "0199A1B2-C3D4-7E5F-8A9B-0C1D2E3F4A5B", NULL, EXPLICIT, ACKED, R(ACK)},
    {"body names the id", 200, NULL, "{\"ack\":\"" OUR_ID "\"}", EXPLICIT, ACKED, R(ACK)},
    {"202 that names the id needs no later word", 202, OUR_ID, NULL, EXPLICIT, ACKED, R(ACK)},
    {"202 is deferred", 202, NULL, NULL, EXPLICIT, LATER, R(ACK)},
    {"202 is deferred also where the status counts", 202, NULL, NULL, STATUS, LATER, R(ACK)},
    {"bare success is no acknowledgement", 200, NULL, "ok", EXPLICIT, RETRY, R(PROTOCOL)},
    {"bare success where the status counts", 200, NULL, "ok", STATUS, ACKED, R(ACK)},
    {"wrong id in the header", 200, OTHER_ID, NULL, EXPLICIT, RETRY, R(PROTOCOL)},
    {"wrong id in the body", 200, NULL, "{\"ack\":\"" OTHER_ID "\"}", EXPLICIT, RETRY, R(PROTOCOL)},
    {"wrong id where the status counts", 200, OTHER_ID, NULL, STATUS, RETRY, R(PROTOCOL)},
    {"wrong id with 202", 202, OTHER_ID, NULL, EXPLICIT, RETRY, R(PROTOCOL)},
    {"empty header", 200, "", NULL, EXPLICIT, RETRY, R(PROTOCOL)},
    {"prefix of the id", 200, "0199a1b2", NULL, EXPLICIT, RETRY, R(PROTOCOL)},
    {"ack of another type", 200, NULL, "{\"ack\":true}", EXPLICIT, RETRY, R(PROTOCOL)},
    {"garbage body", 200, NULL, "\x16\x03\x01{{{", EXPLICIT, RETRY, R(PROTOCOL)},
    {"nack for good", 200, NULL, "{\"nack\":\"" OUR_ID "\",\"retry\":false}", EXPLICIT, REFUSED,
     R(NACK)},
    {"nack for now", 200, NULL, "{\"nack\":\"" OUR_ID "\",\"retry\":true}", EXPLICIT, RETRY,
     R(NACK)},
    {"nack that leaves it open", 200, NULL, "{\"nack\":\"" OUR_ID "\"}", EXPLICIT, RETRY, R(NACK)},
    {"nack where the status counts", 200, NULL, "{\"nack\":\"" OUR_ID "\"}", STATUS, RETRY,
     R(NACK)},
    {"nack of another id is none", 200, NULL, "{\"nack\":\"" OTHER_ID "\",\"retry\":false}",
     EXPLICIT, RETRY, R(PROTOCOL)},
    {"nack for good with 503", 503, NULL, "{\"nack\":\"" OUR_ID "\",\"retry\":false}", EXPLICIT,
     REFUSED, R(NACK)},
    {"nack for now with 400", 400, NULL, "{\"nack\":\"" OUR_ID "\",\"retry\":true}", EXPLICIT,
     RETRY, R(NACK)},
    {"nack that leaves it open with 400", 400, NULL, "{\"nack\":\"" OUR_ID "\"}", EXPLICIT, REFUSED,
     R(HTTP)},
    {"400", 400, NULL, NULL, EXPLICIT, REFUSED, R(HTTP)},
    {"422", 422, NULL, NULL, EXPLICIT, REFUSED, R(HTTP)},
    {"401", 401, NULL, NULL, EXPLICIT, REJECTED, R(HTTP)},
    {"403", 403, NULL, NULL, EXPLICIT, REJECTED, R(HTTP)},
    {"404", 404, NULL, NULL, EXPLICIT, REJECTED, R(HTTP)},
    {"404 where the status counts", 404, NULL, NULL, STATUS, REJECTED, R(HTTP)},
    {"405", 405, NULL, NULL, EXPLICIT, REJECTED, R(HTTP)},
    {"407", 407, NULL, NULL, EXPLICIT, REJECTED, R(HTTP)},
    {"410", 410, NULL, NULL, EXPLICIT, REJECTED, R(HTTP)},
    {"406 is the agent's word", 406, NULL, NULL, EXPLICIT, REFUSED, R(HTTP)},
    {"409 is the agent's word", 409, NULL, NULL, EXPLICIT, REFUSED, R(HTTP)},
    {"404 with a nack for good", 404, NULL, "{\"nack\":\"" OUR_ID "\",\"retry\":false}", EXPLICIT,
     REFUSED, R(NACK)},
    {"404 with a nack for now", 404, NULL, "{\"nack\":\"" OUR_ID "\",\"retry\":true}", EXPLICIT,
     RETRY, R(NACK)},
    {"404 with a nack that leaves it open", 404, NULL, "{\"nack\":\"" OUR_ID "\"}", EXPLICIT,
     REFUSED, R(HTTP)},
    {"404 with a nack of another id", 404, NULL, "{\"nack\":\"" OTHER_ID "\",\"retry\":false}",
     EXPLICIT, REJECTED, R(HTTP)},
    {"404 that acknowledges", 404, OUR_ID, NULL, EXPLICIT, REJECTED, R(HTTP)},
    {"499", 499, NULL, NULL, EXPLICIT, REFUSED, R(HTTP)},
    {"400 that names the id", 400, OUR_ID, NULL, EXPLICIT, REFUSED, R(HTTP)},
    {"408", 408, NULL, NULL, EXPLICIT, RETRY, R(HTTP)},
    {"425", 425, NULL, NULL, EXPLICIT, RETRY, R(HTTP)},
    {"429", 429, NULL, NULL, EXPLICIT, RETRY, R(HTTP)},
    {"300", 300, NULL, NULL, EXPLICIT, REJECTED, R(HTTP)},
    {"302 is not followed", 302, NULL, NULL, EXPLICIT, REJECTED, R(HTTP)},
    {"302 is no success where the status counts", 302, NULL, NULL, STATUS, REJECTED, R(HTTP)},
    {"308", 308, NULL, NULL, EXPLICIT, REJECTED, R(HTTP)},
    {"302 with a nack that leaves it open", 302, NULL, "{\"nack\":\"" OUR_ID "\"}", EXPLICIT, RETRY,
     R(NACK)},
    {"500", 500, NULL, NULL, EXPLICIT, RETRY, R(HTTP)},
    {"503", 503, NULL, NULL, STATUS, RETRY, R(HTTP)},
    {"500 that names the id", 500, OUR_ID, NULL, EXPLICIT, RETRY, R(HTTP)},
    {"no answer in time", 0, NULL, NULL, EXPLICIT, RETRY, R(TIMEOUT)},
    {"no connection", 0, NULL, NULL, EXPLICIT, RETRY, R(CONNECT)},
    {"broken off", 0, NULL, NULL, EXPLICIT, RETRY, R(PROTOCOL)},
};

static void test_every_rule(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        struct handoff_answer answer = {
            .answered = row->status != 0,
            .failure = row->result,
            .status = row->status,
            .ack_header = row->header,
            .body = row->body,
            .body_size = row->body ? strlen(row->body) : 0,
        };
        struct handoff_finding finding;
        handoff_judge(&answer, &ours, row->mode, &finding);
        if (finding.verdict != row->verdict || finding.result != row->result)
            fail_msg("%s: verdict %d, result %s", row->rule, (int)finding.verdict,
                     handoff_result_name(finding.result));
        bool fine = finding.result == HANDOFF_RESULT_ACK;
        assert_int_equal(fine, finding.reason[0] == '\0');
    }
}

static void test_the_agents_own_words_are_kept(void **state)
{
    (void)state;
    static const char body[] = "{\"nack\":\"" OUR_ID "\",\"reason\":\"disk full\",\"retry\":false}";
    struct handoff_answer answer = {
        .answered = true, .status = 200, .body = body, .body_size = sizeof body - 1};
    struct handoff_finding finding;
    handoff_judge(&answer, &ours, HANDOFF_ACK_EXPLICIT, &finding);
    assert_string_equal(finding.said, "disk full");
}

static void test_long_words_are_cut_between_characters(void **state)
{
    (void)state;
    char body[1024];
    size_t size = (size_t)snprintf(body, sizeof body, "{\"nack\":\"" OUR_ID "\",\"reason\":\"x");
    for (int i = 0; i < 150; i++) { /* two bytes each: the limit falls inside one */
        memcpy(body + size, "\xC3\xA9", 2);
        size += 2;
    }
    size += (size_t)snprintf(body + size, sizeof body - size, "\"}");
    struct handoff_answer answer = {
        .answered = true, .status = 200, .body = body, .body_size = size};
    struct handoff_finding finding;
    handoff_judge(&answer, &ours, HANDOFF_ACK_EXPLICIT, &finding);
    assert_int_equal(strlen(finding.said), 199); /* x and 99 whole characters */
}

static struct handoff_finding judged(int status, const char *body, size_t size)
{
    const struct handoff_answer answer = {
        .answered = true, .status = status, .body = body, .body_size = size};
    struct handoff_finding finding;
    handoff_judge(&answer, &ours, HANDOFF_ACK_EXPLICIT, &finding);
    return finding;
}

static void test_a_rejection_names_the_setting_to_look_at(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *setting;
    } expected[] = {{401, "token_file"}, {403, "token_file"}, {404, "url"}, {405, "url"},
                    {407, "url"},        {410, "url"},        {301, "url"}, {307, "url"}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_non_null(strstr(judged(expected[i].status, NULL, 0).reason, expected[i].setting));
}

#define MISSING                                                                                    \
    " did not acknowledge: answer with the header Handoff-Ack: ID or {\"ack\": \"ID\"}, or set "   \
    "ack: status; "

static void test_a_success_without_acknowledgement_says_what_is_missing(void **state)
{
    (void)state;
    static const char token[] = "Authorization: Bearer ghp_0123456789abcdefghijABCDEFGHIJ012345";
    assert_string_equal(judged(200, NULL, 0).said, "200" MISSING "its answer was empty");
    assert_string_equal(judged(204, "", 0).said, "204" MISSING "its answer was empty");
    assert_string_equal(judged(200, "{\"ok\":true}", 11).said,
                        "200" MISSING "it said: {\"ok\":true}");
    assert_string_equal(judged(201, "a\0b\x1b\n\xff\xc3\xa9", 8).said,
                        "201" MISSING "it said: a b  ?\xc3\xa9");
    struct handoff_finding finding = judged(200, token, sizeof token - 1);
    assert_null(strstr(finding.said, "ghp_0123"));
    assert_int_not_equal(finding.secrets, 0);
}

static void test_an_error_status_keeps_how_its_answer_begins(void **state)
{
    (void)state;
    static const char token[] = "Authorization: Bearer ghp_0123456789abcdefghijABCDEFGHIJ012345";
    static const char nack[] = "{\"nack\":\"" OUR_ID "\",\"reason\":\"disk full\"}";
    const int statuses[] = {302, 400, 404, 429, 500, 503};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        assert_string_equal(judged(statuses[i], "a\0b\x1b\n\xff\xc3\xa9", 8).answer,
                            "a b  ?\xc3\xa9");
        assert_string_equal(judged(statuses[i], NULL, 0).answer, "");
        assert_string_equal(judged(statuses[i], nack, sizeof nack - 1).answer, "");
    }
    assert_string_equal(judged(200, "{\"ok\":true}", 11).answer, "");
    struct handoff_finding finding = judged(500, token, sizeof token - 1);
    assert_null(strstr(finding.answer, "ghp_0123"));
    assert_int_not_equal(finding.secrets, 0);
}

static void test_a_long_answer_is_cut_between_characters(void **state)
{
    (void)state;
    char body[9000];
    for (size_t i = 0; i < sizeof body; i += 2)
        memcpy(body + i, "\xC3\xA9", 2);
    struct handoff_finding finding = judged(200, body, sizeof body);
    size_t size = strlen(finding.said);
    assert_in_range(size, sizeof finding.said - 3, sizeof finding.said - 1);
    assert_string_equal(finding.said + size - 2, "\xC3\xA9");
    finding = judged(500, body, sizeof body);
    size = strlen(finding.answer);
    assert_in_range(size, sizeof finding.answer - 3, sizeof finding.answer - 1);
    assert_string_equal(finding.answer + size - 2, "\xC3\xA9");
}

static void test_retry_after_is_passed_on(void **state)
{
    (void)state;
    struct handoff_answer answer = {.answered = true, .status = 503, .retry_after_ms = 7000};
    struct handoff_finding finding;
    handoff_judge(&answer, &ours, HANDOFF_ACK_EXPLICIT, &finding);
    assert_int_equal(finding.retry_after_ms, 7000);
}

static struct handoff_finding judge_body(int status, const char *body)
{
    const struct handoff_answer answer = {
        .answered = true, .status = status, .body = body, .body_size = strlen(body)};
    struct handoff_finding finding;
    handoff_judge(&answer, &ours, HANDOFF_ACK_EXPLICIT, &finding);
    return finding;
}

static void test_only_an_acknowledgement_has_a_next(void **state)
{
    (void)state;
    struct handoff_finding acked =
        judge_body(200, "{\"ack\":\"" OUR_ID "\",\"next\":{\"n\":1.50}}");
    assert_int_equal(acked.verdict, HANDOFF_VERDICT_ACKNOWLEDGED);
    assert_int_equal(acked.next_size, 10);
    assert_memory_equal(acked.next, "{\"n\":1.50}", 10);
    base_free(acked.next);
    struct handoff_finding failed = judge_body(503, "{\"ack\":\"" OUR_ID "\",\"next\":{\"n\":1}}");
    assert_int_equal(failed.verdict, HANDOFF_VERDICT_RETRY);
    assert_null(failed.next);
    struct handoff_finding both =
        judge_body(200, "{\"ack\":\"" OUR_ID "\",\"nack\":\"" OUR_ID "\",\"next\":{\"n\":1}}");
    assert_int_equal(both.verdict, HANDOFF_VERDICT_RETRY);
    assert_null(both.next);
}

/* What cannot be read for want of memory is neither a protocol error of the agent nor, where any
   2xx acknowledges, an acknowledgement without its next request. */
static void test_an_answer_that_no_memory_is_left_for_is_not_judged(void **state)
{
    (void)state;
    static const char body[] = "{\"ack\":\"" OUR_ID "\",\"next\":{\"n\":1}}";
    const struct handoff_answer answer = {
        .answered = true, .status = 200, .body = body, .body_size = sizeof body - 1};
    bool reached = true;
    long n = 1;
    for (; reached; n++) {
        struct handoff_finding finding;
        failing_memory_at(n);
        handoff_judge(&answer, &ours, HANDOFF_ACK_STATUS, &finding);
        reached = atomic_load(&failing_memory_hit);
        failing_memory_at(0);
        assert_int_equal(finding.shortage,
                         reached ? HANDOFF_SHORTAGE_MEMORY : HANDOFF_SHORTAGE_NONE);
        assert_true(reached == (finding.next == NULL));
        base_free(finding.next);
    }
    assert_true(n > 2);
}

/* The agent of a publication's delivery may name what its envelope is called. */
static void test_a_publication_is_named_by_its_envelope_too(void **state)
{
    (void)state;
    static const struct handoff_named both = {.handoff = OUR_ID, .publication = PUBLISHED};
    static const char *const ids[] = {OUR_ID, PUBLISHED};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        char body[256];
        const int size = snprintf(body, sizeof body, "{\"ack\":\"%s\"}", ids[i]);
        const struct handoff_answer answer = {
            .answered = true, .status = 200, .body = body, .body_size = (size_t)size};
        struct handoff_finding finding;
        handoff_judge(&answer, &both, HANDOFF_ACK_EXPLICIT, &finding);
        assert_int_equal(finding.verdict, HANDOFF_VERDICT_ACKNOWLEDGED);
        handoff_judge(&answer, &ours, HANDOFF_ACK_EXPLICIT, &finding);
        assert_int_equal(finding.verdict,
                         i == 0 ? HANDOFF_VERDICT_ACKNOWLEDGED : HANDOFF_VERDICT_RETRY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_publication_is_named_by_its_envelope_too),
        cmocka_unit_test(test_every_rule),
        cmocka_unit_test(test_the_agents_own_words_are_kept),
        cmocka_unit_test(test_long_words_are_cut_between_characters),
        cmocka_unit_test(test_a_rejection_names_the_setting_to_look_at),
        cmocka_unit_test(test_a_success_without_acknowledgement_says_what_is_missing),
        cmocka_unit_test(test_an_error_status_keeps_how_its_answer_begins),
        cmocka_unit_test(test_a_long_answer_is_cut_between_characters),
        cmocka_unit_test(test_retry_after_is_passed_on),
        cmocka_unit_test(test_only_an_acknowledgement_has_a_next),
        cmocka_unit_test(test_an_answer_that_no_memory_is_left_for_is_not_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
