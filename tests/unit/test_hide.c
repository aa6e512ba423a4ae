/* SPDX-License-Identifier: Apache-2.0 */
/* A credential that comes back is overwritten wherever it is, and nothing else is. */
#include <string.h>

#include "lib/base/hide.h"
#include "tests/support/unit.h"

static void check_hidden(const char *text, const char *credential, const char *expected)
{
    char data[64];
    const size_t size = strlen(text);
    memcpy(data, text, size + 1);
    assert_int_equal(base_has_credential(data, size, credential), strcmp(text, expected) != 0);
    base_hide_credential(data, size, credential);
    assert_string_equal(data, expected);
}

static void test_each_place_is_overwritten(void **state)
{
    (void)state;
    check_hidden("Bearer 12345678", "12345678", "Bearer ********");
    check_hidden("12345678 and 12345678", "12345678", "******** and ********");
    check_hidden("1234567812345678", "12345678", "****************");
    check_hidden("12345678", "12345678", "********");
}

static void test_what_is_no_credential_stays(void **state)
{
    (void)state;
    check_hidden("1234567", "12345678", "1234567");
    check_hidden("", "12345678", "");
    check_hidden("Bearer 87654321", "12345678", "Bearer 87654321");
    check_hidden("a short one: 1234567", "1234567", "a short one: 1234567");
    check_hidden("anything", "", "anything");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_place_is_overwritten),
        cmocka_unit_test(test_what_is_no_credential_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
