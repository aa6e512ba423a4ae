/* SPDX-License-Identifier: Apache-2.0 */
/* What the status page remembers of the sidecar's own faults, and for how long. */
#include "tests/support/unit.h"

#include "exporter/status/own_faults.h"

enum { NOW = 1000000, WINDOW = EXPORTER_OWN_FAULTS_WINDOW_MS };

static void ran_short(struct exporter_own_faults *faults, enum handoff_shortage resource,
                      int64_t at_ms)
{
    const struct handoff_event event = {.kind = HANDOFF_EVENT_SHORTAGE,
                                        .of.shortage = {.resource = resource}};
    exporter_own_faults_note(faults, &event, at_ms);
}

static void test_a_failed_commit_is_remembered_for_the_window(void **state)
{
    (void)state;
    struct exporter_own_faults faults;
    struct handoff_event commit = {.kind = HANDOFF_EVENT_COMMITTED};
    exporter_own_faults_init(&faults);
    exporter_own_faults_note(&faults, &commit, NOW);
    assert_false(exporter_own_faults_find(&faults, NOW).commits_fail);
    commit.code = HANDOFF_ERR_STORE_FULL;
    exporter_own_faults_note(&faults, &commit, NOW);
    assert_true(exporter_own_faults_find(&faults, NOW + WINDOW - 1).commits_fail);
    assert_false(exporter_own_faults_find(&faults, NOW + WINDOW).commits_fail);
    exporter_own_faults_free(&faults);
}

static void test_three_shortages_of_one_resource_count(void **state)
{
    (void)state;
    struct exporter_own_faults faults;
    exporter_own_faults_init(&faults);
    ran_short(&faults, HANDOFF_SHORTAGE_PORTS, NOW);
    ran_short(&faults, HANDOFF_SHORTAGE_DESCRIPTORS, NOW);
    ran_short(&faults, HANDOFF_SHORTAGE_DESCRIPTORS, NOW + 1);
    assert_false(exporter_own_faults_find(&faults, NOW + 1).is_short[HANDOFF_SHORTAGE_DESCRIPTORS]);
    ran_short(&faults, HANDOFF_SHORTAGE_DESCRIPTORS, NOW + 2);
    struct exporter_own_faults_found found = exporter_own_faults_find(&faults, NOW + 2);
    assert_true(found.is_short[HANDOFF_SHORTAGE_DESCRIPTORS]);
    assert_false(found.is_short[HANDOFF_SHORTAGE_PORTS]);
    /* the first of the three is too old, and two are left */
    found = exporter_own_faults_find(&faults, NOW + WINDOW);
    assert_false(found.is_short[HANDOFF_SHORTAGE_DESCRIPTORS]);
    exporter_own_faults_free(&faults);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_failed_commit_is_remembered_for_the_window),
        cmocka_unit_test(test_three_shortages_of_one_resource_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
