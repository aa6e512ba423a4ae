/* SPDX-License-Identifier: Apache-2.0 */
/* Reading UTF-8, after the table of well-formed sequences in the Unicode standard (table 3-7). */
#include "exporter/utf8.h"

static size_t sequence_length(unsigned char first)
{
    if (first < 0x80) {
        return 1;
    }
    if (first >= 0xC2 && first <= 0xDF) {
        return 2;
    }
    if (first >= 0xE0 && first <= 0xEF) {
        return 3;
    }
    return first >= 0xF0 && first <= 0xF4 ? 4 : 0;
}

size_t exporter_utf8_next(const char *bytes, size_t length, uint32_t *character)
{
    static const uint32_t first_mask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)bytes;
    size_t size = sequence_length(at[0]);

    *character = EXPORTER_UTF8_INVALID;
    if (size == 0 || size > length) {
        return 1;
    }
    uint32_t value = at[0] & first_mask[size];
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xC0) != 0x80) {
            return 1;
        }
        value = value << 6 | (at[i] & 0x3F);
    }
    if (value < smallest[size] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
        return 1;
    }
    *character = value;
    return size;
}
