/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of a text is shown for a query, and which of its words are marked. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "client/spine/embedded/snippet.h"
#include "lib/words/words.h"

static struct handoff_match match;
static char shown[1024];

/* Words of the query, all equally telling. */
static void ask(const char *query)
{
    struct words_reader reader;
    struct words_term terms[64];
    size_t count;
    memset(&match, 0, sizeof match);
    words_begin(&reader, base_span_text(query), WORDS_QUERY);
    while ((count = words_read(&reader, terms, 64)) > 0)
        for (size_t i = 0; i < count; i++)
            match.terms[match.term_count++] =
                (struct handoff_match_term){.hash = terms[i].hash, .weight = 1};
}

/* Words of the query in brackets. */
static const char *show(const char *text)
{
    struct handoff_snippet snippet;
    size_t at = 0;
    handoff_snippet_find(&match, base_span_text(text), &snippet);
    assert_int_equal(snippet.count % 2, 1);
    for (size_t i = 0; i < snippet.count; i++) {
        const struct base_span piece = snippet.pieces[i];
        assert_true(i % 2 == 0 || piece.size > 0);
        at += (size_t)snprintf(shown + at, sizeof shown - at, i % 2 ? "[%.*s]" : "%.*s",
                               (int)piece.size, piece.data);
    }
    return shown;
}

static void words_are_marked_as_the_text_has_them(void **state)
{
    (void)state;
    ask("bank retry payments getUserById");
    assert_string_equal(show("The Bank retries a payment, three times."),
                        "The [Bank] [retries] a [payment], three times.");
    assert_string_equal(show("bank"), "[bank]");
    assert_string_equal(show("call get_user_by_id!"), "call [get_user_by_id]!");
    assert_string_equal(show("nothing of it"), "nothing of it");
    ask("東京都");
    assert_string_equal(show("昨日東京都で"), "昨日[東京都]で");
}

static char text[100000];

static void fill(size_t words)
{
    while (words-- > 0)
        strcat(text, "lorem ");
}

static void of_a_long_text_the_part_with_most_of_the_words_is_shown(void **state)
{
    (void)state;
    ask("bank payment retries");
    text[0] = '\0';
    fill(100);
    strcat(text, "bank bank bank ");
    fill(100);
    strcat(text, "the payment that a bank rejects ");
    fill(100);
    assert_non_null(strstr(show(text), "the [payment] that a [bank] rejects lorem"));
    assert_true(strlen(shown) <= HANDOFF_SNIPPET_BYTES + 4);
    assert_true(strlen(shown) > HANDOFF_SNIPPET_BYTES - 20);
    assert_memory_equal(shown, "lorem ", 6);
    text[0] = '\0';
    fill(100);
    strcat(text, "bank");
    assert_memory_equal(show(text) + strlen(shown) - 12, "lorem [bank]", 12);
    assert_true(strlen(shown) > HANDOFF_SNIPPET_BYTES - 20);
}

static void characters_stay_whole(void **state)
{
    (void)state;
    for (size_t lead = 0; lead < 4; lead++) {
        ask("bank");
        (void)snprintf(text, sizeof text, "%.*s", (int)lead, "xxx");
        for (int i = 0; i < 200; i++)
            strcat(text, "é");
        strcat(text, " bank ");
        for (int i = 0; i < 200; i++)
            strcat(text, "é");
        struct handoff_snippet snippet;
        handoff_snippet_find(&match, base_span_text(text), &snippet);
        const struct base_span before = snippet.pieces[0], after = snippet.pieces[2];
        assert_int_equal((unsigned char)before.data[0], 0xc3);
        assert_int_equal((unsigned char)after.data[after.size - 1], 0xa9);
    }
}

static void a_word_longer_than_a_snippet_is_cut(void **state)
{
    (void)state;
    char query[1000];
    memset(query, 'x', 999);
    query[999] = '\0';
    ask(query);
    (void)snprintf(text, sizeof text, "it is %s.", query);
    show(text);
    assert_memory_equal(shown, "xxx", 3);
    assert_int_equal(strlen(shown), HANDOFF_SNIPPET_BYTES);
}

static void the_number_of_pieces_is_bounded(void **state)
{
    (void)state;
    ask("a");
    text[0] = '\0';
    for (int i = 0; i < 5000; i++)
        strcat(text, "a, ");
    struct handoff_snippet snippet;
    handoff_snippet_find(&match, base_span_text(text), &snippet);
    assert_int_equal(snippet.count, HANDOFF_SNIPPET_PIECES);
    size_t size = 0;
    for (size_t i = 0; i < snippet.count; i++)
        size += snippet.pieces[i].size;
    assert_true(size <= HANDOFF_SNIPPET_BYTES && size > HANDOFF_SNIPPET_BYTES - 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_marked_as_the_text_has_them),
        cmocka_unit_test(of_a_long_text_the_part_with_most_of_the_words_is_shown),
        cmocka_unit_test(characters_stay_whole),
        cmocka_unit_test(a_word_longer_than_a_snippet_is_cut),
        cmocka_unit_test(the_number_of_pieces_is_bounded),
    };
    return RUN_TESTS(tests);
}
