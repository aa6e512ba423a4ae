/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.h - why something could not be done, as a value.
 *
 * A function that can fail for a reason a person can mend fills one of these and says so with its
 * return value. The text is one line, complete in itself: what was refused, what was seen, what is
 * allowed. Text from outside goes in through exporter_error_quote(), so that a line stays a line.
 */
#ifndef EXPORTER_ERROR_H
#define EXPORTER_ERROR_H

#include <stddef.h>

/* Room for a path (4096 bytes are rare, 256 usual), a key and both halves of a sentence. */
struct exporter_error {
    char text[1024];
};

/* Sets the text; what does not fit is cut. `error` may be NULL. */
void exporter_error_set(struct exporter_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Room for what exporter_error_quote() writes, whatever it is given. */
struct exporter_quoted {
    char text[128];
};

/* `length` bytes from outside, in double quotes and with control bytes escaped; a long one is cut
 * and ends in "...". Answers quoted->text, so that it can stand in an argument list. */
const char *exporter_error_quote(struct exporter_quoted *quoted, const char *bytes, size_t length);

#endif
