/* SPDX-License-Identifier: Apache-2.0 */
/* The nearest name by Levenshtein's distance, one row of the table at a time. */
#include "lib/base/nearest.h"

#include <string.h>

enum { LENGTH_MAX = 64 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t distance(const char *from, size_t from_length, const char *to, size_t to_length)
{
    size_t row[LENGTH_MAX + 1];
    for (size_t j = 0; j <= to_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= from_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= to_length; j++) {
            size_t replace = diagonal + (from[i - 1] != to[j - 1]);
            diagonal = row[j];
            row[j] = least(replace, least(row[j], row[j - 1]) + 1);
        }
    }
    return row[to_length];
}

const char *base_nearest(const char *name, const char *const *names, size_t count)
{
    size_t length = strlen(name);
    if (length > LENGTH_MAX)
        return NULL;
    const char *best = NULL;
    size_t best_distance = length / 3 + 1;
    for (size_t i = 0; i < count; i++) {
        size_t this_length = strlen(names[i]);
        size_t edits = this_length <= LENGTH_MAX ? distance(name, length, names[i], this_length)
                                                 : best_distance;
        if (edits < best_distance) {
            best = names[i];
            best_distance = edits;
        }
    }
    return best;
}
