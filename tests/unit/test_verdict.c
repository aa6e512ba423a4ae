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

#define OUR_ID   "0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b"
#define OTHER_ID "0199a1b2-c3d4-7e5f-8a9b-ffffffffffff"

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
    {"401", 401, NULL, NULL, EXPLICIT, REFUSED, R(HTTP)},
    {"404", 404, NULL, NULL, STATUS, REFUSED, R(HTTP)},
    {"499", 499, NULL, NULL, EXPLICIT, REFUSED, R(HTTP)},
    {"400 that names the id", 400, OUR_ID, NULL, EXPLICIT, REFUSED, R(HTTP)},
    {"408", 408, NULL, NULL, EXPLICIT, RETRY, R(HTTP)},
    {"425", 425, NULL, NULL, EXPLICIT, RETRY, R(HTTP)},
    {"429", 429, NULL, NULL, EXPLICIT, RETRY, R(HTTP)},
    {"302 is not followed", 302, NULL, NULL, EXPLICIT, RETRY, R(HTTP)},
    {"302 is no success where the status counts", 302, NULL, NULL, STATUS, RETRY, R(HTTP)},
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
        handoff_judge(&answer, OUR_ID, row->mode, &finding);
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
    handoff_judge(&answer, OUR_ID, HANDOFF_ACK_EXPLICIT, &finding);
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
    handoff_judge(&answer, OUR_ID, HANDOFF_ACK_EXPLICIT, &finding);
    assert_int_equal(strlen(finding.said), 199); /* x and 99 whole characters */
}

static void test_retry_after_is_passed_on(void **state)
{
    (void)state;
    struct handoff_answer answer = {.answered = true, .status = 503, .retry_after_ms = 7000};
    struct handoff_finding finding;
    handoff_judge(&answer, OUR_ID, HANDOFF_ACK_EXPLICIT, &finding);
    assert_int_equal(finding.retry_after_ms, 7000);
}

static struct handoff_finding judge_body(int status, const char *body)
{
    const struct handoff_answer answer = {
        .answered = true, .status = status, .body = body, .body_size = strlen(body)};
    struct handoff_finding finding;
    handoff_judge(&answer, OUR_ID, HANDOFF_ACK_EXPLICIT, &finding);
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
        handoff_judge(&answer, OUR_ID, HANDOFF_ACK_STATUS, &finding);
        reached = atomic_load(&failing_memory_hit);
        failing_memory_at(0);
        assert_int_equal(finding.shortage,
                         reached ? HANDOFF_SHORTAGE_MEMORY : HANDOFF_SHORTAGE_NONE);
        assert_true(reached == (finding.next == NULL));
        base_free(finding.next);
    }
    assert_true(n > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_rule),
        cmocka_unit_test(test_the_agents_own_words_are_kept),
        cmocka_unit_test(test_long_words_are_cut_between_characters),
        cmocka_unit_test(test_retry_after_is_passed_on),
        cmocka_unit_test(test_only_an_acknowledgement_has_a_next),
        cmocka_unit_test(test_an_answer_that_no_memory_is_left_for_is_not_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
