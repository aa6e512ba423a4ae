/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard.h - reads of a mapped file that fail.
 *
 * Where a page of a mapped file cannot be read, because the disk fails or the file was truncated,
 * the reading thread gets a SIGBUS, which ends the process. In ranges that are guarded it finds
 * zeros there instead, and the range is marked. Whoever reads must bear any bytes.
 *
 * A range that is added installs a handler for the process, unless it is there; it leaves all other
 * addresses to the one that was there before.
 */
#ifndef SEARCH_GUARD_H
#define SEARCH_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* A mapping, until it is taken back; before it is unmapped. `mark` becomes `failed` when one of its
   pages cannot be read. Any thread. False: there are too many. */
bool search_guard_add(const void *bytes, size_t size, _Atomic(int) *mark, int failed);
void search_guard_remove(const void *bytes);

#endif
