/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The masks that boundaries.h describes, for the two expressions quoted in split.c. Pure, any
 * thread.
 */
#include "lib/tokens/boundaries.h"

#include <endian.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* --- classes ------------------------------------------------------------------------------- */

/* Sixteen bytes, which compilers know how to compare at once on every processor. */
#define VECTOR 16u
typedef uint8_t vector __attribute__((vector_size(VECTOR)));
typedef int8_t signed_vector __attribute__((vector_size(VECTOR)));

/* The highest bit of each byte. */
static inline uint64_t bits_of(vector bytes)
{
#ifdef __SSE2__
    return (uint64_t)(uint32_t)_mm_movemask_epi8((__m128i)bytes);
#else
    uint64_t halves[2];

    memcpy(halves, &bytes, sizeof(halves));
    for (int i = 0; i < 2; i++) /* every byte's highest bit goes to its place in the highest byte */
        halves[i] =
            (le64toh(halves[i]) & UINT64_C(0x8080808080808080)) * UINT64_C(0x0002040810204081) >>
            56;
    return halves[0] | halves[1] << 8;
#endif
}

struct classes {
    uint64_t letter, lower, number, apostrophe;
    uint64_t space, blank, newline; /* any white space; which of it is ' '; which is \r or \n */
    uint64_t slash;                 /* only where there are newlines */
    uint64_t foreign;               /* not ASCII */
    uint64_t symbol;                /* all else */
};

/* Processors compare signed bytes in one step, so the range is moved to the least of them. */
static inline uint64_t bits_between(vector bytes, uint8_t first, uint8_t last)
{
    signed_vector moved = (signed_vector)(bytes + (uint8_t)(0x80 - first));

    return bits_of((vector)(moved <= (int8_t)(last - first - 0x80)));
}

static inline uint64_t bits_equal(vector bytes, uint8_t byte)
{
    return bits_of((vector)(bytes == byte));
}

/* Classes that a line of plain text rarely has. */
__attribute__((noinline)) static void classify_rare(const uint8_t window[HANDOFF_BOUNDARIES_WINDOW],
                                                    struct classes *classes)
{
    for (unsigned i = 0; i < HANDOFF_BOUNDARIES_WINDOW; i += VECTOR) {
        vector bytes;

        memcpy(&bytes, window + i, VECTOR);
        classes->space |= bits_between(bytes, '\t', '\r') << i;
        classes->newline |= (bits_equal(bytes, '\n') | bits_equal(bytes, '\r')) << i;
        classes->slash |= bits_equal(bytes, '/') << i;
        classes->foreign |= bits_of(bytes) << i;
    }
}

static inline struct classes classify(const uint8_t window[HANDOFF_BOUNDARIES_WINDOW])
{
    struct classes classes = {0};
    uint64_t rare = 0;

    for (unsigned i = 0; i < HANDOFF_BOUNDARIES_WINDOW; i += VECTOR) {
        vector bytes;

        memcpy(&bytes, window + i, VECTOR);
        classes.letter |= bits_between(bytes | 0x20, 'a', 'z') << i;
        classes.lower |= bits_between(bytes, 'a', 'z') << i;
        classes.number |= bits_between(bytes, '0', '9') << i;
        classes.blank |= bits_equal(bytes, ' ') << i;
        classes.apostrophe |= bits_equal(bytes, '\'') << i;
        rare |= bits_of((vector)((signed_vector)bytes < ' ')); /* controls, and not ASCII */
    }
    classes.space = classes.blank;
    if (rare)
        classify_rare(window, &classes);
    classes.symbol = ~(classes.letter | classes.number | classes.space | classes.foreign);
    return classes;
}

/* The places right behind those of a class, and right before them. */
static inline uint64_t bits_after(uint64_t class)
{
    return class << 1;
}

static inline uint64_t bits_before(uint64_t class)
{
    return class >> 1;
}

/* --- rules --------------------------------------------------------------------------------- */

/* Numbers are cut into threes, from their first digit on. */
static inline uint64_t cut_numbers(uint64_t number)
{
    uint64_t cuts = number & ~bits_after(number);
    uint64_t goes_on = number & number << 1 & number << 2 & number << 3;

    for (uint64_t more = cuts << 3 & goes_on; more; more = more << 3 & goes_on)
        cuts |= more;
    return cuts;
}

