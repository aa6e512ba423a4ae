/* SPDX-License-Identifier: Apache-2.0 */
/* Which events of delivery write a line, and what stands in it. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exporter/log/delivery_log.h"
#include "exporter/log/log.h"
#include "tests/support/unit.h"

#define TS "ts=1970-01-01T00:00:00.000Z "

static int capture_fd;
static char captured[4096];
static uint32_t second;

static int64_t wall(void)
{
    return 0;
}

static uint32_t monotonic(void)
{
    return second;
}

/* What the event writes at a level. */
static const char *line(struct handoff_event event, enum exporter_log_level level)
{
    assert_int_equal(ftruncate(capture_fd, 0), 0);
    assert_int_equal(lseek(capture_fd, 0, SEEK_SET), 0);
    second += 10; /* so that no line meets another's limit */
    exporter_log_setup(&(struct exporter_log_setup){
        .fd = capture_fd, .level = level, .wall_ms = wall, .monotonic_s = monotonic});
    exporter_delivery_log(&event);
    ssize_t length = pread(capture_fd, captured, sizeof captured - 1, 0);
    assert_true(length >= 0);
    captured[length] = '\0';
    return captured;
}

static struct handoff_event moved(enum handoff_state from, enum handoff_state to)
{
    return (struct handoff_event){.kind = HANDOFF_EVENT_MOVED,
                                  .who = {.id = "01890a5d-ac96-774b-bcce-b302099a8057",
                                          .source_agent = "analyst",
                                          .target_agent = "coder"},
                                  .of.moved = {.from = from, .to = to, .attempts = 4, .said = ""}};
}

static void test_a_handoff_that_is_parked_or_expires_is_a_line(void **state)
{
    (void)state;
    struct handoff_event parked = moved(HANDOFF_STATE_IN_FLIGHT, HANDOFF_STATE_PARKED);
    parked.of.moved.reason = HANDOFF_REASON_EXHAUSTED;
    parked.of.moved.status = 503;
    parked.of.moved.said = "the agent answered with an error status";
    assert_string_equal(line(parked, EXPORTER_LOG_WARN),
                        TS "level=warn event=handoff_parked "
                           "handoff=01890a5d-ac96-774b-bcce-b302099a8057 source=analyst "
                           "target=coder reason=exhausted attempts=4 status=503 "
                           "error=\"the agent answered with an error status\"\n");
    assert_string_equal(line(moved(HANDOFF_STATE_READY, HANDOFF_STATE_EXPIRED), EXPORTER_LOG_WARN),
                        TS "level=warn event=handoff_expired "
                           "handoff=01890a5d-ac96-774b-bcce-b302099a8057 source=analyst "
                           "target=coder attempts=4 status=0 error=\"\"\n");
}

static void test_a_handoff_that_goes_well_is_none(void **state)
{
    (void)state;
    struct handoff_event acknowledged = moved(HANDOFF_STATE_IN_FLIGHT, HANDOFF_STATE_ACKNOWLEDGED);
    acknowledged.of.moved.attempted = true;
    acknowledged.of.moved.result = HANDOFF_RESULT_ACK;
    assert_string_equal(line(moved(HANDOFF_STATE_NONE, HANDOFF_STATE_READY), EXPORTER_LOG_DEBUG),
                        "");
    assert_string_equal(
        line(moved(HANDOFF_STATE_READY, HANDOFF_STATE_IN_FLIGHT), EXPORTER_LOG_DEBUG), "");
    assert_string_equal(line(acknowledged, EXPORTER_LOG_DEBUG), "");
    assert_string_equal(
        line((struct handoff_event){.kind = HANDOFF_EVENT_COMMITTED}, EXPORTER_LOG_DEBUG), "");
}

