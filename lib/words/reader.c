/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the terms of a text, see words.h. Pure; any thread.
 *
 * A step reads one word, or one character of a script without spaces, and then knows whether the
 * identifier that it is part of goes on. So what is kept between two steps is small, however long
 * an identifier is. Each step gives at most two terms and moves on by a character at least; no
 * character is looked at more than a few times.
 */
#include "lib/words/words.h"

#include <string.h>
#include <unictype.h>
#include <unistring/version.h>

#include "lib/base/check.h"
#include "lib/base/utf8.h"
#include "lib/words/letters.h"
#include "lib/words/spell.h"
#include "lib/words/telling.h"

enum {
    RULES = 4, /* the version of the rules: words_version */
    LONGEST_TEXT = INT32_MAX,
    MOST_JOINERS = 3, /* as in "https://host" */
    TERMS_OF_STEP = 2,
};

_Static_assert((int)TERMS_OF_STEP <= (int)WORDS_READ_MIN, "a step does not fit into a read");

/* ---- characters ------------------------------------------------------------------------------ */

struct letter {
    uint32_t character;
    unsigned width; /* 0: the text is over */
    enum words_class class;
};

enum { JAMO_L = 0x1100, JAMO_V = 0x1161, JAMO_T = 0x11a7, SYLLABLES = 0xac00 };
enum { JAMO_LS = 19, JAMO_VS = 21, JAMO_TS = 28 };

/* The number of a character among `count` from the first, and behind it; or -1. */
static int jamo_at(const uint8_t **at, const uint8_t *end, uint32_t first, uint32_t count)
{
    uint32_t character;
    if (*at >= end || **at != 0xe1) /* U+1000 to U+1FFF */
        return -1;
    const size_t width = base_utf8_next((const char *)*at, (size_t)(end - *at), &character);
    if (character < first || character - first >= count)
        return -1;
    *at += width;
    return (int)(character - first);
}

/* A syllable of Hangul may be written as its two or three letters (NFD, as file names often are):
   it is one character all the same (Unicode, 3.12). */
static void join_syllable(struct letter *letter, const uint8_t *at, const uint8_t *end)
{
    const uint8_t *after = at;
    const int l = jamo_at(&after, end, JAMO_L, JAMO_LS);
    const int v = l >= 0 ? jamo_at(&after, end, JAMO_V, JAMO_VS) : -1;
    if (v < 0)
        return;
    const int t = jamo_at(&after, end, JAMO_T + 1, JAMO_TS - 1);
    letter->character = (uint32_t)(SYLLABLES + (l * JAMO_VS + v) * JAMO_TS + t + 1);
    letter->width = (unsigned)(after - at);
}

static struct letter letter_above_ascii(const uint8_t *at, const uint8_t *end)
{
    struct letter letter;
    letter.width =
        (unsigned)base_utf8_next((const char *)at, (size_t)(end - at), &letter.character);
    if (letter.character >= JAMO_L && letter.character < JAMO_L + JAMO_LS)
        join_syllable(&letter, at, end);
    letter.class =
        letter.character == BASE_UTF8_INVALID ? WORDS_BREAK : words_class_of(letter.character);
    return letter;
}

static inline struct letter letter_at(const uint8_t *at, const uint8_t *end)
{
    if (at >= end)
        return (struct letter){.class = WORDS_BREAK};
    if (*at < 0x80)
        return (struct letter){*at, 1, (enum words_class)words_ascii_class[*at]};
    return letter_above_ascii(at, end);
}

static inline bool is_cased(enum words_class class)
{
    return class == WORDS_LOWER || class == WORDS_UPPER;
}

static inline bool is_of_word(enum words_class class)
{
    return is_cased(class) || class == WORDS_DIGIT;
}

