/* SPDX-License-Identifier: Apache-2.0 */
/* What agents tell of handoffs of their own: judged, counted once, and told to the observer. */
#include "tests/support/unit.h"

#include <pthread.h>
#include <string.h>
#include <yyjson.h>

#include "client/calls/recent.h"
#include "client/handoff.h"
#include "client/model/model.h"
#include "lib/base/clock.h"
#include "lib/base/rfc3339.h"
#include "tests/support/failing_memory.h"
#include "tests/support/temp_store.h"

#define TRACE "0af7651916cd43dd8448eb211c80319c"

struct seen {
    struct handoff_event last;
    char id[80], source[32], target[32], pattern[32], outcome[32], trace_id[33];
    int accepted, repeated, rejected, completed;
    uint64_t task_handoffs;
};

static struct {
    char *directory;
    struct handoff_client *client;
    struct seen seen;
    struct handoff_text text;
    struct handoff_error error;
} fixture;

static void copy(char *to, size_t size, const char *text)
{
    snprintf(to, size, "%s", text ? text : "(none)");
}

static void observe(void *observer, const struct handoff_event *event)
{
    struct seen *seen = observer;
    if (event->kind == HANDOFF_EVENT_TASK_COMPLETED) {
        seen->completed++;
        seen->task_handoffs = event->of.task_completed.handoffs;
        return;
    }
    if (event->kind != HANDOFF_EVENT_OBSERVED)
        return;
    seen->rejected += event->code != HANDOFF_OK;
    seen->repeated += event->of.observed.repeated;
    seen->accepted += event->code == HANDOFF_OK && !event->of.observed.repeated;
    if (event->code != HANDOFF_OK)
        return;
    seen->last = *event;
    copy(seen->id, sizeof seen->id, event->who.id);
    copy(seen->source, sizeof seen->source, event->who.source_agent);
    copy(seen->target, sizeof seen->target, event->who.target_agent);
    copy(seen->pattern, sizeof seen->pattern, handoff_pattern_name(event->who.pattern));
    copy(seen->outcome, sizeof seen->outcome, handoff_outcome_name(event->of.observed.outcome));
    copy(seen->trace_id, sizeof seen->trace_id, event->who.trace_id);
}

static int open_client(void **state)
{
    (void)state;
    memset(&fixture, 0, sizeof fixture);
    fixture.directory = temp_directory();
    const struct handoff_options options = {.storage_path = fixture.directory,
                                            .durability_none = true,
                                            .encoding = "estimate",
                                            .observe = observe,
                                            .observer = &fixture.seen};
    const struct handoff_agent_options agent = handoff_agent_defaults("coder", NULL);
    const struct handoff_configuration configuration = {.agents = &agent, .nagents = 1};
    assert_int_equal(handoff_client_open(&fixture.client, &options, NULL), HANDOFF_OK);
    assert_int_equal(handoff_client_configure(fixture.client, &configuration, NULL), HANDOFF_OK);
    return 0;
}

static int close_client(void **state)
{
    (void)state;
    handoff_text_free(&fixture.text);
    handoff_client_close(&fixture.client);
    temp_remove(fixture.directory);
    return 0;
}

static enum handoff_code tell_as(const char *caller, const char *body)
{
    const struct handoff_ask ask = {.body = body, .size = strlen(body), .caller = caller};
    handoff_text_free(&fixture.text);
    return handoff_observe(fixture.client, &ask, &fixture.text, &fixture.error);
}

static enum handoff_code tell(const char *body)
{
    return tell_as(NULL, body);
}

#define BASE      "\"source_agent\":\"analyst\",\"target_agent\":\"coder\",\"outcome\":\"acknowledged\""
#define ONE(more) "{" BASE more "}"

static void assert_answer(const char *text)
{
    assert_string_equal(fixture.text.data, text);
}

/* A refusal of a lone observation: field and code. */
static void assert_refused(const char *body, enum handoff_code code, const char *field)
{
    if (tell(body) != code)
        fail_msg("%s gave %s", body, handoff_code_name(fixture.error.code));
    assert_string_equal(fixture.error.field, field);
    assert_true(fixture.error.message != NULL && *fixture.error.message);
    assert_null(fixture.text.data);
}

/* ---- what is accepted ------------------------------------------------------------------------ */

