/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runbooks.h - docs/runbooks, part of the program: what to do when an alert fires must be there
 * when nothing else is, so it is read from no file.
 */
#ifndef EXPORTER_STATUS_RUNBOOKS_H
#define EXPORTER_STATUS_RUNBOOKS_H

#include <stddef.h>

#define EXPORTER_RUNBOOKS_INDEX "README" /* the list of them */

/* The page of a runbook as HTML; free() it. NULL: out of memory. The place is that of a name that
 * exporter_runbook_find knows. */
char *exporter_runbook_page(size_t place, size_t *length);

/* The place of the runbook of this name, which may end in .md; (size_t)-1: there is none, and
 * *nearest is the name that was probably meant, or NULL. */
size_t exporter_runbook_find(const char *name, const char **nearest);

#endif
