/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling a vocabulary, and opening one that is damaged in every place it can be. */
#include "tests/support/failing_memory.h"
#include "tests/support/unit.h"
#include "tests/support/vocabulary.h"

#include "lib/tokens/tokenizer.h"

#define LONG_TOKEN "abcabcabcabcabcabc" /* longer than a short key */

struct sample {
    uint8_t *file;
    size_t size;
};

static int make_sample(void **state)
{
    static struct sample sample;
    struct published_text published;

    published_start(&published);
    published_add(&published, "ab", 2);
    published_add(&published, "abc", 3);
    published_add(&published, "abcabc", 6);
    published_add(&published, "abcabcabcabc", 12);
    published_add(&published, LONG_TOKEN, strlen(LONG_TOKEN));
    sample.file = published_compile(&published, "sample", &sample.size);
    *state = &sample;
    return sample.file ? 0 : -1;
}

static int free_sample(void **state)
{
    struct sample *sample = *state;
    free(sample->file);
    return 0;
}

static struct handoff_vocabulary_header *header_of(uint8_t *file)
{
    return (struct handoff_vocabulary_header *)(void *)file;
}

static void reseal(uint8_t *file, size_t size)
{
    header_of(file)->checksum = handoff_vocabulary_checksum(file, size);
}

static uint8_t *copy_of(const struct sample *sample)
{
    uint8_t *copy = malloc(sample->size);
    assert_non_null(copy);
    memcpy(copy, sample->file, sample->size);
    return copy;
}

static void expect_opening(const void *bytes, size_t size, enum handoff_code code,
                           const char *message)
{
    char *path = write_temporary(bytes, size);
    struct handoff_error error;
    struct handoff_tokenizer *tokenizer;

    assert_non_null(path);
    memset(&error, 0, sizeof(error));
    tokenizer = handoff_tokenizer_open(path, &error);
    if (code == HANDOFF_OK) {
        assert_non_null(tokenizer);
        assert_string_equal(handoff_tokenizer_encoding(tokenizer), "sample");
    } else {
        assert_null(tokenizer);
        assert_int_equal(error.code, code);
        assert_string_equal(error.message, message);
        assert_memory_equal(error.field, path, strnlen(error.field, sizeof(error.field)));
    }
    handoff_tokenizer_close(&tokenizer);
    assert_null(tokenizer);
    unlink(path);
    free(path);
}

static void test_sample_opens(void **state)
{
    struct sample *sample = *state;
    expect_opening(sample->file, sample->size, HANDOFF_OK, NULL);
}

static void test_tables(void **state)
{
    struct sample *sample = *state;
    struct handoff_vocabulary vocabulary;

    handoff_vocabulary_attach(&vocabulary, sample->file);
    assert_int_equal(vocabulary.header->token_count, 261);
    assert_int_equal(vocabulary.byte_ids['a'], 'a');
    assert_int_equal(vocabulary.byte_pairs['a' << 8 | 'b'], 256);
    assert_int_equal(vocabulary.byte_pairs['b' << 8 | 'a'], HANDOFF_VOCABULARY_NO_TOKEN);
    assert_int_equal(handoff_vocabulary_merge(&vocabulary, 256, 'c'), 257);
    assert_int_equal(handoff_vocabulary_merge(&vocabulary, 259, 258), 260);
    /* The same bytes, but never its last two parts. */
    assert_int_equal(handoff_vocabulary_merge(&vocabulary, 258, 259), HANDOFF_VOCABULARY_NO_TOKEN);
    assert_int_equal(handoff_vocabulary_find(&vocabulary, (const uint8_t *)LONG_TOKEN,
                                             strlen(LONG_TOKEN), strlen(LONG_TOKEN)),
                     260);
    assert_int_equal(handoff_vocabulary_find(&vocabulary, (const uint8_t *)LONG_TOKEN "x",
                                             strlen(LONG_TOKEN) + 1, strlen(LONG_TOKEN) + 1),
                     HANDOFF_VOCABULARY_NO_TOKEN);
}

