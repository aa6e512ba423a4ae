/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nearest name by edit distance (optimal string alignment: a swap of neighbours, the most
 * frequent slip of fingers, is one edit), on three rows of a small table. On any thread.
 */
#include "lib/base/nearest.h"

#include <stdint.h>
#include <string.h>

static size_t fewer(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t base_edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t rows[3][BASE_NEAREST_MAX + 1];
    if (a_length > BASE_NEAREST_MAX || b_length > BASE_NEAREST_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        const size_t *before = rows[(i + 1) % 3]; /* two above */
        const size_t *above = rows[(i - 1) % 3];
        size_t *row = rows[i % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t replaced = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = fewer(replaced, 1 + fewer(above[j], row[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = fewer(row[j], before[j - 2] + 1);
        }
    }
    return rows[a_length % 3][b_length];
}

static void lower_letters(char *to, const char *from, size_t length)
{
    for (size_t i = 0; i < length; i++)
        to[i] = from[i] >= 'A' && from[i] <= 'Z' ? (char)(from[i] - 'A' + 'a') : from[i];
}

/* Whatever the case of the letters. */
static size_t letter_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    char lower_a[BASE_NEAREST_MAX], lower_b[BASE_NEAREST_MAX];
    if (a_length > BASE_NEAREST_MAX || b_length > BASE_NEAREST_MAX)
        return SIZE_MAX;
    lower_letters(lower_a, a, a_length);
    lower_letters(lower_b, b, b_length);
    return base_edit_distance(lower_a, a_length, lower_b, b_length);
}

/* A third of the letters may be wrong, and one always: further away it is another word. */
static size_t tolerance(size_t length)
{
    return length / 3 > 1 ? length / 3 : 1;
}

struct base_nearest base_nearest_begin(const char *seen, size_t length)
{
    return (struct base_nearest){.seen = seen, .length = length, .distance = tolerance(length) + 1};
}

void base_nearest_offer(struct base_nearest *nearest, const char *name, size_t length)
{
    size_t distance = letter_distance(nearest->seen, nearest->length, name, length);
    if (distance < nearest->distance) {
        nearest->distance = distance;
        nearest->best = name;
        nearest->best_length = length;
    }
}

const char *base_nearest(const char *seen, const char *const *names, size_t count)
{
    struct base_nearest nearest = base_nearest_begin(seen, strlen(seen));
    for (size_t i = 0; i < count; i++)
        base_nearest_offer(&nearest, names[i], strlen(names[i]));
    return nearest.best;
}

/* ---- slips ---------------------------------------------------------------------------------- */

enum { SLIP_LETTERS = 6 };

static bool starts_otherwise(const char *seen, const char *name)
{
    char first[2], second[2];
    lower_letters(first, seen, 2);
    lower_letters(second, name, 2);
    return first[0] != second[0] && first[1] == second[1];
}

static bool is_same_letter(char a, char b)
{
    char lower[2];
    lower_letters(&lower[0], &a, 1);
    lower_letters(&lower[1], &b, 1);
    return lower[0] == lower[1];
}

/* Whether a distance is 1 at most: between what both begin and end with is no more than one edit.
 * Most requests have names to compare, so no table is filled for them. */
static bool is_one_edit(const char *a, size_t a_length, const char *b, size_t b_length)
{
    while (a_length > 0 && b_length > 0 && is_same_letter(*a, *b))
        a++, b++, a_length--, b_length--;
    while (a_length > 0 && b_length > 0 && is_same_letter(a[a_length - 1], b[b_length - 1]))
        a_length--, b_length--;
    return (a_length <= 1 && b_length <= 1) ||
           (a_length == 2 && b_length == 2 && is_same_letter(a[0], b[1]) &&
            is_same_letter(a[1], b[0]));
}

bool base_is_slip(const char *seen, size_t seen_length, const char *name, size_t length)
{
    if (length < SLIP_LETTERS || seen_length + 1 < length || seen_length > length + 1 ||
        length > BASE_NEAREST_MAX || seen_length > BASE_NEAREST_MAX)
        return false;
    if (seen_length == length && (memcmp(seen, name, length) == 0 || starts_otherwise(seen, name)))
        return false;
    return is_one_edit(seen, seen_length, name, length);
}
