/* SPDX-License-Identifier: Apache-2.0 */
/* What the status page remembers of failures: what counts, what is alike, what is kept of texts. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/status/failures.h"
#include "tests/support/unit.h"

static struct exporter_failure entries[EXPORTER_FAILURES_KEPT];
static uint64_t total;

static struct handoff_event ended(enum handoff_outcome outcome, const char *target,
                                  const char *said)
{
    return (struct handoff_event){.kind = HANDOFF_EVENT_MOVED,
                                  .who = {.id = "01890a5d-ac96-774b-bcce-b302099a8057",
                                          .source_agent = "analyst",
                                          .target_agent = target},
                                  .of.moved = {.outcome = outcome, .attempts = 4, .said = said}};
}

static struct handoff_event observed(enum handoff_outcome outcome, bool repeated)
{
    return (struct handoff_event){.kind = HANDOFF_EVENT_OBSERVED,
                                  .who.target_agent = "coder",
                                  .of.observed = {.outcome = outcome, .repeated = repeated}};
}

static void note(struct exporter_failures *failures, struct handoff_event event)
{
    exporter_failures_note(failures, &event);
}

static void test_tells_what_failed_and_nothing_else(void **state)
{
    (void)state;
    struct exporter_failures *failures = exporter_failures_new();
    note(failures, ended(HANDOFF_OUTCOME_NONE, "coder", ""));
    note(failures, ended(HANDOFF_OUTCOME_ACKNOWLEDGED, "coder", ""));
    note(failures,
         (struct handoff_event){.kind = HANDOFF_EVENT_SPINE, .code = HANDOFF_ERR_NOT_FOUND});
    note(failures, (struct handoff_event){.kind = HANDOFF_EVENT_COMMITTED});
    note(failures, (struct handoff_event){.kind = HANDOFF_EVENT_ASSEMBLED,
                                          .code = HANDOFF_ERR_BUDGET_TOO_SMALL});
    assert_int_equal(exporter_failures_read(failures, entries, &total), 0);
    assert_int_equal(total, 0);
    note(failures, ended(HANDOFF_OUTCOME_EXHAUSTED, "coder", "no route to host"));
    assert_int_equal(exporter_failures_read(failures, entries, &total), 1);
    assert_int_equal(total, 1);
    assert_string_equal(entries[0].id, "01890a5d-ac96-774b-bcce-b302099a8057");
    assert_string_equal(entries[0].source, "analyst");
    assert_string_equal(entries[0].target, "coder");
    assert_string_equal(exporter_failure_name(&entries[0]), "exhausted");
    assert_string_equal(entries[0].words, "no route to host");
    assert_int_equal(entries[0].attempts, 4);
    assert_int_equal(entries[0].times, 1);
    assert_true(entries[0].at_ms > INT64_C(1700000000000));
    exporter_failures_free(&failures);
    assert_null(failures);
}

static void test_rejections_hop_limits_and_failed_commits_count(void **state)
{
    (void)state;
    struct exporter_failures *failures = exporter_failures_new();
    note(failures,
         (struct handoff_event){.kind = HANDOFF_EVENT_REJECTED, .who.target_agent = "coder"});
    note(failures, (struct handoff_event){.kind = HANDOFF_EVENT_ASSEMBLED,
                                          .code = HANDOFF_ERR_HOP_LIMIT,
                                          .who.target_agent = "coder"});
    note(failures,
         (struct handoff_event){.kind = HANDOFF_EVENT_COMMITTED, .code = HANDOFF_ERR_STORE_IO});
    assert_int_equal(exporter_failures_read(failures, entries, &total), 3);
    assert_string_equal(exporter_failure_name(&entries[0]), "not_stored");
    assert_string_equal(entries[0].target, "");
    assert_string_equal(entries[0].words, handoff_code_meaning(HANDOFF_ERR_STORE_IO));
    assert_string_equal(exporter_failure_name(&entries[1]), "hop_limit");
    assert_string_equal(exporter_failure_name(&entries[2]), "circuit_open");
    assert_string_equal(entries[2].id, "");
    exporter_failures_free(&failures);
}

static void test_what_was_observed_counts_once(void **state)
{
    (void)state;
    struct exporter_failures *failures = exporter_failures_new();
    note(failures, observed(HANDOFF_OUTCOME_EXHAUSTED, false));
    note(failures, observed(HANDOFF_OUTCOME_EXHAUSTED, true));
    note(failures, observed(HANDOFF_OUTCOME_ACKNOWLEDGED, false));
    note(failures,
         (struct handoff_event){.kind = HANDOFF_EVENT_OBSERVED, .code = HANDOFF_ERR_INVALID});
    assert_int_equal(exporter_failures_read(failures, entries, &total), 1);
    assert_int_equal(total, 1);
    assert_string_equal(exporter_failure_name(&entries[0]), "exhausted");
    assert_string_equal(entries[0].words, "as reported by its source");
    exporter_failures_free(&failures);
}

static void test_what_is_alike_is_counted_and_comes_first(void **state)
{
    (void)state;
    struct exporter_failures *failures = exporter_failures_new();
    note(failures, ended(HANDOFF_OUTCOME_EXHAUSTED, "coder", "timeout"));
    note(failures, ended(HANDOFF_OUTCOME_EXHAUSTED, "reviewer", "timeout"));
    note(failures, ended(HANDOFF_OUTCOME_REFUSED, "coder", "timeout"));
    note(failures, ended(HANDOFF_OUTCOME_EXHAUSTED, "coder", "connect"));
    note(failures, ended(HANDOFF_OUTCOME_EXHAUSTED, "coder", "timeout"));
    assert_int_equal(exporter_failures_read(failures, entries, &total), 4);
    assert_int_equal(total, 5);
    assert_string_equal(entries[0].words, "timeout");
    assert_string_equal(entries[0].target, "coder");
    assert_int_equal(entries[0].times, 2);
    assert_string_equal(entries[1].words, "connect");
    assert_string_equal(exporter_failure_name(&entries[2]), "refused");
    assert_string_equal(entries[3].target, "reviewer");
    for (size_t i = 1; i < 4; i++)
        assert_int_equal(entries[i].times, 1);
    exporter_failures_free(&failures);
}

static void test_the_oldest_goes(void **state)
{
    (void)state;
    struct exporter_failures *failures = exporter_failures_new();
    char said[16];
    for (int i = 0; i < EXPORTER_FAILURES_KEPT + 7; i++) {
        snprintf(said, sizeof said, "%d", i);
        note(failures, ended(HANDOFF_OUTCOME_EXHAUSTED, "coder", said));
    }
    assert_int_equal(exporter_failures_read(failures, entries, &total), EXPORTER_FAILURES_KEPT);
    assert_int_equal(total, EXPORTER_FAILURES_KEPT + 7);
    for (int i = 0; i < EXPORTER_FAILURES_KEPT; i++) {
        snprintf(said, sizeof said, "%d", EXPORTER_FAILURES_KEPT + 6 - i);
        assert_string_equal(entries[i].words, said);
    }
    exporter_failures_free(&failures);
}

static void test_texts_become_valid_and_fit(void **state)
{
    (void)state;
    struct exporter_failures *failures = exporter_failures_new();
    char said[EXPORTER_FAILURE_WORDS_MAX * 2];
    /* a cut may not split a character: three bytes each, and the room is no multiple of three */
    for (size_t at = 0; at + 3 < sizeof said; at += 3)
        memcpy(said + at, "\xe2\x82\xac", 4);
    note(failures, ended(HANDOFF_OUTCOME_EXHAUSTED, "coder", said));
    note(failures, ended(HANDOFF_OUTCOME_EXHAUSTED, "coder", "a\x1b[31mb\xff\xc2\x85\nc\x7f"));
    assert_int_equal(exporter_failures_read(failures, entries, &total), 2);
    assert_string_equal(entries[0].words, "a [31mb?  c ");
    const size_t length = strlen(entries[1].words);
    assert_int_equal(length % 3, 0);
    assert_true(length > EXPORTER_FAILURE_WORDS_MAX - 4);
    assert_memory_equal(entries[1].words, said, length);
    exporter_failures_free(&failures);
}

