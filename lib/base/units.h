/* SPDX-License-Identifier: Apache-2.0 */
/*
 * units.h - durations, sizes, numbers, choices and ages as people write them.
 *
 * Durations: whole numbers with ms, s, m, h or d, largest unit first when combined ("1m30s").
 * Sizes: one whole number with B, KiB, MiB or GiB. A bare number has no unit and is refused, but
 * for "0". Nothing is rounded and nothing wraps.
 */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* false where `text` is no duration (size, number) or more than 64 bits hold. */
bool base_duration_parse(const char *text, uint64_t *ms);
bool base_size_parse(const char *text, uint64_t *bytes);
/* Decimal digits only: no sign, no spaces, no leading zero. */
bool base_number_parse(const char *text, uint64_t *number);

/* The position of `value` among "a|b|c", or -1. */
int base_choice_index(const char *choices, const char *value);
/* The choice at an index, cut to fit; "" where there is none. Returns `to`. */
const char *base_choice_copy(const char *choices, unsigned index, char *to, size_t size);

/* Room for what the printers write. */
struct base_printed {
    char text[48];
};

/* The shortest notation that reads back as the same value; answers printed->text. */
const char *base_duration_print(struct base_printed *printed, uint64_t ms);
const char *base_size_print(struct base_printed *printed, uint64_t bytes);

/* An age for people, which is not read back: "0.4 s", "12 s", "3 min 20 s", "2 h 5 min" or
   "4 d 1 h", the two largest units. Returns printed->text. */
const char *base_age_print(struct base_printed *printed, int64_t age_ms);

#endif
