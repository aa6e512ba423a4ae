/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classes and folding of characters. Pure; any thread.
 *
 * Folding is decomposition with compatibility (Unicode's NFKD), lower case, and then leaving out
 * accents. What counts as an accent is told by the combining class: those of 10 and more stand
 * above, below or around a letter, and are vowel points in Hebrew and Arabic. Lower classes change
 * what a character is: the marks that make ka into ga, viramas, nuktas. Marks of class 0 are the
 * vowels of Indic scripts.
 *
 * Letters that do not decompose but that people write as others are in a table.
 */
#include "lib/words/letters.h"

#include <stdbool.h>
#include <unicase.h>
#include <unictype.h>
#include <uninorm.h>
#include <uniwbrk.h>

#include "lib/base/check.h"

#define B WORDS_BREAK
#define L WORDS_LOWER
#define U WORDS_UPPER
#define D WORDS_DIGIT
#define J WORDS_JOINER
#define S WORDS_SILENT
#define C WORDS_DECIMAL

/* clang-format off */
const uint8_t words_ascii_class[128] = {
    B, B, B, B, B, B, B, B,  B, B, B, B, B, B, B, B,
    B, B, B, B, B, B, B, B,  B, B, B, B, B, B, B, B,
    B, B, B, B, B, B, B, S,  B, B, B, B, C, S, J, J, /*   ! " # $ % & '  ( ) * + , - . / */
    D, D, D, D, D, D, D, D,  D, D, J, B, B, B, B, B, /* 0 1 2 3 4 5 6 7  8 9 : ; < = > ? */
    J, U, U, U, U, U, U, U,  U, U, U, U, U, U, U, U,
    U, U, U, U, U, U, U, U,  U, U, U, B, J, B, B, S, /* X Y Z [ \ ] ^ _ */
    B, L, L, L, L, L, L, L,  L, L, L, L, L, L, L, L,
    L, L, L, L, L, L, L, L,  L, L, L, B, B, B, B, B,
};
/* clang-format on */

#undef B
#undef L
#undef U
#undef D
#undef J
#undef S
#undef C

static bool is_hangul(uint32_t character)
{
    return character >= 0xac00 && character <= 0xd7a3;
}

static enum words_class class_of_letter(uint32_t character)
{
    return uc_is_general_category_withtable(character, UC_CATEGORY_MASK_Lu | UC_CATEGORY_MASK_Lt)
               ? WORDS_UPPER
               : WORDS_LOWER;
}

/* Unicode gives letters of scripts that need a dictionary no class. */
static enum words_class class_without_breaks(uint32_t character)
{
    if (uc_is_general_category_withtable(character, UC_CATEGORY_MASK_L))
        return WORDS_DENSE;
    return uc_is_general_category_withtable(character, UC_CATEGORY_MASK_N) ? WORDS_DIGIT
                                                                           : WORDS_BREAK;
}

enum words_class words_class_of(uint32_t character)
{
    if (character < 128)
        return (enum words_class)words_ascii_class[character];
    if (is_hangul(character))
        return WORDS_DENSE;
    switch (uc_wordbreak_property(character)) {
    case WBP_ALETTER:
    case WBP_HL:
        return class_of_letter(character);
    case WBP_NUMERIC:
        return WORDS_DIGIT;
    case WBP_KATAKANA:
        return WORDS_DENSE;
    case WBP_EXTEND:
    case WBP_FORMAT:
    case WBP_ZWJ:
        return WORDS_MARK;
    case WBP_MIDLETTER:
        return WORDS_JOINER;
    case WBP_EXTENDNUMLET:
    case WBP_MIDNUMLET:
        return WORDS_SILENT; /* above ASCII: the typographic apostrophe */
    case WBP_MIDNUM:
        return WORDS_DECIMAL;
    case WBP_OTHER:
        return class_without_breaks(character);
    default:
        return WORDS_BREAK;
    }
}

/* ---- folding --------------------------------------------------------------------------------- */

struct spelling {
    uint32_t character;
    const char *as;
};

static const char *other_spelling(uint32_t character)
{
    static const struct spelling table[] = {
        {0x00df, "ss"}, {0x00e6, "ae"}, {0x00f0, "d"},  {0x00f8, "o"},
        {0x00fe, "th"}, {0x0111, "d"},  {0x0127, "h"},  {0x0131, "i"},
        {0x0142, "l"},  {0x0153, "oe"}, {0x1e9e, "ss"},
    };
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].character == character)
            return table[i].as;
    return NULL;
}

static bool is_accent(uint32_t character)
{
    return uc_combining_class(character) >= 10 ||
           uc_is_general_category_withtable(character, UC_CATEGORY_MASK_Cf);
}

static unsigned fold_simple(uint32_t character, uint32_t *folded)
{
    unsigned count = 0;
    if (is_accent(character))
        return 0;
    character = character == 0x03c2 ? 0x03c3 : uc_tolower(character); /* the final sigma */
    const char *as = other_spelling(character);
    if (!as)
        folded[count++] = character;
    for (; as && *as; as++)
        folded[count++] = (uint32_t)*as;
    return count;
}

unsigned words_fold(uint32_t character, uint32_t folded[WORDS_FOLDED_MAX])
{
    ucs4_t stack[UC_DECOMPOSITION_MAX_LENGTH * 2] = {character};
    unsigned waiting = 1, count = 0;
    while (waiting > 0 && count + 2 <= WORDS_FOLDED_MAX) {
        ucs4_t parts[UC_DECOMPOSITION_MAX_LENGTH];
        int tag;
        const uint32_t next = stack[--waiting];
        const int size = is_hangul(next) ? -1 : uc_decomposition(next, &tag, parts);
        BASE_CHECK(size <= UC_DECOMPOSITION_MAX_LENGTH);
        if (size < 0) {
            count += fold_simple(next, folded + count);
            continue;
        }
        for (int i = size; i > 0 && waiting < sizeof stack / sizeof *stack; i--)
            stack[waiting++] = parts[i - 1];
    }
    return count;
}
