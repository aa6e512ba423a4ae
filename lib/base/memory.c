/* SPDX-License-Identifier: Apache-2.0 */
/* The one table the client allocates through. */
#include "lib/base/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct handoff_allocator c_library = {realloc, free};
static struct handoff_allocator current = {realloc, free};

void handoff_allocator_set(const struct handoff_allocator *allocator)
{
    current = allocator ? *allocator : c_library;
}

void *handoff_malloc(size_t size)
{
    return current.resize(NULL, size ? size : 1);
}

void *handoff_calloc(size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size)
        return NULL;
    void *pointer = handoff_malloc(count * size);
    if (pointer)
        memset(pointer, 0, count * size);
    return pointer;
}

void *handoff_realloc(void *pointer, size_t size)
{
    return current.resize(pointer, size ? size : 1);
}

void handoff_free(void *pointer)
{
    current.release(pointer);
}

char *handoff_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = handoff_malloc(size);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}
