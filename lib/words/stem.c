/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Porter's steps, as his paper numbers them, with the two changes that he made later (bli, logi).
 * Pure; any thread.
 *
 * His conditions count vowels and consonants, again and again in the same letters. Here a word has
 * a bit for each vowel, found once: the measure m, which counts where a consonant follows a vowel,
 * is then a population count, and a word costs some 20 ns.
 *
 * A word never starts with what a step removes unless the condition allows it, so every step ends
 * with at least one letter.
 */
#include "lib/words/stem.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "lib/base/check.h"

struct stem {
    char *letters;
    size_t size;
    uint64_t vowels; /* bit i: letter i is one; y is one after a consonant */
};

static bool is_plain_vowel(char letter)
{
    return (0x104111u >> (letter - 'a') & 1) != 0; /* a e i o u */
}

static void find_vowels(struct stem *stem, size_t from)
{
    uint64_t before = from > 0 ? stem->vowels >> (from - 1) & 1 : 1;
    stem->vowels &= ((uint64_t)1 << from) - 1;
    for (size_t i = from; i < stem->size; i++) {
        before = stem->letters[i] == 'y' ? !before : is_plain_vowel(stem->letters[i]);
        stem->vowels |= before << i;
    }
}

/* ---- the conditions on what is left of a suffix --------------------------------------------- */

static uint64_t first_bits(size_t count)
{
    BASE_CHECK(count <= WORDS_STEM_MAX);
    return ((uint64_t)1 << count) - 1;
}

static int measure_of(const struct stem *stem, size_t left)
{
    if (left < 2)
        return 0;
    return __builtin_popcountll(stem->vowels & ~(stem->vowels >> 1) & first_bits(left - 1));
}

static bool has_vowel(const struct stem *stem, size_t left)
{
    return (stem->vowels & first_bits(left)) != 0;
}

static bool is_vowel(const struct stem *stem, size_t at)
{
    return (stem->vowels >> at & 1) != 0;
}

static bool ends_double(const struct stem *stem, size_t left)
{
    return left >= 2 && stem->letters[left - 1] == stem->letters[left - 2] &&
           !is_vowel(stem, left - 1);
}

/* As in "hop", but not in "snow", "box", "tray". */
static bool ends_short(const struct stem *stem, size_t left)
{
    if (left < 3 || is_vowel(stem, left - 1) || !is_vowel(stem, left - 2) ||
        is_vowel(stem, left - 3))
        return false;
    const char last = stem->letters[left - 1];
    return last != 'w' && last != 'x' && last != 'y';
}

/* ---- suffixes -------------------------------------------------------------------------------- */

static bool has_suffix(const struct stem *stem, const char *suffix, size_t *left)
{
    const size_t size = strlen(suffix);
    if (size > stem->size || memcmp(stem->letters + stem->size - size, suffix, size) != 0)
        return false;
    *left = stem->size - size;
    return true;
}

static void replace_from(struct stem *stem, size_t left, const char *by)
{
    const size_t size = strlen(by);
    memcpy(stem->letters + left, by, size);
    stem->size = left + size;
    find_vowels(stem, left);
}

struct suffix {
    const char *from, *to;
};

/* The first that fits decides, whether its condition holds or not. */
static void replace_first(struct stem *stem, const struct suffix *rules, int more_than)
{
    size_t left;
    for (; rules->from; rules++)
        if (has_suffix(stem, rules->from, &left)) {
            if (measure_of(stem, left) > more_than)
                replace_from(stem, left, rules->to);
            return;
        }
}

/* ---- the steps ------------------------------------------------------------------------------- */

static void step_1a(struct stem *stem)
{
    size_t left;
    if (stem->letters[stem->size - 1] != 's')
        return;
    if (has_suffix(stem, "sses", &left) || has_suffix(stem, "ies", &left))
        stem->size -= 2;
    else if (!has_suffix(stem, "ss", &left))
        stem->size--;
    stem->vowels &= first_bits(stem->size);
}

static bool misses_its_e(const struct stem *stem)
{
    size_t left;
    return has_suffix(stem, "at", &left) || has_suffix(stem, "bl", &left) ||
           has_suffix(stem, "iz", &left) ||
           (measure_of(stem, stem->size) == 1 && ends_short(stem, stem->size));
}

static void mend_after_1b(struct stem *stem)
{
    if (ends_double(stem, stem->size) && !strchr("lsz", stem->letters[stem->size - 1]))
        replace_from(stem, stem->size - 1, "");
    else if (misses_its_e(stem))
        replace_from(stem, stem->size, "e");
}

static void step_1b(struct stem *stem)
{
    size_t left;
    if (has_suffix(stem, "eed", &left)) {
        if (measure_of(stem, left) > 0)
            replace_from(stem, stem->size - 1, "");
    } else if ((has_suffix(stem, "ed", &left) || has_suffix(stem, "ing", &left)) &&
               has_vowel(stem, left)) {
        replace_from(stem, left, "");
        mend_after_1b(stem);
    }
}

