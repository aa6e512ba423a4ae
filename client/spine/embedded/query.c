/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The query comes from an agent, that is from anywhere. FTS5 has a query language with operators
 * (NEAR, NOT, ^, *, column:), and none of it may be reachable. So nothing is escaped here: words
 * are cut out that consist of harmless bytes only, and each is quoted. Pure; any thread.
 */
#include "client/spine/embedded/query.h"

#include <string.h>
#include <strings.h>

enum {
    WORDS_READ = 64,
    LONGEST_WORD = 64, /* bytes; what is longer is no word, and nothing would match it */
};

static bool is_word_byte(char byte)
{
    unsigned char value = (unsigned char)byte;
    return (value >= '0' && value <= '9') || (value >= 'a' && value <= 'z') ||
           (value >= 'A' && value <= 'Z') || value >= 0x80;
}

struct words {
    struct base_span list[WORDS_READ];
    int count;
};

static bool is_known(const struct words *words, struct base_span word)
{
    for (int i = 0; i < words->count; i++)
        if (words->list[i].size == word.size &&
            strncasecmp(words->list[i].data, word.data, word.size) == 0)
            return true;
    return false;
}

static bool is_worth_it(struct base_span word)
{
    return word.size >= 2 && word.size <= LONGEST_WORD;
}

static void read_words(struct words *words, struct base_span text)
{
    words->count = 0;
    for (size_t at = 0; at < text.size && words->count < WORDS_READ;) {
        size_t begin = at;
        while (at < text.size && is_word_byte(text.data[at]))
            at++;
        struct base_span word = base_span(text.data + begin, at - begin);
        if (is_worth_it(word) && !is_known(words, word))
            words->list[words->count++] = word;
        if (at < text.size && !is_word_byte(text.data[at]))
            at++;
    }
}

/* Of equally short words the last one goes. */
static void drop_shortest(struct words *words)
{
    int shortest = 0;
    for (int i = 1; i < words->count; i++)
        if (words->list[i].size <= words->list[shortest].size)
            shortest = i;
    words->count--;
    memmove(&words->list[shortest], &words->list[shortest + 1],
            (size_t)(words->count - shortest) * sizeof *words->list);
}

void handoff_query_split(struct handoff_query *query, struct base_span text)
{
    struct words words;
    read_words(&words, text);
    while (words.count > HANDOFF_QUERY_TERMS)
        drop_shortest(&words);
    memcpy(query->terms, words.list, (size_t)words.count * sizeof *words.list);
    query->count = words.count;
}

void handoff_query_append(struct base_buffer *buffer, const struct handoff_query *query,
                          uint32_t which)
{
    const char *between = "\"";
    for (int i = 0; i < query->count; i++) {
        if (!(which >> i & 1))
            continue;
        base_buffer_text(buffer, between);
        base_buffer_append(buffer, query->terms[i].data, query->terms[i].size);
        between = "\" OR \"";
    }
    if (between[1] != '\0')
        base_buffer_byte(buffer, '"');
}
