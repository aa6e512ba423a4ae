/* SPDX-License-Identifier: Apache-2.0 */
/* rfc3339.h - times as text: written in UTC with milliseconds, read in any RFC 3339 form. */
#ifndef BASE_RFC3339_H
#define BASE_RFC3339_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BASE_RFC3339_SIZE = 25 }; /* "2026-01-31T12:34:56.789Z" and a NUL */

/* Years 0000 to 9999; times outside are written as the nearest end. */
void base_rfc3339_format(int64_t wall_ms, char text[BASE_RFC3339_SIZE]);

/* The same in whole seconds: "2026-01-31T12:34:56Z". */
void base_rfc3339_seconds(int64_t wall_ms, char text[BASE_RFC3339_SIZE]);

/* Reads date-time of RFC 3339, section 5.6: any offset, any number of fraction digits (cut to
   milliseconds), T and Z in either case, a leap second counted as the second after. false if it is
   anything else. */
bool base_rfc3339_parse(const char *text, size_t size, int64_t *wall_ms);

#endif
