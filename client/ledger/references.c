/* SPDX-License-Identifier: Apache-2.0 */
/* Finds ids in texts by the syntax of references.h. Pure but for the arena, any thread. */
#include "client/ledger/references.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "client/handoff.h"
#include "lib/base/block.h"
#include "lib/base/buffer.h"
#include "lib/base/json.h"

enum {
    DIGITS_MAX = 15, /* of a number at the end of an id that a range begins with */
};

/* What is read, and what was found. */
struct mentions {
    struct base_span text;
    size_t at;
    bool between; /* what is between the ends of ranges is read; else what stands in the text */
    bool has_ranges;
    struct base_buffer *ids; /* `"ms-1","ms-2"` */
    size_t count;
    uint64_t unsought;
};

/* ---- one id -----------------------------------------------------------------------------------
 */

static bool is_mention_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_mention_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_joint(char c)
{
    return c == '-' || c == '_' || c == '.' || c == ':';
}

/* A letter of another script ends an id no more than one of ours does. */
static bool is_other(char c)
{
    return (unsigned char)c >= 0x80;
}

static bool looks_like_id(struct base_span word)
{
    bool letter = false, digit = false, joint = false;
    if (word.size > HANDOFF_MEMORY_ID_MAX)
        return false;
    for (size_t i = 0; i < word.size; i++) {
        letter |= is_mention_letter(word.data[i]);
        digit |= is_mention_digit(word.data[i]);
        joint |= is_joint(word.data[i]);
        if (is_other(word.data[i]))
            return false;
    }
    return letter && digit && joint;
}

/* The next word at or behind `at`, which may be anything; ".." ends one. Empty: the text is over.
 */
static struct base_span next_word(struct base_span text, size_t *at)
{
    size_t begin = *at;
    while (begin < text.size && !is_mention_letter(text.data[begin]) &&
           !is_mention_digit(text.data[begin]) && !is_other(text.data[begin]))
        begin++;
    size_t end = begin;
    while (end < text.size &&
           (is_mention_letter(text.data[end]) || is_mention_digit(text.data[end]) ||
            is_other(text.data[end]) ||
            (is_joint(text.data[end]) &&
             !(text.data[end] == '.' && end + 1 < text.size && text.data[end + 1] == '.'))))
        end++;
    *at = end;
    while (end > begin && is_joint(text.data[end - 1]))
        end--;
    return base_span(text.data + begin, end - begin);
}

static void count_unsought(struct mentions *mentions, uint64_t more)
{
    mentions->unsought += more;
    if (mentions->unsought > HANDOFF_UNSOUGHT_MAX)
        mentions->unsought = HANDOFF_UNSOUGHT_MAX;
}

static void add_mention(struct mentions *mentions, struct base_span id)
{
    if (mentions->count == HANDOFF_MENTIONED_MAX) {
        count_unsought(mentions, 1);
        return;
    }
    base_buffer_byte(mentions->ids, mentions->ids->size ? ',' : '[');
    base_json_write_string(mentions->ids, id);
    mentions->count++;
}

/* ---- ranges -----------------------------------------------------------------------------------
 */

/* The digits at the end of an id. */
static struct base_span number_of(struct base_span id)
{
    size_t digits = 0;
    while (digits < id.size && is_mention_digit(id.data[id.size - digits - 1]))
        digits++;
    return base_span(id.data + id.size - digits, digits);
}

static int64_t value_of(struct base_span digits)
{
    int64_t value = 0;
    for (size_t i = 0; i < digits.size; i++)
        value = value * 10 + (digits.data[i] - '0');
    return value;
}

/* Whether the last of a range is `word`: it begins like the first, or, after "..", is a number. */
static bool ends_range(struct base_span first, struct base_span word, bool dots,
                       struct base_span *last_number)
{
    const size_t before = first.size - number_of(first).size;
    *last_number = number_of(word);
    return last_number->size > 0 && ((dots && last_number->size == word.size) ||
                                     (word.size - last_number->size == before &&
                                      memcmp(word.data, first.data, before) == 0));
}

/* The first id of a range, with another number, of as many digits at least. False: it is too long
 * for an id, as are those of higher numbers. */
static bool add_numbered(struct mentions *mentions, struct base_span first, int64_t value)
{
    char id[HANDOFF_MEMORY_ID_MAX + DIGITS_MAX + 1];
    const struct base_span number = number_of(first);
    const size_t before = first.size - number.size;
    size_t digits = 0;
    memcpy(id, first.data, before);
    for (int64_t rest = value; rest > 0 || digits < number.size; rest /= 10)
        digits++;
    int64_t rest = value;
    for (size_t i = digits; i-- > 0; rest /= 10)
        id[before + i] = (char)('0' + rest % 10);
    if (before + digits > HANDOFF_MEMORY_ID_MAX)
        return false;
    add_mention(mentions, base_span(id, before + digits));
    return true;
}