static void test_a_store_that_begins_or_ceases_to_fail_is_a_line(void **state)
{
    (void)state;
    struct handoff_event commit = {.kind = HANDOFF_EVENT_COMMITTED, .code = HANDOFF_ERR_STORE_FULL};
    assert_string_equal(line(commit, EXPORTER_LOG_DEBUG), "");
    commit.of.committed.turned = true;
    assert_string_equal(line(commit, EXPORTER_LOG_ERROR), TS
                        "level=error event=store_failing code=store_full "
                        "error=\"the store's disk is full\" advice=\"nothing is accepted until a "
                        "write succeeds; free space, or see to the disk\"\n");
    commit.code = HANDOFF_OK;
    assert_string_equal(line(commit, EXPORTER_LOG_INFO), TS "level=info event=store_recovered\n");
}

static void test_an_attempt_that_failed_is_one_for_whoever_asks(void **state)
{
    (void)state;
    struct handoff_event failed = moved(HANDOFF_STATE_IN_FLIGHT, HANDOFF_STATE_READY);
    failed.of.moved.attempted = true;
    failed.of.moved.result = HANDOFF_RESULT_TIMEOUT;
    failed.of.moved.attempt_target = "coder";
    failed.of.moved.said = "no \"model\" free";
    assert_string_equal(line(failed, EXPORTER_LOG_INFO), "");
    assert_string_equal(line(failed, EXPORTER_LOG_DEBUG),
                        TS "level=debug event=attempt_failed "
                           "handoff=01890a5d-ac96-774b-bcce-b302099a8057 target=coder attempt=4 "
                           "result=timeout error=\"no \\\"model\\\" free\"\n");
}

static void test_a_circuit_that_opens_or_closes_is_a_line(void **state)
{
    (void)state;
    struct handoff_event circuit = {
        .kind = HANDOFF_EVENT_CIRCUIT,
        .who.target_agent = "coder",
        .of.circuit = {.circuit = HANDOFF_CIRCUIT_OPEN, .opened = true, .consecutive_failures = 3}};
    assert_string_equal(line(circuit, EXPORTER_LOG_WARN),
                        TS "level=warn event=circuit_opened target=coder failures=3\n");
    circuit.of.circuit.opened = false;
    circuit.of.circuit.circuit = HANDOFF_CIRCUIT_HALF_OPEN;
    assert_string_equal(line(circuit, EXPORTER_LOG_DEBUG), "");
    circuit.of.circuit.circuit =
        HANDOFF_CIRCUIT_CLOSED; /* as it was: only the count of failures changed */
    assert_string_equal(line(circuit, EXPORTER_LOG_DEBUG), "");
    circuit.of.circuit.closed = true;
    assert_string_equal(line(circuit, EXPORTER_LOG_INFO),
                        TS "level=info event=circuit_closed target=coder\n");
}

static void test_the_hop_limit_names_the_task(void **state)
{
    (void)state;
    struct handoff_event limit = {
        .kind = HANDOFF_EVENT_ASSEMBLED,
        .code = HANDOFF_ERR_HOP_LIMIT,
        .who = {.task_id = "task 42", .source_agent = "analyst", .target_agent = "coder"},
        .of.assembled.hop_count = 11};
    assert_string_equal(line(limit, EXPORTER_LOG_WARN),
                        TS "level=warn event=hop_limit_reached task=\"task 42\" source=analyst "
                           "target=coder hops=11\n");
    limit.code = HANDOFF_ERR_BUDGET_TOO_SMALL;
    assert_string_equal(line(limit, EXPORTER_LOG_DEBUG), "");
}

static int open_capture(void **state)
{
    (void)state;
    capture_fd = memfd_create("log", 0);
    return capture_fd < 0;
}

static int close_capture(void **state)
{
    (void)state;
    return close(capture_fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_handoff_that_is_parked_or_expires_is_a_line),
        cmocka_unit_test(test_a_handoff_that_goes_well_is_none),
        cmocka_unit_test(test_a_store_that_begins_or_ceases_to_fail_is_a_line),
        cmocka_unit_test(test_an_attempt_that_failed_is_one_for_whoever_asks),
        cmocka_unit_test(test_a_circuit_that_opens_or_closes_is_a_line),
        cmocka_unit_test(test_the_hop_limit_names_the_task),
    };
    return cmocka_run_group_tests(tests, open_capture, close_capture);
}
