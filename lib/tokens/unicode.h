/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unicode.h - the classes of code points that splitting text for token counting needs.
 *
 * The tables are those of Unicode 16.0.0, because the reference tokenizer (the npm package
 * tiktoken 1.0.22, whose regular expressions are Rust's) was built with that version; a table of
 * another version would count newly assigned letters differently. They are generated once and
 * committed, so no machine's own Unicode data changes a count.
 */
#ifndef HANDOFF_TOKENS_UNICODE_H
#define HANDOFF_TOKENS_UNICODE_H

#include <stdint.h>

/* The numbers are those of generate-unicode.mjs. Every code point has exactly one class. */
enum handoff_unicode_class {
    HANDOFF_UNICODE_OTHER = 0,   /* neither white space, nor letter, mark or number */
    HANDOFF_UNICODE_SPACE = 1,   /* \s without the two below */
    HANDOFF_UNICODE_NEWLINE = 2, /* carriage return and line feed */
    HANDOFF_UNICODE_UPPER = 3,   /* \p{Lu} and \p{Lt} */
    HANDOFF_UNICODE_LOWER = 4,   /* \p{Ll} */
    HANDOFF_UNICODE_LETTER = 5,  /* \p{Lm} and \p{Lo} */
    HANDOFF_UNICODE_MARK = 6,    /* \p{M} */
    HANDOFF_UNICODE_NUMBER = 7,  /* \p{N} */
};

/* Two stages: the index names one of the blocks for every 128 code points. Block 0 is ASCII. */
extern const uint8_t handoff_unicode_index[];
extern const uint8_t handoff_unicode_blocks[][128];

/* code_point is at most U+10FFFF. */
static inline enum handoff_unicode_class handoff_unicode_class(uint32_t code_point)
{
    return (enum handoff_unicode_class)
        handoff_unicode_blocks[handoff_unicode_index[code_point >> 7]][code_point & 127];
}

#endif
