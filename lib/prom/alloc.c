/* SPDX-License-Identifier: Apache-2.0 */
/* What prom_alloc.h has as a function: strdup is hidden from programs of strict C11. Any thread. */
#include "lib/prom/prom_alloc.h"

char *prom_strdup_text(const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    return copy ? memcpy(copy, text, size) : NULL;
}