static void test_the_least(void **state)
{
    (void)state;
    const struct seen *seen = &fixture.seen;
    assert_int_equal(tell(ONE("")), HANDOFF_OK);
    assert_answer("{\"accepted\":1,\"repeated\":0,\"rejected\":[]}");
    assert_int_equal(seen->accepted, 1);
    assert_string_equal(seen->source, "analyst");
    assert_string_equal(seen->target, "coder");
    assert_string_equal(seen->outcome, "acknowledged");
    assert_string_equal(seen->pattern, "direct");
    assert_string_equal(seen->id, "(none)");
    assert_int_equal(seen->last.of.observed.told, 0);
    static const uint64_t none[HANDOFF_RESULT_COUNT] = {0};
    assert_memory_equal(seen->last.of.observed.attempts, none, sizeof none);
    assert_int_equal(seen->last.of.observed.budget, 0);
    assert_int_equal(seen->completed, 0);
}

static void test_everything(void **state)
{
    (void)state;
    char now[BASE_RFC3339_SIZE], body[1024];
    const struct seen *seen = &fixture.seen;
    base_rfc3339_format(base_wall_ms(&base_clock_system), now);
    snprintf(
        body, sizeof body,
        "{\"id\":\"run-17/3\",\"task_id\":\"task-1\",\"trace_id\":\"" TRACE "\","
        "\"source_agent\":\"analyst\",\"target_agent\":\"coder\",\"pattern\":\"choreographed\","
        "\"outcome\":\"exhausted\",\"timestamp\":\"%s\",\"latency_seconds\":1.25,"
        "\"attempts\":{\"timeout\":2,\"http\":1,\"ack\":0},"
        "\"completeness\":{\"requested\":20,\"included\":17,\"trimmed\":1},"
        "\"token_count\":3900,\"token_budget\":4000,\"hop_count\":3,\"cycle\":true,"
        "\"task_handoffs\":5}",
        now);
    assert_int_equal(tell(body), HANDOFF_OK);
    assert_string_equal(seen->id, "run-17/3");
    assert_string_equal(seen->pattern, "choreographed");
    assert_string_equal(seen->outcome, "exhausted");
    assert_string_equal(seen->trace_id, TRACE);
    assert_int_equal(seen->last.of.observed.told, HANDOFF_TOLD_LATENCY | HANDOFF_TOLD_RATIO |
                                                      HANDOFF_TOLD_REFS | HANDOFF_TOLD_TOKENS |
                                                      HANDOFF_TOLD_HOPS);
    assert_int_equal(seen->last.of.observed.elapsed_ns, 1250000000);
    assert_int_equal(seen->last.of.observed.memories.requested, 20);
    assert_int_equal(seen->last.of.observed.memories.included, 17);
    assert_int_equal(seen->last.of.observed.memories.missing, 2);
    assert_int_equal(seen->last.of.observed.memories.trimmed, 1);
    assert_true(seen->last.of.observed.ratio > 0.849 && seen->last.of.observed.ratio < 0.851);
    assert_int_equal(seen->last.of.observed.tokens, 3900);
    assert_int_equal(seen->last.of.observed.budget, 4000);
    assert_int_equal(seen->last.of.observed.hop_count, 3);
    assert_true(seen->last.of.observed.cycle);
    static const uint64_t attempts[HANDOFF_RESULT_COUNT] = {
        [HANDOFF_RESULT_TIMEOUT] = 2, [HANDOFF_RESULT_HTTP] = 1};
    assert_memory_equal(seen->last.of.observed.attempts, attempts, sizeof attempts);
    assert_int_equal(seen->completed, 1);
    assert_int_equal(seen->task_handoffs, 5);
}

static void test_each_outcome_is_its_own(void **state)
{
    (void)state;
    for (int i = HANDOFF_OUTCOME_ACKNOWLEDGED; i <= HANDOFF_OUTCOME_CIRCUIT_OPEN; i++) {
        char body[160];
        const char *name = handoff_outcome_name((enum handoff_outcome)i);
        snprintf(body, sizeof body,
                 "{\"source_agent\":\"a\",\"target_agent\":\"b\",\"outcome\":\"%s\"}", name);
        assert_int_equal(tell(body), HANDOFF_OK);
        assert_string_equal(fixture.seen.outcome, name);
    }
}

