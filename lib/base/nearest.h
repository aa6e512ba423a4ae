/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.h - the name that somebody probably meant. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>

/* The one of `names` with the fewest edits to `name`, or NULL where none is within a third of its
 * length. */
const char *base_nearest(const char *name, const char *const *names, size_t count);

#endif
