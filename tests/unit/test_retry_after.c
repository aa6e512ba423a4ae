/* SPDX-License-Identifier: Apache-2.0 */
/* How long an agent asks us to wait: RFC 9110 10.2.3, and what agents write instead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "client/transport/retry_after.h"

static const int64_t now_ms = 784111777LL * 1000 - 7250; /* 7.25 s before RFC 9110's date */

static void test_every_form(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        int64_t wait_ms;
    } rows[] = {
        {"", 0},
        {"0", 0},
        {"7", 7000},
        {"007", 7000},
        {"120", 120000},
        {"3599", 3599000},
        {"3600", 3600000},
        {"3601", 3600000},
        {"4294967297", 3600000}, /* would be 1 in 32 bits */
        {"18446744073709551623", 3600000},
        {"999999999999999999999999999999999999999", 3600000},
        /* as far as the digits go */
        {"7.5", 7000},
        {"0.5", 0},
        {"7,5", 7000},
        {"7 seconds", 7000},
        {"7s", 7000},
        {"7, 8", 7000},
        {"1e3", 1000},
        /* the date in its three forms */
        {"Sun, 06 Nov 1994 08:49:37 GMT", 7250},
        {"Sunday, 06-Nov-94 08:49:37 GMT", 7250},
        {"Sun Nov  6 08:49:37 1994", 7250},
        {"Sun, 06 Nov 1994 09:49:29 GMT", 3599250},
        {"Sun, 06 Nov 1994 09:49:31 GMT", 3600000},
        {"Fri, 31 Dec 9999 23:59:59 GMT", 3600000},
        {"Sun, 06 Nov 1994 08:49:29 GMT", 0}, /* it is past */
        {"Thu, 01 Jan 1970 00:00:00 GMT", 0},
        /* neither */
        {"-5", 0},
        {"+5", 0},
        {".5", 0},
        {"soon", 0},
        {"in 7", 0},
        {"NaN", 0},
        {"\xff\xfe", 0},
        {"Sun, 06 Nov 1994 08:49:37 GM?", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t wait_ms = handoff_retry_after_ms(rows[i].value, now_ms);
        if (wait_ms != rows[i].wait_ms)
            print_error("\"%s\"\n", rows[i].value);
        assert_int_equal(wait_ms, rows[i].wait_ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_form)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