/* ---- threads -------------------------------------------------------------------------------- */

enum { WRITERS = 3, EVENTS = 2000 };

static void *write_events(void *arg)
{
    struct exporter_failures *failures = arg;
    char said[16];
    for (int i = 0; i < EVENTS; i++) {
        snprintf(said, sizeof said, "%d", i % (2 * EXPORTER_FAILURES_KEPT));
        note(failures, ended(HANDOFF_OUTCOME_EXHAUSTED, "coder", said));
    }
    return NULL;
}

/* Whatever a reader sees is whole, and nothing is lost. */
static void test_readers_and_writers_may_be_on_any_thread(void **state)
{
    (void)state;
    struct exporter_failures *failures = exporter_failures_new();
    pthread_t threads[WRITERS];
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_events, failures), 0);
    uint64_t before = 0;
    do {
        const size_t count = exporter_failures_read(failures, entries, &total);
        assert_true(count <= EXPORTER_FAILURES_KEPT && total >= before);
        for (size_t i = 0; i < count; i++) {
            assert_string_equal(entries[i].target, "coder");
            assert_in_range(atoi(entries[i].words), 0, 2 * EXPORTER_FAILURES_KEPT - 1);
        }
        before = total;
    } while (total < WRITERS * EVENTS);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    exporter_failures_free(&failures);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tells_what_failed_and_nothing_else),
        cmocka_unit_test(test_rejections_hop_limits_and_failed_commits_count),
        cmocka_unit_test(test_what_was_observed_counts_once),
        cmocka_unit_test(test_what_is_alike_is_counted_and_comes_first),
        cmocka_unit_test(test_the_oldest_goes),
        cmocka_unit_test(test_texts_become_valid_and_fit),
        cmocka_unit_test(test_readers_and_writers_may_be_on_any_thread),
    };
    return RUN_TESTS(tests);
}