/* However much may be read behind the bytes, and whatever stands there. */
static void test_short_keys(void **state)
{
    struct sample *sample = *state;
    struct handoff_vocabulary vocabulary;
    uint8_t text[32];

    handoff_vocabulary_attach(&vocabulary, sample->file);
    for (int filler = 0; filler < 256; filler += 51) {
        memset(text, filler, sizeof(text));
        memcpy(text, "abcabcabcabc", 12);
        for (size_t readable = 12; readable <= sizeof(text); readable++) {
            assert_int_equal(handoff_vocabulary_find(&vocabulary, text, 12, readable), 259);
            assert_int_equal(handoff_vocabulary_find(&vocabulary, text, 6, readable), 258);
            assert_int_equal(handoff_vocabulary_find(&vocabulary, text, 1, readable), 'a');
            assert_int_equal(handoff_vocabulary_find(&vocabulary, text, 8, readable),
                             HANDOFF_VOCABULARY_NO_TOKEN);
        }
    }
}

static void test_truncations(void **state)
{
    struct sample *sample = *state;
    const char *foreign = "not a compiled vocabulary file";

    expect_opening("", 0, HANDOFF_ERR_VOCABULARY_FOREIGN, foreign);
    for (size_t size = 1; size < sizeof(struct handoff_vocabulary_header); size += 21)
        expect_opening(sample->file, size, HANDOFF_ERR_VOCABULARY_FOREIGN, foreign);
    for (size_t cut = 1; cut < sample->size - sizeof(struct handoff_vocabulary_header);
         cut = cut * 3 + 1)
        expect_opening(sample->file, sample->size - cut, HANDOFF_ERR_VOCABULARY_CORRUPT,
                       "the file size differs from the header");
}

static void test_grown(void **state)
{
    struct sample *sample = *state;
    uint8_t *grown = calloc(1, sample->size + 32);

    assert_non_null(grown);
    memcpy(grown, sample->file, sample->size);
    expect_opening(grown, sample->size + 32, HANDOFF_ERR_VOCABULARY_CORRUPT,
                   "the file size differs from the header");
    free(grown);
}

struct field {
    size_t offset;
    uint32_t value;
    enum handoff_code code;
    const char *message;
};

#define AT(name)     offsetof(struct handoff_vocabulary_header, name)
#define OUT_OF_RANGE HANDOFF_ERR_VOCABULARY_CORRUPT, "a header field is out of range"

static const struct field fields[] = {
    {AT(magic), 0x21212121, HANDOFF_ERR_VOCABULARY_FOREIGN, "not a compiled vocabulary file"},
    {AT(version), HANDOFF_VOCABULARY_VERSION + 1, HANDOFF_ERR_VOCABULARY_FOREIGN,
     "the vocabulary was compiled by an incompatible version of this program"},
    {AT(byte_order), 0x04030201, HANDOFF_ERR_VOCABULARY_FOREIGN,
     "the vocabulary was compiled for the other byte order"},
    {AT(file_size), 1, HANDOFF_ERR_VOCABULARY_CORRUPT, "the file size differs from the header"},
    {AT(encoding), 0, OUT_OF_RANGE},
    {AT(pattern), 0, OUT_OF_RANGE},
    {AT(pattern), 3, OUT_OF_RANGE},
    {AT(token_count), 0, OUT_OF_RANGE},
    {AT(token_count), 255, OUT_OF_RANGE},
    {AT(token_count), UINT32_MAX, OUT_OF_RANGE},
    {AT(token_count), 200000, OUT_OF_RANGE},
    {AT(blob_size), UINT32_MAX, OUT_OF_RANGE},
    {AT(short_slots), 0, OUT_OF_RANGE},
    {AT(short_slots), UINT32_MAX, OUT_OF_RANGE},
    {AT(long_slots), 0, OUT_OF_RANGE},
    {AT(long_slots), UINT32_MAX, OUT_OF_RANGE},
    {AT(pair_slots), 0, OUT_OF_RANGE},
    {AT(pair_slots), UINT32_MAX, OUT_OF_RANGE},
    {AT(reserved), 1, OUT_OF_RANGE},
    {AT(checksum), 1, HANDOFF_ERR_VOCABULARY_CORRUPT, "checksum mismatch: the file is damaged"},
};

