/* SPDX-License-Identifier: Apache-2.0 */
/* Finds members in the text of an object, see members.h. Any thread. */
#include "lib/base/members.h"

#include <string.h>

/* What is left of a text. */
struct rest {
    const char *at, *end;
};

static bool is_json_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static bool is_punctuation(char byte)
{
    return byte == ',' || byte == ':' || byte == '"' || byte == '{' || byte == '}' || byte == '[' ||
           byte == ']';
}

static void skip_blanks(struct rest *rest)
{
    while (rest->at < rest->end && is_json_blank(*rest->at))
        rest->at++;
}

/* Past the byte, and blanks before it. False: another one comes. */
static bool take_byte(struct rest *rest, char byte)
{
    skip_blanks(rest);
    if (rest->at == rest->end || *rest->at != byte)
        return false;
    rest->at++;
    return true;
}

static bool is_at_end(struct rest *rest)
{
    skip_blanks(rest);
    return rest->at == rest->end;
}

/* A quote ends a string unless an odd number of backslashes comes before it. */
static bool is_escaped(const char *quote, const char *first)
{
    const char *at = quote;
    while (at > first && at[-1] == '\\')
        at--;
    return (quote - at) % 2 == 1;
}

/* From behind its first quote to behind its last. */
static bool skip_string(struct rest *rest)
{
    const char *first = rest->at, *quote = first;
    while ((quote = memchr(quote, '"', (size_t)(rest->end - quote))) && is_escaped(quote, first))
        quote++;
    if (!quote)
        return false;
    rest->at = quote + 1;
    return true;
}

/* From behind its first bracket to behind its last. Brackets of both kinds count alike: where the
   text is valid, they match. */
static bool skip_brackets(struct rest *rest)
{
    size_t depth = 1;
    while (depth > 0 && rest->at < rest->end) {
        const char byte = *rest->at++;
        if (byte == '"' && !skip_string(rest))
            return false;
        depth += byte == '{' || byte == '[';
        depth -= byte == '}' || byte == ']';
    }
    return depth == 0;
}

static bool skip_number_or_word(struct rest *rest)
{
    const char *first = rest->at;
    while (rest->at < rest->end && !is_json_blank(*rest->at) && !is_punctuation(*rest->at))
        rest->at++;
    return rest->at > first;
}

static bool skip_json_value(struct rest *rest, struct base_span *text)
{
    skip_blanks(rest);
    const char *first = rest->at;
    bool skipped;
    if (take_byte(rest, '"'))
        skipped = skip_string(rest);
    else if (take_byte(rest, '{') || take_byte(rest, '['))
        skipped = skip_brackets(rest);
    else
        skipped = skip_number_or_word(rest);
    *text = base_span(first, (size_t)(rest->at - first));
    return skipped;
}

/* Absent: it has escapes, or is none. */
static struct base_span read_member_name(struct rest *rest)
{
    struct base_span text;
    skip_blanks(rest);
    return skip_json_value(rest, &text) ? base_json_plain_string(text) : base_span(NULL, 0);
}

static void keep_member(struct base_span name, struct base_span value, const char *const *names,
                        struct base_span *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!values[i].data && base_span_equal(name, base_span_text(names[i])))
            values[i] = value;
    }
}

bool base_json_find_members(struct base_span object, const char *const *names,
                            struct base_span *values, size_t count, size_t *members)
{
    struct rest rest = {object.data, object.data + object.size};
    for (size_t i = 0; i < count; i++)
        values[i] = base_span(NULL, 0);
    *members = 0;
    if (!object.data || !take_byte(&rest, '{'))
        return false;
    if (take_byte(&rest, '}'))
        return is_at_end(&rest);
    do {
        struct base_span name = read_member_name(&rest), value;
        if (!name.data || !take_byte(&rest, ':') || !skip_json_value(&rest, &value))
            return false;
        keep_member(name, value, names, values, count);
        ++*members;
    } while (take_byte(&rest, ','));
    return take_byte(&rest, '}') && is_at_end(&rest);
}

struct base_span base_json_plain_string(struct base_span value)
{
    if (value.size < 2 || value.data[0] != '"' || memchr(value.data, '\\', value.size))
        return base_span(NULL, 0);
    return base_span(value.data + 1, value.size - 2);
}
