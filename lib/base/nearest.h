/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.h - "did you mean ...?": the known name that is nearest to one that was seen. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stdbool.h>
#include <stddef.h>

enum { BASE_NEAREST_MAX = 64 }; /* letters: no name of ours is longer; it bounds the work */

/* Names offered one after the other; the nearest is kept, of equally near ones the first. */
struct base_nearest {
    const char *seen;
    size_t length;    /* of seen */
    const char *best; /* NULL while nothing near enough was offered */
    size_t best_length;
    size_t distance;
};

struct base_nearest base_nearest_begin(const char *seen, size_t length);
void base_nearest_offer(struct base_nearest *nearest, const char *name, size_t length);

/* The same for a list of names: the nearest one, or NULL where none is near enough. */
const char *base_nearest(const char *seen, const char *const *names, size_t count);

/* How many letters must be inserted, removed, replaced or swapped with their neighbour to make one
   of the other; SIZE_MAX where either is longer than BASE_NEAREST_MAX. */
size_t base_edit_distance(const char *a, size_t a_length, const char *b, size_t b_length);

/* Whether one slip makes `seen` of the name: a letter is wrong, missing, doubled or swapped with
   its neighbour, or letters are in the other case. For where any name is allowed: names of less
   than six letters have too many neighbours, and with another first letter it is another word, as
   "headline" and "deadline". */
bool base_is_slip(const char *seen, size_t seen_length, const char *name, size_t length);

#endif
