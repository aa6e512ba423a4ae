/* SPDX-License-Identifier: Apache-2.0 */
/* "Did you mean ...?": edit distance, and the nearest of several names. */
#include "lib/base/nearest.h"
#include "tests/support/unit.h"

#include <string.h>

static size_t distance(const char *a, const char *b)
{
    size_t there = base_edit_distance(a, strlen(a), b, strlen(b));

    assert_int_equal(there, base_edit_distance(b, strlen(b), a, strlen(a)));
    return there;
}

static void test_edit_distance(void **state)
{
    char longest[BASE_NEAREST_MAX + 1];

    (void)state;
    assert_int_equal(distance("", ""), 0);
    assert_int_equal(distance("", "abc"), 3);
    assert_int_equal(distance("kitten", "sitting"), 3);
    assert_int_equal(distance("timeout", "timeuot"), 1);
    assert_int_equal(distance("timeout", "timout"), 1);
    assert_int_equal(distance("retries", "retires"), 1);
    assert_int_equal(distance("ca", "abc"), 3); /* optimal string alignment: nothing edited twice */
    memset(longest, 'a', sizeof(longest));
    assert_int_equal(base_edit_distance(longest, BASE_NEAREST_MAX, longest, BASE_NEAREST_MAX), 0);
    assert_int_equal(base_edit_distance(longest, BASE_NEAREST_MAX + 1, longest, 1), SIZE_MAX);
}

static const char *nearest(const char *seen)
{
    struct base_nearest nearest = base_nearest_begin(seen, strlen(seen));

    base_nearest_offer(&nearest, "timeout", 7);
    base_nearest_offer(&nearest, "ack_timeout", 11);
    base_nearest_offer(&nearest, "url", 3);
    return nearest.best;
}

static void test_nearest(void **state)
{
    (void)state;
    assert_string_equal(nearest("timeot"), "timeout");
    assert_string_equal(nearest("ack_timout"), "ack_timeout");
    assert_string_equal(nearest("uri"), "url");
    assert_null(nearest("tls"));
    assert_null(nearest(""));
}

/* The rule is one for offers and for lists: a third of the letters, and one letter always. */
static void test_nearest_in_a_list(void **state)
{
    static const char *const names[] = {"pinned", "tags", "id"};
    (void)state;
    assert_string_equal(base_nearest("tagz", names, 3), "tags");
    assert_string_equal(base_nearest("pinend", names, 3), "pinned");
    assert_string_equal(base_nearest("di", names, 3), "id");
    assert_null(base_nearest("pind", names, 3));
    assert_null(base_nearest("content", names, 3));
    assert_null(base_nearest("pinned", names, 0));
}

static bool is_slip(const char *seen, const char *name)
{
    return base_is_slip(seen, strlen(seen), name, strlen(name));
}

static void test_slips(void **state)
{
    (void)state;
    static const char *const slips[] = {"deadlin",   "eadline",   "deadine",  "deadliine",
                                        "ddeadline", "deadlines", "deadlime", "deadlien",
                                        "edadline",  "Deadline",  "DEADLINE", "DeadLin"};
    for (size_t i = 0; i < sizeof slips / sizeof *slips; i++)
        assert_true(is_slip(slips[i], "deadline"));
    static const char *const others[] = {"deadline", "headline",    "dead_lime",
                                         "line",     "deadlines_x", ""};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(is_slip(others[i], "deadline"));
    assert_false(is_slip("musty", "must")); /* too short to tell */
    char longest[BASE_NEAREST_MAX + 2];
    memset(longest, 'a', sizeof longest);
    assert_true(base_is_slip(longest, BASE_NEAREST_MAX - 1, longest, BASE_NEAREST_MAX));
    assert_false(base_is_slip(longest, BASE_NEAREST_MAX, longest, BASE_NEAREST_MAX + 1));
}

/* All of 6 to 8 letters, of two kinds, that begin alike. */
static void test_a_slip_is_one_edit(void **state)
{
    (void)state;
    for (unsigned one = 0; one < 3 * 64; one++) {
        for (unsigned other = 0; other < 3 * 64; other++) {
            const size_t lengths[2] = {6 + one / 64, 6 + other / 64};
            char words[2][8];
            for (size_t i = 0; i < 8; i++) {
                words[0][i] = i >= 2 && (one >> (i - 2) & 1) ? 'b' : 'a';
                words[1][i] = i >= 2 && (other >> (i - 2) & 1) ? 'b' : 'a';
            }
            const size_t distance = base_edit_distance(words[0], lengths[0], words[1], lengths[1]);
            const bool same =
                lengths[0] == lengths[1] && memcmp(words[0], words[1], lengths[0]) == 0;
            assert_int_equal(base_is_slip(words[0], lengths[0], words[1], lengths[1]),
                             !same && distance <= 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edit_distance),      cmocka_unit_test(test_slips),
        cmocka_unit_test(test_a_slip_is_one_edit), cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_nearest_in_a_list),
    };
    return RUN_TESTS(tests);
}
