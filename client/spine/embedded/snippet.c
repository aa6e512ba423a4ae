/* SPDX-License-Identifier: Apache-2.0 */
/* Snippets, see snippet.h. Pure; on a reader thread of the store. */
#include "client/spine/embedded/snippet.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "lib/words/words.h"

enum {
    SEARCHED = 16384, /* bytes of a text */
    CLOSE = 160,  /* bytes that words of one snippet may span; the rest is what is around them */
    TERMS = 32,   /* of the query, the weightiest: a bit for each */
    OF_TERM = 16, /* places of one term that are looked at, or "the" would use them up */
    HITS = TERMS * OF_TERM,
    READ_AT_ONCE = 64,
};

struct hit {
    uint32_t begin, end;
    unsigned term;
};

struct hits {
    struct hit at[HITS]; /* by their begin; of one begin, the longest first */
    size_t count;
    uint8_t of_term[TERMS];
};

static bool is_before(const struct hit *a, const struct hit *b)
{
    return a->begin != b->begin ? a->begin < b->begin : a->end > b->end;
}

/* An identifier comes after its parts, so few are moved. */
static void insert_hit(struct hits *hits, struct hit hit)
{
    size_t at = hits->count++;
    for (; at > 0 && is_before(&hit, &hits->at[at - 1]); at--)
        hits->at[at] = hits->at[at - 1];
    hits->at[at] = hit;
}

static void note_hit(const struct handoff_match *match, const struct words_term *word,
                     struct hits *hits)
{
    for (unsigned i = 0; i < TERMS && i < match->term_count && match->terms[i].weight > 0; i++)
        if (match->terms[i].hash == word->hash && hits->of_term[i] < OF_TERM) {
            hits->of_term[i]++;
            insert_hit(hits, (struct hit){word->begin, word->end, i});
        }
}

static void find_hits(const struct handoff_match *match, struct base_span text, struct hits *hits)
{
    struct words_reader reader;
    struct words_term words[READ_AT_ONCE];
    size_t count;
    hits->count = 0;
    memset(hits->of_term, 0, sizeof hits->of_term);
    words_begin(&reader, text, match->query.flags);
    while ((count = words_read(&reader, words, READ_AT_ONCE)) > 0)
        for (size_t i = 0; i < count; i++)
            note_hit(match, &words[i], hits);
}

/* ---- where it is ----------------------------------------------------------------------------- */

/* Of hits, from `first` to before `end`. */
struct cluster {
    size_t first, end;
    float worth; /* each term once */
};

static struct cluster cluster_from(const struct handoff_match *match, const struct hits *hits,
                                   size_t first)
{
    struct cluster cluster = {.first = first, .end = first};
    uint32_t seen = 0;
    for (; cluster.end < hits->count; cluster.end++) {
        const struct hit *hit = &hits->at[cluster.end];
        if (cluster.end > first && hit->end > hits->at[first].begin + CLOSE)
            break;
        if (!(seen >> hit->term & 1))
            cluster.worth += match->terms[hit->term].weight;
        seen |= UINT32_C(1) << hit->term;
    }
    return cluster;
}

/* Of equal ones, the first. */
static struct cluster best_cluster(const struct handoff_match *match, const struct hits *hits)
{
    struct cluster best = {0};
    for (size_t i = 0; i < hits->count; i++) {
        const struct cluster cluster = cluster_from(match, hits, i);
        if (cluster.worth > best.worth)
            best = cluster;
    }
    return best;
}

static bool parts_words(char byte)
{
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

static bool is_inside_character(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

/* To the beginning of a word, or at least of a character. */
static size_t begin_at_word(struct base_span text, size_t from, size_t most)
{
    size_t at = from;
    if (from == 0)
        return 0;
    while (at < most && !parts_words(text.data[at - 1]))
        at++;
    for (at = at < most ? at : from; at < most && is_inside_character(text.data[at]);)
        at++;
    return at;
}

static size_t end_at_word(struct base_span text, size_t to, size_t least)
{
    size_t at = to;
    if (to == text.size)
        return to;
    while (at > least && !parts_words(text.data[at]))
        at--;
    for (at = at > least ? at : to; at > 0 && is_inside_character(text.data[at]);)
        at--;
    return at;
}

/* A third of what is around the words is before them. */
static void place_snippet(struct base_span text, size_t begin, size_t end, size_t *from, size_t *to)
{
    const size_t size = end - begin,
                 room = HANDOFF_SNIPPET_BYTES > size ? HANDOFF_SNIPPET_BYTES - size : 0;
    *from = begin > room / 3 ? begin - room / 3 : 0;
    if (*from + HANDOFF_SNIPPET_BYTES > text.size)
        *from = text.size > HANDOFF_SNIPPET_BYTES ? text.size - HANDOFF_SNIPPET_BYTES : 0;
    *to = *from + HANDOFF_SNIPPET_BYTES < text.size ? *from + HANDOFF_SNIPPET_BYTES : text.size;
    *from = begin_at_word(text, *from, begin);
    *to = end_at_word(text, *to, end < *to ? end : *to);
}

/* ---- cutting it ------------------------------------------------------------------------------ */

static void add_piece(struct handoff_snippet *snippet, struct base_span text, size_t from,
                      size_t to)
{
    snippet->pieces[snippet->count++] = base_span(text.data + from, to - from);
}

/* Hits that touch, such as pairs of characters, are one piece. */
static void cut_pieces(const struct hits *hits, struct base_span text,
                       struct handoff_snippet *snippet)
{
    size_t done = 0;
    snippet->count = 0;
    for (size_t i = 0; i < hits->count && snippet->count + 2 < HANDOFF_SNIPPET_PIECES;) {
        const size_t begin = hits->at[i].begin;
        size_t end = hits->at[i].end;
        for (i++; i < hits->count && hits->at[i].begin <= end; i++)
            end = hits->at[i].end > end ? hits->at[i].end : end;
        add_piece(snippet, text, done, begin);
        add_piece(snippet, text, begin, end);
        done = end;
    }
    add_piece(snippet, text, done, text.size);
}

/* What is cut off at an end may have been part of a word, which is then not marked. */
void handoff_snippet_find(const struct handoff_match *match, struct base_span text,
                          struct handoff_snippet *snippet)
{
    struct hits hits;
    size_t begin = 0, end = 0, from, to;
    text.size = text.size < SEARCHED ? text.size : end_at_word(text, SEARCHED, 0);
    find_hits(match, text, &hits);
    const struct cluster best = best_cluster(match, &hits);
    for (size_t i = best.first; i < best.end; i++) {
        begin = i == best.first ? hits.at[i].begin : begin;
        end = hits.at[i].end > end ? hits.at[i].end : end;
    }
    place_snippet(text, begin, end, &from, &to);
    text = base_span(text.data + from, to - from);
    find_hits(match, text, &hits);
    cut_pieces(&hits, text, snippet);
}
