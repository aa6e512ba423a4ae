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

static struct handoff_event moved(const char *from, const char *to)
{
    return (struct handoff_event){.kind = HANDOFF_EVENT_MOVED,
                                  .id = "01890a5d-ac96-774b-bcce-b302099a8057",
                                  .source_agent = "analyst",
                                  .target_agent = "coder",
                                  .from = from,
                                  .to = to,
                                  .reason = "",
                                  .attempts = 4};
}

static void test_a_handoff_that_is_parked_or_expires_is_a_line(void **state)
{
    (void)state;
    struct handoff_event parked = moved("in_flight", "parked");
    parked.reason = "exhausted";
    assert_string_equal(line(parked, EXPORTER_LOG_WARN),
                        TS "level=warn event=handoff_parked "
                           "handoff=01890a5d-ac96-774b-bcce-b302099a8057 source=analyst "
                           "target=coder reason=exhausted attempts=4\n");
    assert_string_equal(line(moved("ready", "expired"), EXPORTER_LOG_WARN),
                        TS "level=warn event=handoff_expired "
                           "handoff=01890a5d-ac96-774b-bcce-b302099a8057 source=analyst "
                           "target=coder attempts=4\n");
}

static void test_a_handoff_that_goes_well_is_none(void **state)
{
    (void)state;
    struct handoff_event acknowledged = moved("in_flight", "acknowledged");
    acknowledged.result = "ack";
    assert_string_equal(line(moved(NULL, "ready"), EXPORTER_LOG_DEBUG), "");
    assert_string_equal(line(moved("ready", "in_flight"), EXPORTER_LOG_DEBUG), "");
    assert_string_equal(line(acknowledged, EXPORTER_LOG_DEBUG), "");
    assert_string_equal(
        line((struct handoff_event){.kind = HANDOFF_EVENT_COMMITTED}, EXPORTER_LOG_DEBUG), "");
}

static void test_an_attempt_that_failed_is_one_for_whoever_asks(void **state)
{
    (void)state;
    struct handoff_event failed = moved("in_flight", "ready");
    failed.result = "timeout";
    failed.attempt_target = "coder";
    assert_string_equal(line(failed, EXPORTER_LOG_INFO), "");
    assert_string_equal(line(failed, EXPORTER_LOG_DEBUG),
                        TS "level=debug event=attempt_failed "
                           "handoff=01890a5d-ac96-774b-bcce-b302099a8057 target=coder attempt=4 "
                           "result=timeout\n");
}

static void test_a_circuit_that_opens_or_closes_is_a_line(void **state)
{
    (void)state;
    struct handoff_event circuit = {.kind = HANDOFF_EVENT_CIRCUIT,
                                    .target_agent = "coder",
                                    .circuit = "open",
                                    .opened = true,
                                    .consecutive_failures = 3};
    assert_string_equal(line(circuit, EXPORTER_LOG_WARN),
                        TS "level=warn event=circuit_opened target=coder failures=3\n");
    circuit.opened = false;
    circuit.circuit = "half_open";
    assert_string_equal(line(circuit, EXPORTER_LOG_DEBUG), "");
    circuit.circuit = "closed"; /* as it was: only the count of failures changed */
    assert_string_equal(line(circuit, EXPORTER_LOG_DEBUG), "");
    circuit.closed = true;
    assert_string_equal(line(circuit, EXPORTER_LOG_INFO),
                        TS "level=info event=circuit_closed target=coder\n");
}

static void test_the_hop_limit_names_the_task(void **state)
{
    (void)state;
    struct handoff_event limit = {.kind = HANDOFF_EVENT_ASSEMBLED,
                                  .code = HANDOFF_ERR_HOP_LIMIT,
                                  .task_id = "task 42",
                                  .source_agent = "analyst",
                                  .target_agent = "coder",
                                  .hop_count = 11};
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
        cmocka_unit_test(test_an_attempt_that_failed_is_one_for_whoever_asks),
        cmocka_unit_test(test_a_circuit_that_opens_or_closes_is_a_line),
        cmocka_unit_test(test_the_hop_limit_names_the_task),
    };
    return cmocka_run_group_tests(tests, open_capture, close_capture);
}
