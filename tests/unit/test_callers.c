/* SPDX-License-Identifier: Apache-2.0 */
/* What an Authorization header comes to, also while the configuration changes. */
#include "exporter/access/callers.h"
#include "tests/support/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct exporter_config *load(const char *text)
{
    struct exporter_error error = {""};
    char name[2048];
    snprintf(name, sizeof name, "%s/tests/golden/config/made-up.yml", getenv("HANDOFF_SOURCE_DIR"));
    struct exporter_config *config = exporter_config_load_memory(name, text, strlen(text), &error);
    assert_string_equal(error.text, "");
    return config;
}

static struct exporter_callers *callers_with(const char *text)
{
    struct exporter_callers *callers = exporter_callers_new();
    struct exporter_config *config = load(text);
    exporter_callers_apply(callers, config);
    exporter_config_unref(&config);
    return callers;
}

static void test_headers(void **state)
{
    static const struct {
        const char *header;
        enum exporter_caller_result result;
        const char *agent;
    } cases[] = {
        {NULL, EXPORTER_CALLER_MISSING, ""},
        {"", EXPORTER_CALLER_MISSING, ""},
        {"Bearer", EXPORTER_CALLER_MISSING, ""},
        {"Bearer ", EXPORTER_CALLER_MISSING, ""},
        {"Bearer    ", EXPORTER_CALLER_MISSING, ""},
        {"Basic YW5hbHlzdDp4", EXPORTER_CALLER_MISSING, ""},
        {"an-analyst-token-of-the-tests", EXPORTER_CALLER_MISSING, ""},
        {"Bearers an-analyst-token-of-the-tests", EXPORTER_CALLER_MISSING, ""},
        {"Bearer an-analyst-token-of-the-tests", EXPORTER_CALLER_KNOWN, "analyst"},
        {"bearer  a-coder-token-of-the-tests \t", EXPORTER_CALLER_KNOWN, "coder"},
        {"BEARER an-operator-token-of-the-tests", EXPORTER_CALLER_KNOWN, ""},
        {"Bearer an-analyst-token-of-the-test", EXPORTER_CALLER_UNKNOWN, ""},
        {"Bearer an-analyst-token-of-the-tests x", EXPORTER_CALLER_UNKNOWN, ""},
        {"Bearer @operator", EXPORTER_CALLER_UNKNOWN, ""},
    };
    (void)state;
    struct exporter_callers *callers = callers_with("api: {tokens_file: tokens}\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct exporter_caller caller = {.agent = "left over", .scopes = "left over"};
        assert_int_equal(exporter_callers_authenticate(callers, cases[i].header, &caller),
                         cases[i].result);
        assert_string_equal(caller.agent, cases[i].agent);
    }
    exporter_callers_free(&callers);
}

static void test_without_a_tokens_file_everybody_may_do_everything(void **state)
{
    struct exporter_caller caller = {.agent = "left over", .scopes = "left over"};
    struct exporter_callers *callers = callers_with("");
    (void)state;
    assert_int_equal(exporter_callers_authenticate(callers, NULL, &caller), EXPORTER_CALLER_KNOWN);
    assert_string_equal(caller.agent, "");
    assert_int_equal(exporter_callers_authenticate(callers, "Bearer whatever-it-may-be", &caller),
                     EXPORTER_CALLER_KNOWN);
    exporter_callers_free(&callers);
}

static atomic_bool stop;

static void *ask(void *arg)
{
    struct exporter_caller caller;
    size_t wrong = 0;
    while (!atomic_load(&stop)) {
        enum exporter_caller_result result =
            exporter_callers_authenticate(arg, "Bearer a-coder-token-of-the-tests", &caller);
        wrong += result != EXPORTER_CALLER_KNOWN ||
                 (strcmp(caller.agent, "coder") != 0 && caller.agent[0] != '\0');
    }
    return (void *)(uintptr_t)wrong;
}

static void test_a_change_while_others_ask(void **state)
{
    enum { ASKERS = 2, CHANGES = 300 };
    pthread_t askers[ASKERS];
    (void)state;
    struct exporter_callers *callers = callers_with("api: {tokens_file: tokens}\n");
    atomic_store(&stop, false);
    for (size_t i = 0; i < ASKERS; i++)
        assert_int_equal(pthread_create(&askers[i], NULL, ask, callers), 0);
    for (size_t i = 0; i < CHANGES; i++) {
        struct exporter_config *config = load(i % 2 ? "api: {tokens_file: tokens}\n" : "");
        exporter_callers_apply(callers, config);
        exporter_config_unref(&config);
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < ASKERS; i++) {
        void *wrong;
        pthread_join(askers[i], &wrong);
        assert_null(wrong);
    }
    exporter_callers_free(&callers);
    exporter_callers_free(&callers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_without_a_tokens_file_everybody_may_do_everything),
        cmocka_unit_test(test_a_change_while_others_ask),
    };
    return RUN_TESTS(tests);
}
