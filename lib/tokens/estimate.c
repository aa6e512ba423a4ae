/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An upper bound on the number of tokens in a text, in o200k_base and in cl100k_base, without a
 * vocabulary.
 *
 * A token has at least one byte, so no text has more tokens than bytes. Facts that hold for both
 * vocabularies tighten that bound for the stretches that make up most text. Tokens are counted by
 * where they begin, so a token that extends beyond its stretch counts once.
 *
 *   digits   Every number of one to three digits is a token, and digits are split into threes.
 *            After an ASCII byte a run of n begins a new piece: ceil(n / 3) tokens.
 *   spaces   Every run of 1 to 79 spaces is a token, so two adjacent ones of fewer than 80 spaces
 *            in total would have merged: at most 2 * (n / 80) + 1 tokens of spaces alone begin in a
 *            run of n, and one more that reaches beyond it or that is the last space, which may go
 *            to the next piece.
 *   words    A run of lower case letters, with a space before it if there is one, is never cut,
 *            unless it follows an apostrophe. A space and a letter are always a token, two letters
 *            nearly always (the table below): two such neighbours cannot both remain alone. The
 *            densest way to cover the run under that rule is found letter by letter.
 *
 * English text is estimated at about three times its true count, other scripts at one token per
 * byte. tests/unit/test_tokens.c checks the table against both vocabularies, and tests/scenario
 * that no text of the corpus has more tokens than estimated. An invalid byte may become three
 * (U+FFFD) and is counted as three tokens. Pure, any thread.
 */
#include "lib/tokens/tokenizer.h"

#include "lib/base/utf8.h"

/* Row a, bit b: the letters a and b together are a token in both vocabularies. */
static const uint32_t joining_letters[26] = {
    0x3ffffff, 0x3feffff, 0x3ffffff, 0x3ffffff, 0x3ffffff, 0x1fffdff, 0x3fef9ff,
    0x3fffdff, 0x3ffffff, 0x01fffbf, 0x17effff, 0x3feffff, 0x1ffffff, 0x3feffff,
    0x3feffff, 0x3ffffff, 0x0dfb99f, 0x3fffdff, 0x3ffffff, 0x3fefdff, 0x3feffff,
    0x1feffff, 0x1deffff, 0x38ef93f, 0x3defddf, 0x3dcfdbf,
};

static bool is_lower_byte(char byte)
{
    return byte >= 'a' && byte <= 'z';
}

static bool is_digit_byte(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_space_byte(char byte)
{
    return byte == ' ';
}

bool handoff_tokens_estimate_joins(char left, char right)
{
    return left == ' ' || (joining_letters[left - 'a'] >> (right - 'a') & 1) != 0;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/*
 * The most tokens that can begin in a run of letters, with a space before it or not. `alone` and
 * `longer` are the most tokens that cover the bytes so far if the last token has one byte, or two;
 * longer tokens would only make fewer. Before the first byte, and where a token from before the run
 * covers it, nothing has begun yet: longer is 0.
 */
static size_t word_bound(const char *run, size_t length)
{
    size_t alone = 0, longer = 0, best = 0, earlier_best = 0;

    for (size_t i = 0; i < length; i++) {
        size_t next_alone = longer + 1;

        if (i > 0 && !handoff_tokens_estimate_joins(run[i - 1], run[i]))
            next_alone = larger(next_alone, alone + 1);
        longer = i > 0 ? earlier_best + 1 : 0;
        alone = next_alone;
        earlier_best = best;
        best = larger(alone, longer);
    }
    /* The last byte may also begin a token that extends beyond the run. */
    return larger(best, earlier_best + 1);
}

static size_t space_bound(size_t length)
{
    size_t bound = 2 * (length / 80) + 2;

    return length < bound ? length : bound;
}

static size_t run_of(const char *text, size_t length, bool (*belongs)(char))
{
    size_t run = 0;

    while (run < length && belongs(text[run]))
        run++;
    return run;
}

/* Spaces and, if a word follows, the word, which takes the last space. */
static size_t estimate_spaces(const char *text, size_t length, size_t *taken)
{
    size_t spaces = run_of(text, length, is_space_byte);
    size_t letters = run_of(text + spaces, length - spaces, is_lower_byte);

    *taken = spaces + letters;
    if (letters == 0)
        return space_bound(spaces);
    return space_bound(spaces - 1) + word_bound(text + spaces - 1, letters + 1);
}

/*
 * After an exception (digits after a byte that is not ASCII, letters after an apostrophe) the first
 * byte of a stretch is counted as one token and the rest is bounded as usual. This holds: of "'re",
 * "'ve" and "'ll" the two letters cannot both be single tokens, so a cut after the second adds no
 * more than counted; and of digits that share a piece with another script's, at most one token
 * begins in the first.
 */
static size_t estimate_valid(const char *text, size_t length)
{
    size_t at = 0, tokens = 0;

    while (at < length) {
        const char *here = text + at;
        size_t left = length - at, taken = 1;

        if (is_space_byte(*here)) {
            tokens += estimate_spaces(here, left, &taken);
        } else if (is_digit_byte(*here) && (at == 0 || (unsigned char)here[-1] < 0x80)) {
            taken = run_of(here, left, is_digit_byte);
            tokens += (taken + 2) / 3;
        } else if (is_lower_byte(*here) && (at == 0 || here[-1] != '\'')) {
            taken = run_of(here, left, is_lower_byte);
            tokens += word_bound(here, taken);
        } else {
            tokens++;
        }
        at += taken;
    }
    return tokens;
}

size_t handoff_tokens_estimate(const char *text, size_t length)
{
    size_t tokens = 0, valid;

    while ((valid = base_utf8_valid_length(text, length)) < length) {
        tokens += estimate_valid(text, valid) + 3; /* U+FFFD has three bytes */
        text += valid + 1;
        length -= valid + 1;
    }
    return tokens + estimate_valid(text, length);
}
