/* SPDX-License-Identifier: Apache-2.0 */
/*
 * units.h - durations, sizes, numbers and choices as people write them.
 *
 * Durations: whole numbers with ms, s, m, h or d, largest unit first when combined ("1m30s").
 * Sizes: one whole number with B, KiB, MiB or GiB. A bare number has no unit and is refused, but
 * for "0". Nothing is rounded and nothing wraps.
 */
#ifndef EXPORTER_CONFIG_UNITS_H
#define EXPORTER_CONFIG_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* false where `text` is no duration (size, number) or more than 64 bits hold. */
bool exporter_duration_parse(const char *text, uint64_t *ms);
bool exporter_size_parse(const char *text, uint64_t *bytes);
/* Decimal digits only: no sign, no spaces, no leading zero. */
bool exporter_number_parse(const char *text, uint64_t *number);

/* The position of `value` among "a|b|c", or -1. */
int exporter_choice_index(const char *choices, const char *value);

/* Room for what the printers write. */
struct exporter_printed {
    char text[48];
};

/* The shortest notation that reads back as the same value; answers printed->text. */
const char *exporter_duration_print(struct exporter_printed *printed, uint64_t ms);
const char *exporter_size_print(struct exporter_printed *printed, uint64_t bytes);

#endif
