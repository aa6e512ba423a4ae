/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tokenizer.h - exact token counts for o200k_base and cl100k_base; what the room itself needs
 * beyond the public part in handoff_tokens.h.
 *
 * A text is checked to be UTF-8 (a repaired copy replaces it if not), cut into pieces (split.h),
 * and each piece is looked up whole (vocabulary.h) or, failing that, merged from its bytes
 * (merge.h). Calls share only the read-only vocabulary, so any thread may make them.
 *
 *   struct handoff_error error;
 *   struct handoff_tokenizer *tokenizer =
 *       handoff_tokenizer_open_encoding("o200k_base", NULL, &error);
 *   size_t count;
 *
 *   if (!tokenizer)
 *       tokenizer = handoff_tokenizer_estimate();
 *   if (handoff_tokens_count(tokenizer, text, length, &count) == HANDOFF_OK)
 *       ...
 *   handoff_tokenizer_close(&tokenizer);
 */
#ifndef HANDOFF_TOKENS_TOKENIZER_H
#define HANDOFF_TOKENS_TOKENIZER_H

#include "lib/tokens/handoff_tokens.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Like handoff_tokens_count(), and also writes the first ids, as many as fit. A text never has more
 * tokens than bytes if it is valid UTF-8, and three times as many if not. The estimating tokenizer
 * has no ids: UNKNOWN_ENCODING.
 */
enum handoff_code handoff_tokens_encode(const struct handoff_tokenizer *tokenizer, const char *text,
                                        size_t length, uint32_t *ids, size_t capacity,
                                        size_t *count) HANDOFF_MUST_CHECK;

/* The bytes of a token, which live as long as the tokenizer; NULL for an unknown id. */
const uint8_t *handoff_tokens_bytes(const struct handoff_tokenizer *tokenizer, uint32_t id,
                                    size_t *length);

/* The upper bound that the estimating tokenizer returns; estimate.c derives it. */
size_t handoff_tokens_estimate(const char *text, size_t length);

/* For the test of its assumption: whether it assumes that a space or small letter followed by a
 * small letter is one token in both vocabularies. */
bool handoff_tokens_estimate_joins(char left, char right);

#endif
