/* SPDX-License-Identifier: Apache-2.0 */
/*
 * members.h - members of a JSON object as they stand in its text, without reading what is in them.
 *
 * For documents that are read as a whole elsewhere: prose is passed over at the speed of memchr.
 * What this finds is right where that reader finds the text valid, and within the text in any case.
 */
#ifndef BASE_MEMBERS_H
#define BASE_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/span.h"

/* Sets each of `values` to the text of the first member of that name, absent where there is none,
   and *members to how many there are. False: the text has to be read, since it is no object, is not
   valid as far as this looks, or a name in it is written with escapes. Any thread. */
bool base_json_find_members(struct base_span object, const char *const *names,
                            struct base_span *values, size_t count, size_t *members);

/* The text of a string that is written without escapes, absent for any other value. */
struct base_span base_json_plain_string(struct base_span value);

#endif
