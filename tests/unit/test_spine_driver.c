/* SPDX-License-Identifier: Apache-2.0 */
/* What spine.c does for each driver: default limits, and no call that the driver cannot do. */
#include "tests/support/unit.h"

#include <string.h>

#include "client/spine/spine.h"
#include "tests/support/fake_spine.h"

static struct fake_spine fake; /* can do nothing but resolve */

static int open_fake(void **state)
{
    (void)state;
    fake_spine_init(&fake);
    return 0;
}

static void assert_rejected(enum handoff_spine_progress progress,
                            const struct handoff_spine_call *call, const char *seen)
{
    assert_int_equal(progress, HANDOFF_SPINE_DONE);
    assert_int_equal(call->error.code, HANDOFF_ERR_SPINE_CANNOT);
    assert_string_equal(call->error.field, "spine");
    assert_string_equal(call->error.seen, seen);
    assert_false(call->asked);
    assert_int_equal(handoff_spine_health(call), HANDOFF_SPINE_UNTRIED);
}

static void test_what_it_cannot_do_is_rejected(void **state)
{
    (void)state;
    struct handoff_spine *spine = &fake.spine;
    struct handoff_spine_list list = {.limit = 1};
    struct handoff_spine_put put = {
        .memory = {.id = base_span_text("a"), .content = base_span_text("x")}};
    struct handoff_spine_remove remove = {.id = base_span_text("a")};
    struct handoff_spine_pin pin = {.id = base_span_text("a")};
    struct handoff_spine_keep_tokens keep = {.count = 0};
    struct handoff_spine_stats stats = {.memories = 0};
    assert_rejected(handoff_spine_list(spine, &list), &list.call,
                    "fake spine, asked to list memories");
    assert_rejected(handoff_spine_put(spine, &put), &put.call,
                    "fake spine, asked to store a memory");
    assert_rejected(handoff_spine_remove(spine, &remove), &remove.call,
                    "fake spine, asked to delete a memory");
    assert_rejected(handoff_spine_pin(spine, &pin), &pin.call, "fake spine, asked to pin a memory");
    assert_rejected(handoff_spine_keep_tokens(spine, &keep), &keep.call,
                    "fake spine, asked to keep token counts");
    assert_rejected(handoff_spine_stats(spine, &stats), &stats.call,
                    "fake spine, asked to count memories");
}

static void test_what_it_can_do_is_passed_on(void **state)
{
    (void)state;
    struct base_arena arena = {0};
    struct handoff_spine_resolve resolve = {.arena = &arena, .recent = 1};
    fake_add(&fake, "a", "text", NULL);
    assert_int_equal(handoff_spine_resolve(&fake.spine, &resolve), HANDOFF_SPINE_DONE);
    assert_int_equal(resolve.call.error.code, HANDOFF_OK);
    assert_int_equal(resolve.found_count, 1);
    assert_true(resolve.call.asked);
    base_arena_free(&arena);
}

static void test_a_limit_of_zero_is_the_default(void **state)
{
    (void)state;
    struct handoff_spine spine;
    handoff_spine_init(&spine, fake.spine.driver, (struct handoff_memory_limits){.ids = 2});
    assert_int_equal(spine.limits.ids, 2);
    assert_int_equal(spine.limits.page, handoff_memory_limits_default.page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_what_it_cannot_do_is_rejected, open_fake),
        cmocka_unit_test_setup(test_what_it_can_do_is_passed_on, open_fake),
        cmocka_unit_test_setup(test_a_limit_of_zero_is_the_default, open_fake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
