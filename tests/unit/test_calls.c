/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold in the table of calls, and what is written from it. */
#include <string.h>

#include "client/assemble/request.h"
#include "client/assemble/segment.h"
#include "client/calls/call.h"
#include "client/calls/schema.h"
#include "exporter/routes/openapi.h"
#include "lib/base/json.h"
#include "tests/support/failing_memory.h"
#include "tests/support/unit.h"

/* ---- the table ------------------------------------------------------------------------------ */

static void test_names_and_paths_are_unique(void **state)
{
    (void)state;
    for (size_t i = 0; i < HANDOFF_CALLS; i++) {
        const struct handoff_call *call = &handoff_calls[i];
        assert_non_null(call->summary);
        assert_non_null(call->agent_may);
        assert_true(call->answers[0].status >= 200 && call->answers[0].status < 300);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(call->name, handoff_calls[j].name);
            assert_false(strcmp(call->rest.path, handoff_calls[j].rest.path) == 0 &&
                         strcmp(call->rest.method, handoff_calls[j].rest.method) == 0);
        }
    }
}

/* The rows of a call that have this place; *one is one of them. */
static size_t rows_in(const struct handoff_call *call, enum handoff_field_place place,
                      const struct handoff_field **one)
{
    size_t count = 0;
    for (size_t i = 0; i < call->input.count; i++) {
        if (call->input.rows[i].place == place) {
            *one = &call->input.rows[i];
            count++;
        }
    }
    return count;
}

static void check_words_fit(const struct handoff_fields *fields)
{
    for (size_t i = 0; fields && i < fields->count; i++) {
        const struct handoff_field *row = &fields->rows[i];
        size_t size = 0;
        for (size_t word = 0; row->words && row->words[word]; word++)
            size += strlen(row->words[word]) + strlen(",");
        assert_in_range(size, 0, sizeof((struct handoff_error *)0)->allowed);
    }
}

/* Else an error would name some of them, and half a word. */
static void test_an_error_can_name_all_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < HANDOFF_CALLS; i++) {
        check_words_fit(&handoff_calls[i].input);
        check_words_fit(handoff_calls[i].document);
    }
}

/* In the order of the path. */
static void test_a_segment_of_a_path_has_a_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < HANDOFF_CALLS; i++) {
        const struct handoff_call *call = &handoff_calls[i];
        const char *segment = strchr(call->rest.path, '{');
        for (size_t j = 0; j < call->input.count; j++) {
            const struct handoff_field *row = &call->input.rows[j];
            if (row->place != HANDOFF_IN_PATH)
                continue;
            assert_non_null(segment);
            assert_memory_equal(segment + 1, row->name, strlen(row->name));
            assert_int_equal(segment[1 + strlen(row->name)], '}');
            assert_true(row->required);
            segment = strchr(segment + 1, '{');
        }
        assert_null(segment);
    }
}

static void test_a_body_belongs_to_a_call_that_has_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < HANDOFF_CALLS; i++) {
        const struct handoff_call *call = &handoff_calls[i];
        const struct handoff_field *row;
        const bool of_fields =
            call->body == HANDOFF_BODY_OF_WORDS || call->body == HANDOFF_BODY_WITH_DOCUMENT;
        assert_true(of_fields == (rows_in(call, HANDOFF_IN_BODY, &row) > 0));
        assert_true((call->body == HANDOFF_DOCUMENT) == (call->document != NULL));
        assert_true(handoff_call_has_body(call) == (call->example != NULL));
    }
}

static void test_what_is_stored_fits(void **state)
{
    (void)state;
    for (size_t i = 0; i < HANDOFF_CALLS; i++) {
        for (size_t j = 0; j < handoff_calls[i].input.count; j++)
            assert_true(handoff_calls[i].input.rows[j].offset < sizeof(struct handoff_call_input));
    }
}

static void test_steps_have_the_names_of_the_envelope(void **state)
{
    (void)state;
    assert_int_equal(handoff_step_fields.count, HANDOFF_STEP_MEMBERS);
    for (size_t i = 0; i < HANDOFF_STEP_MEMBERS; i++)
        assert_true(base_span_equal(base_span_text(handoff_step_fields.rows[i].name),
                                    handoff_segment_step_names[i]));
}

/* ---- fields that come as text --------------------------------------------------------------- */

static const struct handoff_field whole = {
    .name = "n", .type = HANDOFF_FIELD_WHOLE, .least = 1, .most = 10};
static const struct handoff_field flag = {.name = "b", .type = HANDOFF_FIELD_BOOL};
static const struct handoff_field duration = {
    .name = "d", .type = HANDOFF_FIELD_DURATION, .most = 60000};