static void spell_character(struct words_spelled *word, uint32_t character)
{
    if (character < 0x80) {
        words_spell_byte(word, (uint8_t)character);
        return;
    }
    if (character >= 0x10000)
        words_spell_byte(word, (uint8_t)(0xf0 | character >> 18));
    if (character >= 0x800)
        words_spell_byte(word, (uint8_t)((character >= 0x10000 ? 0x80 : 0xe0) |
                                         (character >> 12 & (character >= 0x10000 ? 0x3f : 0xf))));
    words_spell_byte(word, (uint8_t)((character >= 0x800 ? 0x80 : 0xc0) |
                                     (character >> 6 & (character >= 0x800 ? 0x3f : 0x1f))));
    words_spell_byte(word, (uint8_t)(0x80 | (character & 0x3f)));
}

static void spell_folded(struct words_spelled *word, struct letter letter)
{
    uint32_t folded[WORDS_FOLDED_MAX];
    if (letter.character < 0x80) {
        words_spell_byte(word, (uint8_t)(letter.class == WORDS_UPPER ? letter.character | 0x20
                                                                     : letter.character));
        return;
    }
    unsigned count = words_fold(letter.character, folded);
    for (unsigned i = 0; i < count; i++)
        spell_character(word, folded[i]);
}

static uint32_t offset_of(const struct words_reader *reader, const uint8_t *at)
{
    return (uint32_t)(at - reader->text);
}

/* ---- words ----------------------------------------------------------------------------------- */

/* What was read of a word: letters or digits, and how many of its class. */
struct word_so_far {
    enum words_class last;
    unsigned letters, digits;
};

/* "IDs": the last letter does not begin a word. */
static bool is_plural_of_capitals(const uint8_t *after, const uint8_t *end)
{
    return after < end && *after == 's' && !is_cased(letter_at(after + 1, end).class);
}

/* Whether a new part begins at a letter. */
static bool begins_part(const struct word_so_far *word, struct letter letter, const uint8_t *at,
                        const uint8_t *end)
{
    const uint8_t *after = at + letter.width;
    if (letter.class == WORDS_DIGIT)
        return word->last != WORDS_DIGIT && word->letters >= 2;
    if (word->last == WORDS_DIGIT)
        return word->digits >= 2 && is_cased(letter_at(after, end).class);
    if (letter.class != WORDS_UPPER)
        return false;
    return word->last == WORDS_LOWER ||
           (word->last == WORDS_UPPER && letter_at(after, end).class == WORDS_LOWER &&
            !is_plural_of_capitals(after, end));
}

static void count_letter(struct word_so_far *word, enum words_class class)
{
    if (class == WORDS_DIGIT) {
        word->digits = word->last == WORDS_DIGIT ? word->digits + 1 : 1;
        word->letters = 0;
    } else {
        word->letters++;
        word->digits = 0;
    }
    word->last = class;
}

/* Most text: letters a to z, to the end of the word. */
static const uint8_t *spell_lower(struct words_spelled *word, const uint8_t *at, const uint8_t *end)
{
    while (at < end && *at < 0x80 && words_ascii_class[*at] == WORDS_LOWER &&
           word->size < WORDS_SPELLED_MAX)
        word->letters[word->size++] = (char)*at++;
    return at;
}

/* Reads the word at a place where one begins; returns its end. */
static const uint8_t *spell_word(struct words_spelled *word, const uint8_t *at, const uint8_t *end)
{
    struct word_so_far so_far = {.last = WORDS_BREAK};
    words_spell_begin(word);
    for (;;) {
        const uint8_t *lower = so_far.last == WORDS_DIGIT ? at : spell_lower(word, at, end);
        if (lower > at) {
            so_far = (struct word_so_far){WORDS_LOWER, so_far.letters + (unsigned)(lower - at), 0};
            at = lower;
        }
        struct letter letter = letter_at(at, end);
        if (letter.class != WORDS_MARK) {
            if (!is_of_word(letter.class) ||
                (so_far.last != WORDS_BREAK && begins_part(&so_far, letter, at, end)))
                return at;
            count_letter(&so_far, letter.class);
            word->telling |= letter.class != WORDS_LOWER;
        }
        spell_folded(word, letter);
        at += letter.width;
    }
}

