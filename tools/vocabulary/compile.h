/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile.h - turns a published vocabulary (one line per token: base64 of its bytes, a space, its
 * rank) into the file that lib/tokens/vocabulary.h describes. A separate library, so tests can
 * build small vocabularies. Any thread.
 */
#ifndef HANDOFF_VOCABULARY_COMPILE_H
#define HANDOFF_VOCABULARY_COMPILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/tokens/split.h"

struct vocabulary_compile_error {
    const char *message; /* static */
    size_t line;         /* of the text, from 1; 0 if no line is to blame */
};

/*
 * Compiles text into a file's bytes, which the caller frees. NULL on failure. The lines' ranks must
 * count up from 0, and every single byte must be a token.
 */
void *vocabulary_compile(const char *text, size_t length, const char *encoding,
                         enum handoff_split_pattern pattern, size_t *file_size,
                         struct vocabulary_compile_error *error);

#endif
