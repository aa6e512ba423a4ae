/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of header_list.h. Pure. */
#include "lib/base/header_list.h"

#include <string.h>
#include <strings.h>

static bool is_space(char byte)
{
    return byte == ' ' || byte == '\t';
}

static struct base_header_span trimmed(const char *begin, size_t length)
{
    for (; length > 0 && is_space(*begin); length--)
        begin++;
    while (length > 0 && is_space(begin[length - 1]))
        length--;
    return (struct base_header_span){begin, length};
}

/* What is between two places of a text. */
struct base_header_span base_header_between(const char *begin, const char *end)
{
    return trimmed(begin, (size_t)(end - begin));
}

/* Cuts off what precedes `separator` outside of quotes; false at the end. */
bool base_header_next(const char **rest, char separator, struct base_header_span *piece)
{
    const char *begin = *rest;
    if (begin == NULL)
        return false;
    bool quoted = false;
    const char *at = begin;
    for (; *at != '\0' && (quoted || *at != separator); at++) {
        if (quoted && *at == '\\' && at[1] != '\0')
            at++;
        else if (*at == '"')
            quoted = !quoted;
    }
    *piece = base_header_between(begin, at);
    *rest = *at != '\0' ? at + 1 : NULL;
    return true;
}

/* The same within a piece, which does not end in a zero byte. */
bool base_header_parameter(struct base_header_span *rest, struct base_header_span *parameter)
{
    if (rest->begin == NULL)
        return false;
    bool quoted = false;
    size_t at = 0;
    for (; at < rest->length && (quoted || rest->begin[at] != ';'); at++) {
        if (quoted && rest->begin[at] == '\\')
            at++;
        else if (rest->begin[at] == '"')
            quoted = !quoted;
    }
    if (at > rest->length) /* a backslash was the last byte */
        at = rest->length;
    *parameter = trimmed(rest->begin, at);
    if (at == rest->length) {
        rest->begin = NULL;
    } else {
        rest->begin += at + 1;
        rest->length -= at + 1;
    }
    return true;
}

bool base_header_is(struct base_header_span span, const char *text)
{
    return span.length == strlen(text) && strncasecmp(span.begin, text, span.length) == 0;
}

/* name=value; the value without its quotes. */
void base_header_split(struct base_header_span parameter, struct base_header_span *name,
                       struct base_header_span *value)
{
    const char *end = parameter.begin + parameter.length;
    const char *equals = memchr(parameter.begin, '=', parameter.length);
    *name = equals != NULL ? base_header_between(parameter.begin, equals) : parameter;
    *value =
        equals != NULL ? base_header_between(equals + 1, end) : (struct base_header_span){end, 0};
    if (value->length >= 2 && value->begin[0] == '"' && value->begin[value->length - 1] == '"')
        *value = (struct base_header_span){value->begin + 1, value->length - 2};
}

/* A q of "0.75" as 750; -1 where it is none. More than three decimals are cut. */
int base_header_q(struct base_header_span text)
{
    static const int weight[] = {100, 10, 1};
    if (text.length == 0 || (text.begin[0] != '0' && text.begin[0] != '1'))
        return -1;
    int thousandths = (text.begin[0] - '0') * 1000;
    if (text.length > 1 && text.begin[1] != '.')
        return -1;
    for (size_t i = 2; i < text.length; i++) {
        if (text.begin[i] < '0' || text.begin[i] > '9')
            return -1;
        if (i - 2 < sizeof weight / sizeof *weight)
            thousandths += (text.begin[i] - '0') * weight[i - 2];
    }
    return thousandths <= 1000 ? thousandths : 1000;
}
