/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.h - the name that somebody probably meant. */
#ifndef HANDOFF_BASE_NEAREST_H
#define HANDOFF_BASE_NEAREST_H

#include <stddef.h>

/* The one of `names` with the fewest edits to `name`, or NULL where none is within a third of its
 * length. */
const char *handoff_nearest(const char *name, const char *const *names, size_t count);

#endif
