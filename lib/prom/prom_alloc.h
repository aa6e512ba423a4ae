/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prom_alloc.h - how memory is allocated that a program hands to the library.
 *
 * A program may define these names before it includes the header. The library itself uses malloc
 * and free: what it is given to free (buckets that a program filled itself, see
 * prom_histogram_buckets.h) must come from malloc, and what it returns to be freed
 * (prom_collector_registry_bridge) is freed with free().
 */
#ifndef PROM_ALLOC_H
#define PROM_ALLOC_H

#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A copy of the text in memory of malloc, which the caller frees with prom_free. NULL: no memory.
 */
char *prom_strdup_text(const char *text);

#ifdef __cplusplus
}
#endif

#ifndef prom_malloc
#define prom_malloc malloc
#endif
#ifndef prom_realloc
#define prom_realloc realloc
#endif
#ifndef prom_strdup
#define prom_strdup prom_strdup_text
#endif
#ifndef prom_free
#define prom_free free
#endif

#endif
