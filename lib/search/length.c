/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lengths in one byte: exact below 32, then four binary digits after the first, so that no length
 * is kept more than a sixteenth too small. Pure; any thread.
 */
#include "lib/search/segment.h"

uint8_t search_length_code(uint32_t length)
{
    if (length < 32)
        return (uint8_t)length;
    const int shift = 31 - __builtin_clz(length) - 4;
    const uint32_t code = 16u + (uint32_t)shift * 16 + (length >> shift & 15);
    return code > UINT8_MAX ? UINT8_MAX : (uint8_t)code;
}

uint32_t search_length_of(uint8_t code)
{
    if (code < 32)
        return code;
    const int shift = (code - 16) / 16;
    return (16u + (code & 15)) << shift;
}

uint32_t search_kept_length(uint32_t length)
{
    return search_length_of(search_length_code(length));
}
