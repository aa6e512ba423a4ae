/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.h - why something could not be done, as one line of text for people.
 *
 * A function of the daemon that can fail for a reason a person can fix fills one of these and
 * returns false. The text is complete in itself: what was rejected, what was seen, what is allowed,
 * and in which line of which file. It differs from the client's struct handoff_error, which
 * programs read: a code and separate fields, and no positions. Text from outside goes in through
 * base_quote(), so that a line stays a line.
 */
#ifndef EXPORTER_ERROR_H
#define EXPORTER_ERROR_H

#include <stddef.h>

#include "lib/base/quote.h"

/* Room for a path (4096 bytes are rare, 256 usual), a key and both halves of a sentence. */
struct exporter_error {
    char text[1024];
};

/* Sets the text; what does not fit is cut. `error` may be NULL. */
void exporter_error_set(struct exporter_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
