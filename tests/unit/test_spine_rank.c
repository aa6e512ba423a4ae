/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranking: the formula against numbers worked out by hand, rank expectations on a small spine,
 * queries that try to be something else than words, and the same order every time.
 */
#include "tests/support/unit.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/spine/embedded/query.h"
#include "client/spine/embedded/score.h"
#include "tests/support/temp_spine.h"

static struct temp_spine temp;
static const struct handoff_memory_limits usual;
static struct handoff_spine_resolve resolve;

static void search(const char *query, size_t recent)
{
    resolve = (struct handoff_spine_resolve){
        .arena = &temp.arena, .recent = recent, .query = base_span_text(query)};
    if (TEMP_SPINE_CALL(&temp, handoff_spine_resolve, &resolve) != HANDOFF_OK)
        fail_msg("%s: %s", query, temp.error.seen);
}

/* The ids found, best first, joined by blanks. */
static const char *order(const char *query, size_t recent)
{
    static char text[4096];
    search(query, recent);
    text[0] = '\0';
    for (size_t i = 0; i < resolve.found_count; i++) {
        struct base_span id = resolve.found[i].memory.id;
        size_t at = strlen(text);
        snprintf(text + at, sizeof text - at, "%s%.*s", i ? " " : "", (int)id.size, id.data);
    }
    return text;
}

static void remember(const char *id, const char *content, enum handoff_importance importance)
{
    assert_int_equal(temp_remember(&temp, id, content, importance), HANDOFF_OK);
}

static void assert_near(double seen, double expected)
{
    if (fabs(seen - expected) > 1e-9)
        fail_msg("seen %.12f, expected %.12f", seen, expected);
}

static void test_the_formula(void **state)
{
    const int64_t week = INT64_C(7) * 86400000;
    (void)state;
    assert_near(handoff_score(1, 0, week, HANDOFF_IMPORTANCE_CRITICAL), 1);
    assert_near(handoff_score(0, 0, week, HANDOFF_IMPORTANCE_LOW), 0.25);
    assert_near(handoff_score(0, week, week, HANDOFF_IMPORTANCE_LOW), 0.125);
    assert_near(handoff_score(0, -5000, week, HANDOFF_IMPORTANCE_LOW), 0.25);
    assert_near(handoff_score(0.5, 2 * week, week, HANDOFF_IMPORTANCE_HIGH), 0.3 + 0.0625 + 0.1);
    /* one of two memories has the word once, in a text of average length: ln(2) * 2.2 / 2.2 */
    assert_near(handoff_score_term(1, 5, 5, handoff_score_idf(1, 2)), log(2));
    /* three times: ln(2) * 6.6 / 4.2 */
    assert_near(handoff_score_term(3, 5, 5, log(2)), log(2) * 6.6 / 4.2);
    /* twice as long as usual: the denominator is 1 + 1.2 * (0.25 + 1.5) = 3.1 */
    assert_near(handoff_score_term(1, 10, 5, 1), 2.2 / 3.1);
    assert_true(handoff_score_idf(100, 100) > 0); /* a word that all have does no harm */
    assert_true(handoff_score_idf(120, 100) > 0); /* nor does an estimate that is too high */
}

/* The numbers that come out of the index are those of the formula. */
static void test_relevance_from_the_index(void **state)
{
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    remember("a", "alpha beta", HANDOFF_IMPORTANCE_LOW);
    remember("b", "alpha alpha gamma delta", HANDOFF_IMPORTANCE_LOW);
    remember("c", "epsilon zeta eta", HANDOFF_IMPORTANCE_LOW);
    assert_string_equal(order("alpha beta", 3), "a b c");
    double alpha = handoff_score_idf(2, 3), beta = handoff_score_idf(1, 3);
    double a = handoff_score_term(1, 2, 3, alpha) + handoff_score_term(1, 2, 3, beta);
    double b = handoff_score_term(2, 4, 3, alpha);
    assert_near(resolve.found[0].relevance, 1);
    assert_near(resolve.found[1].relevance, b / a);
    assert_near(resolve.found[2].relevance, 0);
    assert_near(resolve.found[1].score, 0.6 * (b / a) + 0.25);
    temp_spine_close(&temp);
}