static void test_header_fields(void **state)
{
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        uint8_t *copy = copy_of(*state);

        memcpy(copy + fields[i].offset, &fields[i].value, sizeof(uint32_t));
        if (fields[i].offset != AT(checksum))
            reseal(copy, ((struct sample *)*state)->size);
        expect_opening(copy, ((struct sample *)*state)->size, fields[i].code, fields[i].message);
        free(copy);
    }
}

static void test_encoding_without_end(void **state)
{
    uint8_t *copy = copy_of(*state);

    memset(header_of(copy)->encoding, 'x', sizeof(header_of(copy)->encoding));
    reseal(copy, ((struct sample *)*state)->size);
    expect_opening(copy, ((struct sample *)*state)->size, OUT_OF_RANGE);
    free(copy);
}

/* Every byte of the file counts: a single flipped bit anywhere is noticed. */
static void test_flipped_bits(void **state)
{
    struct sample *sample = *state;
    uint8_t *copy = copy_of(sample);
    struct handoff_error error;

    for (size_t i = 0; i < sample->size; i += i < 4096 ? 1 : 4099) {
        copy[i] ^= (uint8_t)(1u << i % 8);
        if (handoff_vocabulary_check(copy, sample->size, &error) == HANDOFF_OK)
            fail_msg("byte %zu flipped and not noticed", i);
        copy[i] ^= (uint8_t)(1u << i % 8);
    }
    assert_int_equal(handoff_vocabulary_check(copy, sample->size, &error), HANDOFF_OK);
    free(copy);
}

/* A forged file: the checksum fits, and a table points where nothing is. */
static void expect_forged(const struct sample *sample, uint64_t part, const void *value,
                          size_t length, const char *message)
{
    uint8_t *copy = copy_of(sample);

    memcpy(copy + part, value, length);
    reseal(copy, sample->size);
    expect_opening(copy, sample->size, HANDOFF_ERR_VOCABULARY_CORRUPT, message);
    free(copy);
}

static void test_forged_indexes(void **state)
{
    struct sample *sample = *state;
    struct handoff_vocabulary_layout layout = handoff_vocabulary_layout(header_of(sample->file));
    const char *outside = "a table points outside the file";
    const uint64_t key[2] = {1, UINT64_C(0x1) << 60 | UINT64_C(261) << 40};
    const uint64_t pair = 261;
    const uint32_t id = 261, offset = 100000;

    expect_forged(sample, layout.shorts, key, sizeof(key), outside);
    expect_forged(sample, layout.longs, &id, sizeof(id), outside);
    expect_forged(sample, layout.pairs, &pair, sizeof(pair), outside);
    expect_forged(sample, layout.byte_ids, &id, sizeof(id), outside);
    expect_forged(sample, layout.byte_pairs, &id, sizeof(id), outside);
    expect_forged(sample, layout.offsets, &offset, sizeof(offset), outside);
    expect_forged(sample, layout.offsets + 4 * 100, &offset, sizeof(offset), outside);
    expect_forged(sample, layout.offsets + 4 * 261, &offset, sizeof(offset), outside);
}

/* A table without an empty slot would be searched for ever. */
static void test_forged_full_tables(void **state)
{
    struct sample *sample = *state;
    struct handoff_vocabulary_header *header = header_of(sample->file);
    struct handoff_vocabulary_layout layout = handoff_vocabulary_layout(header);
    uint8_t full[4096 * 4];
    size_t shorts = header->short_slots * sizeof(struct handoff_vocabulary_short_slot);

    memset(full, 0, sizeof(full));
    for (size_t i = 0; i < sizeof(full); i += 16)
        full[i + 15] = 0x10; /* a key of one byte */
    assert_true(shorts <= sizeof(full));
    expect_forged(sample, layout.shorts, full, shorts, "a hash table has no empty slot");
    memset(full, 0, sizeof(full));
    expect_forged(sample, layout.longs, full, header->long_slots * sizeof(uint32_t),
                  "a hash table has no empty slot");
    expect_forged(sample, layout.pairs, full, header->pair_slots * sizeof(uint64_t),
                  "a hash table has no empty slot");
}

