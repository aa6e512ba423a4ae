/* SPDX-License-Identifier: Apache-2.0 */
/*
 * canonical.h - one text for all JSON that means the same, to compare by digest.
 *
 * Much as RFC 8785 has it: compact, members sorted by name, strings with the fewest escapes. Names
 * are sorted by their UTF-8 bytes. Numbers are not rounded to doubles: 1, 1.0 and 10e-1 are the
 * same, and numbers of 30 digits that differ in the last are not.
 */
#ifndef BASE_CANONICAL_H
#define BASE_CANONICAL_H

#include <yyjson.h>

#include "lib/base/buffer.h"

/* Values are as base_json_read gives them. The time is n log n in the members of the largest
 * object, and linear in all else. The buffer remembers a failed allocation. */
void base_json_canonical(struct base_buffer *out, yyjson_val *value);
/* The same for an object in which a member that is null counts as absent; not so deeper down. */
void base_json_canonical_request(struct base_buffer *out, yyjson_val *value);

#endif