static void test_relevance_comes_before_age_and_importance(void **state)
{
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    remember("match", "the token bucket limits requests", HANDOFF_IMPORTANCE_LOW);
    base_manual_clock_advance(&temp.clock, INT64_C(30) * 86400000);
    remember("new", "nothing about it", HANDOFF_IMPORTANCE_CRITICAL);
    assert_string_equal(order("token bucket", 2), "match new");
    assert_string_equal(order("token bucket", 1), "match");
    assert_string_equal(order("", 2), "new match");
    temp_spine_close(&temp);
}

static void test_age_and_importance_between_equals(void **state)
{
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    remember("old", "token bucket", HANDOFF_IMPORTANCE_MEDIUM);
    remember("old-critical", "token bucket", HANDOFF_IMPORTANCE_CRITICAL);
    base_manual_clock_advance(&temp.clock, INT64_C(3) * 86400000);
    remember("new", "token bucket", HANDOFF_IMPORTANCE_MEDIUM);
    assert_string_equal(order("bucket", 3), "old-critical new old");
    temp_spine_close(&temp);
}

static void test_more_of_the_words_is_better(void **state)
{
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    remember("one", "circuit and other things", HANDOFF_IMPORTANCE_LOW);
    remember("two", "circuit breaker other things", HANDOFF_IMPORTANCE_LOW);
    remember("three", "circuit breaker cooldown things", HANDOFF_IMPORTANCE_LOW);
    assert_string_equal(order("Circuit, BREAKER; cooldown!", 3), "three two one");
    temp_spine_close(&temp);
}

static void test_tags_and_summary_count(void **state)
{
    struct base_span tags[2] = {base_span_text("other"), base_span_text("oauth")};
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    remember("content", "oauth words", HANDOFF_IMPORTANCE_LOW);
    struct handoff_spine_put put = {.memory = {.id = base_span_text("summary"),
                                               .content = base_span_text("words"),
                                               .summary = base_span_text("oauth")}};
    assert_int_equal(temp_put_call(&temp, &put), HANDOFF_OK);
    put = (struct handoff_spine_put){.memory = {.id = base_span_text("tag"),
                                                .content = base_span_text("x"),
                                                .tags = tags,
                                                .tag_count = 2}};
    assert_int_equal(temp_put_call(&temp, &put), HANDOFF_OK);
    remember("nothing", "words words", HANDOFF_IMPORTANCE_LOW);
    assert_string_equal(order("oauth", 4), "tag summary content nothing");
    temp_spine_close(&temp);
}

static void test_accents_and_case(void **state)
{
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    remember("a",
             "Caf\xC3\xA9 \xC3\x9C"
             "bung",
             HANDOFF_IMPORTANCE_LOW);
    remember("b", "tea", HANDOFF_IMPORTANCE_CRITICAL);
    assert_string_equal(order("cafe", 1), "a");
    assert_string_equal(order("\xC3\xBC"
                              "BUNG",
                              1),
                        "a");
    temp_spine_close(&temp);
}

static void test_an_old_text_is_not_found_any_more(void **state)
{
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    remember("a", "walrus", HANDOFF_IMPORTANCE_LOW);
    remember("b", "other", HANDOFF_IMPORTANCE_LOW);
    remember("a", "penguin", HANDOFF_IMPORTANCE_LOW);
    search("walrus", 2);
    for (size_t i = 0; i < resolve.found_count; i++)
        assert_near(resolve.found[i].relevance, 0);
    search("penguin", 2);
    assert_near(resolve.found[0].relevance, 1);
    temp_spine_close(&temp);
}

