/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The query comes from an agent, that is from anywhere. FTS5 has a query language with operators
 * (NEAR, NOT, ^, *, column:), and none of it may be reachable. So nothing is escaped here: words
 * are cut out that consist of harmless bytes only, and each is quoted.
 */
#include "client/spine/query.h"

#include <strings.h>

enum { LONGEST_WORD = 64 }; /* bytes; what is longer is no word, and nothing would match it */

static bool is_word_byte(char byte)
{
    unsigned char value = (unsigned char)byte;
    return (value >= '0' && value <= '9') || (value >= 'a' && value <= 'z') ||
           (value >= 'A' && value <= 'Z') || value >= 0x80;
}

static bool is_known(const struct handoff_query *query, struct handoff_span word)
{
    for (int i = 0; i < query->count; i++)
        if (query->terms[i].size == word.size &&
            strncasecmp(query->terms[i].data, word.data, word.size) == 0)
            return true;
    return false;
}

static bool is_worth_it(struct handoff_span word)
{
    return word.size >= 2 && word.size <= LONGEST_WORD;
}

void handoff_query_split(struct handoff_query *query, struct handoff_span text)
{
    query->count = 0;
    for (size_t at = 0; at < text.size && query->count < HANDOFF_QUERY_TERMS;) {
        size_t begin = at;
        while (at < text.size && is_word_byte(text.data[at]))
            at++;
        struct handoff_span word = handoff_span(text.data + begin, at - begin);
        if (is_worth_it(word) && !is_known(query, word))
            query->terms[query->count++] = word;
        if (at < text.size && !is_word_byte(text.data[at]))
            at++;
    }
}

void handoff_query_append(struct handoff_buffer *buffer, const struct handoff_query *query,
                          uint32_t which)
{
    const char *between = "\"";
    for (int i = 0; i < query->count; i++) {
        if (!(which >> i & 1))
            continue;
        handoff_buffer_text(buffer, between);
        handoff_buffer_append(buffer, query->terms[i].data, query->terms[i].size);
        between = "\" OR \"";
    }
    if (between[1] != '\0')
        handoff_buffer_byte(buffer, '"');
}
