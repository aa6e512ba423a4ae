/* SPDX-License-Identifier: Apache-2.0 */
/* Error values: names are stable snake_case and unique, text from outside is cut at characters. */
#include "tests/support/unit.h"

#include <string.h>

#include "lib/base/error.h"

static void test_names_are_unique_snake_case(void **state)
{
    (void)state;
    for (unsigned i = 0; i < HANDOFF_CODE_COUNT; i++) {
        const char *name = handoff_code_name((enum handoff_code)i);
        assert_true(name[0] >= 'a' && name[0] <= 'z');
        assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz_"), strlen(name));
        assert_true(strlen(handoff_code_meaning((enum handoff_code)i)) > 5);
        assert_int_equal(handoff_code_class((enum handoff_code)i) == HANDOFF_CLASS_NONE, i == 0);
        for (unsigned j = 0; j < i; j++)
            assert_string_not_equal(name, handoff_code_name((enum handoff_code)j));
    }
}

static void test_contract_names(void **state)
{
    (void)state;
    assert_string_equal(handoff_code_name(HANDOFF_ERR_BUDGET_TOO_SMALL), "budget_too_small");
    assert_string_equal(handoff_code_name(HANDOFF_ERR_TOO_MANY_IN_FLIGHT), "too_many_in_flight");
    assert_string_equal(handoff_code_name(HANDOFF_ERR_CIRCUIT_OPEN), "circuit_open");
    assert_string_equal(handoff_code_name((enum handoff_code)9999), "internal");
    assert_int_equal(HANDOFF_OK, 0);
}

static void test_set_returns_the_code_and_takes_null(void **state)
{
    struct handoff_error error;
    (void)state;
    assert_int_equal(handoff_error_set(NULL, HANDOFF_ERR_INVALID, "no", "f", "s"),
                     HANDOFF_ERR_INVALID);
    handoff_error_allow(NULL, "%d", 1);
    memset(&error, 0x55, sizeof error);
    assert_int_equal(handoff_error_clear(&error), HANDOFF_OK);
    assert_string_equal(error.field, "");
    assert_string_equal(error.seen, "");
    assert_string_equal(error.allowed, "");
}

static void test_text_tells_field_seen_allowed(void **state)
{
    struct handoff_error error;
    char text[256];
    (void)state;
    handoff_error_set(&error, HANDOFF_ERR_TOO_LARGE, "the content is too large", "content", NULL);
    handoff_error_seen(&error, "%d bytes", 9);
    handoff_error_allow(&error, "%d bytes", 8);
    size_t length = handoff_error_text(&error, text, sizeof text);
    assert_string_equal(text, "the content is too large (content: seen 9 bytes, allowed 8 bytes)");
    assert_int_equal(length, strlen(text));
    handoff_error_set(&error, HANDOFF_ERR_NOT_FOUND, "not there", NULL, NULL);
    handoff_error_text(&error, text, sizeof text);
    assert_string_equal(text, "not there");
    assert_int_equal(handoff_error_text(&error, text, 4), 9);
    assert_string_equal(text, "not");
}

/* A cut inside "é" or an emoji must drop the whole character: the text ends up in JSON. */
static void test_cut_keeps_whole_characters(void **state)
{
    struct handoff_error error;
    char long_text[400];
    (void)state;
    for (size_t shift = 0; shift < 4; shift++) {
        size_t at = 0;
        memset(long_text, 'x', shift);
        for (at = shift; at + 4 < sizeof long_text; at += 4)
            memcpy(long_text + at, "\xF0\x9F\x98\x80", 4);
        long_text[at] = '\0';
        handoff_error_set(&error, HANDOFF_ERR_INVALID, "m", "f", long_text);
        assert_int_equal((strlen(error.seen) - shift) % 4, 0);
        assert_true(strlen(error.seen) > sizeof error.seen - 6);
        handoff_error_seen(&error, "%s", long_text);
        assert_int_equal((strlen(error.seen) - shift) % 4, 0);
    }
}

/* Bytes of a header that are no UTF-8 could not be told in JSON. */
static void test_what_is_no_text_ends_it(void **state)
{
    static const struct {
        const char *seen, *kept;
    } texts[] = {
        {"\xff\xfe", ""}, {"run-\xff-1", "run-"}, {"caf\xc3", "caf"}, {"\u00e9", "\u00e9"}};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct handoff_error error;
        handoff_error_set(&error, HANDOFF_ERR_INVALID, "x", texts[i].seen, texts[i].seen);
        assert_string_equal(error.seen, texts[i].kept);
        assert_string_equal(error.field, texts[i].kept);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_unique_snake_case),
        cmocka_unit_test(test_contract_names),
        cmocka_unit_test(test_set_returns_the_code_and_takes_null),
        cmocka_unit_test(test_text_tells_field_seen_allowed),
        cmocka_unit_test(test_cut_keeps_whole_characters),
        cmocka_unit_test(test_what_is_no_text_ends_it),
    };
    return RUN_TESTS(tests);
}
