/* SPDX-License-Identifier: Apache-2.0 */
/* Settings come and go with the configuration; what was learnt about an agent stays. */
#include "tests/support/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "client/agents/agents.h"
#include "tests/support/failing_memory.h"

static struct handoff_agent_options option(const char *name)
{
    return (struct handoff_agent_options){
        .name = name, .url = "http://127.0.0.1:9/", .token_budget = 8000, .breaker_failures = 3};
}

static struct handoff_agents *agents_with(const struct handoff_agent_options *options, size_t count)
{
    struct handoff_agents *agents;
    assert_int_equal(handoff_agents_new(&agents, NULL), HANDOFF_OK);
    assert_int_equal(handoff_agents_configure(agents, options, count, NULL), HANDOFF_OK);
    return agents;
}

static struct handoff_agent *find(struct handoff_agents *agents, const char *name)
{
    return handoff_agents_find(agents, base_span_text(name));
}

static void test_finds_by_whole_name(void **state)
{
    (void)state;
    const struct handoff_agent_options options[] = {option("coder"), option("analyst"),
                                                    option("coder-b")};
    struct handoff_agents *agents = agents_with(options, 3);
    assert_string_equal(find(agents, "coder")->name, "coder");
    assert_string_equal(find(agents, "coder-b")->name, "coder-b");
    assert_null(find(agents, "code"));
    assert_null(find(agents, ""));
    handoff_agents_free(&agents);
    assert_null(agents);
}

static void test_settings_are_copies(void **state)
{
    (void)state;
    char name[] = "coder", token[] = "s3cret", alternate[] = "coder-b";
    const char *alternates[] = {alternate};
    struct handoff_agent_options mine = option(name);
    mine.bearer_token = token;
    mine.alternates = alternates;
    mine.nalternates = 1;
    struct handoff_agents *agents = agents_with(&mine, 1);
    memset(token, 'x', sizeof token - 1);
    memset(alternate, 'x', sizeof alternate - 1);
    struct handoff_settings *settings = handoff_agent_settings(find(agents, "coder"));
    assert_string_equal(settings->authorization, "Authorization: Bearer s3cret");
    assert_string_equal(settings->options.alternates[0], "coder-b");
    handoff_settings_release(&settings);
    handoff_agents_free(&agents);
}

static void test_a_reload_keeps_what_was_learnt(void **state)
{
    (void)state;
    struct handoff_agent_options first = option("coder"), second = option("coder");
    second.token_budget = 4000;
    second.breaker_failures = 5;
    struct handoff_agents *agents = agents_with(&first, 1);
    struct handoff_agent *agent = find(agents, "coder");
    handoff_breaker_exhausted(&agent->breaker, 0);
    struct handoff_settings *old = handoff_agent_settings(agent);

    assert_int_equal(handoff_agents_configure(agents, &second, 1, NULL), HANDOFF_OK);
    assert_ptr_equal(find(agents, "coder"), agent);
    assert_int_equal(agent->breaker.consecutive_failures, 1);
    assert_int_equal(agent->breaker.threshold, 5);
    assert_int_equal(old->options.token_budget, 8000); /* ours until we are done */
    handoff_settings_release(&old);
    struct handoff_settings *new = handoff_agent_settings(agent);
    assert_int_equal(new->options.token_budget, 4000);
    handoff_settings_release(&new);
    handoff_agents_free(&agents);
}

static void test_a_removed_agent_is_remembered_but_not_found(void **state)
{
    (void)state;
    struct handoff_agent_options coder = option("coder");
    struct handoff_agents *agents = agents_with(&coder, 1);
    struct handoff_agent *agent = find(agents, "coder");
    assert_int_equal(handoff_agents_configure(agents, NULL, 0, NULL), HANDOFF_OK);
    assert_null(find(agents, "coder"));
    assert_null(handoff_agent_settings(agent));
    assert_ptr_equal(handoff_agents_remember(agents, base_span_text("coder")), agent);
    struct handoff_agent *stranger = handoff_agents_remember(agents, base_span_text("gone"));
    assert_string_equal(stranger->name, "gone");
    assert_null(find(agents, "gone"));
    handoff_agents_free(&agents);
}

static void collect(struct handoff_agent *agent, void *arg)
{
    strcat(arg, agent->name);
    strcat(arg, " ");
}

static void test_each_goes_by_name(void **state)
{
    (void)state;
    const struct handoff_agent_options options[] = {option("c"), option("a"), option("bb"),
                                                    option("b")};
    struct handoff_agents *agents = agents_with(options, 4);
    char names[64] = "";
    handoff_agents_each(agents, collect, names);
    assert_string_equal(names, "a b bb c ");
    handoff_agents_free(&agents);
}

static void test_every_failed_allocation_leaves_the_old_configuration(void **state)
{
    (void)state;
    struct handoff_agent_options old = option("coder");
    struct handoff_agent_options new[] = {option("coder"), option("analyst"), option("tester")};
    new[0].token_budget = 1;
    new[1].bearer_token = "s3cret";
    const char *alternates[] = {"coder"};
    new[2].alternates = alternates;
    new[2].nalternates = 1;
    struct handoff_agents *agents = agents_with(&old, 1);
    long n = 1;
    for (;; n++) {
        struct handoff_error error;
        failing_memory_at(n);
        enum handoff_code code = handoff_agents_configure(agents, new, 3, &error);
        bool hit = atomic_load(&failing_memory_hit);
        failing_memory_at(0);
        if (!hit)
            break;
        assert_int_equal(code, HANDOFF_ERR_OUT_OF_MEMORY);
        assert_int_equal(error.code, HANDOFF_ERR_OUT_OF_MEMORY);
        assert_null(find(agents, "analyst"));
        struct handoff_settings *settings = handoff_agent_settings(find(agents, "coder"));
        assert_int_equal(settings->options.token_budget, 8000);
        handoff_settings_release(&settings);
    }
    assert_true(n > 8);
    assert_non_null(find(agents, "tester"));
    handoff_agents_free(&agents);
}

static atomic_bool stop;

static void *read_settings(void *arg)
{
    struct handoff_agents *agents = arg;
    while (!atomic_load(&stop)) {
        struct handoff_agent *agent = find(agents, "coder");
        struct handoff_settings *settings = agent ? handoff_agent_settings(agent) : NULL;
        if (settings)
            assert_string_equal(settings->options.name, "coder");
        handoff_settings_release(&settings);
    }
    return NULL;
}

static void test_readers_beside_reloads(void **state)
{
    (void)state;
    struct handoff_agent_options coder = option("coder");
    struct handoff_agents *agents = agents_with(&coder, 1);
    pthread_t readers[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_settings, agents), 0);
    for (int i = 0; i < 300; i++) {
        char name[16];
        snprintf(name, sizeof name, "agent-%d", i);
        assert_int_equal(handoff_agents_configure(agents, &coder, i % 3 ? 1 : 0, NULL), HANDOFF_OK);
        assert_non_null(handoff_agents_remember(agents, base_span_text(name)));
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(readers[i], NULL);
    handoff_agents_free(&agents);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_by_whole_name),
        cmocka_unit_test(test_settings_are_copies),
        cmocka_unit_test(test_a_reload_keeps_what_was_learnt),
        cmocka_unit_test(test_a_removed_agent_is_remembered_but_not_found),
        cmocka_unit_test(test_each_goes_by_name),
        cmocka_unit_test(test_every_failed_allocation_leaves_the_old_configuration),
        cmocka_unit_test(test_readers_beside_reloads),
    };
    return RUN_TESTS(tests);
}
