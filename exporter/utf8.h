/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.h - takes text from outside apart, one character at a time. */
#ifndef EXPORTER_UTF8_H
#define EXPORTER_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define EXPORTER_UTF8_INVALID UINT32_MAX

/* Reads the character at the start of `length` bytes (at least one) into *character and answers
 * how many bytes it takes. A byte that begins no valid character (overlong forms, surrogates and
 * what is beyond U+10FFFF are none) reads as EXPORTER_UTF8_INVALID and takes one byte. */
size_t exporter_utf8_next(const char *bytes, size_t length, uint32_t *character);

#endif
