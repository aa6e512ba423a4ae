/* SPDX-License-Identifier: Apache-2.0 */
/*
 * accept.h - which forms of an answer a client reads, by its Accept header. Any thread.
 */
#ifndef EXPORTER_HTTP_ACCEPT_H
#define EXPORTER_HTTP_ACCEPT_H

#include <stdbool.h>
#include <stddef.h>

/* One entry of the header, lent from it. */
struct exporter_accepted {
    const char *entry;
    size_t length;
};

/* The next entry that is not excluded by q=0, from `*at` on, which moves behind it. false: there is
 * none. `*at` may be NULL. */
bool exporter_accept_next(const char **at, struct exporter_accepted *accepted);
/* It names this type, whatever its parameters. */
bool exporter_accept_names(const struct exporter_accepted *accepted, const char *type);
bool exporter_accept_has(const struct exporter_accepted *accepted, const char *parameter);

#endif
