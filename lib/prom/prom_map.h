/* SPDX-License-Identifier: Apache-2.0 */
/* prom_map.h - opaque types, which are only there as what a prom_collect_fn returns, and because
 * programs name them. */
#ifndef PROM_MAP_H
#define PROM_MAP_H

typedef struct prom_map prom_map_t;
typedef struct prom_map_node prom_map_node_t;

#endif
