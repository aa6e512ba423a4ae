/* SPDX-License-Identifier: Apache-2.0 */
/* How descriptors are shared, and the count that holds the shares. */
#include "tests/support/unit.h"

#include "exporter/http/descriptors.h"
#include "lib/base/quota.h"

static void test_shares_leave_the_process_its_own(void **state)
{
    (void)state;
    for (unsigned long limit = 256; limit < 2000000; limit += limit / 3) {
        for (size_t loops = 2; loops <= 5; loops++) {
            struct exporter_descriptors shares = exporter_descriptors_share(limit, loops);
            assert_true(shares.web >= 16 && shares.api >= 16 && shares.deliveries >= 16);
            assert_true(shares.web + shares.api + shares.deliveries + 96 + 16 * loops <= limit);
        }
    }
}

static void test_a_sender_that_waits_and_its_delivery_have_one_each(void **state)
{
    (void)state;
    struct exporter_descriptors shares = exporter_descriptors_share(20000, 3);
    assert_true(shares.api >= 9500 && shares.deliveries >= 9500);
    assert_true(shares.is_short);
    shares = exporter_descriptors_share(65536, 3);
    assert_int_equal(shares.api, 16384);
    assert_int_equal(shares.web, 512);
    assert_true(shares.deliveries > 45000);
    assert_false(shares.is_short);
}

static void test_even_a_tiny_limit_has_shares(void **state)
{
    (void)state;
    struct exporter_descriptors shares = exporter_descriptors_share(10, 3);
    assert_int_equal(shares.web, 16);
    assert_int_equal(shares.api, 16);
    assert_int_equal(shares.deliveries, 16);
}

static void test_a_quota_ends_at_its_limit(void **state)
{
    (void)state;
    struct base_quota quota = {.most = 4};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(base_quota_is_half_taken(&quota), i > 2);
        assert_true(base_quota_take(&quota));
    }
    assert_false(base_quota_take(&quota));
    base_quota_give_back(&quota);
    assert_true(base_quota_take(&quota));
}

static void test_without_a_limit_there_is_always_one(void **state)
{
    (void)state;
    struct base_quota quota = {0};
    for (int i = 0; i < 1000; i++)
        assert_true(base_quota_take(&quota));
    assert_false(base_quota_is_half_taken(&quota));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares_leave_the_process_its_own),
        cmocka_unit_test(test_a_sender_that_waits_and_its_delivery_have_one_each),
        cmocka_unit_test(test_even_a_tiny_limit_has_shares),
        cmocka_unit_test(test_a_quota_ends_at_its_limit),
        cmocka_unit_test(test_without_a_limit_there_is_always_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
