/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for one known text, unlike client/secrets, which knows what credentials look like. Pure. */
#include "lib/base/hide.h"

#include <string.h>

enum { CREDENTIAL_MIN = 8 };

static char *find_credential(const char *data, size_t size, const char *credential)
{
    const size_t length = strlen(credential);
    return length >= CREDENTIAL_MIN && size >= length ? memmem(data, size, credential, length)
                                                      : NULL;
}

bool base_has_credential(const char *data, size_t size, const char *credential)
{
    return find_credential(data, size, credential) != NULL;
}

void base_hide_credential(char *data, size_t size, const char *credential)
{
    char *at = data;
    while ((at = find_credential(at, size - (size_t)(at - data), credential)) != NULL)
        memset(at, '*', strlen(credential));
}
