/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h - the client's allocations, through one table.
 *
 * All of client/ allocates here, so that a host can bring its own allocator and a test can fail the
 * n-th allocation. The table is set before anything else of the client runs, and never after.
 */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stddef.h>

struct base_allocator {
    void *(*resize)(void *pointer, size_t size); /* as realloc: NULL allocates; size is never 0 */
    void (*release)(void *pointer);              /* as free: NULL is fine */
};

/* NULL goes back to the C library's. The table is copied. */
void base_allocator_set(const struct base_allocator *allocator);

void *base_malloc(size_t size) __attribute__((malloc));
void *base_calloc(size_t count, size_t size) __attribute__((malloc)); /* zeroed; overflow is NULL */
void *base_realloc(void *pointer, size_t size);
void base_free(void *pointer);
char *base_strdup(const char *text);

#endif
