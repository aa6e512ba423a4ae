/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoff-vocabulary: compiles one of the published vocabularies when the program is built. One
 * thread.
 *
 *   handoff-vocabulary ENCODING INPUT.tiktoken OUTPUT.vocabulary
 *
 * The input must be, to the byte, the vocabulary that the encoding's authors published.
 */
#include "lib/base/sha256.h"
#include "tools/vocabulary/compile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct published {
    const char *encoding;
    enum handoff_split_pattern pattern;
    const char *digest; /* SHA-256 of the file as its authors publish it */
};

static const struct published published_vocabularies[] = {
    {"o200k_base", HANDOFF_SPLIT_O200K,
     "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"},
    {"cl100k_base", HANDOFF_SPLIT_CL100K,
     "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"},
};

static const struct published *find_published(const char *encoding)
{
    for (size_t i = 0; i < sizeof(published_vocabularies) / sizeof(published_vocabularies[0]); i++)
        if (strcmp(published_vocabularies[i].encoding, encoding) == 0)
            return &published_vocabularies[i];
    return NULL;
}

static char *read_vocabulary_text(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    size_t room = (size_t)8 << 20; /* the longest is 3.6 MB */
    char *text = malloc(room);

    if (!file || !text) {
        fprintf(stderr, "handoff-vocabulary: %s: %s\n", path, strerror(errno));
        if (file)
            (void)fclose(file);
        free(text);
        return NULL;
    }
    *length = fread(text, 1, room, file);
    (void)fclose(file);
    return text;
}

static bool check_digest(const struct published *published, const char *path, const char *text,
                         size_t length)
{
    unsigned char digest[BASE_SHA256_BYTES];
    char hex[BASE_SHA256_HEX_SIZE];

    base_sha256(text, length, digest);
    base_sha256_hex(digest, hex);
    if (strcmp(hex, published->digest) == 0)
        return true;
    fprintf(stderr, "handoff-vocabulary: %s is not the published %s: SHA-256 is %s, expected %s\n",
            path, published->encoding, hex, published->digest);
    return false;
}

/* Written under another name and renamed: a process that has the old file mapped must not see it
 * change. */
static bool replace_file(const char *path, const void *file, size_t size)
{
    char *temporary;
    FILE *out;
    bool done;

    if (asprintf(&temporary, "%s.%ld", path, (long)getpid()) < 0)
        return false;
    out = fopen(temporary, "wb");
    done = out && fwrite(file, 1, size, out) == size;
    if (out && fclose(out) != 0)
        done = false;
    done = done && rename(temporary, path) == 0;
    if (!done) {
        fprintf(stderr, "handoff-vocabulary: %s: %s\n", path, strerror(errno));
        (void)remove(temporary);
    }
    free(temporary);
    return done;
}

static bool compile_file(const struct published *published, const char *input, const char *output)
{
    struct vocabulary_compile_error error;
    size_t length = 0, size = 0;
    char *text = read_vocabulary_text(input, &length);
    void *file = NULL;
    bool done = false;

    if (!text)
        return false;
    if (check_digest(published, input, text, length)) {
        file = vocabulary_compile(text, length, published->encoding, published->pattern, &size,
                                  &error);
        if (file)
            done = replace_file(output, file, size);
        else
            fprintf(stderr, "handoff-vocabulary: %s:%zu: %s\n", input, error.line, error.message);
    }
    free(file);
    free(text);
    return done;
}

int main(int argc, char **argv)
{
    const struct published *published = argc == 4 ? find_published(argv[1]) : NULL;

    if (!published) {
        fprintf(stderr, "usage: handoff-vocabulary o200k_base|cl100k_base INPUT OUTPUT\n");
        return 2;
    }
    return compile_file(published, argv[2], argv[3]) ? EXIT_SUCCESS : EXIT_FAILURE;
}