static void test_ties_go_by_id(void **state)
{
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    static const char *const ids[] = {"m", "b", "z", "aa", "a"};
    for (int i = 0; i < 5; i++)
        remember(ids[i], "same words", HANDOFF_IMPORTANCE_LOW);
    assert_string_equal(order("same", 5), "a aa b m z");
    assert_string_equal(order("", 5), "a aa b m z");
    temp_spine_close(&temp);
}

/* A memory asked for by id is told how relevant it is too. */
static void test_relevance_of_what_was_asked_for(void **state)
{
    struct base_span ids[2] = {base_span_text("a"), base_span_text("b")};
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    remember("b", "token", HANDOFF_IMPORTANCE_LOW);
    remember("a", "bucket", HANDOFF_IMPORTANCE_LOW);
    resolve = (struct handoff_spine_resolve){
        .arena = &temp.arena, .ids = ids, .id_count = 2, .query = base_span_text("token")};
    assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_resolve, &resolve), HANDOFF_OK);
    assert_memory_equal(resolve.found[0].memory.id.data, "b", 1);
    assert_near(resolve.found[0].relevance, 1);
    assert_near(resolve.found[1].relevance, 0);
    temp_spine_close(&temp);
}

/* ---- many memories ----------------------------------------------------------------------------
 */

/* 3,000 memories that all have the common word, and one early one that has the rare word too:
   beyond the sample by far, and it must be found. */
static void test_a_rare_word_reaches_far_back(void **state)
{
    char id[16];
    struct base_span ids[1] = {base_span_text("early")};
    (void)state;
    struct handoff_store_options options = {.durability = HANDOFF_DURABILITY_NONE};
    temp_spine_open(&temp, &options, usual);
    remember("first", "common filler", HANDOFF_IMPORTANCE_LOW);
    remember("early", "common telling", HANDOFF_IMPORTANCE_LOW);
    for (int i = 0; i < 3000; i++) {
        snprintf(id, sizeof id, "m%04d", i);
        remember(id, i % 3 ? "common filler" : "common usual filler", HANDOFF_IMPORTANCE_LOW);
    }
    search("common usual telling", 5);
    assert_memory_equal(resolve.found[0].memory.id.data, "early", 5);
    assert_near(resolve.found[0].relevance, 1);
    assert_int_equal(resolve.found_count, 5);
    search("common", 3);
    assert_int_equal(resolve.found_count, 3);
    /* relevance of one that lies behind the sample is measured all the same */
    resolve = (struct handoff_spine_resolve){
        .arena = &temp.arena, .ids = ids, .id_count = 1, .query = base_span_text("common")};
    assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_resolve, &resolve), HANDOFF_OK);
    assert_true(resolve.found[0].relevance > 0.5);
    temp_spine_close(&temp);
}

static void test_the_same_question_gets_the_same_answer(void **state)
{
    char id[16], text[200], first[4096];
    unsigned seed = 7;
    (void)state;
    struct handoff_store_options options = {.durability = HANDOFF_DURABILITY_NONE};
    temp_spine_open(&temp, &options, usual);
    for (int i = 0; i < 1500; i++) {
        snprintf(id, sizeof id, "m%04d", i);
        snprintf(text, sizeof text, "w%d w%d w%d w%d", rand_r(&seed) % 4, rand_r(&seed) % 50,
                 rand_r(&seed) % 50, rand_r(&seed) % 500);
        remember(id, text, (enum handoff_importance)(i % 4));
    }
    snprintf(first, sizeof first, "%s", order("w1 w2 w3 w40 w499", 200));
    for (int i = 0; i < 5; i++)
        assert_string_equal(order("w1 w2 w3 w40 w499", 200), first);
    temp_spine_close(&temp);
}

/* ---- queries from anywhere ----------------------------------------------------------------------
 */

static const char *expression(const char *text)
{
    static struct base_buffer buffer;
    struct handoff_query query;
    base_buffer_clear(&buffer);
    handoff_query_split(&query, base_span_text(text));
    handoff_query_append(&buffer, &query, UINT32_MAX);
    return buffer.size ? buffer.data : "";
}

