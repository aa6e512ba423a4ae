/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tokenizer: opening by name, and a text's path through the stages; see tokenizer.h. Any
 * thread: a tokenizer is read-only once it is open.
 */
#include "lib/tokens/tokenizer.h"

#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"
#include "lib/base/units.h"
#include "lib/base/utf8.h"
#include "lib/tokens/count.h"
#include "lib/tokens/merge.h"
#include "lib/tokens/split.h"
#include "lib/tokens/vocabulary.h"
#include "lib/tokens/vocabulary_search.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKENIZER_MAGIC 0x746f6b6eu

struct handoff_tokenizer {
    unsigned magic;
    handoff_split_function *split; /* NULL: the estimating tokenizer, without a vocabulary */
    struct handoff_vocabulary vocabulary;
};

/* Never written to; not const only because closing takes what opening returns. */
static struct handoff_tokenizer estimating = {.magic = TOKENIZER_MAGIC};

/* --- opening and closing ------------------------------------------------------------------- */

struct handoff_tokenizer *handoff_tokenizer_open(const char *path, struct handoff_error *error)
{
    struct handoff_tokenizer *tokenizer = base_calloc(1, sizeof(*tokenizer));

    if (!tokenizer) {
        handoff_error_no_memory(error);
        return NULL;
    }
    if (handoff_vocabulary_open(path, &tokenizer->vocabulary, error) != HANDOFF_OK) {
        base_free(tokenizer);
        return NULL;
    }
    tokenizer->magic = TOKENIZER_MAGIC;
    tokenizer->split = handoff_split_for(tokenizer->vocabulary.header->pattern);
    BASE_CHECK(tokenizer->split); /* opening has checked the pattern */
    return tokenizer;
}

/* As snprintf(): the length of the whole path, although it may not fit. */
static int vocabulary_path(const char *directory, const char *encoding, char *path, size_t size)
{
    if (!directory)
        directory = secure_getenv("HANDOFF_VOCABULARY_DIR");
    if (directory && *directory)
        return snprintf(path, size, "%s/%s.vocabulary", directory, encoding);
    return handoff_vocabulary_search(encoding, path, size);
}

static struct handoff_tokenizer *open_in_directory(const char *directory, const char *encoding,
                                                   struct handoff_error *error)
{
    char path[PATH_MAX] = "";
    struct handoff_tokenizer *tokenizer;
    int length = vocabulary_path(directory, encoding, path, sizeof(path));

    if (length < 0 || (size_t)length >= sizeof(path)) {
        handoff_error_set(error, HANDOFF_ERR_VOCABULARY_MISSING,
                          "the vocabulary's path is too long", "directory", path);
        return NULL;
    }
    tokenizer = handoff_tokenizer_open(path, error);
    if (tokenizer && strcmp(handoff_tokenizer_encoding(tokenizer), encoding) != 0) {
        handoff_error_set(error, HANDOFF_ERR_VOCABULARY_FOREIGN,
                          "the vocabulary is for another encoding", path,
                          handoff_tokenizer_encoding(tokenizer));
        handoff_error_allow(error, "%s", encoding);
        handoff_tokenizer_close(&tokenizer);
    }
    return tokenizer;
}

