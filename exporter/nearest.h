/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.h - "did you mean ...?" */
#ifndef EXPORTER_NEAREST_H
#define EXPORTER_NEAREST_H

#include <stddef.h>

/* Names offered one after the other; the one nearest to what was seen is kept. */
struct exporter_nearest {
    const char *seen;
    size_t length;    /* of seen */
    const char *best; /* NULL while nothing near enough was offered */
    size_t best_length;
    size_t distance;
};

struct exporter_nearest exporter_nearest_begin(const char *seen, size_t length);
void exporter_nearest_offer(struct exporter_nearest *nearest, const char *name, size_t length);

/* How many letters must be put in, taken out, replaced or swapped with their neighbour to make one
 * of the other; texts of 64 bytes and more are infinitely far (SIZE_MAX). */
size_t exporter_edit_distance(const char *a, size_t a_length, const char *b, size_t b_length);

#endif