/* ---- identifiers ----------------------------------------------------------------------------- */

static bool joins(struct letter joiner, bool after_digit, struct letter next)
{
    if (joiner.class == WORDS_DECIMAL)
        return after_digit && next.class == WORDS_DIGIT;
    return joiner.class == WORDS_JOINER || joiner.class == WORDS_SILENT;
}

static void spell_joiner(struct words_spelled *whole, struct letter joiner)
{
    if (joiner.class == WORDS_JOINER)
        spell_character(whole, joiner.character == '\\' ? '/' : joiner.character);
}

/* Whether the identifier goes on behind joiners; then it does, and the reader is behind them. Two
   hyphens are a dash. */
static bool pass_joiners(struct words_reader *reader, bool after_digit)
{
    const uint8_t *at = reader->at;
    struct letter joiners[MOST_JOINERS];
    unsigned count = 0;
    for (;;) {
        struct letter letter = letter_at(at, reader->end);
        if (is_of_word(letter.class)) {
            for (unsigned i = 0; i < count; i++)
                if (!joins(joiners[i], after_digit && count == 1, letter))
                    return false;
            break;
        }
        if (count == MOST_JOINERS || letter.width == 0 || letter.class == WORDS_BREAK ||
            letter.class == WORDS_DENSE || letter.class == WORDS_MARK ||
            (count > 0 && letter.character == '-' && joiners[count - 1].character == '-'))
            return false;
        joiners[count++] = letter;
        at += letter.width;
    }
    for (unsigned i = 0; i < count; i++)
        spell_joiner(&reader->whole, joiners[i]);
    reader->at = at;
    return true;
}

static void add_part(struct words_reader *reader, const struct words_spelled *part,
                     const uint8_t *begin)
{
    if (reader->parts++ == 0) {
        words_spell_begin(&reader->whole);
        reader->whole_begin = begin;
        reader->whole_position = reader->position;
    }
    words_spell_part(&reader->whole, part);
}

/* What ends a word in plain text: nothing to look at more closely. */
static bool ends_plainly(const struct words_reader *reader)
{
    return reader->at == reader->end ||
           (*reader->at < 0x80 && words_ascii_class[*reader->at] == WORDS_BREAK);
}

/* The whole, where the word that was read is its last part. */
static size_t end_identifier(struct words_reader *reader, const uint8_t *end,
                             struct words_term *term)
{
    const uint32_t parts = reader->parts;
    reader->parts = 0;
    if (parts < 2)
        return 0;
    *term = (struct words_term){.hash = words_spell_end(&reader->whole, reader->flags),
                                .position = reader->whole_position,
                                .begin = offset_of(reader, reader->whole_begin),
                                .end = offset_of(reader, end),
                                .kind = WORDS_WHOLE};
    reader->told = words_tell(reader->told, term->hash);
    return 1;
}

static bool ends_in_digit(const uint8_t *begin, const uint8_t *end)
{
    return end > begin && end[-1] >= '0' && end[-1] <= '9';
}

static size_t read_terms_of_word(struct words_reader *reader, struct words_term *terms)
{
    struct words_spelled word;
    const uint8_t *begin = reader->at;
    const uint8_t *end = spell_word(&word, begin, reader->end);
    size_t count = 1;
    reader->at = end;
    const bool tells = word.telling || words_negates(word.letters, word.size);
    const bool plainly = ends_plainly(reader);
    if (!plainly || reader->parts > 0)
        add_part(reader, &word, begin);
    if (plainly || !pass_joiners(reader, ends_in_digit(begin, end)))
        count += end_identifier(reader, end, &terms[1]);
    terms[0] = (struct words_term){.hash = words_spell_end(&word, reader->flags),
                                   .position = reader->position++,
                                   .begin = offset_of(reader, begin),
                                   .end = offset_of(reader, end),
                                   .kind = WORDS_WORD};
    if (tells)
        reader->told = words_tell(reader->told, terms[0].hash);
    return count;
}