static void assert_refs(const char *json, size_t requested, size_t included, size_t missing,
                        size_t trimmed)
{
    char body[300];
    const struct handoff_event *last = &fixture.seen.last;
    snprintf(body, sizeof body, "{" BASE ",\"completeness\":%s}", json);
    assert_int_equal(tell(body), HANDOFF_OK);
    assert_int_equal(last->of.observed.memories.requested, requested);
    assert_int_equal(last->of.observed.memories.included, included);
    assert_int_equal(last->of.observed.memories.missing, missing);
    assert_int_equal(last->of.observed.memories.trimmed, trimmed);
}

static void test_completeness_in_every_form(void **state)
{
    (void)state;
    assert_refs("{\"requested\":10,\"included\":7}", 10, 7, 3, 0);
    assert_refs("{\"requested\":10,\"included\":7,\"trimmed\":2}", 10, 7, 1, 2);
    assert_refs("{\"requested\":10,\"included\":7,\"missing\":1}", 10, 7, 1, 2);
    assert_refs("{\"included\":7,\"missing\":1,\"trimmed\":2}", 10, 7, 1, 2);
    assert_refs("{\"included\":7}", 7, 7, 0, 0);
    assert_refs("{\"requested\":0,\"included\":0}", 0, 0, 0, 0);
    assert_true(fixture.seen.last.of.observed.ratio >=
                1); /* nothing asked for is nothing left out */
    /* as a handoff of ours has it */
    assert_refs("{\"requested\":20,\"included\":19,\"ratio\":0.95}", 20, 19, 1, 0);
    assert_refs("{\"ratio\":0.5}", 0, 0, 0, 0);
    assert_int_equal(fixture.seen.last.of.observed.told, HANDOFF_TOLD_RATIO);
    assert_true(fixture.seen.last.of.observed.ratio <= 0.5 &&
                fixture.seen.last.of.observed.ratio >= 0.5);
}

static void test_the_caller_speaks_for_itself(void **state)
{
    (void)state;
    assert_int_equal(
        tell_as("analyst", "{\"target_agent\":\"coder\",\"outcome\":\"acknowledged\"}"),
        HANDOFF_OK);
    assert_string_equal(fixture.seen.source, "analyst");
    assert_int_equal(tell_as("analyst", ONE("")), HANDOFF_OK);
    assert_int_equal(tell_as("coder", ONE("")), HANDOFF_ERR_FORBIDDEN);
    assert_string_equal(fixture.error.field, "source_agent");
    assert_int_equal(tell_as("coder", "{\"items\":[" ONE("") "]}"), HANDOFF_OK);
    assert_non_null(strstr(fixture.text.data, "\"code\":\"forbidden\""));
}

/* ---- what is refused --------------------------------------------------------------------------
 */

