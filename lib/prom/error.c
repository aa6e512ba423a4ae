/* SPDX-License-Identifier: Apache-2.0 */
/* The last error of each thread, of prom_error.h. Any thread. */
#include "lib/prom/prom_error.h"

#include <stdarg.h>
#include <stdio.h>

#include "lib/prom/catalog.h"

enum { TEXT_MAX = 200 };

static _Thread_local char last_error[TEXT_MAX];

int prom_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    for (char *at = last_error; *at != '\0'; at++) {
        if ((unsigned char)*at < ' ') /* in a name, perhaps: the error is one line */
            *at = '?';
    }
    return 1;
}

const char *prom_last_error(void)
{
    return last_error;
}
