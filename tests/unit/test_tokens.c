/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting tokens: known ids from OpenAI's own examples, properties on small vocabularies, memory
 * that runs out, threads. tests/scenario/test_tokens.py compares with the reference programs.
 *
 * The tests on published vocabularies are skipped where the build has none (scripts/npm-install).
 */
#include "tests/support/failing_memory.h"
#include "tests/support/unit.h"
#include "tests/support/vocabulary.h"

#include "lib/tokens/merge.h"
#include "lib/tokens/tokenizer.h"

#include <pthread.h>

/* --- published vocabularies ---------------------------------------------------------------- */

struct example {
    const char *encoding;
    const char *text;
    size_t count;
    uint32_t ids[12];
};

/* From OpenAI's cookbook, "How to count tokens with tiktoken", and tiktoken's own tests. */
static const struct example examples[] = {
    {"cl100k_base", "hello world", 2, {15339, 1917}},
    {"cl100k_base", "tiktoken is great!", 6, {83, 1609, 5963, 374, 2294, 0}},
    {"o200k_base", "tiktoken is great!", 6, {83, 8251, 2488, 382, 2212, 0}},
    {"cl100k_base", "antidisestablishmentarianism", 6, {519, 85342, 34500, 479, 8997, 2191}},
    {"o200k_base", "antidisestablishmentarianism", 6, {493, 129901, 376, 160388, 21203, 2367}},
    {"cl100k_base", "2 + 2 = 4", 7, {17, 489, 220, 17, 284, 220, 19}},
    {"o200k_base", "2 + 2 = 4", 7, {17, 659, 220, 17, 314, 220, 19}},
    {"cl100k_base",
     "お誕生日おめでとう",
     9,
     {33334, 45918, 243, 21990, 9080, 33334, 62004, 16556, 78699}},
    {"o200k_base", "お誕生日おめでとう", 8, {8930, 9697, 243, 128225, 8930, 17693, 4344, 48669}},
    {"cl100k_base", "rer", 1, {38149}},
    {"cl100k_base", "'rer", 2, {2351, 81}},
    {"cl100k_base", "today\n ", 3, {31213, 198, 220}},
    {"cl100k_base", "today\n \n", 2, {31213, 27907}},
    {"cl100k_base", "today\n  \n", 2, {31213, 14211}},
};

static struct handoff_tokenizer *open_published(const char *encoding)
{
    const char *folder = getenv("HANDOFF_VOCABULARY_DIR");
    struct handoff_error error;
    struct handoff_tokenizer *tokenizer;

    if (!folder || access(folder, F_OK) != 0)
        skip();
    tokenizer = handoff_tokenizer_open_encoding(encoding, NULL, &error);
    if (!tokenizer)
        fail_msg("%s: %s %s", error.field, error.message, error.seen);
    assert_string_equal(handoff_tokenizer_encoding(tokenizer), encoding);
    return tokenizer;
}

static void test_examples(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
        const struct example *example = &examples[i];
        struct handoff_tokenizer *tokenizer = open_published(example->encoding);
        uint32_t ids[12];
        size_t count = 0;

        assert_int_equal(
            handoff_tokens_encode(tokenizer, example->text, strlen(example->text), ids, 12, &count),
            HANDOFF_OK);
        assert_int_equal(count, example->count);
        assert_memory_equal(ids, example->ids, count * sizeof(ids[0]));
        handoff_tokenizer_close(&tokenizer);
    }
}

/* Every token's bytes, taken as one piece of a text of its own, are that token again. */
static void test_token_bytes(void **state)
{
    struct handoff_tokenizer *tokenizer = open_published("o200k_base");
    size_t length = 0;

    (void)state;
    assert_memory_equal(handoff_tokens_bytes(tokenizer, 24912, &length), "hello", 5);
    assert_int_equal(length, 5);
    assert_null(handoff_tokens_bytes(tokenizer, 199998, &length));
    assert_null(handoff_tokens_bytes(tokenizer, UINT32_MAX, &length));
    assert_null(handoff_tokens_bytes(handoff_tokenizer_estimate(), 0, &length));
    handoff_tokenizer_close(&tokenizer);
}