static void test_queries_become_quoted_words(void **state)
{
    (void)state;
    assert_string_equal(expression("Fix the OAuth2 flow, fix it"),
                        "\"Fix\" OR \"the\" OR \"OAuth2\" OR \"flow\" OR \"it\"");
    assert_string_equal(expression("a\" OR content:x* NEAR(b c) NOT -d ^e"),
                        "\"OR\" OR \"content\" OR \"NEAR\" OR \"NOT\"");
    assert_string_equal(expression("\xC3\xA9t\xC3\xA9 \xE2\x82\xAC"),
                        "\"\xC3\xA9t\xC3\xA9\" OR \"\xE2\x82\xAC\"");
    assert_string_equal(expression(""), "");
    assert_string_equal(expression("!!! \" ' ( ) * : ^ - +"), "");
}

static void test_at_most_so_many_words(void **state)
{
    struct handoff_query query;
    char text[4000] = "";
    (void)state;
    for (int i = 0; i < 100; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "word%d ", i);
    handoff_query_split(&query, base_span_text(text));
    assert_int_equal(query.count, HANDOFF_QUERY_TERMS);
    assert_memory_equal(query.terms[0].data, "word10", 6); /* longer than word0 to word9 */
    assert_memory_equal(query.terms[15].data, "word25", 6);
    memset(text, 'x', 3000);
    handoff_query_split(&query, base_span(text, 3000)); /* no word is that long */
    assert_int_equal(query.count, 0);
}

/* Random bytes, and random bits of FTS5 syntax: never an error, whatever they are. */
static void test_no_query_is_an_error(void **state)
{
    static const char *const pieces[] = {"\"",       "*",
                                         ":",        "content:",
                                         "NEAR(",    ")",
                                         " AND ",    " OR ",
                                         " NOT ",    "^",
                                         "-",        "+",
                                         "token",    "\n",
                                         "{a b}:",   "\xE2\x80\x9C",
                                         "\xFF",     "\xC3",
                                         "bucket",   ",",
                                         "\xCC\x81", "\xF0\x9F\x98\x80",
                                         "  ",       "''"};
    unsigned seed = 42;
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    for (int i = 0; i < 5; i++) {
        char id[8];
        snprintf(id, sizeof id, "m%d", i);
        remember(id, "token bucket \xE2\x80\x9C", HANDOFF_IMPORTANCE_LOW);
    }
    for (int i = 0; i < 2000; i++) {
        char text[256] = "";
        int length = rand_r(&seed) % 20;
        for (int j = 0; j < length; j++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s",
                     pieces[(size_t)rand_r(&seed) % (sizeof pieces / sizeof *pieces)]);
        if (i % 2) {
            for (size_t j = 0; j < 40; j++)
                text[j] = (char)(rand_r(&seed) % 256);
            text[40] = '\0';
        }
        base_arena_reset(&temp.arena);
        search(text, 3);
        assert_int_equal(resolve.found_count, 3);
    }
    temp_spine_close(&temp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_formula),
        cmocka_unit_test(test_relevance_from_the_index),
        cmocka_unit_test(test_relevance_comes_before_age_and_importance),
        cmocka_unit_test(test_age_and_importance_between_equals),
        cmocka_unit_test(test_more_of_the_words_is_better),
        cmocka_unit_test(test_tags_and_summary_count),
        cmocka_unit_test(test_accents_and_case),
        cmocka_unit_test(test_an_old_text_is_not_found_any_more),
        cmocka_unit_test(test_ties_go_by_id),
        cmocka_unit_test(test_relevance_of_what_was_asked_for),
        cmocka_unit_test(test_a_rare_word_reaches_far_back),
        cmocka_unit_test(test_the_same_question_gets_the_same_answer),
        cmocka_unit_test(test_queries_become_quoted_words),
        cmocka_unit_test(test_at_most_so_many_words),
        cmocka_unit_test(test_no_query_is_an_error),
    };
    return RUN_TESTS(tests);
}