static void test_not_a_file(void **state)
{
    struct handoff_error error;

    (void)state;
    assert_null(handoff_tokenizer_open("/nonexistent/x.vocabulary", &error));
    assert_int_equal(error.code, HANDOFF_ERR_VOCABULARY_MISSING);
    assert_string_equal(error.seen, "No such file or directory");
    assert_null(handoff_tokenizer_open("/dev", &error));
    assert_int_equal(error.code, HANDOFF_ERR_VOCABULARY_FOREIGN);
    assert_null(handoff_tokenizer_open("/nonexistent/x.vocabulary", NULL));
}

static void test_no_memory(void **state)
{
    struct sample *sample = *state;
    char *path = write_temporary(sample->file, sample->size);
    struct handoff_tokenizer *tokenizer = NULL;
    struct handoff_error error;
    long n = 0;

    do {
        failing_memory_at(++n);
        tokenizer = handoff_tokenizer_open(path, &error);
        assert_true(tokenizer || error.code == HANDOFF_ERR_OUT_OF_MEMORY);
    } while (atomic_load(&failing_memory_hit));
    failing_memory_at(0);
    assert_true(n > 1);
    assert_non_null(tokenizer);
    handoff_tokenizer_close(&tokenizer);
    unlink(path);
    free(path);
}

struct bad_text {
    const char *text;
    size_t line;
    const char *message;
};

/* The compiler's own refusals. */
static void test_bad_sources(void **state)
{
    static const struct bad_text bad[] = {
        {"", 0, "fewer than 256 tokens"},
        {"IQ== 0\n", 0, "fewer than 256 tokens"},
        {"IQ==\n", 1, "expected a token and its rank"},
        {"IQ== 0\nIg== 2\n", 2, "the rank is not the line number minus one"},
        {"IQ== 0\nIg== \n", 2, "the rank is not the line number minus one"},
        {"IQ== 0\nIg== 1x\n", 2, "the rank is not the line number minus one"},
        {"IQ== 0\nIg= 1\n", 2, "not base64"},
        {"IQ== 0\nI!== 1\n", 2, "not base64"},
        {" 0\n", 1, "not base64"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct vocabulary_compile_error error = {NULL, 99};
        size_t size = 0;

        assert_null(vocabulary_compile(bad[i].text, strlen(bad[i].text), "x", HANDOFF_SPLIT_O200K,
                                       &size, &error));
        assert_string_equal(error.message, bad[i].message);
        assert_int_equal(error.line, bad[i].line);
    }
}

static void test_sources_that_lack_or_repeat(void **state)
{
    struct vocabulary_compile_error error = {NULL, 99};
    struct published_text published;
    size_t size;

    (void)state;
    published_start(&published);
    published_add(&published, "ab", 2);
    published_add(&published, "ab", 2);
    fclose(published.stream);
    assert_null(vocabulary_compile(published.text, published.length, "x", HANDOFF_SPLIT_O200K,
                                   &size, &error));
    assert_string_equal(error.message, "duplicate token");
    assert_int_equal(error.line, 258);
    published.text[0] = 'Q'; /* the first token, a NUL, becomes '@', which is there already */
    published.length -= strlen("YWI= 257\n");
    assert_null(vocabulary_compile(published.text, published.length, "x", HANDOFF_SPLIT_O200K,
                                   &size, &error));
    assert_string_equal(error.message, "duplicate token");
    memcpy(published.text, "enp6 0", 6); /* and now "zzz", so that no token is a NUL */
    published.text[6] = '\n';
    assert_null(vocabulary_compile(published.text, published.length, "x", HANDOFF_SPLIT_O200K,
                                   &size, &error));
    assert_string_equal(error.message, "a single byte is not a token");
    free(published.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sample_opens),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_short_keys),
        cmocka_unit_test(test_truncations),
        cmocka_unit_test(test_grown),
        cmocka_unit_test(test_header_fields),
        cmocka_unit_test(test_encoding_without_end),
        cmocka_unit_test(test_flipped_bits),
        cmocka_unit_test(test_forged_indexes),
        cmocka_unit_test(test_forged_full_tables),
        cmocka_unit_test(test_not_a_file),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_bad_sources),
        cmocka_unit_test(test_sources_that_lack_or_repeat),
    };
    return cmocka_run_group_tests(tests, make_sample, free_sample);
}
