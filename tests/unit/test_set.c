/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers under hashes: which one is found, and that many under one hash are not all looked at. */
#include "tests/support/property.h"
#include "tests/support/unit.h"

#include <string.h>

#include "client/ledger/set.h"

enum { NUMBERS = 3000 };

static struct world {
    struct base_arena arena;
    struct handoff_set set;
    bool gone[NUMBERS], refused[NUMBERS];
    size_t asked;
} world;

static bool number_is_gone(const void *owner, size_t number)
{
    assert_ptr_equal(owner, &world);
    return world.gone[number];
}

static bool is_wanted_number(const void *context, size_t number)
{
    (void)context;
    assert_false(world.gone[number]);
    world.asked++;
    return !world.refused[number];
}

static int set_up(void **state)
{
    (void)state;
    memset(&world, 0, sizeof world);
    assert_true(handoff_set_init(&world.set, &world.arena, NUMBERS));
    world.set.is_gone = number_is_gone;
    world.set.owner = &world;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    base_arena_free(&world.arena);
    return 0;
}

static size_t find(uint64_t hash)
{
    return handoff_set_find(&world.set, hash, is_wanted_number, NULL);
}

static void test_the_first_that_is_accepted_is_found(void **state)
{
    (void)state;
    assert_int_equal(find(7), HANDOFF_SET_NONE);
    for (size_t i = 0; i < 4; i++)
        handoff_set_add(&world.set, i == 1 ? 8 : 7, i);
    assert_int_equal(find(7), 0);
    world.refused[0] = true;
    assert_int_equal(find(7), 2);
    world.gone[2] = true;
    assert_int_equal(find(7), 3);
    world.gone[3] = true;
    assert_int_equal(find(7), HANDOFF_SET_NONE);
    assert_int_equal(find(8), 1);
    assert_int_equal(find(7 + 4096), HANDOFF_SET_NONE); /* the same slot */
    handoff_set_add(&world.set, 7, 4);
    assert_int_equal(find(7), 4);
    world.refused[0] = false;
    assert_int_equal(find(7), 0);
}

/* Each is ended once, as entries of one id are: three questions or less for each. */
static void test_many_under_one_hash_are_ended_one_by_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < NUMBERS; i++)
        handoff_set_add(&world.set, 42, i);
    for (size_t i = 0; i < NUMBERS; i++) {
        assert_int_equal(find(42), i);
        world.gone[i] = true;
    }
    assert_int_equal(find(42), HANDOFF_SET_NONE);
    assert_in_range(world.asked, NUMBERS, 3 * NUMBERS);
}

/* Against a list that is searched from its beginning. */
static void test_like_a_list(void **state)
{
    (void)state;
    struct property property = property_begin("set");
    static uint64_t hashes[NUMBERS];
    size_t count = 0;
    for (int round = 0; round < 20 * NUMBERS; round++) {
        const uint64_t hash = (uint64_t)property_below(&property, 40) * 4096;
        size_t expected = 0;
        if (count < NUMBERS && property_chance(&property, 5)) {
            hashes[count] = hash;
            handoff_set_add(&world.set, hash, count++);
        }
        while (expected < count &&
               (hashes[expected] != hash || world.gone[expected] || world.refused[expected]))
            expected++;
        assert_int_equal(find(hash), expected < count ? expected : HANDOFF_SET_NONE);
        if (expected < count && property_chance(&property, 5))
            world.gone[expected] = true;
        if (expected < count && property_chance(&property, 2))
            world.refused[expected] = true;
    }
    assert_true(count > NUMBERS / 2);
}

int main(void)
{
#define IN_SET(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        IN_SET(test_the_first_that_is_accepted_is_found),
        IN_SET(test_many_under_one_hash_are_ended_one_by_one),
        IN_SET(test_like_a_list),
    };
    return RUN_TESTS(tests);
}
