/* SPDX-License-Identifier: Apache-2.0 */
/* How many handoffs are parked for an agent, and since when: as a list of them would say. */
#include "tests/support/unit.h"

#include <stdlib.h>

#include "client/agents/agents.h"
#include "tests/support/failing_memory.h"

static struct {
    struct handoff_agents *agents;
    struct handoff_agent *agent;
} fixture;

static int make_agent(void **state)
{
    (void)state;
    assert_int_equal(handoff_agents_new(&fixture.agents, NULL), HANDOFF_OK);
    fixture.agent = handoff_agents_remember(fixture.agents, base_span_text("coder"));
    assert_non_null(fixture.agent);
    return 0;
}

static int free_agent(void **state)
{
    (void)state;
    handoff_agents_free(&fixture.agents);
    return 0;
}

static void assert_parked(uint64_t count, int64_t oldest_ms)
{
    assert_int_equal(fixture.agent->parked.count, count);
    assert_int_equal(handoff_parked_oldest_ms(&fixture.agent->parked), oldest_ms);
}

static void test_the_oldest_is_known_after_each_move(void **state)
{
    (void)state;
    assert_parked(0, 0);
    handoff_parked_note(fixture.agent, 30);
    handoff_parked_note(fixture.agent, 10);
    handoff_parked_note(fixture.agent, 20);
    assert_parked(3, 10);
    handoff_parked_forget(fixture.agent, 20); /* from the middle */
    assert_parked(2, 10);
    handoff_parked_forget(fixture.agent, 10);
    assert_parked(1, 30);
    handoff_parked_forget(fixture.agent, 30);
    assert_parked(0, 0);
    handoff_parked_note(fixture.agent, 5);
    assert_parked(1, 5);
}

static int64_t oldest_of(const int64_t *times, size_t count)
{
    int64_t oldest = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || times[i] < oldest)
            oldest = times[i];
    }
    return oldest;
}

static void test_it_agrees_with_a_list(void **state)
{
    enum { ROUNDS = 20000, MOST = 500 };
    int64_t times[MOST];
    size_t count = 0;
    (void)state;
    srandom(1);
    for (int i = 0; i < ROUNDS; i++) {
        bool parks = count == 0 || (count < MOST && random() % 2);
        if (parks) {
            times[count] = 1 + random() % 100;
            handoff_parked_note(fixture.agent, times[count++]);
        } else {
            size_t at = (size_t)random() % count;
            handoff_parked_forget(fixture.agent, times[at]);
            times[at] = times[--count];
        }
        assert_parked(count, oldest_of(times, count));
    }
}

static void test_without_memory_the_count_holds(void **state)
{
    (void)state;
    handoff_parked_note(fixture.agent, 20);
    failing_memory_at(1);
    handoff_parked_note(fixture.agent, 10);
    failing_memory_at(0);
    assert_parked(2, 20);
    handoff_parked_forget(fixture.agent, 10);
    assert_parked(1, 20);
    failing_memory_at(1);
    handoff_parked_forget(fixture.agent, 20);
    failing_memory_at(0);
    assert_parked(0, 0);
}

#define WITH_AGENT(test) cmocka_unit_test_setup_teardown(test, make_agent, free_agent)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_AGENT(test_the_oldest_is_known_after_each_move),
        WITH_AGENT(test_it_agrees_with_a_list),
        WITH_AGENT(test_without_memory_the_count_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