static void allow_encodings(struct handoff_error *error)
{
    char name[sizeof HANDOFF_ENCODINGS], names[sizeof error->allowed] = "";
    for (unsigned i = 0; *base_choice_copy(HANDOFF_ENCODINGS, i, name, sizeof name); i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s, ", name);
    handoff_error_allow(error, "%s%s", names, handoff_tokenizer_encoding(&estimating));
}

struct handoff_tokenizer *handoff_tokenizer_open_encoding(const char *encoding,
                                                          const char *directory,
                                                          struct handoff_error *error)
{
    if (strcmp(encoding, handoff_tokenizer_encoding(&estimating)) == 0)
        return &estimating;
    if (base_choice_index(HANDOFF_ENCODINGS, encoding) >= 0)
        return open_in_directory(directory, encoding, error);
    handoff_error_set(error, HANDOFF_ERR_UNKNOWN_ENCODING, "unknown encoding", "encoding",
                      encoding);
    allow_encodings(error);
    return NULL;
}

struct handoff_tokenizer *handoff_tokenizer_estimate(void)
{
    return &estimating;
}

const char *handoff_tokenizer_encoding(const struct handoff_tokenizer *tokenizer)
{
    return tokenizer->split ? tokenizer->vocabulary.header->encoding : "estimate";
}

void handoff_tokenizer_close(struct handoff_tokenizer **tokenizer)
{
    struct handoff_tokenizer *closing = *tokenizer;

    *tokenizer = NULL;
    if (!closing || closing == &estimating)
        return;
    BASE_CHECK_MAGIC(closing, TOKENIZER_MAGIC);
    handoff_vocabulary_close(&closing->vocabulary);
    closing->magic = 0;
    base_free(closing);
}

/* --- counting and encoding ----------------------------------------------------------------- */

static enum handoff_code encode_valid(const struct handoff_tokenizer *tokenizer, const uint8_t *at,
                                      const uint8_t *end, struct handoff_token_sink *sink)
{
    const struct handoff_vocabulary *vocabulary = &tokenizer->vocabulary;
    enum handoff_code code;

    while (at < end) {
        const uint8_t *stop = tokenizer->split(at, end);
        size_t length = (size_t)(stop - at);
        uint32_t token = handoff_vocabulary_find(vocabulary, at, length, (size_t)(end - at));

        if (token != HANDOFF_VOCABULARY_NO_TOKEN)
            handoff_token_sink_put(sink, token);
        else if ((code = handoff_merge(vocabulary, at, length, sink)))
            return code;
        at = stop;
    }
    return HANDOFF_OK;
}

static enum handoff_code encode_or_count_valid(const struct handoff_tokenizer *tokenizer,
                                               const char *text, size_t length,
                                               struct handoff_token_sink *sink)
{
    const uint8_t *at = (const uint8_t *)text, *end = at + length;

    return sink->capacity > 0
               ? encode_valid(tokenizer, at, end, sink)
               : handoff_count_valid(&tokenizer->vocabulary, at, length, &sink->count);
}

static enum handoff_code encode_repaired(const struct handoff_tokenizer *tokenizer,
                                         const char *text, size_t length,
                                         struct handoff_token_sink *sink)
{
    size_t repaired_length;
    char *repaired = base_utf8_repair(text, length, &repaired_length);
    enum handoff_code code;

    if (!repaired)
        return HANDOFF_ERR_OUT_OF_MEMORY;
    code = encode_or_count_valid(tokenizer, repaired, repaired_length, sink);
    base_free(repaired);
    return code;
}

enum handoff_code handoff_tokens_encode(const struct handoff_tokenizer *tokenizer, const char *text,
                                        size_t length, uint32_t *ids, size_t capacity,
                                        size_t *count)
{
    struct handoff_token_sink sink = {.ids = NULL, .capacity = capacity, .count = 0};
    enum handoff_code code;

    sink.ids = ids;
    if (!tokenizer->split)
        return HANDOFF_ERR_UNKNOWN_ENCODING;
    if (base_utf8_valid_length(text, length) == length)
        code = encode_or_count_valid(tokenizer, text, length, &sink);
    else
        code = encode_repaired(tokenizer, text, length, &sink);
    if (code == HANDOFF_OK)
        *count = sink.count;
    return code;
}

enum handoff_code handoff_tokens_count(const struct handoff_tokenizer *tokenizer, const char *text,
                                       size_t length, size_t *count)
{
    if (tokenizer->split)
        return handoff_tokens_encode(tokenizer, text, length, NULL, 0, count);
    *count = handoff_tokens_estimate(text, length);
    return HANDOFF_OK;
}

const uint8_t *handoff_tokens_bytes(const struct handoff_tokenizer *tokenizer, uint32_t id,
                                    size_t *length)
{
    const struct handoff_vocabulary *vocabulary = &tokenizer->vocabulary;

    if (!tokenizer->split || id >= vocabulary->header->token_count)
        return NULL;
    *length = vocabulary->offsets[id + 1] - vocabulary->offsets[id];
    return vocabulary->blob + vocabulary->offsets[id];
}
