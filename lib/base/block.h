/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block.h - sixteen bytes of a text that gcc and clang compare at once, on every machine.
 *
 * A comparison of two blocks, or of a block with a character, has all bits of the bytes for which
 * it holds; such blocks are joined by | and &.
 */
#ifndef BASE_BLOCK_H
#define BASE_BLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef unsigned char base_block __attribute__((vector_size(16)));

static inline base_block base_block_load(const char *text)
{
    base_block block;
    memcpy(&block, text, sizeof block);
    return block;
}

static inline bool base_block_is_zero(base_block block)
{
    uint64_t halves[2];
    memcpy(halves, &block, sizeof halves);
    return (halves[0] | halves[1]) == 0;
}

#endif
