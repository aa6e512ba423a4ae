/* SPDX-License-Identifier: Apache-2.0 */
/* What tells texts apart, see telling.h. Pure; any thread. */
#include "lib/words/telling.h"

#include <string.h>
#include <unictype.h>

enum { LISTED = 10, LONGEST = 10 };

/* Folded, by their first letters: English, German, French, Spanish, Italian, Portuguese, Dutch,
   Scandinavian, Polish and Czech. */
static const char negations[26][LISTED][LONGEST] = {
    ['a' - 'a'] = {"aldrig", "aucun", "aucune"},
    ['b' - 'a'] = {"bez"},
    ['c' - 'a'] = {"cannot"},
    ['e' - 'a'] = {"except", "ej"},
    ['g' - 'a'] = {"geen"},
    ['i' - 'a'] = {"ikke", "inte", "ingen", "icke"},
    ['j' - 'a'] = {"jamais", "jamas"},
    ['k' - 'a'] = {"kein", "keine", "keinen", "keiner", "keinem", "keines"},
    ['n' - 'a'] = {"not", "no", "never", "nicht", "non", "nie", "ne", "nor", "none", "niet"},
    ['o' - 'a'] = {"ohne"},
    ['p' - 'a'] = {"pas"},
    ['s' - 'a'] = {"sans", "sin", "senza", "sem"},
    ['u' - 'a'] = {"unless", "utan", "uden", "uten"},
    ['w' - 'a'] = {"without", "weder"},
    ['z' - 'a'] = {"zonder"},
};

/* What the row of n has no room for. */
static const char more_negations[LISTED][LONGEST] = {"neither", "nothing", "nunca", "nao",
                                                     "nem",     "niemals", "nooit", "nirgends"};

/* Russian and Ukrainian. */
static const char cyrillic[LISTED][LONGEST] = {"не", "ни", "нет", "без", "ні"};

static bool is_in_words(const char list[LISTED][LONGEST], const char *letters, size_t size)
{
    for (size_t i = 0; i < LISTED && list[i][0]; i++)
        if (list[i][size] == '\0' && memcmp(list[i], letters, size) == 0)
            return true;
    return false;
}

bool words_negates(const char *letters, size_t size)
{
    if (size < 2 || size >= LONGEST)
        return false;
    if ((unsigned char)letters[0] >= 0x80)
        return is_in_words(cyrillic, letters, size);
    if (letters[0] < 'a' || letters[0] > 'z')
        return false;
    return is_in_words(negations[letters[0] - 'a'], letters, size) ||
           (letters[0] == 'n' && is_in_words(more_negations, letters, size));
}

/* ---- scripts without spaces ------------------------------------------------------------------ */

static bool negates_alone(uint32_t character)
{
    static const uint32_t negating[] = {
        0x4e0d, 0x6ca1, 0x6c92, 0x672a, 0x65e0, 0x7121, 0x975e, 0x5225, 0x522b, 0x52ff, /* Han */
        0xc548, 0xc54a, 0xbabb, 0xc5c6,                                                 /* Hangul */
    };
    for (size_t i = 0; i < sizeof negating / sizeof *negating; i++)
        if (negating[i] == character)
            return true;
    return false;
}

bool words_negates_dense(uint32_t character, uint32_t next)
{
    static const uint32_t negating[][2] = {
        {0x306a, 0x3044}, {0x306a, 0x304b}, {0x306a, 0x304f}, {0x306a, 0x3051}, /* na-i, -ka ... */
        {0x306a, 0x3057}, {0x305b, 0x3093}, {0x305a, 0x306b},                   /* se-n, zu-ni */
        {0xc544, 0xb2c8}, {0xc544, 0xb2cc}, {0xb9c8, 0xc138},                   /* a-ni, ma-se */
    };
    if (negates_alone(character))
        return true;
    for (size_t i = 0; i < sizeof negating / sizeof *negating; i++)
        if (negating[i][0] == character && negating[i][1] == next)
            return true;
    return false;
}

bool words_is_sign(uint32_t character, bool before_digit)
{
    if (character == '-' || character == 0x2212)
        return before_digit;
    if (character < 0x80)
        return character >= '!' && strchr("!#$%&*+<=>^|~", (int)character);
    return uc_is_general_category_withtable((ucs4_t)character, UC_CATEGORY_MASK_S);
}