/*
 * A word takes the one character before it, unless that is a number or newline, or belongs to a
 * piece already: to a run of symbols, which begins with a space or a symbol before.
 */
static inline uint64_t cut_words(const struct classes *classes, enum handoff_split_pattern pattern)
{
    uint64_t symbol_or_blank = classes->symbol | classes->blank;
    uint64_t cuts = bits_after(classes->newline | classes->number) |
                    (bits_after(classes->symbol) & bits_after(bits_after(symbol_or_blank)));

    if (pattern == HANDOFF_SPLIT_O200K)
        cuts |= ~classes->lower & bits_after(classes->lower);
    return cuts & classes->letter;
}

/* A run of symbols takes the blank before it. */
static inline uint64_t cut_symbols(const struct classes *classes)
{
    return classes->symbol & ~bits_after(classes->symbol | classes->blank);
}

/*
 * White space is one piece but for its last character, which goes with what follows. Newlines are a
 * piece with all white space before them (that case is left to split.h, so here none precedes
 * them), and join the symbols before them.
 */
static inline uint64_t cut_space(const struct classes *classes)
{
    uint64_t inner = classes->space & ~classes->newline;

    return (inner & ~(bits_after(inner) & bits_before(classes->space))) |
           (classes->newline & ~bits_after(classes->newline | classes->symbol));
}

/* Where the run of white space begins that ends just before a place. */
static inline uint64_t space_run_before(uint64_t space, unsigned place)
{
    uint64_t outside = ~space & ((UINT64_C(1) << place) - 1);

    return outside ? UINT64_C(2) << (63 - __builtin_clzll(outside)) : 1;
}

/* White space may belong to a newline further on, so all of the run is in doubt. */
static inline uint64_t find_space_doubts(const struct classes *classes)
{
    uint64_t inner = classes->space & ~classes->newline;
    uint64_t ends =
        (bits_after(inner) & classes->newline) | (bits_after(classes->space) & classes->foreign);

    return ends ? space_run_before(classes->space, (unsigned)__builtin_ctzll(ends)) : 0;
}

/* The places that neighbours alone cannot decide; the lowest one counts. */
static inline uint64_t find_doubts(const struct classes *classes,
                                   enum handoff_split_pattern pattern)
{
    uint64_t doubts = classes->apostrophe & bits_before(classes->letter);

    if (pattern == HANDOFF_SPLIT_O200K) {
        doubts &= bits_after(classes->letter);
        doubts |= classes->slash & bits_after(classes->newline);
    }
    /* A character that is not ASCII can affect the one before it, but none further back. */
    return doubts | classes->foreign | bits_before(classes->foreign) | find_space_doubts(classes);
}

static inline uint64_t below_lowest(uint64_t places)
{
    return places ? (places & -places) - 1 : UINT64_MAX;
}

struct handoff_boundaries handoff_boundaries_find(const uint8_t window[HANDOFF_BOUNDARIES_WINDOW],
                                                  size_t left, enum handoff_split_pattern pattern)
{
    const uint64_t last = UINT64_C(1) << (HANDOFF_BOUNDARIES_WINDOW - 1);
    uint64_t places, doubts, unseen = last;
    struct classes classes;

    if (window[0] >= 0x80) /* text in another script then costs nothing here */
        return (struct handoff_boundaries){.places = 0, .stuck = true};
    classes = classify(window);
    doubts = find_doubts(&classes, pattern);
    places = cut_words(&classes, pattern) | cut_numbers(classes.number) | cut_symbols(&classes) |
             cut_space(&classes);
    if (left < HANDOFF_BOUNDARIES_WINDOW) {
        uint64_t end = UINT64_C(1) << left;

        places = (places & (end - 1)) | end;
        unseen = bits_after(end);
    } else if (classes.space & last) {
        unseen = space_run_before(classes.space, HANDOFF_BOUNDARIES_WINDOW - 1);
    }
    places &= below_lowest(doubts | unseen) & ~UINT64_C(1);
    return (struct handoff_boundaries){
        .places = places,
        .stuck = !places || (doubts & below_lowest(unseen)),
    };
}
