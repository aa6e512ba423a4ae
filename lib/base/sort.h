/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sort.h - qsort for lists that often are in order already, which is then all that it finds out.
 * Any thread.
 */
#ifndef BASE_SORT_H
#define BASE_SORT_H

#include <stddef.h>
#include <stdlib.h>

static inline void base_sort(void *list, size_t count, size_t size,
                             int (*compare)(const void *left, const void *right))
{
    const char *at = list;
    size_t in_order = 1;
    while (in_order < count && compare(at + (in_order - 1) * size, at + in_order * size) <= 0)
        in_order++;
    if (in_order < count)
        qsort(list, count, size, compare);
}

#endif
