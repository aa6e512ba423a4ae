/* SPDX-License-Identifier: Apache-2.0 */
/*
 * words.h - from text to the terms by which it is found; the same for documents and for queries.
 *
 *   text                      terms
 *   Connections to Zürich     connect, to, zurich
 *   getUserById               get, user, by, id and the whole, getuserbyid
 *   payment_gateway, ms-4821  payment, gateway, paymentgateway; ms, 4821, ms4821
 *   src/lib/words.c           src, lib, words (as word), c and the whole, src/lib/words.c
 *   東京都庁                  東京, 京都, 都庁; in a document also 東, 京, 都, 庁
 *
 * Words are those of Unicode (UAX 29), with its classes; they differ from it in this:
 *
 *   - What is written together by - _ . / \ : @ ' or, between digits, a comma, is an identifier:
 * its parts are words, and the whole is a term too, without - _ ' and commas, so that
 *     payment-gateway, payment_gateway and paymentGateway have it in common. Humps of camelCase,
 * and two or more letters before digits, are parts as well.
 *   - Scripts that do not write spaces between words (Han, kana, Thai ...), and Hangul, whose
 *     particles are written to the words, give every two characters that follow each other.
 *
 * Letters are folded: case, accents, compatibility forms (full width, ligatures); then words of a
 * to z are reduced to their stem (stem.h), unless that is switched off. There is no list of stop
 * words: what every text has weighs next to nothing.
 *
 * A term is the hash of its letters, for an index that looks terms up and never prints them. Two
 * terms of one hash would be one term: among ten million terms that is one chance in 300,000.
 *
 * Text is any bytes: what is not UTF-8 separates words. The work is linear in the size of the text,
 * and there are at most two terms for each byte.
 *
 * Pure; any thread.
 */
#ifndef WORDS_WORDS_H
#define WORDS_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/span.h"

enum words_kind {
    WORDS_WORD,  /* also a part of an identifier, and a lone character of a script without spaces */
    WORDS_WHOLE, /* an identifier; at the position of its first part, and after its parts */
    WORDS_PAIR,  /* two characters of a script without spaces */
    WORDS_SINGLE, /* one of several; at the position of the pair that it begins, or ends */
};

struct words_term {
    uint64_t hash;       /* never 0 */
    uint32_t position;   /* counts words and pairs from 0 */
    uint32_t begin, end; /* bytes of the text */
    enum words_kind kind;
};

/* Of a text that is read. */
enum {
    WORDS_NO_STEM = 1, /* words stay as they are written */
    WORDS_QUERY = 2,   /* no WORDS_SINGLE: pairs say more */
};

enum {
    WORDS_SPELLED_MAX = 62, /* bytes of a folded word: a longer one is not stemmed */
    WORDS_READ_MIN = 4,     /* terms there has to be room for when reading */
};

/* The letters of a term that is being read. Those beyond the room only count in the hash. */
struct words_spelled {
    uint32_t size;
    bool plain;    /* a to z only */
    bool telling;  /* has a capital or a digit */
    uint64_t hash; /* once there is no more room */
    char letters[WORDS_SPELLED_MAX + 2];
};

/* A text that is being read. */
struct words_reader {
    const uint8_t *text, *at, *end;
    unsigned flags;
    uint32_t position; /* of the next word */
    bool in_dense;     /* the character before was of a script without spaces */
    uint64_t told;     /* digest of numbers, names, identifiers and negations so far (telling.h) */
    uint64_t signs;    /* digest of signs so far */
    /* of the identifier that is being read */
    uint32_t parts, whole_position;
    const uint8_t *whole_begin;
    struct words_spelled whole;
};

/* The text is lent until it is read, and at most 2 GiB of it are. */
void words_begin(struct words_reader *reader, struct base_span text, unsigned flags);

/* Gives the next terms, up to `room` of them, which is WORDS_READ_MIN or more; 0 at the end. */
size_t words_read(struct words_reader *reader, struct words_term *terms, size_t room);

/* Changes whenever the same text may give other terms, or another sketch: with these rules, and
   with the Unicode data of the library that the process runs with. An index of another version has
   to be rebuilt. */
uint32_t words_version(void);

#endif
