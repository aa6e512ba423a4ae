/* SPDX-License-Identifier: Apache-2.0 */
/* Filling an error with text. On any thread. */
#include "exporter/error.h"

#include <stdarg.h>
#include <stdio.h>

void exporter_error_set(struct exporter_error *error, const char *format, ...)
{
    va_list arguments;

    if (error == NULL) {
        return;
    }
    va_start(arguments, format);
    (void)vsnprintf(error->text, sizeof(error->text), format, arguments);
    va_end(arguments);
}
