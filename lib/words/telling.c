/* SPDX-License-Identifier: Apache-2.0 */
/* What tells texts apart, see telling.h. Pure; any thread. */
#include "lib/words/telling.h"

#include <string.h>
#include <unictype.h>

static const char negations[][8] = {"no",   "not",     "nor",     "never",
                                    "none", "without", "neither", "nothing"};

bool words_negates(const char *letters, size_t size)
{
    if (size < 2 || size > sizeof negations[0] || (letters[0] != 'n' && letters[0] != 'w'))
        return false;
    for (size_t i = 0; i < sizeof negations / sizeof *negations; i++)
        if (strnlen(negations[i], sizeof negations[i]) == size &&
            memcmp(negations[i], letters, size) == 0)
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
