/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h - the client's allocations, through one table.
 *
 * All of client/ allocates here, so that a host can bring its own allocator and a test can fail the
 * n-th allocation. The table is set before anything else of the client runs, and never after.
 */
#ifndef HANDOFF_BASE_MEMORY_H
#define HANDOFF_BASE_MEMORY_H

#include <stddef.h>

struct handoff_allocator {
    void *(*resize)(void *pointer, size_t size); /* as realloc: NULL allocates; size is never 0 */
    void (*release)(void *pointer);              /* as free: NULL is fine */
};

/* NULL goes back to the C library's. The table is copied. */
void handoff_allocator_set(const struct handoff_allocator *allocator);

void *handoff_malloc(size_t size) __attribute__((malloc));
void *handoff_calloc(size_t count, size_t size)
    __attribute__((malloc)); /* zeroed; overflow is NULL */
void *handoff_realloc(void *pointer, size_t size);
void handoff_free(void *pointer);
char *handoff_strdup(const char *text);

#endif
