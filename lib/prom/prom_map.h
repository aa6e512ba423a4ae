/* SPDX-License-Identifier: Apache-2.0 */
/* prom_map.h - an opaque type, which is only there as what a prom_collect_fn returns. */
#ifndef PROM_MAP_H
#define PROM_MAP_H

typedef struct prom_map prom_map_t;

#endif
