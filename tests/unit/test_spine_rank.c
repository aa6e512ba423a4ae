/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranking through the spine: rank expectations on a small one, what is found from the moment a
 * write was answered, queries of any bytes, and the same order every time. The formula is in
 * test_match.c.
 */
#include "tests/support/unit.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/spine/embedded/embedded.h"
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

static void test_relevance_comes_before_age_and_importance(void **state)
{
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    remember("match", "the token bucket limits requests", HANDOFF_IMPORTANCE_LOW);
    base_manual_clock_advance(&temp.clock, INT64_C(30) * 86400000);
    remember("new", "nothing about it", HANDOFF_IMPORTANCE_CRITICAL);
    assert_string_equal(order("token bucket", 2), "match");
    assert_near(resolve.found[0].relevance, 1);
    assert_near(resolve.found[0].score, 1);
    assert_int_equal(resolve.found[0].word_count, 2);
    assert_string_equal(order("", 2), "new match");
    temp_spine_close(&temp);
}

static void test_age_and_importance_between_equals(void **state)
{
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    remember("old", "token bucket alpha", HANDOFF_IMPORTANCE_MEDIUM);
    remember("old-critical", "token bucket beta", HANDOFF_IMPORTANCE_CRITICAL);
    base_manual_clock_advance(&temp.clock, INT64_C(3) * 86400000);
    remember("new", "token bucket gamma", HANDOFF_IMPORTANCE_MEDIUM);
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
    assert_string_equal(order("Circuit, BREAKER; cooldown!", 3), "three two");
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
    assert_string_equal(order("oauth", 4), "tag summary content");
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
    assert_int_equal(resolve.found_count, 0);
    search("penguin", 2);
    assert_near(resolve.found[0].relevance, 1);
    temp_spine_close(&temp);
}

static void test_what_was_removed_is_not_found_any_more(void **state)
{
    struct handoff_spine_remove remove = {.id = base_span_text("a")};
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    remember("a", "walrus on the ice", HANDOFF_IMPORTANCE_LOW);
    remember("b", "walrus in the sea", HANDOFF_IMPORTANCE_LOW);
    assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_remove, &remove), HANDOFF_OK);
    assert_string_equal(order("walrus", 2), "b");
    temp_spine_close(&temp);
}

static void test_of_equals_the_newest_is_first(void **state)
{
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    static const char *const ids[] = {"m", "b", "z", "aa", "a"};
    for (int i = 0; i < 5; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "same words w%c", 'a' + i);
        remember(ids[i], text, HANDOFF_IMPORTANCE_LOW);
    }
    assert_string_equal(order("same", 5), "a aa z b m");
    assert_string_equal(order("", 5), "a aa z b m");
    assert_string_equal(order("same", 2), "a aa");
    temp_spine_close(&temp);
}

static void test_the_same_text_comes_once(void **state)
{
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    remember("a", "The bank retries.", HANDOFF_IMPORTANCE_LOW);
    remember("b", "the bank RETRIES", HANDOFF_IMPORTANCE_HIGH);
    assert_string_equal(order("bank", 5), "b");
    assert_int_equal(resolve.found[0].similar, 1);
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

/* Whatever is newer. */
static void test_all_memories_are_candidates(void **state)
{
    char id[16], text[64];
    struct base_span ids[1] = {base_span_text("early")};
    (void)state;
    struct handoff_store_options options = {.durability = HANDOFF_DURABILITY_NONE};
    temp_spine_open(&temp, &options, usual);
    handoff_embedded_of(temp.spine)->search_timeout_ms = 60000;
    remember("early", "common usual telling", HANDOFF_IMPORTANCE_LOW);
    for (int i = 0; i < 3000; i++) {
        snprintf(id, sizeof id, "m%04d", i);
        snprintf(text, sizeof text, "common %s filler n%d", i % 3 ? "dull" : "usual", i);
        remember(id, text, HANDOFF_IMPORTANCE_LOW);
    }
    search("common usual telling", 5);
    assert_true(resolve.found_count > 0);
    assert_memory_equal(resolve.found[0].memory.id.data, "early", 5);
    assert_near(resolve.found[0].relevance, 1);
    search("common", 3);
    assert_int_equal(resolve.found_count, 3);
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

/* Random bytes, and what is syntax elsewhere: never an error, whatever they are. */
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
        assert_true(resolve.found_count <= 3);
    }
    temp_spine_close(&temp);
}