/* The estimate's assumptions (lib/tokens/estimate.c) hold in both vocabularies. */
static void test_estimate_assumptions(void **state)
{
    static const char *const names[] = {"o200k_base", "cl100k_base"};
    static const char letters[] = " abcdefghijklmnopqrstuvwxyz";

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct handoff_tokenizer *tokenizer = open_published(names[i]);
        char text[80];
        uint32_t id;
        size_t count;

        memset(text, ' ', sizeof(text));
        for (size_t length = 1; length < 80; length++) {
            assert_int_equal(handoff_tokens_count(tokenizer, text, length, &count), HANDOFF_OK);
            assert_int_equal(count, 1);
        }
        for (int number = 0; number < 1110; number++) {
            int digits = number < 10 ? 1 : number < 110 ? 2 : 3;
            int value = number < 10 ? number : number < 110 ? number - 10 : number - 110;

            snprintf(text, sizeof(text), "%0*d", digits, value);
            assert_int_equal(handoff_tokens_count(tokenizer, text, (size_t)digits, &count),
                             HANDOFF_OK);
            assert_int_equal(count, 1);
        }
        for (int pair = 0; pair < 27 * 26; pair++) {
            text[0] = letters[pair / 26];
            text[1] = letters[1 + pair % 26];
            assert_int_equal(handoff_tokens_encode(tokenizer, text, 2, &id, 1, &count), HANDOFF_OK);
            if (count != 1 && handoff_tokens_estimate_joins(text[0], text[1]))
                fail_msg("%s: \"%c%c\" is no token", names[i], text[0], text[1]);
        }
        handoff_tokenizer_close(&tokenizer);
    }
}

/* --- a small vocabulary against merging by the book ---------------------------------------- */

#define RANDOM_TOKENS 300

struct small {
    char *path;
    struct handoff_tokenizer *tokenizer;
    struct handoff_vocabulary vocabulary; /* the same, for looking bytes up */
    uint8_t *file;
};

static uint64_t random_state;

static uint32_t random_below(uint32_t bound)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((random_state >> 33) % bound);
}

/* Random words over three letters, in random order: many can only be found whole, which the
 * published vocabularies never show. */
static int make_small(void **state)
{
    static struct small small;
    struct published_text published;
    char seen[RANDOM_TOKENS][12];
    struct handoff_error error;
    size_t size;

    random_state = 42;
    published_start(&published);
    for (size_t count = 0; count < RANDOM_TOKENS;) {
        size_t length = 2 + random_below(count < 8 ? 1 : 8), i;

        for (i = 0; i < length; i++)
            seen[count][i] = (char)('a' + random_below(3));
        seen[count][length] = '\0';
        for (i = 0; i < count && strcmp(seen[i], seen[count]) != 0; i++)
            ;
        if (i == count)
            published_add(&published, seen[count++], length);
    }
    small.file = published_compile(&published, "small", &size);
    if (!small.file)
        return -1;
    handoff_vocabulary_attach(&small.vocabulary, small.file);
    small.path = write_temporary(small.file, size);
    small.tokenizer = handoff_tokenizer_open(small.path, &error);
    *state = &small;
    return small.tokenizer ? 0 : -1;
}

static int free_small(void **state)
{
    struct small *small = *state;

    handoff_tokenizer_close(&small->tokenizer);
    unlink(small->path);
    free(small->path);
    free(small->file);
    return 0;
}

/* The definition: the lowest rank of any two neighbours' bytes, the leftmost, until none is left.
 * Quadratic and by bytes; knows nothing of pairs. */
static size_t merge_by_the_book(const struct handoff_vocabulary *vocabulary, const uint8_t *piece,
                                size_t length, uint32_t *ids)
{
    size_t starts[1025], count = length;
    uint32_t whole = handoff_vocabulary_find(vocabulary, piece, length, length);

    if (whole != HANDOFF_VOCABULARY_NO_TOKEN) {
        ids[0] = whole;
        return 1;
    }
    for (size_t i = 0; i <= length; i++)
        starts[i] = i;
    for (;;) {
        uint32_t lowest = HANDOFF_VOCABULARY_NO_TOKEN;
        size_t at = 0;

        for (size_t i = 0; i + 1 < count; i++) {
            size_t size = starts[i + 2] - starts[i];
            uint32_t rank =
                handoff_vocabulary_find(vocabulary, piece + starts[i], size, length - starts[i]);

            if (rank < lowest) {
                lowest = rank;
                at = i;
            }
        }
        if (lowest == HANDOFF_VOCABULARY_NO_TOKEN)
            break;
        memmove(&starts[at + 1], &starts[at + 2], (count - at - 1) * sizeof(starts[0]));
        count--;
    }
    for (size_t i = 0; i < count; i++)
        ids[i] = handoff_vocabulary_find(vocabulary, piece + starts[i], starts[i + 1] - starts[i],
                                         length - starts[i]);
    return count;
}

