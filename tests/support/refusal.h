/* SPDX-License-Identifier: Apache-2.0 */
/* What every refusal of hostile input must be; for the fuzz targets. */
#ifndef TESTS_SUPPORT_REFUSAL_H
#define TESTS_SUPPORT_REFUSAL_H

#include "client/handoff.h"
#include "lib/base/check.h"
#include "lib/base/utf8.h"

/* It says why, in plain UTF-8, however it was cut to fit. */
static inline void check_refused(const struct handoff_error *error)
{
    char text[1024];
    size_t length = handoff_error_text(error, text, sizeof(text));
    BASE_CHECK(error->code != HANDOFF_OK && error->message != NULL);
    if (length >= sizeof(text))
        length = sizeof(text) - 1;
    BASE_CHECK(base_utf8_valid_length(text, length) == length);
}

#endif