static void test_bad_fields(void **state)
{
    (void)state;
    static const struct {
        const char *body, *field;
    } bad[] = {
        {"{\"target_agent\":\"b\",\"outcome\":\"acknowledged\"}", "source_agent"},
        {"{\"source_agent\":\"a\",\"outcome\":\"acknowledged\"}", "target_agent"},
        {"{\"source_agent\":\"a\",\"target_agent\":\"b\"}", "outcome"},
        {"{\"source_agent\":\"a\",\"target_agent\":\"b\",\"outcome\":\"fine\"}", "outcome"},
        {"{\"source_agent\":\"a\",\"target_agent\":\"b c\",\"outcome\":\"refused\"}",
         "target_agent"},
        {ONE(",\"pattern\":\"relay\""), "pattern"},
        {ONE(",\"latency\":1"), "latency"},
        {ONE(",\"latency_seconds\":-0.001"), "latency_seconds"},
        {ONE(",\"latency_seconds\":\"1\""), "latency_seconds"},
        {ONE(",\"latency_seconds\":604800.5"), "latency_seconds"},
        {ONE(",\"latency_seconds\":1e999"), "latency_seconds"},
        {ONE(",\"id\":\"\""), "id"},
        {ONE(",\"id\":\"a\\u0000b\""), "id"},
        {ONE(",\"id\":\"0123456789012345678901234567890123456789012345678901234567890123x\""),
         "id"},
        {ONE(",\"trace_id\":\"" TRACE "0\""), "trace_id"},
        {ONE(",\"trace_id\":\"0AF7651916CD43DD8448EB211C80319C\""), "trace_id"},
        {ONE(",\"trace_id\":\"00000000000000000000000000000000\""), "trace_id"},
        {ONE(",\"timestamp\":\"yesterday\""), "timestamp"},
        {ONE(",\"timestamp\":1700000000"), "timestamp"},
        {ONE(",\"timestamp\":\"1970-01-01T00:00:00Z\""), "timestamp"},
        {ONE(",\"timestamp\":\"9999-01-01T00:00:00Z\""), "timestamp"},
        {ONE(",\"attempts\":3"), "attempts"},
        {ONE(",\"attempts\":{\"lost\":1}"), "attempts.lost"},
        {ONE(",\"attempts\":{\"ack\":-1}"), "attempts.ack"},
        {ONE(",\"attempts\":{\"ack\":1001}"), "attempts.ack"},
        {ONE(",\"attempts\":{\"ack\":1.5}"), "attempts.ack"},
        {ONE(",\"completeness\":0.5"), "completeness"},
        {ONE(",\"completeness\":{}"), "completeness"},
        {ONE(",\"completeness\":{\"requested\":5}"), "completeness"},
        {ONE(",\"completeness\":{\"requested\":5,\"included\":6}"), "completeness"},
        {ONE(",\"completeness\":{\"requested\":5,\"included\":3,\"missing\":3}"), "completeness"},
        {ONE(",\"completeness\":{\"requested\":5,\"ratio\":1}"), "completeness"},
        {ONE(",\"completeness\":{\"ratio\":1.01}"), "completeness.ratio"},
        {ONE(",\"completeness\":{\"included\":100001}"), "completeness.included"},
        {ONE(",\"token_count\":-1"), "token_count"},
        {ONE(",\"token_budget\":0"), "token_budget"},
        {ONE(",\"hop_count\":0"), "hop_count"},
        {ONE(",\"cycle\":1"), "cycle"},
        {ONE(",\"task_handoffs\":0"), "task_handoffs"},
        {ONE(",\"cycle\":true,\"cycle\":false"), "cycle"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_refused(bad[i].body, HANDOFF_ERR_INVALID, bad[i].field);
    assert_int_equal(fixture.seen.accepted, 0);
    assert_int_equal(fixture.seen.rejected, sizeof bad / sizeof *bad);
}

static void tell_at(int64_t offset_ms, bool accepted)
{
    char at[BASE_RFC3339_SIZE], body[256];
    base_rfc3339_format(base_wall_ms(&base_clock_system) + offset_ms, at);
    snprintf(body, sizeof body, "{" BASE ",\"timestamp\":\"%s\"}", at);
    assert_int_equal(tell(body), accepted ? HANDOFF_OK : HANDOFF_ERR_INVALID);
}

static void test_what_is_too_old_or_to_come_is_refused(void **state)
{
    (void)state;
    const int64_t minute = 60000;
    tell_at(0, true);
    tell_at(-59 * minute, true);
    tell_at(-61 * minute, false);
    tell_at(4 * minute, true);
    tell_at(6 * minute, false);
}

static void test_a_bad_body(void **state)
{
    (void)state;
    assert_refused("", HANDOFF_ERR_INVALID_JSON, "body");
    assert_refused("{", HANDOFF_ERR_INVALID_JSON, "body");
    assert_refused("[]", HANDOFF_ERR_INVALID, "body");
    assert_refused("7", HANDOFF_ERR_INVALID, "body");
    assert_refused("{\"items\":{}}", HANDOFF_ERR_INVALID, "items");
    assert_refused("{\"items\":[],\"more\":1}", HANDOFF_ERR_INVALID, "body");
    assert_refused("{\"items\":[],\"items\":[]}", HANDOFF_ERR_INVALID, "body");
    assert_int_equal(tell("{\"items\":[]}"), HANDOFF_OK);
    assert_answer("{\"accepted\":0,\"repeated\":0,\"rejected\":[]}");
}

/* ---- batches ----------------------------------------------------------------------------------
 */

static void test_bad_items_are_refused_one_by_one(void **state)
{
    (void)state;
    assert_int_equal(tell("{\"items\":[" ONE("") ",7," ONE(",\"hop_cuont\":2") "," ONE("") "]}"),
                     HANDOFF_OK);
    assert_answer("{\"accepted\":2,\"repeated\":0,\"rejected\":["
                  "{\"index\":1,\"code\":\"invalid_request\",\"field\":\"item\","
                  "\"detail\":\"wrong type\",\"seen\":\"7\","
                  "\"allowed\":\"an object\"},"
                  "{\"index\":2,\"code\":\"invalid_request\",\"field\":\"hop_cuont\","
                  "\"detail\":\"unknown field\",\"seen\":\"hop_cuont\","
                  "\"allowed\":\"hop_count (the nearest name)\"}]}");
    assert_int_equal(fixture.seen.accepted, 2);
    assert_int_equal(fixture.seen.rejected, 2);
}

static char *batch_of(size_t count)
{
    char *body = malloc(count * sizeof ONE("") + 32);
    char *end = stpcpy(body, "{\"items\":[");
    for (size_t i = 0; i < count; i++)
        end = stpcpy(stpcpy(end, i ? "," : ""), ONE(""));
    strcpy(end, "]}");
    return body;
}

static void test_a_thousand_and_no_more(void **state)
{
    (void)state;
    char *full = batch_of(1000), *over = batch_of(1001);
    assert_int_equal(tell(full), HANDOFF_OK);
    assert_int_equal(fixture.seen.accepted, 1000);
    assert_refused(over, HANDOFF_ERR_TOO_LARGE, "items");
    assert_string_equal(fixture.error.allowed, "1000");
    assert_int_equal(fixture.seen.accepted, 1000);
    free(full);
    free(over);
}

/* ---- repeats ----------------------------------------------------------------------------------
 */

static void test_an_id_is_counted_once(void **state)
{
    (void)state;
    assert_int_equal(tell("{\"items\":[" ONE(",\"id\":\"1\"") "," ONE(",\"id\":\"2\"") "," ONE(
                         ",\"id\":\"1\",\"task_handoffs\":2") "]}"),
                     HANDOFF_OK);
    assert_answer("{\"accepted\":2,\"repeated\":1,\"rejected\":[]}");
    assert_int_equal(tell(ONE(",\"id\":\"2\"")), HANDOFF_OK);
    assert_answer("{\"accepted\":0,\"repeated\":1,\"rejected\":[]}");
    assert_int_equal(fixture.seen.completed, 0);
    /* ids are the source's own */
    assert_int_equal(tell("{\"source_agent\":\"coder\",\"target_agent\":\"analyst\","
                          "\"outcome\":\"refused\",\"id\":\"2\"}"),
                     HANDOFF_OK);
    assert_answer("{\"accepted\":1,\"repeated\":0,\"rejected\":[]}");
    /* what was refused may be told again, put right */
    assert_refused(ONE(",\"id\":\"3\",\"hop_count\":0"), HANDOFF_ERR_INVALID, "hop_count");
    assert_int_equal(tell(ONE(",\"id\":\"3\",\"hop_count\":1")), HANDOFF_OK);
    assert_answer("{\"accepted\":1,\"repeated\":0,\"rejected\":[]}");
    assert_int_equal(fixture.seen.repeated, 2);
}

enum { TELLERS = 4, TOLD_BY_EACH = 500 };

/* Answers how many of the ids 0 to TOLD_BY_EACH it was the first to tell. */
static void *tell_all(void *arg)
{
    struct handoff_recent *recent = arg;
    uintptr_t first = 0;
    for (unsigned i = 0; i < TOLD_BY_EACH; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", i);
        first += !handoff_recent_add(recent, base_span_text("a"), base_span_text(name));
    }
    return (void *)first; /* NOLINT(performance-no-int-to-ptr) */
}

static void test_of_several_threads_one_is_the_first(void **state)
{
    (void)state;
    struct handoff_recent recent;
    pthread_t threads[TELLERS];
    uintptr_t first = 0;
    handoff_recent_init(&recent);
    for (size_t i = 0; i < TELLERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, tell_all, &recent), 0);
    for (size_t i = 0; i < TELLERS; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        first += (uintptr_t)result;
    }
    assert_int_equal(first, TOLD_BY_EACH);
    handoff_recent_free(&recent);
}

/* Without memory nothing is known, and nothing breaks. */
static void test_without_memory_each_is_new(void **state)
{
    (void)state;
    struct handoff_recent recent;
    handoff_recent_init(&recent);
    for (long n = 1; n <= 2; n++) { /* the newer set, then the older one */
        failing_memory_at(n);
        assert_false(handoff_recent_add(&recent, base_span_text("a"), base_span_text("b")));
        assert_true(failing_memory_hit);
    }
    failing_memory_at(0);
    assert_false(handoff_recent_add(&recent, base_span_text("a"), base_span_text("b")));
    assert_true(handoff_recent_add(&recent, base_span_text("a"), base_span_text("b")));
    handoff_recent_free(&recent);
}

static bool add(struct handoff_recent *recent, const char *space, unsigned number)
{
    char name[16];
    snprintf(name, sizeof name, "%u", number);
    return handoff_recent_add(recent, base_span_text(space), base_span_text(name));
}

static void test_the_latest_ids_are_known_and_old_ones_are_not(void **state)
{
    (void)state;
    struct handoff_recent recent;
    const unsigned all = 5 * HANDOFF_RECENT_KEYS;
    handoff_recent_init(&recent);
    for (unsigned i = 0; i < all; i++)
        assert_false(add(&recent, "a", i));
    for (unsigned i = all - HANDOFF_RECENT_KEYS; i < all; i++)
        assert_true(add(&recent, "a", i));
    assert_false(add(&recent, "a", 0)); /* long ago */
    /* the border between the two texts is part of the key */
    assert_false(handoff_recent_add(&recent, base_span_text("ab"), base_span_text("c")));
    assert_false(handoff_recent_add(&recent, base_span_text("a"), base_span_text("bc")));
    handoff_recent_free(&recent);
}

/* Wherever memory ends, the answer is an error or complete, and what was told can be told again. */
static void test_memory_that_ends(void **state)
{
    (void)state;
    static const char body[] = "{\"items\":[" ONE(",\"id\":\"1\"") "," ONE(",\"id\":\"2\"") ",7]}";
    long n = 0;
    bool hit;
    enum handoff_code code;
    do {
        failing_memory_at(++n);
        code = tell(body);
        hit = failing_memory_hit;
        failing_memory_at(0);
        assert_true(code == HANDOFF_OK || code == HANDOFF_ERR_OUT_OF_MEMORY);
        assert_true((code == HANDOFF_OK) == (fixture.text.data != NULL));
    } while (hit);
    assert_true(n > 3);
    assert_int_equal(tell(body), HANDOFF_OK);
    assert_non_null(strstr(fixture.text.data, "{\"accepted\":0,\"repeated\":2,"));
}

/* ---- failures in a row ------------------------------------------------------------------------
 */

static unsigned failures;
static enum handoff_circuit circuit;

static void visit(void *context, const struct handoff_agent_stats *agent)
{
    (void)context;
    if (strcmp(agent->name, "coder") != 0)
        return;
    failures = agent->consecutive_failures;
    circuit = agent->circuit;
}

static unsigned failures_after(const char *outcome, int times)
{
    char body[160];
    snprintf(body, sizeof body,
             "{\"source_agent\":\"a\",\"target_agent\":\"coder\",\"outcome\":\"%s\"}", outcome);
    while (times-- > 0)
        assert_int_equal(tell(body), HANDOFF_OK);
    handoff_client_visit_agents(fixture.client, visit, NULL);
    return failures;
}

static void test_failures_in_a_row_show_and_open_nothing(void **state)
{
    (void)state;
    assert_int_equal(failures_after("exhausted", 5), 5);
    assert_int_equal(circuit, HANDOFF_CIRCUIT_CLOSED);
    assert_int_equal(failures_after("expired", 1), 5);
    assert_int_equal(failures_after("acknowledged", 1), 0);
    assert_int_equal(failures_after("exhausted", 2), 2);
    assert_int_equal(failures_after("rejected", 1), 3);
    assert_int_equal(failures_after("refused", 1), 0); /* it answered */
}

#define WITH_CLIENT(test) cmocka_unit_test_setup_teardown(test, open_client, close_client)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_CLIENT(test_the_least),
        WITH_CLIENT(test_everything),
        WITH_CLIENT(test_each_outcome_is_its_own),
        WITH_CLIENT(test_completeness_in_every_form),
        WITH_CLIENT(test_the_caller_speaks_for_itself),
        WITH_CLIENT(test_bad_fields),
        WITH_CLIENT(test_what_is_too_old_or_to_come_is_refused),
        WITH_CLIENT(test_a_bad_body),
        WITH_CLIENT(test_bad_items_are_refused_one_by_one),
        WITH_CLIENT(test_a_thousand_and_no_more),
        WITH_CLIENT(test_an_id_is_counted_once),
        cmocka_unit_test(test_the_latest_ids_are_known_and_old_ones_are_not),
        WITH_CLIENT(test_memory_that_ends),
        cmocka_unit_test(test_of_several_threads_one_is_the_first),
        cmocka_unit_test(test_without_memory_each_is_new),
        WITH_CLIENT(test_failures_in_a_row_show_and_open_nothing),
    };
    return RUN_TESTS(tests);
}