static void step_1c(struct stem *stem)
{
    if (stem->letters[stem->size - 1] == 'y' && has_vowel(stem, stem->size - 1))
        replace_from(stem, stem->size - 1, "i");
}

/* By the letter before the last, as longer suffixes have to come first only among those. */
static const struct suffix none[] = {{0}};

static const struct suffix *rules_of_2(char before_last)
{
    static const struct suffix a[] = {{"ational", "ate"}, {"tional", "tion"}, {0}};
    static const struct suffix c[] = {{"enci", "ence"}, {"anci", "ance"}, {0}};
    static const struct suffix e[] = {{"izer", "ize"}, {0}};
    static const struct suffix g[] = {{"logi", "log"}, {0}};
    static const struct suffix l[] = {{"bli", "ble"}, {"alli", "al"},   {"entli", "ent"},
                                      {"eli", "e"},   {"ousli", "ous"}, {0}};
    static const struct suffix o[] = {{"ization", "ize"}, {"ation", "ate"}, {"ator", "ate"}, {0}};
    static const struct suffix s[] = {
        {"alism", "al"}, {"iveness", "ive"}, {"fulness", "ful"}, {"ousness", "ous"}, {0}};
    static const struct suffix t[] = {{"aliti", "al"}, {"iviti", "ive"}, {"biliti", "ble"}, {0}};
    switch (before_last) {
    case 'a':
        return a;
    case 'c':
        return c;
    case 'e':
    case 'z':
        return e;
    case 'g':
        return g;
    case 'l':
        return l;
    case 'o':
        return o;
    case 's':
        return s;
    case 't':
        return t;
    default:
        return none;
    }
}

static const struct suffix *rules_of_3(char last)
{
    static const struct suffix e[] = {{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {0}};
    static const struct suffix i[] = {{"iciti", "ic"}, {0}};
    static const struct suffix l[] = {{"ical", "ic"}, {"ful", ""}, {0}};
    static const struct suffix s[] = {{"ness", ""}, {0}};
    switch (last) {
    case 'e':
        return e;
    case 'i':
        return i;
    case 'l':
        return l;
    case 's':
        return s;
    default:
        return none;
    }
}

static const struct suffix *rules_of_4(char before_last)
{
    static const struct suffix a[] = {{"al", ""}, {0}};
    static const struct suffix c[] = {{"ance", ""}, {"ence", ""}, {0}};
    static const struct suffix e[] = {{"er", ""}, {0}};
    static const struct suffix i[] = {{"ic", ""}, {0}};
    static const struct suffix l[] = {{"able", ""}, {"ible", ""}, {0}};
    static const struct suffix n[] = {{"ant", ""}, {"ement", ""}, {"ment", ""}, {"ent", ""}, {0}};
    static const struct suffix o[] = {{"ou", ""}, {0}};
    static const struct suffix s[] = {{"ism", ""}, {0}};
    static const struct suffix t[] = {{"ate", ""}, {"iti", ""}, {0}};
    static const struct suffix u[] = {{"ous", ""}, {0}};
    static const struct suffix v[] = {{"ive", ""}, {0}};
    static const struct suffix z[] = {{"ize", ""}, {0}};
    switch (before_last) {
    case 'a':
        return a;
    case 'c':
        return c;
    case 'e':
        return e;
    case 'i':
        return i;
    case 'l':
        return l;
    case 'n':
        return n;
    case 'o':
        return o;
    case 's':
        return s;
    case 't':
        return t;
    case 'u':
        return u;
    case 'v':
        return v;
    case 'z':
        return z;
    default:
        return none;
    }
}

static void step_4(struct stem *stem)
{
    size_t left;
    if (!has_suffix(stem, "ion", &left)) {
        replace_first(stem, rules_of_4(stem->letters[stem->size - 2]), 1);
        return;
    }
    if (left > 0 && (stem->letters[left - 1] == 's' || stem->letters[left - 1] == 't') &&
        measure_of(stem, left) > 1)
        replace_from(stem, left, "");
}

static void step_5(struct stem *stem)
{
    const size_t left = stem->size - 1;
    if (stem->letters[left] == 'e') {
        const int m = measure_of(stem, left);
        if (m > 1 || (m == 1 && !ends_short(stem, left)))
            replace_from(stem, left, "");
    }
    if (ends_double(stem, stem->size) && stem->letters[stem->size - 1] == 'l' &&
        measure_of(stem, stem->size - 1) > 1)
        replace_from(stem, stem->size - 1, "");
}

size_t words_stem(char *word, size_t size)
{
    struct stem stem;
    BASE_CHECK(size <= WORDS_STEM_MAX);
    if (size < 3)
        return size;
    stem.letters = word;
    stem.size = size;
    stem.vowels = 0;
    find_vowels(&stem, 0);
    step_1a(&stem);
    step_1b(&stem);
    step_1c(&stem);
    if (stem.size >= 2)
        replace_first(&stem, rules_of_2(stem.letters[stem.size - 2]), 0);
    replace_first(&stem, rules_of_3(stem.letters[stem.size - 1]), 0);
    if (stem.size >= 2)
        step_4(&stem);
    step_5(&stem);
    return stem.size;
}
