/* SPDX-License-Identifier: Apache-2.0 */
/* Reading files of the source tree, which ctest names in HANDOFF_SOURCE_DIR. */
#ifndef TESTS_SUPPORT_FILES_H
#define TESTS_SUPPORT_FILES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/span.h"

/* The whole file, to be freed with free(); aborts the test program where there is none. */
static inline struct base_span files_read(const char *path)
{
    char full[4096];
    const char *top = getenv("HANDOFF_SOURCE_DIR");
    snprintf(full, sizeof(full), "%s/%s", top ? top : ".", path);
    FILE *file = fopen(full, "rb");
    if (!file) {
        perror(full);
        abort();
    }
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(size + 1);
    if (!text || fread(text, 1, size, file) != size)
        abort();
    text[size] = '\0';
    fclose(file);
    return base_span(text, size);
}

static inline void files_free(struct base_span file)
{
    free((void *)(uintptr_t)file.data);
}

#endif