static void test_boosts_change_while_it_runs(void **state)
{
    (void)state;
    const struct handoff_search_boosts only_importance = {.importance = 100, .half_life_ms = 1000};
    const struct handoff_search_boosts only_recency = {.recency = 100, .half_life_ms = 86400000};
    const struct handoff_search_boosts none = {.half_life_ms = 1000};
    temp_spine_open(&temp, NULL, usual);
    remember("critical", "token bucket alpha", HANDOFF_IMPORTANCE_CRITICAL);
    base_manual_clock_advance(&temp.clock, 86400000);
    remember("newer", "token bucket beta", HANDOFF_IMPORTANCE_LOW);
    handoff_spine_weigh(temp.spine, &only_importance);
    assert_string_equal(order("bucket", 2), "critical newer");
    assert_near(resolve.found[1].score, 0.5);
    handoff_spine_weigh(temp.spine, &only_recency);
    assert_string_equal(order("bucket", 2), "newer critical");
    if (fabs(resolve.found[1].score - 0.75) > 1e-4)
        fail_msg("seen %f", resolve.found[1].score);
    handoff_spine_weigh(temp.spine, &none);
    assert_string_equal(order("bucket", 2), "newer critical");
    assert_near(resolve.found[1].score, 1);
    handoff_spine_weigh(temp.spine, NULL);
    assert_string_equal(order("bucket", 2), "critical newer");
    temp_spine_close(&temp);
}

/* A search looks at some of the newest at least, however late it is. */
static void test_a_search_whose_time_is_over_gives_what_it_has(void **state)
{
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    remember("oldest", "token bucket", HANDOFF_IMPORTANCE_LOW);
    for (int i = 0; i < 600; i++) {
        char id[16], text[64];
        snprintf(id, sizeof id, "m%d", i);
        snprintf(text, sizeof text, "bucket number%d", i);
        remember(id, text, HANDOFF_IMPORTANCE_LOW);
    }
    assert_string_equal(order("token number599", 2), "m599 oldest");
    assert_false(resolve.call.cut || resolve.incomplete);
    handoff_embedded_of(temp.spine)->search_timeout_ms = -1;
    assert_string_equal(order("token number599", 2), "m599");
    assert_true(resolve.call.cut && resolve.incomplete);
    handoff_embedded_of(temp.spine)->search_timeout_ms = 60000;
    assert_string_equal(order("token number599", 2), "m599 oldest");
    assert_false(resolve.call.cut || resolve.incomplete);
    temp_spine_close(&temp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_relevance_comes_before_age_and_importance),
        cmocka_unit_test(test_age_and_importance_between_equals),
        cmocka_unit_test(test_more_of_the_words_is_better),
        cmocka_unit_test(test_tags_and_summary_count),
        cmocka_unit_test(test_accents_and_case),
        cmocka_unit_test(test_an_old_text_is_not_found_any_more),
        cmocka_unit_test(test_what_was_removed_is_not_found_any_more),
        cmocka_unit_test(test_of_equals_the_newest_is_first),
        cmocka_unit_test(test_the_same_text_comes_once),
        cmocka_unit_test(test_relevance_of_what_was_asked_for),
        cmocka_unit_test(test_all_memories_are_candidates),
        cmocka_unit_test(test_the_same_question_gets_the_same_answer),
        cmocka_unit_test(test_boosts_change_while_it_runs),
        cmocka_unit_test(test_a_search_whose_time_is_over_gives_what_it_has),
        cmocka_unit_test(test_no_query_is_an_error),
    };
    return RUN_TESTS(tests);
}