/* ---- scripts without spaces ------------------------------------------------------------------ */

/* Spells a character with its marks; returns its end. */
static const uint8_t *spell_dense(struct words_spelled *word, const uint8_t *at, const uint8_t *end)
{
    struct letter letter = letter_at(at, end);
    do {
        spell_folded(word, letter);
        at += letter.width;
        letter = letter_at(at, end);
    } while (letter.class == WORDS_MARK);
    return at;
}

static bool is_ideograph(const uint8_t *at, const uint8_t *end)
{
    return uc_is_property_ideographic(letter_at(at, end).character);
}

static struct words_term dense_term(const struct words_reader *reader, struct words_spelled *word,
                                    enum words_kind kind, uint32_t position, const uint8_t *end)
{
    return (struct words_term){.hash = words_spell_end(word, reader->flags | WORDS_NO_STEM),
                               .position = position,
                               .begin = offset_of(reader, reader->at),
                               .end = offset_of(reader, end),
                               .kind = kind};
}

static size_t read_dense(struct words_reader *reader, struct words_term *terms)
{
    struct words_spelled word;
    size_t count = 0;
    words_spell_begin(&word);
    const uint8_t *next = spell_dense(&word, reader->at, reader->end);
    const struct letter following = letter_at(next, reader->end);
    const bool pair = following.class == WORDS_DENSE;
    const bool alone = !pair && !reader->in_dense;
    if (alone || (!(reader->flags & WORDS_QUERY) && is_ideograph(reader->at, reader->end))) {
        struct words_spelled single = word;
        terms[count++] = dense_term(reader, &single, alone ? WORDS_WORD : WORDS_SINGLE,
                                    reader->position - (pair || alone ? 0 : 1), next);
    }
    const uint32_t character = letter_at(reader->at, reader->end).character;
    if (words_negates_dense(character, following.character))
        reader->told = words_tell(reader->told, (uint64_t)character << 32 | following.character);
    if (pair)
        terms[count++] = dense_term(reader, &word, WORDS_PAIR, reader->position,
                                    spell_dense(&word, next, reader->end));
    reader->position += pair || alone;
    reader->in_dense = pair;
    reader->at = next;
    return count;
}

/* ---- the text -------------------------------------------------------------------------------- */

void words_begin(struct words_reader *reader, struct base_span text, unsigned flags)
{
    reader->text = reader->at = (const uint8_t *)text.data;
    reader->end = reader->text + (text.size < LONGEST_TEXT ? text.size : LONGEST_TEXT);
    reader->flags = flags;
    reader->position = reader->parts = 0;
    reader->told = reader->signs = WORDS_HASH_START;
    reader->in_dense = false;
}

static void pass_character(struct words_reader *reader, struct letter letter)
{
    reader->at += letter.width;
    if (letter.character == ' ' || letter.character == BASE_UTF8_INVALID)
        return;
    const bool before_digit = letter_at(reader->at, reader->end).class == WORDS_DIGIT;
    if (words_is_sign(letter.character, before_digit))
        reader->signs = words_tell(reader->signs, letter.character);
}

static size_t read_step(struct words_reader *reader, struct words_term *terms)
{
    struct letter letter = letter_at(reader->at, reader->end);
    if (is_of_word(letter.class))
        return read_terms_of_word(reader, terms);
    if (letter.class == WORDS_DENSE)
        return read_dense(reader, terms);
    pass_character(reader, letter);
    return 0;
}

size_t words_read(struct words_reader *reader, struct words_term *terms, size_t room)
{
    size_t count = 0;
    BASE_CHECK(room >= WORDS_READ_MIN);
    while (reader->at < reader->end && count + TERMS_OF_STEP <= room)
        count += read_step(reader, terms + count);
    return count;
}

uint32_t words_version(void)
{
    return (uint32_t)RULES << 16 | ((uint32_t)_libunistring_version & 0xffff);
}
