/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of an Accept header, see accept.h. Any thread. */
#include "exporter/http/accept.h"

#include <string.h>
#include <strings.h>

bool exporter_accept_names(const struct exporter_accepted *accepted, const char *type)
{
    const size_t size = strlen(type);
    return accepted->length >= size && strncasecmp(accepted->entry, type, size) == 0 &&
           (accepted->length == size || accepted->entry[size] == ';' ||
            accepted->entry[size] == ' ');
}

bool exporter_accept_has(const struct exporter_accepted *accepted, const char *parameter)
{
    const size_t size = strlen(parameter);
    const char *entry = accepted->entry;
    for (size_t i = 0; i + size <= accepted->length; i++) {
        if (strncasecmp(entry + i, parameter, size) == 0 &&
            (i + size == accepted->length || strchr("; \t", entry[i + size]) != NULL))
            return true;
    }
    return false;
}

static bool is_excluded(const struct exporter_accepted *accepted)
{
    return exporter_accept_has(accepted, "q=0") || exporter_accept_has(accepted, "q=0.0");
}

bool exporter_accept_next(const char **at, struct exporter_accepted *accepted)
{
    while (*at != NULL && **at != '\0') {
        accepted->entry = *at + strspn(*at, " \t,");
        accepted->length = strcspn(accepted->entry, ",");
        *at = accepted->entry + accepted->length;
        if (accepted->length > 0 && !is_excluded(accepted))
            return true;
    }
    return false;
}
