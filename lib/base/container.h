/* SPDX-License-Identifier: Apache-2.0 */
/* container.h - from a member that is embedded in a struct back to the struct. */
#ifndef BASE_CONTAINER_H
#define BASE_CONTAINER_H

#include <stddef.h>

#define BASE_CONTAINER_OF(pointer, type, member)                                                   \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#endif
