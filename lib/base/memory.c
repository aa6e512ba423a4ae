/* SPDX-License-Identifier: Apache-2.0 */
/* The one table that allocations go through. Any thread; the table itself is set before the first.
 */
#include "lib/base/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct base_allocator c_library = {realloc, free};
static struct base_allocator current = {realloc, free};

void base_allocator_set(const struct base_allocator *allocator)
{
    current = allocator ? *allocator : c_library;
}

void *base_malloc(size_t size)
{
    return current.resize(NULL, size ? size : 1);
}

void *base_calloc(size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size)
        return NULL;
    void *pointer = base_malloc(count * size);
    if (pointer)
        memset(pointer, 0, count * size);
    return pointer;
}

void *base_realloc(void *pointer, size_t size)
{
    return current.resize(pointer, size ? size : 1);
}

void base_free(void *pointer)
{
    current.release(pointer);
}

char *base_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = base_malloc(size);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}
