/* SPDX-License-Identifier: Apache-2.0 */
/* Listen addresses. */
#include "exporter/config/address.h"
#include "tests/support/unit.h"

#include <string.h>

static void test_addresses(void **state)
{
    static const char *const bad[] = {"",           "9780",  ":",      ":65536", ":-1",   ":+1",
                                      ":0x1",       "a b:1", "::1:80", "[]:80",  "[::1]", "[::1:80",
                                      "http://a:1", "a/b:1", "unix:",  "a:80 "};
    struct exporter_address address;
    char path[5 + 109] = "unix:";

    (void)state;
    assert_true(exporter_address_parse(":9780", &address));
    assert_string_equal(address.host, "");
    assert_int_equal(address.port, 9780);
    assert_true(exporter_address_parse("[fe80::1%eth0]:0", &address));
    assert_string_equal(address.host, "fe80::1%eth0");
    assert_int_equal(address.port, 0);
    assert_true(exporter_address_parse("localhost:65535", &address));
    assert_int_equal(address.port, 65535);
    assert_false(address.is_unix);
    memset(path + 5, 'a', 108);
    path[5 + 107] = '\0';
    assert_true(exporter_address_parse(path, &address));
    assert_true(address.is_unix);
    assert_string_equal(address.path, path + 5);
    path[5 + 107] = 'a';
    assert_false(exporter_address_parse(path, &address));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (exporter_address_parse(bad[i], &address)) {
            fail_msg("\"%s\" was taken for an address", bad[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
    };
    return RUN_TESTS(tests);
}