static const struct handoff_field string = {
    .name = "s", .type = HANDOFF_FIELD_STRING, .least = 1, .most = 3};

static void test_text_is_read(void **state)
{
    (void)state;
    int64_t number = 0;
    bool truth = false;
    const char *text = NULL;
    assert_int_equal(handoff_field_read_text(&whole, "10", &number, NULL), HANDOFF_OK);
    assert_int_equal(number, 10);
    assert_int_equal(handoff_field_read_text(&flag, "true", &truth, NULL), HANDOFF_OK);
    assert_true(truth);
    assert_int_equal(handoff_field_read_text(&flag, "false", &truth, NULL), HANDOFF_OK);
    assert_false(truth);
    assert_int_equal(handoff_field_read_text(&duration, "1m", &number, NULL), HANDOFF_OK);
    assert_int_equal(number, 60000);
    assert_int_equal(handoff_field_read_text(&string, "7", &text, NULL), HANDOFF_OK);
    assert_string_equal(text, "7");
}

static void test_bad_text_is_refused(void **state)
{
    static const struct {
        const struct handoff_field *field;
        const char *text, *allowed;
    } rows[] = {
        {&whole, "", "a whole number, 1 to 10"},
        {&whole, "x", "a whole number, 1 to 10"},
        {&whole, "0", "a whole number, 1 to 10"},
        {&whole, "-1", "a whole number, 1 to 10"},
        {&whole, "11", "a whole number, 1 to 10"},
        {&whole, "1.0", "a whole number, 1 to 10"},
        {&whole, "1x", "a whole number, 1 to 10"},
        {&whole, " 1", "a whole number, 1 to 10"},
        {&whole, "true", "a whole number, 1 to 10"},
        {&flag, "1", "true or false"},
        {&flag, "", "true or false"},
        {&duration, "5", "a duration up to 1m, such as 20s"},
        {&duration, "61s", "a duration up to 1m, such as 20s"},
        {&duration, "-1s", "a duration up to 1m, such as 20s"},
        {&string, "", "1 to 3 bytes"},
        {&string, "four", "1 to 3 bytes"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct handoff_error error;
        union {
            int64_t number;
            const char *text;
        } untouched = {.number = 77};
        assert_int_equal(handoff_field_read_text(rows[i].field, rows[i].text, &untouched, &error),
                         HANDOFF_ERR_INVALID);
        assert_int_equal(untouched.number, 77);
        assert_string_equal(error.field, rows[i].field->name);
        assert_string_equal(error.allowed, rows[i].allowed);
    }
}

/* ---- the document --------------------------------------------------------------------------- */

static void test_the_document_is_json_with_every_call(void **state)
{
    (void)state;
    struct base_buffer out = {0};
    yyjson_doc *doc;
    size_t found = 0, i, n;
    yyjson_val *path, *methods;
    exporter_openapi_write(&out);
    assert_false(out.failed);
    assert_int_equal(base_json_read(base_buffer_span(&out), "document", &doc, NULL), HANDOFF_OK);
    yyjson_obj_foreach(yyjson_obj_get(yyjson_doc_get_root(doc), "paths"), i, n, path, methods)
    {
        found += yyjson_obj_size(methods);
    }
    assert_int_equal(found, HANDOFF_CALLS);
    yyjson_doc_free(doc);
    base_buffer_free(&out);
}

static void test_no_memory(void **state)
{
    (void)state;
    bool failed;
    long n = 1;
    do {
        struct base_buffer out = {0};
        failing_memory_at(n++);
        exporter_openapi_write(&out);
        failed = out.failed;
        base_buffer_free(&out);
        assert_true(failed || !atomic_load(&failing_memory_hit));
    } while (atomic_load(&failing_memory_hit));
    failing_memory_at(0);
    assert_false(failed);
    assert_true(n > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_paths_are_unique),
        cmocka_unit_test(test_a_segment_of_a_path_has_a_row),
        cmocka_unit_test(test_a_body_belongs_to_a_call_that_has_one),
        cmocka_unit_test(test_an_error_can_name_all_words),
        cmocka_unit_test(test_what_is_stored_fits),
        cmocka_unit_test(test_steps_have_the_names_of_the_envelope),
        cmocka_unit_test(test_text_is_read),
        cmocka_unit_test(test_bad_text_is_refused),
        cmocka_unit_test(test_the_document_is_json_with_every_call),
        cmocka_unit_test(test_no_memory),
    };
    return RUN_TESTS(tests);
}
