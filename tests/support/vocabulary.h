/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small vocabularies for tests: the 256 single bytes, then tokens of one's choice, compiled as the
 * published ones are.
 */
#ifndef TESTS_SUPPORT_VOCABULARY_H
#define TESTS_SUPPORT_VOCABULARY_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/tokens/vocabulary.h"
#include "tools/vocabulary/compile.h"

struct published_text {
    char *text;
    size_t length;
    FILE *stream;
    unsigned rank;
};

static inline void published_add(struct published_text *published, const void *token, size_t length)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *bytes = token;

    for (size_t i = 0; i < length; i += 3) {
        size_t left = length - i;
        unsigned bits = (unsigned)bytes[i] << 16 | (left > 1 ? (unsigned)bytes[i + 1] << 8 : 0u) |
                        (left > 2 ? bytes[i + 2] : 0u);
        fprintf(published->stream, "%c%c%c%c", digits[bits >> 18], digits[bits >> 12 & 63],
                left > 1 ? digits[bits >> 6 & 63] : '=', left > 2 ? digits[bits & 63] : '=');
    }
    fprintf(published->stream, " %u\n", published->rank++);
}

static inline void published_start(struct published_text *published)
{
    memset(published, 0, sizeof(*published));
    published->stream = open_memstream(&published->text, &published->length);
    for (unsigned i = 0; i < 256; i++) {
        uint8_t byte = (uint8_t)i;
        published_add(published, &byte, 1);
    }
}

/* Compiles and frees the text. The file's bytes are the caller's. */
static inline uint8_t *published_compile(struct published_text *published, const char *encoding,
                                         size_t *size)
{
    struct vocabulary_compile_error error = {NULL, 0};
    uint8_t *file;

    fclose(published->stream);
    file = vocabulary_compile(published->text, published->length, encoding, HANDOFF_SPLIT_O200K,
                              size, &error);
    if (!file)
        fprintf(stderr, "line %zu: %s\n", error.line, error.message);
    free(published->text);
    return file;
}

/* Writes bytes into a new file and gives its name, which the caller frees and unlinks. */
static inline char *write_temporary(const void *bytes, size_t size)
{
    const char *folder = getenv("TMPDIR");
    char *path = NULL;
    int descriptor;

    if (asprintf(&path, "%s/handoff-vocabulary-XXXXXX", folder ? folder : "/tmp") < 0)
        return NULL;
    descriptor = mkstemp(path);
    if (descriptor < 0 || write(descriptor, bytes, size) != (ssize_t)size) {
        free(path);
        path = NULL;
    }
    if (descriptor >= 0)
        close(descriptor);
    return path;
}

#endif
