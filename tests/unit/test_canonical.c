/* SPDX-License-Identifier: Apache-2.0 */
/* Canonical JSON: texts that mean the same become one, and others do not. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/base/canonical.h"
#include "lib/base/json.h"
#include "lib/base/memory.h"

static char *canonical(const char *text, bool request)
{
    struct base_buffer out = {0};
    yyjson_doc *doc;
    assert_int_equal(base_json_read(base_span_text(text), "text", &doc, NULL), HANDOFF_OK);
    if (request)
        base_json_canonical_request(&out, yyjson_doc_get_root(doc));
    else
        base_json_canonical(&out, yyjson_doc_get_root(doc));
    yyjson_doc_free(doc);
    assert_false(out.failed);
    return out.data;
}

static void assert_canonical(const char *text, const char *expected)
{
    char *found = canonical(text, false);
    assert_string_equal(found, expected);
    char *again = canonical(found, false);
    assert_string_equal(again, expected);
    base_free(found);
    base_free(again);
}

static void test_order_and_white_space(void **state)
{
    (void)state;
    assert_canonical(" { \"b\" : [ 1 , 2 ] , \"a\" : { \"d\" : 1 , \"c\" : 2 } } ",
                     "{\"a\":{\"c\":2,\"d\":1},\"b\":[1,2]}");
    assert_canonical("[2, 1]", "[2,1]");
    assert_canonical("{\"aa\":1,\"a\":2,\"\":3}", "{\"\":3,\"a\":2,\"aa\":1}");
    assert_canonical("[{},[],true,false,null]", "[{},[],true,false,null]");
}

static void test_numbers(void **state)
{
    static const char *const same[][8] = {
        {"1", "1.0", "1e0", "10e-1", "0.1E1", "1.000", "100E-02"},
        {"1e2", "100", "1E+2", "100.00"},
        {"-15e-1", "-1.5", "-1.50", "-0.15e1"},
        {"0", "-0", "0.0", "-0.000e7", "0e99"},
        {"123456789012345678901234567891", "123456789012345678901234567891.0"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        for (size_t k = 0; k < 8 && same[i][k]; k++)
            assert_canonical(same[i][k], same[i][0]);
    }
    assert_canonical("123456789012345678901234567890", "12345678901234567890123456789e1");
    assert_canonical("1e99999999999999999999", "1e99999999999999999999"); /* as it was written */
}

static void test_strings(void **state)
{
    (void)state;
    assert_canonical("\"\\u0041\\u00e9\\/\\ud83d\\ude00\"", "\"A\xc3\xa9/\xf0\x9f\x98\x80\"");
    assert_canonical("\"\\u000a\\u0001\\\"\"", "\"\\n\\u0001\\\"\"");
    assert_canonical("{\"\\u0062\":1,\"a\":2}", "{\"a\":2,\"b\":1}");
}

static void test_null_is_absent_in_a_request_alone(void **state)
{
    char *found = canonical("{\"b\":null,\"a\":{\"c\":null},\"d\":[null]}", true);
    (void)state;
    assert_string_equal(found, "{\"a\":{\"c\":null},\"d\":[null]}");
    base_free(found);
    assert_canonical("{\"b\":null}", "{\"b\":null}");
}

static void test_many_members(void **state)
{
    enum { MANY = 5000 };
    char *text = base_malloc(MANY * 16 + 3), *at = text;
    (void)state;
    for (int i = MANY - 1; i >= 0; i--)
        at += sprintf(at, "%c\"%06d\":%d", i == MANY - 1 ? '{' : ',', i, i);
    sprintf(at, "}");
    char *found = canonical(text, false);
    assert_memory_equal(found, "{\"000000\":0,\"000001\":1,", 23);
    base_free(text);
    base_free(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_white_space),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_null_is_absent_in_a_request_alone),
        cmocka_unit_test(test_many_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
