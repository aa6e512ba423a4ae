/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page.h - what all our pages of HTML share: their head, their style, and the policy under which
 * they are complete.
 */
#ifndef EXPORTER_STATUS_PAGE_H
#define EXPORTER_STATUS_PAGE_H

#include <stddef.h>
#include <stdio.h>

enum { EXPORTER_PAGE_POLICY_SIZE = 384 };

/* The Content-Security-Policy under which a page is complete: its own style, and a script
 * that may ask for the page again; nothing else. */
void exporter_page_policy(char policy[EXPORTER_PAGE_POLICY_SIZE]);

/* The style alone, for pages that link to it. */
const char *exporter_page_style(size_t *length);

struct exporter_page_link {
    const char *path, *name;
};

/* Writes everything up to the open <main>. The title is escaped, and so are the paths. */
void exporter_page_begin(FILE *out, const char *title, const struct exporter_page_link *links,
                         size_t count);

/* Writes the script by which a page asks for itself every 15 s. */
void exporter_page_refresh(FILE *out);

/* Closes a stream of open_memstream and answers its bytes; NULL: out of memory, and they are freed.
 */
char *exporter_page_end(FILE *out, char **bytes);

#endif
