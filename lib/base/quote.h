/* SPDX-License-Identifier: Apache-2.0 */
/* quote.h - text from outside, made safe to stand in a line of text for people. */
#ifndef BASE_QUOTE_H
#define BASE_QUOTE_H

#include <stddef.h>

/* Room for what base_quote() writes, whatever it is given. */
struct base_quoted {
    char text[132];
};

/* `length` bytes from outside, in double quotes and with control bytes and bytes that are not UTF-8
   escaped, so that a line stays one line; a long text is cut and ends in "...". Returns
   quoted->text, to be used as an argument. */
const char *base_quote(struct base_quoted *quoted, const char *bytes, size_t length);

#endif
