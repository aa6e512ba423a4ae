/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text, in both encodings: cuts that are found many at once are those of the splitter; the
 * count is the number of ids; the ids' bytes put together are the text (or, where it is no valid
 * UTF-8, its repaired form); the estimate is not below the count. Where the build has no
 * vocabulary, only the splitters and the estimate are exercised.
 */
#include "lib/base/memory.h"
#include "lib/base/utf8.h"
#include "lib/tokens/boundaries.h"
#include "lib/tokens/split.h"
#include "lib/tokens/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                  \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static struct handoff_tokenizer *tokenizers[2];

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    struct handoff_error error;

    (void)argc;
    (void)argv;
    tokenizers[0] = handoff_tokenizer_open_encoding("o200k_base", NULL, &error);
    tokenizers[1] = handoff_tokenizer_open_encoding("cl100k_base", NULL, &error);
    if (!tokenizers[0] || !tokenizers[1])
        (void)fprintf(stderr, "no vocabulary: %s\n", error.message);
    return 0;
}

static void check_split(handoff_split_function *split, const char *text, size_t length)
{
    const uint8_t *at = (const uint8_t *)text, *end = at + length;

    while (at < end) {
        const uint8_t *stop = split(at, end);

        EXPECT(stop > at && stop <= end);
        EXPECT(base_utf8_valid_length((const char *)at, (size_t)(stop - at)) ==
               (size_t)(stop - at));
        at = stop;
    }
}

static void check_cuts(enum handoff_split_pattern pattern, const char *text, size_t length)
{
    handoff_split_function *split = handoff_split_for(pattern);
    const uint8_t *at = (const uint8_t *)text, *end = at + length;

    while (at < end) {
        uint8_t window[HANDOFF_BOUNDARIES_WINDOW];
        size_t left = (size_t)(end - at);
        const uint8_t *from = at;

        memset(window, ' ', sizeof(window));
        memcpy(window, at, left < sizeof(window) ? left : sizeof(window));
        struct handoff_boundaries cuts = handoff_boundaries_find(window, left, pattern);
        for (uint64_t places = cuts.places; places; places &= places - 1) {
            at = split(at, end);
            EXPECT(at - from == __builtin_ctzll(places));
        }
        EXPECT(cuts.stuck || at > from);
        if (cuts.stuck)
            at = split(at, end);
    }
}

static void check_bytes(const struct handoff_tokenizer *tokenizer, const uint32_t *ids,
                        size_t count, const char *text, size_t length)
{
    size_t at = 0;

    for (size_t i = 0; i < count; i++) {
        size_t token_length = 0;
        const uint8_t *bytes = handoff_tokens_bytes(tokenizer, ids[i], &token_length);

        EXPECT(bytes && token_length <= length - at);
        EXPECT(memcmp(bytes, text + at, token_length) == 0);
        at += token_length;
    }
    EXPECT(at == length);
}

static void check_encoding(const struct handoff_tokenizer *tokenizer, const char *text,
                           size_t length, const char *repaired, size_t repaired_length)
{
    uint32_t *ids = malloc((repaired_length + 1) * sizeof(*ids));
    size_t count = 0, counted = 0;

    EXPECT(ids);
    EXPECT(handoff_tokens_encode(tokenizer, text, length, ids, repaired_length, &count) ==
           HANDOFF_OK);
    EXPECT(handoff_tokens_count(tokenizer, text, length, &counted) == HANDOFF_OK);
    EXPECT(count == counted && count <= repaired_length);
    check_bytes(tokenizer, ids, count, repaired, repaired_length);
    EXPECT(handoff_tokens_estimate(text, length) >= count);
    free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    size_t repaired_length = 0;
    char *repaired = base_utf8_repair(text, size, &repaired_length);

    EXPECT(repaired);
    EXPECT(base_utf8_valid_length(repaired, repaired_length) == repaired_length);
    check_split(handoff_split_cl100k, repaired, repaired_length);
    check_split(handoff_split_o200k, repaired, repaired_length);
    check_cuts(HANDOFF_SPLIT_CL100K, repaired, repaired_length);
    check_cuts(HANDOFF_SPLIT_O200K, repaired, repaired_length);
    (void)handoff_tokens_estimate(text, size);
    for (int i = 0; i < 2; i++)
        if (tokenizers[i])
            check_encoding(tokenizers[i], text, size, repaired, repaired_length);
    base_free(repaired);
    return 0;
}