static void test_random_pieces(void **state)
{
    struct small *small = *state;

    random_state = 7;
    for (int round = 0; round < 2000; round++) {
        uint8_t piece[1024];
        uint32_t ids[1024], expected[1024];
        size_t length = 1 + random_below(round % 20 == 0 ? 1024 : 200), count = 0, expected_count;

        for (size_t i = 0; i < length; i++)
            piece[i] = (uint8_t)('a' + random_below(round % 3 == 0 ? 1 : 3));
        expected_count = merge_by_the_book(&small->vocabulary, piece, length, expected);
        assert_int_equal(
            handoff_tokens_encode(small->tokenizer, (const char *)piece, length, ids, 1024, &count),
            HANDOFF_OK);
        assert_int_equal(count, expected_count);
        assert_memory_equal(ids, expected, count * sizeof(ids[0]));
    }
}

/* Windows so narrow that many do not agree, so that wider ones are tried. */
static void test_windows_change_no_token(void **state)
{
    struct small *small = *state;

    random_state = 13;
    for (int round = 0; round < 2000; round++) {
        uint8_t piece[1024];
        uint32_t ids[1024], expected[1024];
        const size_t length = 65 + random_below(960), width = 1 + random_below(100);
        const size_t period = 1 + random_below(20);
        struct handoff_token_sink sink = {.ids = ids, .capacity = 1024};
        struct handoff_token_sink whole = {.ids = expected, .capacity = 1024};

        for (size_t i = 0; i < length; i++)
            piece[i] =
                round % 2 && i >= period ? piece[i - period] : (uint8_t)('a' + random_below(3));
        assert_int_equal(handoff_merge_in_windows(&small->vocabulary, piece, length, width, &sink),
                         HANDOFF_OK);
        assert_int_equal(
            handoff_merge_in_windows(&small->vocabulary, piece, length, SIZE_MAX / 64, &whole),
            HANDOFF_OK);
        assert_int_equal(sink.count, whole.count);
        assert_memory_equal(ids, expected, sink.count * sizeof(ids[0]));
    }
}

/* A long piece of each kind, and each period, against one heap over the whole piece. */
static void test_long_pieces_of_published_vocabularies(void **state)
{
    enum { LONG = 200 * 1000 };
    static const char *const alphabets[] = {
        "a",
        " ",
        "ab",
        "aA",
        "!?",
        "etaoinshrdlu",
        "abcdefghijklmnopqrstuvwxyz",
        "\t \r",
        "\xc3\xa4\xe2\x82\xac",
    };
    struct handoff_tokenizer *tokenizer = open_published("o200k_base");
    struct handoff_vocabulary vocabulary;
    struct handoff_error error;
    char path[4096];
    uint8_t *piece = malloc(LONG);

    (void)state;
    random_state = 17;
    snprintf(path, sizeof(path), "%s/o200k_base.vocabulary", getenv("HANDOFF_VOCABULARY_DIR"));
    assert_int_equal(handoff_vocabulary_open(path, &vocabulary, &error), HANDOFF_OK);
    for (size_t i = 0; i < 3 * sizeof(alphabets) / sizeof(alphabets[0]); i++) {
        const char *alphabet = alphabets[i / 3];
        const size_t period = i % 3 == 0 ? LONG : i % 3 == 1 ? 7 : 1021;
        struct handoff_token_sink windows = {0}, whole = {0};

        for (size_t at = 0; at < LONG; at++)
            piece[at] = at >= period ? piece[at - period]
                                     : (uint8_t)alphabet[random_below((uint32_t)strlen(alphabet))];
        assert_int_equal(handoff_merge(&vocabulary, piece, LONG, &windows), HANDOFF_OK);
        assert_int_equal(handoff_merge_in_windows(&vocabulary, piece, LONG, LONG, &whole),
                         HANDOFF_OK);
        assert_int_equal(windows.count, whole.count);
    }
    handoff_vocabulary_close(&vocabulary);
    handoff_tokenizer_close(&tokenizer);
    free(piece);
}

