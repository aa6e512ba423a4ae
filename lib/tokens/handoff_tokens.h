/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoff_tokens.h - counting the tokens of a text.
 *
 * Part of the public interface; handoff.h includes it.
 *
 * A tokenizer counts the tokens of text in one encoding, exactly as OpenAI's tiktoken does, or
 * estimates them if no vocabulary is available. Text is UTF-8. Each maximal ill-formed subsequence
 * counts as U+FFFD, because that is what a model would be given. Special tokens such as
 * <|endoftext|> are ordinary text.
 *
 * Any number of threads may use a tokenizer at once; none may while it is closed.
 */
#ifndef HANDOFF_TOKENS_H
#define HANDOFF_TOKENS_H

#include <stddef.h>

#include "handoff_error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct handoff_tokenizer;

/* The encodings with a vocabulary, of which the first is the default. */
#define HANDOFF_ENCODINGS        "o200k_base|cl100k_base"
#define HANDOFF_ENCODING_DEFAULT "o200k_base"

/*
 * Opens the vocabulary of an encoding, "o200k_base" or "cl100k_base": the file ENCODING.vocabulary
 * in the directory, or, where that is NULL, in $HANDOFF_VOCABULARY_DIR, or, where that is unset or
 * empty, where it was installed with the program or the library (.../share/handoff-exporter).
 * The name "estimate" gives the estimating tokenizer. NULL on failure, and the error says why:
 * unknown_encoding, vocabulary_missing, vocabulary_foreign, vocabulary_corrupt or out_of_memory,
 * with the file in field and the place in it in seen.
 */
struct handoff_tokenizer *handoff_tokenizer_open_encoding(const char *encoding,
                                                          const char *directory,
                                                          struct handoff_error *error);

/* Opens one vocabulary file of any encoding. */
struct handoff_tokenizer *handoff_tokenizer_open(const char *path, struct handoff_error *error);

/*
 * The tokenizer that needs no vocabulary. Its answer is never less than the true count of either
 * encoding, so a text that fits by the estimate fits; for English it is about three times the true
 * count. Never NULL.
 */
struct handoff_tokenizer *handoff_tokenizer_estimate(void);

/* "o200k_base", "cl100k_base" or "estimate"; lives as long as the tokenizer. */
const char *handoff_tokenizer_encoding(const struct handoff_tokenizer *tokenizer);

/* Closes and clears the pointer; NULL and the estimating tokenizer are fine. */
void handoff_tokenizer_close(struct handoff_tokenizer **tokenizer);

/*
 * Counts, in time proportional to the length. OUT_OF_MEMORY is possible only for text that is not
 * valid UTF-8, or, rarely, that has an uncut run of more than 1,024 bytes (white space cuts).
 * TOO_LARGE: such a run exceeds 1 GiB. The count is set on success only.
 */
enum handoff_code handoff_tokens_count(const struct handoff_tokenizer *tokenizer, const char *text,
                                       size_t length, size_t *count) HANDOFF_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
