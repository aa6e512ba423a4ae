/* SPDX-License-Identifier: Apache-2.0 */
/* Compares and hashes entries; see same.h. Pure, any thread. */
#include "client/ledger/same.h"

#include <pthread.h>
#include <string.h>

#include "lib/base/json.h"
#include "lib/base/random.h"
#include "lib/base/utf8.h"

/* Unicode's White_Space. */
static bool is_white_space(uint32_t character)
{
    switch (character) {
    case ' ':
    case 0x85:
    case 0xa0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202f:
    case 0x205f:
    case 0x3000:
        return true;
    default:
        return (character >= '\t' && character <= '\r') ||
               (character >= 0x2000 && character <= 0x200a);
    }
}

/* Of the character at `at`, which may not be white space: then 0. */
static size_t space_at(struct base_span text, size_t at)
{
    uint32_t character;
    const size_t width = base_utf8_next(text.data + at, text.size - at, &character);
    return is_white_space(character) ? width : 0;
}

static size_t last_character(struct base_span text)
{
    size_t at = text.size - 1;
    while (at > 0 && ((unsigned char)text.data[at] & 0xc0) == 0x80)
        at--;
    return at;
}

struct base_span handoff_trim_text(struct base_span text)
{
    size_t begin = 0, width = 1;
    while (text.size && space_at(text, last_character(text)))
        text.size = last_character(text);
    for (; begin < text.size && width; begin += width)
        width = space_at(text, begin);
    return base_span(text.data + begin, text.size - begin);
}

/* ---- hashes ----------------------------------------------------------------------------------
 * The key is of this process: whoever chooses the entries does not choose which of them have one
 * hash, and are all compared with each other. Members of an object are added up, since their order
 * does not matter. */

enum { HASHED_NULL = 1, HASHED_FALSE, HASHED_TRUE, HASHED_ARRAY, HASHED_OBJECT };

static uint64_t hash_key; /* odd; constant once it was chosen */

static void choose_hash_key(void)
{
    base_random_system.fill(&base_random_system, &hash_key, sizeof hash_key);
    hash_key |= 1;
}

/* Folds 128 bits, so that how a change spreads depends on the key. */
static uint64_t hash_word(uint64_t hash, uint64_t word)
{
    const unsigned __int128 product = (unsigned __int128)(hash ^ word) * hash_key;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t handoff_hash_more(uint64_t hash, uint64_t word)
{
    static pthread_once_t chosen = PTHREAD_ONCE_INIT;
    pthread_once(&chosen, choose_hash_key);
    return hash_word(hash, word);
}

/* Eight bytes at a time: all that a request says is hashed. */
static uint64_t hash_run(const void *data, size_t size)
{
    const char *from = data;
    uint64_t hash = handoff_hash_more(0x2545f4914f6cdd1du, size), word = 0;
    for (; size >= sizeof word; size -= sizeof word, from += sizeof word) {
        memcpy(&word, from, sizeof word);
        hash = hash_word(hash, word);
    }
    word = 0;
    if (size)
        memcpy(&word, from, size);
    return hash_word(hash, word);
}

static uint64_t hash_pair(uint64_t one, uint64_t other)
{
    return hash_word(handoff_hash_more(0x2545f4914f6cdd1du, one), other);
}

/* Numbers are equal by value: 1.0 is 1. */
static uint64_t hash_number(yyjson_val *value)
{
    double number;
    if (!base_json_double(value, &number))
        return hash_run(yyjson_get_raw(value), yyjson_get_len(value));
    if (number >= 0 && number <= 0)
        number = 0; /* -0 has other bits */
    return hash_run(&number, sizeof number);
}

static uint64_t hash_value(yyjson_val *value);

static uint64_t hash_object(yyjson_val *object, const char *without)
{
    uint64_t sum = HASHED_OBJECT;
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(object, i, n, key, value)
    {
        if (!without || !yyjson_equals_str(key, without))
            sum += hash_pair(handoff_hash_text(base_json_span(key)), hash_value(value));
    }
    return sum;
}

static uint64_t hash_array(yyjson_val *array)
{
    uint64_t hash = HASHED_ARRAY;
    size_t i, n;
    yyjson_val *value;
    yyjson_arr_foreach(array, i, n, value)
    {
        hash = hash_pair(hash, hash_value(value));
    }
    return hash;
}

static uint64_t hash_value(yyjson_val *value)
{
    switch (yyjson_get_type(value)) {
    case YYJSON_TYPE_STR:
        return handoff_hash_text(base_json_span(value));
    case YYJSON_TYPE_RAW:
        return hash_number(value);
    case YYJSON_TYPE_ARR:
        return hash_array(value);
    case YYJSON_TYPE_OBJ:
        return hash_object(value, NULL);
    case YYJSON_TYPE_BOOL:
        return yyjson_is_true(value) ? HASHED_TRUE : HASHED_FALSE;
    default:
        return HASHED_NULL;
    }
}

uint64_t handoff_hash_text(struct base_span text)
{
    return hash_run(text.data, text.size);
}

uint64_t handoff_hash_entry(yyjson_val *entry)
{
    return yyjson_is_str(entry) ? handoff_hash_text(handoff_trim_text(base_json_span(entry)))
                                : hash_value(entry);
}

/* ---- equality ------------------------------------------------------------------------------- */

bool handoff_same_entry(yyjson_val *one, yyjson_val *other)
{
    if (yyjson_is_str(one) && yyjson_is_str(other))
        return base_span_equal(handoff_trim_text(base_json_span(one)),
                               handoff_trim_text(base_json_span(other)));
    return base_json_equal(one, other);
}

static const char reason[] = "reason";

uint64_t handoff_hash_step(yyjson_val *step)
{
    return hash_object(step, reason);
}

bool handoff_same_step(yyjson_val *earlier, yyjson_val *later)
{
    size_t i, n;
    yyjson_val *key, *value;
    const bool shorter = !yyjson_obj_get(later, reason) && yyjson_obj_get(earlier, reason);
    if (yyjson_obj_size(earlier) != yyjson_obj_size(later) + shorter)
        return false;
    yyjson_obj_foreach(later, i, n, key, value)
    {
        yyjson_val *twin = yyjson_obj_getn(earlier, yyjson_get_str(key), yyjson_get_len(key));
        if (!twin || !base_json_equal(value, twin))
            return false;
    }
    return true;
}