/* --- everything else ----------------------------------------------------------------------- */

static size_t count_of(const struct handoff_tokenizer *tokenizer, const char *text, size_t length)
{
    size_t count = SIZE_MAX;

    assert_int_equal(handoff_tokens_count(tokenizer, text, length, &count), HANDOFF_OK);
    return count;
}

/* Counting remembers pieces and encoding does not. Words of all lengths, more of them than are
 * remembered, each twice in a row and some again much later; a zero byte is a byte like others. */
static void test_counts_are_those_of_the_ids(void **state)
{
    struct small *small = *state;

    random_state = 11;
    for (int round = 0; round < 20000; round++) {
        char text[128];
        uint32_t ids[128];
        size_t length = 0, count;

        for (size_t letters = 1 + random_below(1 + (uint32_t)round % 60); letters > 0; letters--)
            text[length++] = "abca"[random_below(round % 2 ? 2 : 4)];
        text[length++] = round % 7 ? ' ' : '\0';
        memcpy(text + length, text, length);
        length *= 2;
        assert_int_equal(handoff_tokens_encode(small->tokenizer, text, length, ids, 128, &count),
                         HANDOFF_OK);
        assert_int_equal(count_of(small->tokenizer, text, length), count);
    }
}

static void test_empty_and_little_room(void **state)
{
    struct small *small = *state;
    uint32_t ids[3] = {1, 2, 3};
    size_t count;

    assert_int_equal(count_of(small->tokenizer, "", 0), 0);
    assert_int_equal(handoff_tokens_encode(small->tokenizer, "1 2", 3, ids, 2, &count), HANDOFF_OK);
    assert_int_equal(count, 3);
    assert_int_equal(ids[0], '1');
    assert_int_equal(ids[1], ' ');
    assert_int_equal(ids[2], 3);
}

static void test_invalid_text_counts_as_repaired(void **state)
{
    struct small *small = *state;
    uint32_t ids[16];
    size_t count;

    /* Two broken sequences: a lone lead byte, and three bytes of four. */
    assert_int_equal(
        handoff_tokens_encode(small->tokenizer, "\xc3(\xf0\x9f\x92", 5, ids, 16, &count),
        HANDOFF_OK);
    assert_int_equal(count, 7);
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(ids[i], (uint8_t) "\xef\xbf\xbd(\xef\xbf\xbd"[i]);
}

static void test_memory_runs_out(void **state)
{
    struct small *small = *state;
    char run[4000];
    size_t count = 77;
    long n = 0;
    enum handoff_code code;

    for (size_t i = 0; i < sizeof(run); i++)
        run[i] = (char)('a' + random_below(3));
    run[2000] = '\xff';
    do {
        failing_memory_at(++n);
        code = handoff_tokens_count(small->tokenizer, run, sizeof(run), &count);
        if (atomic_load(&failing_memory_hit)) {
            assert_int_equal(code, HANDOFF_ERR_OUT_OF_MEMORY);
            assert_int_equal(count, 77);
        }
    } while (atomic_load(&failing_memory_hit));
    failing_memory_at(0);
    assert_int_equal(code, HANDOFF_OK);
    assert_int_equal(n, 2); /* the repaired copy, then none failed: long runs need no memory */
}

static void test_names(void **state)
{
    struct handoff_error error;
    struct handoff_tokenizer *tokenizer = NULL;
    char folder[5000];
    size_t count;
    uint32_t id;

    (void)state;
    tokenizer = handoff_tokenizer_open_encoding("estimate", NULL, &error);
    assert_ptr_equal(tokenizer, handoff_tokenizer_estimate());
    assert_string_equal(handoff_tokenizer_encoding(tokenizer), "estimate");
    assert_int_equal(handoff_tokens_encode(tokenizer, "x", 1, &id, 1, &count),
                     HANDOFF_ERR_UNKNOWN_ENCODING);
    handoff_tokenizer_close(&tokenizer);
    handoff_tokenizer_close(&tokenizer);
    assert_null(handoff_tokenizer_open_encoding("p50k_base", NULL, &error));
    assert_int_equal(error.code, HANDOFF_ERR_UNKNOWN_ENCODING);
    assert_string_equal(error.seen, "p50k_base");
    assert_null(handoff_tokenizer_open_encoding("o200k_base", "/nonexistent", &error));
    assert_int_equal(error.code, HANDOFF_ERR_VOCABULARY_MISSING);
    assert_string_equal(error.field, "/nonexistent/o200k_base.vocabulary");
    memset(folder, 'x', sizeof(folder));
    folder[sizeof(folder) - 1] = '\0';
    assert_null(handoff_tokenizer_open_encoding("o200k_base", folder, &error));
    assert_int_equal(error.code, HANDOFF_ERR_VOCABULARY_MISSING);
}

