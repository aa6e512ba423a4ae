/* SPDX-License-Identifier: Apache-2.0 */
/* prom_linked_list.h - an opaque type, which no function takes. Programs include the header. */
#ifndef PROM_LINKED_LIST_H
#define PROM_LINKED_LIST_H

#include <stdlib.h> /* programs rely on it */

typedef struct prom_linked_list prom_linked_list_t;

#endif
