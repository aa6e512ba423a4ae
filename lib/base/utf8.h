/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utf8.h - checking, repairing and reading UTF-8.
 *
 * "Valid" is RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. Repairing puts
 * one U+FFFD in place of every maximal ill-formed subsequence, as Unicode (chapter 3, table 3-8)
 * recommends and as browsers, Python and Rust do.
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length of the longest valid beginning: equal to length when all of it is valid. */
size_t base_utf8_valid_length(const char *text, size_t length);

/* A repaired copy, for base_free(); NULL when memory ran out. */
char *base_utf8_repair(const char *text, size_t length, size_t *repaired_length);

/* Copies as many whole characters as fit with a NUL into `room` bytes, and the NUL. */
void base_utf8_cut(char *to, size_t room, const char *from, size_t size);

#define BASE_UTF8_INVALID UINT32_MAX

/* Reads the character at the start of `length` bytes (at least one) of any text and returns how
   many bytes it takes. A maximal ill-formed subsequence reads as one BASE_UTF8_INVALID. */
size_t base_utf8_next(const char *bytes, size_t length, uint32_t *character);

/* Reads the character at a place in valid text; the width says how many bytes it took. */
static inline uint32_t base_utf8_read(const uint8_t *at, unsigned *width)
{
    if (at[0] < 0x80) {
        *width = 1;
        return at[0];
    }
    if (at[0] < 0xe0) {
        *width = 2;
        return (uint32_t)(at[0] & 0x1f) << 6 | (at[1] & 0x3f);
    }
    if (at[0] < 0xf0) {
        *width = 3;
        return (uint32_t)(at[0] & 0x0f) << 12 | (uint32_t)(at[1] & 0x3f) << 6 | (at[2] & 0x3f);
    }
    *width = 4;
    return (uint32_t)(at[0] & 0x07) << 18 | (uint32_t)(at[1] & 0x3f) << 12 |
           (uint32_t)(at[2] & 0x3f) << 6 | (at[3] & 0x3f);
}

#endif