static void test_other_encoding_under_the_name(void **state)
{
    struct small *small = *state;
    char folder[] = "/tmp/handoff-tokens-XXXXXX";
    char path[64];
    struct handoff_error error;

    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/cl100k_base.vocabulary", folder);
    assert_int_equal(symlink(small->path, path), 0);
    assert_null(handoff_tokenizer_open_encoding("cl100k_base", folder, &error));
    assert_int_equal(error.code, HANDOFF_ERR_VOCABULARY_FOREIGN);
    assert_string_equal(error.seen, "small");
    unlink(path);
    rmdir(folder);
}

/* Worked out by hand from the rules in estimate.c. */
static void test_estimates(void **state)
{
    static const struct {
        const char *text;
        size_t tokens;
    } known[] = {
        {"", 0},       {"x", 1},       {"ab", 2},   {"abc", 2},        {"abcd", 3},   {"abcdef", 4},
        {"bq!", 3},    {"qqq!", 3},    {" ", 1},    {"          ", 2}, {"  word", 5}, {"ABC", 3},
        {"123456", 2}, {"1234567", 3}, {"a123", 2}, {"½123", 4},       {"\xff", 3},   {"é", 2},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        size_t tokens = handoff_tokens_estimate(known[i].text, strlen(known[i].text));
        if (tokens != known[i].tokens)
            fail_msg("\"%s\": %zu, expected %zu", known[i].text, tokens, known[i].tokens);
    }
}

/* --- threads ------------------------------------------------------------------------------- */

#define TEXT_LENGTH 3000

struct counting {
    const struct handoff_tokenizer *tokenizer;
    char text[TEXT_LENGTH];
    size_t expected;
    bool agreed;
};

static void *count_often(void *argument)
{
    struct counting *counting = argument;

    counting->agreed = true;
    for (int i = 0; i < 50; i++) {
        size_t count = 0;
        if (handoff_tokens_count(counting->tokenizer, counting->text, TEXT_LENGTH, &count) !=
                HANDOFF_OK ||
            count != counting->expected)
            counting->agreed = false;
    }
    return NULL;
}

static void test_threads(void **state)
{
    struct small *small = *state;
    static struct counting countings[4];
    pthread_t threads[4];

    for (int t = 0; t < 4; t++) {
        countings[t].tokenizer = small->tokenizer;
        for (size_t i = 0; i < TEXT_LENGTH; i++)
            countings[t].text[i] = "abc abc\n1"[random_below(t == 0 ? 3 : 9)];
        countings[t].text[7] = t == 1 ? '\xff' : 'x';
        countings[t].expected = count_of(small->tokenizer, countings[t].text, TEXT_LENGTH);
    }
    for (int t = 0; t < 4; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, count_often, &countings[t]), 0);
    for (int t = 0; t < 4; t++) {
        assert_int_equal(pthread_join(threads[t], NULL), 0);
        assert_true(countings[t].agreed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_token_bytes),
        cmocka_unit_test(test_estimate_assumptions),
        cmocka_unit_test(test_random_pieces),
        cmocka_unit_test(test_windows_change_no_token),
        cmocka_unit_test(test_long_pieces_of_published_vocabularies),
        cmocka_unit_test(test_counts_are_those_of_the_ids),
        cmocka_unit_test(test_empty_and_little_room),
        cmocka_unit_test(test_invalid_text_counts_as_repaired),
        cmocka_unit_test(test_memory_runs_out),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_other_encoding_under_the_name),
        cmocka_unit_test(test_estimates),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, make_small, free_small);
}
