/* SPDX-License-Identifier: Apache-2.0 */
/* The library and the daemon must tell the same version. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "client/handoff.h"
#include "exporter/version.h"

static void test_versions_agree(void **state)
{
    (void)state;
    assert_string_equal(handoff_version(), exporter_version());
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_versions_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