static void add_range(struct mentions *mentions, struct base_span first, struct base_span last)
{
    const struct base_span number = number_of(first);
    if (number.size > DIGITS_MAX || last.size > DIGITS_MAX)
        return;
    const int64_t most = value_of(last);
    int64_t value = value_of(number) + 1;
    if (value > most)
        return;
    if (!mentions->between) {
        mentions->has_ranges = true;
        (void)add_numbered(mentions, first, most);
        return;
    }
    for (; value < most && mentions->count < HANDOFF_MENTIONED_MAX; value++) {
        if (!add_numbered(mentions, first, value))
            return;
    }
    count_unsought(mentions, (uint64_t)(most - value));
}

/* What joins two ids at `at` to a range, and is then skipped. */
static bool skip_joiner(struct mentions *mentions, bool *dots)
{
    static const char *const joiners[] = {"..", "through", "to"};
    size_t at = mentions->at;
    while (at < mentions->text.size && mentions->text.data[at] == ' ')
        at++;
    for (size_t i = 0; i < sizeof joiners / sizeof *joiners; i++) {
        const size_t size = strlen(joiners[i]);
        *dots = i == 0;
        if (mentions->text.size - at < size ||
            memcmp(mentions->text.data + at, joiners[i], size) != 0)
            continue;
        mentions->at = at + size;
        return true;
    }
    return false;
}

/* The id that was just found may begin a range; what is none stays to be read. */
static void take_range(struct mentions *mentions, struct base_span first)
{
    const size_t before = mentions->at;
    struct base_span last;
    bool dots;
    if (number_of(first).size > 0 && skip_joiner(mentions, &dots)) {
        size_t at = mentions->at;
        const struct base_span word = next_word(mentions->text, &at);
        if (ends_range(first, word, dots, &last)) {
            mentions->at = at;
            add_range(mentions, first, last);
            return;
        }
    }
    mentions->at = before;
}

/* ---- texts ------------------------------------------------------------------------------------
 */

static inline bool has_digit(const char *text)
{
    return !base_block_is_zero((base_block)(base_block_load(text) - '0' < 10));
}

/* Where the next digit stands; most texts have few, and a block without any is soon passed over. */
static size_t next_digit(struct base_span text, size_t at)
{
    while (at + sizeof(base_block) <= text.size && !has_digit(text.data + at))
        at += sizeof(base_block);
    while (at < text.size && !is_mention_digit(text.data[at]))
        at++;
    return at;
}

static bool is_inside_word(struct base_span text, size_t at)
{
    const char c = text.data[at];
    return is_mention_letter(c) || is_mention_digit(c) || is_other(c) ||
           (is_joint(c) && !(c == '.' && at > 0 && text.data[at - 1] == '.'));
}

/* Only a word with a digit can be an id. */
static bool find_mention(struct mentions *mentions, struct base_span *word)
{
    const struct base_span text = mentions->text;
    const size_t digit = next_digit(text, mentions->at);
    if (digit == text.size)
        return false;
    size_t begin = digit;
    while (begin > mentions->at && is_inside_word(text, begin - 1))
        begin--;
    mentions->at = begin;
    *word = next_word(text, &mentions->at);
    return true;
}

static void find_in(struct mentions *mentions)
{
    struct base_span word;
    mentions->at = 0;
    while (find_mention(mentions, &word)) {
        if (!looks_like_id(word))
            continue;
        if (!mentions->between)
            add_mention(mentions, word);
        take_range(mentions, word);
    }
}

static void find_in_all(struct mentions *mentions, const struct base_span *texts, size_t ntexts)
{
    for (size_t i = 0; i < ntexts; i++) {
        mentions->text = texts[i];
        find_in(mentions);
    }
}

enum handoff_code handoff_find_references(struct base_arena *arena, const struct base_span *texts,
                                          size_t ntexts, yyjson_val **ids, uint64_t *unsought,
                                          struct handoff_error *error)
{
    struct base_buffer found = {.arena = arena};
    struct mentions mentions = {.ids = &found};
    yyjson_doc *doc;
    *ids = NULL;
    find_in_all(&mentions, texts, ntexts);
    mentions.between = true;
    if (mentions.has_ranges)
        find_in_all(&mentions, texts, ntexts);
    *unsought = mentions.unsought;
    if (found.size == 0 && !found.failed)
        return HANDOFF_OK;
    base_buffer_byte(&found, ']');
    if (found.failed)
        return handoff_error_no_memory(error);
    enum handoff_code code =
        base_json_read_in(arena, base_buffer_span(&found), "references", &doc, error);
    if (code == HANDOFF_OK)
        *ids = yyjson_doc_get_root(doc);
    return code;
}
