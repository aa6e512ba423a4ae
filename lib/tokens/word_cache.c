/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of word_cache.h: a table of sets, in each of which the word that was seen last comes
 * first and the one not seen for longest gives way. Any thread.
 */
#include "lib/tokens/word_cache.h"

#include "lib/base/sha256.h"
#include "lib/tokens/merge.h"

#include <pthread.h>
#include <string.h>

#define SETS 1024u
#define WAYS 4u /* 200 KB in all: four histories of the longest kind */

struct cached_word {
    uint64_t serial; /* of the vocabulary that it was counted with; 0: an empty place */
    size_t count;
    uint8_t digest[BASE_SHA256_BYTES];
};

static pthread_mutex_t words_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cached_word words[SETS][WAYS]; /* words_lock */

static struct cached_word *set_of_word(const struct cached_word *word)
{
    uint32_t hash;

    memcpy(&hash, word->digest, sizeof(hash));
    return words[hash % SETS];
}

static bool is_same_word(const struct cached_word *a, const struct cached_word *b)
{
    return a->serial == b->serial && memcmp(a->digest, b->digest, sizeof(a->digest)) == 0;
}

/* Makes it the first of its set; the one at `place` goes. */
static void keep_first(struct cached_word *set, unsigned place, const struct cached_word *word)
{
    memmove(set + 1, set, place * sizeof(*set));
    set[0] = *word;
}

static bool find_word(struct cached_word *word)
{
    struct cached_word *set = set_of_word(word);
    unsigned place = 0;

    pthread_mutex_lock(&words_lock);
    while (place < WAYS && !is_same_word(&set[place], word))
        place++;
    if (place < WAYS) {
        word->count = set[place].count;
        keep_first(set, place, word);
    }
    pthread_mutex_unlock(&words_lock);
    return place < WAYS;
}

static void keep_word(const struct cached_word *word)
{
    pthread_mutex_lock(&words_lock);
    keep_first(set_of_word(word), WAYS - 1, word);
    pthread_mutex_unlock(&words_lock);
}

enum handoff_code handoff_word_cache_count(const struct handoff_vocabulary *vocabulary,
                                           const uint8_t *piece, size_t length, size_t *count)
{
    struct cached_word word = {.serial = vocabulary->serial};
    struct handoff_token_sink sink = {0};
    enum handoff_code code = HANDOFF_OK;

    base_sha256(piece, length, word.digest);
    if (!find_word(&word)) {
        code = handoff_merge(vocabulary, piece, length, &sink);
        word.count = sink.count;
        if (code == HANDOFF_OK)
            keep_word(&word);
    }
    *count = code == HANDOFF_OK ? word.count : 0;
    return code;
}
