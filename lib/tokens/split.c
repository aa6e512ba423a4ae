/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two expressions, one alternative per line (the text of the encodings' own definitions):
 *
 *   cl100k_base                                 o200k_base
 *   (?i:'s|'t|'re|'ve|'m|'ll|'d)                P?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*
 *                                                 [\p{Ll}\p{Lm}\p{Lo}\p{M}]+C?
 *   P?\p{L}+                                    P?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+
 *                                                 [\p{Ll}\p{Lm}\p{Lo}\p{M}]*C?
 *   \p{N}{1,3}                                  \p{N}{1,3}
 *    ?[^\s\p{L}\p{N}]+[\r\n]*                    ?[^\s\p{L}\p{N}]+[\r\n/]*
 *   \s*[\r\n]+                                  \s*[\r\n]+
 *   \s+(?!\S)                                   \s+(?!\S)
 *   \s+                                         \s+
 *
 * with P = [^\r\n\p{L}\p{N}] and C = (?i:'s|'t|'re|'ve|'m|'ll|'d). Repetitions are greedy and
 * backtrack; the first alternative that matches wins, not the longest. Ignoring case, the long s
 * U+017F is an s: the reference folds case by Unicode. No other letter of C has such a twin.
 *
 * Each match_ function returns the end of its alternative's match, or NULL for no match. Pure, any
 * thread.
 */
#include "lib/tokens/split.h"

#include "lib/base/utf8.h"
#include "lib/tokens/unicode.h"

#include <stdbool.h>
#include <stddef.h>

#define SET(name) (1u << HANDOFF_UNICODE_##name)

enum {
    ANY_SPACE = SET(SPACE) | SET(NEWLINE),
    ANY_LETTER = SET(UPPER) | SET(LOWER) | SET(LETTER),
    PREFIX = SET(OTHER) | SET(SPACE) | SET(MARK),
    SYMBOL = SET(OTHER) | SET(MARK),
    COMMON = SET(LETTER) | SET(MARK), /* allowed in both halves of a word of o200k */
    FIRST_HALF = SET(UPPER) | COMMON,
    SECOND_HALF = SET(LOWER) | COMMON,
};

/* The class of the character at a place, as a set of one; the empty set at the end. */
static inline unsigned class_at(const uint8_t *at, const uint8_t *end, unsigned *width)
{
    *width = 0;
    if (at == end)
        return 0;
    if (*at < 0x80) {
        *width = 1;
        return 1u << handoff_unicode_blocks[0][*at];
    }
    return 1u << handoff_unicode_class(base_utf8_read(at, width));
}

/* Skips characters while they are in a set. */
static inline const uint8_t *skip_class(const uint8_t *at, const uint8_t *end, unsigned set)
{
    unsigned width;

    while (class_at(at, end, &width) & set)
        at += width;
    return at;
}

static bool is_either_case(uint8_t byte, char lower)
{
    return (byte | 0x20) == lower;
}

static const uint8_t *match_contraction(const uint8_t *at, const uint8_t *end)
{
    ptrdiff_t room = end - at;

    if (room < 2 || *at != '\'')
        return NULL;
    if (is_either_case(at[1], 's') || is_either_case(at[1], 't') || is_either_case(at[1], 'm') ||
        is_either_case(at[1], 'd'))
        return at + 2;
    if (room < 3)
        return NULL;
    if ((is_either_case(at[1], 'r') && is_either_case(at[2], 'e')) ||
        (is_either_case(at[1], 'v') && is_either_case(at[2], 'e')) ||
        (is_either_case(at[1], 'l') && is_either_case(at[2], 'l')) ||
        (at[1] == 0xc5 && at[2] == 0xbf))
        return at + 3;
    return NULL;
}

static const uint8_t *extend_by_contraction(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *longer = match_contraction(at, end);

    return longer ? longer : at;
}

static const uint8_t *match_cl100k_word(const uint8_t *at, const uint8_t *end)
{
    unsigned width, set = class_at(at, end, &width);
    const uint8_t *letters = set & PREFIX ? at + width : at;
    const uint8_t *stop = skip_class(letters, end, ANY_LETTER);

    return stop > letters ? stop : NULL;
}

/*
 * Both word alternatives of o200k in one pass. The first half runs as far as it can. If a lower
 * case letter follows, the second half begins there. Otherwise the first half gives back just
 * enough to leave the second half one character, the last one allowed in both. If none is and the
 * word began with a mark, the prefix gives the mark back and the mark alone is the word. What
 * remains is the second alternative: capitals only.
 */
static const uint8_t *match_o200k_word(const uint8_t *at, const uint8_t *end)
{
    unsigned width, first = class_at(at, end, &width), set;
    const uint8_t *after_first = at + width;
    const uint8_t *body = first & PREFIX ? after_first : at;
    const uint8_t *stop = body, *common_end = NULL;

    while ((set = class_at(stop, end, &width)) & FIRST_HALF) {
        stop += width;
        if (set & COMMON)
            common_end = stop;
    }
    if (set & SET(LOWER))
        return extend_by_contraction(skip_class(stop, end, SECOND_HALF), end);
    if (common_end)
        return extend_by_contraction(common_end, end);
    if (first & SET(MARK))
        return extend_by_contraction(after_first, end);
    return stop > body ? extend_by_contraction(stop, end) : NULL;
}

static const uint8_t *match_number(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *stop = at;
    unsigned width;

    for (int digits = 0; digits < 3 && class_at(stop, end, &width) & SET(NUMBER); digits++)
        stop += width;
    return stop > at ? stop : NULL;
}

static const uint8_t *match_symbols(const uint8_t *at, const uint8_t *end, bool slash_may_follow)
{
    const uint8_t *start = *at == ' ' ? at + 1 : at;
    const uint8_t *stop = skip_class(start, end, SYMBOL);

    if (stop == start)
        return NULL;
    while (stop < end && (*stop == '\r' || *stop == '\n' || (slash_may_follow && *stop == '/')))
        stop++;
    return stop;
}

/* The last three alternatives; only white space gets this far. */
static const uint8_t *match_white_space(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *stop = at, *last = at, *newline_end = NULL;
    unsigned width, set;

    while ((set = class_at(stop, end, &width)) & ANY_SPACE) {
        last = stop;
        stop += width;
        if (set & SET(NEWLINE))
            newline_end = stop;
    }
    if (newline_end)
        return newline_end;
    /* A character that is not white space follows: it keeps the space before it, unless that is the
     * only one. */
    return stop == end || last == at ? stop : last;
}

const uint8_t *handoff_split_cl100k(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *stop;

    if ((stop = match_contraction(at, end)) || (stop = match_cl100k_word(at, end)) ||
        (stop = match_number(at, end)) || (stop = match_symbols(at, end, false)))
        return stop;
    return match_white_space(at, end);
}

const uint8_t *handoff_split_o200k(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *stop;

    if ((stop = match_o200k_word(at, end)) || (stop = match_number(at, end)) ||
        (stop = match_symbols(at, end, true)))
        return stop;
    return match_white_space(at, end);
}

handoff_split_function *handoff_split_for(uint32_t pattern)
{
    switch (pattern) {
    case HANDOFF_SPLIT_CL100K:
        return handoff_split_cl100k;
    case HANDOFF_SPLIT_O200K:
        return handoff_split_o200k;
    default:
        return NULL;
    }
}
