/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RFC 3339 by hand, on any thread: strftime and strptime depend on the locale and the time zone,
 * and this runs for every memory of every envelope. Days are counted with the civil-calendar
 * arithmetic of the proleptic Gregorian calendar (years from March, so that the leap day is the
 * last day of its year).
 */
#include "lib/base/rfc3339.h"

#include <string.h>

enum { DAY_MS = 86400000 };

/* Days from 1970-01-01 to the given date. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t of_era = year - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t days = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    return era * 146097 + days - 719468;
}

static void date_of(int64_t days, int64_t *year, int64_t *month, int64_t *day)
{
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int64_t of_era = days - era * 146097;
    int64_t years = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * years + years / 4 - years / 100);
    int64_t shifted = (5 * of_year + 2) / 153;
    *day = of_year - (153 * shifted + 2) / 5 + 1;
    *month = shifted < 10 ? shifted + 3 : shifted - 9;
    *year = years + era * 400 + (*month <= 2);
}

static char *put_digits(char *to, int64_t number, int digits)
{
    for (int i = digits - 1; i >= 0; i--, number /= 10)
        to[i] = (char)('0' + number % 10);
    return to + digits;
}

void base_rfc3339_format(int64_t wall_ms, char text[BASE_RFC3339_SIZE])
{
    int64_t first = days_of(0, 1, 1) * DAY_MS, last = days_of(10000, 1, 1) * DAY_MS - 1;
    int64_t ms = wall_ms < first ? first : wall_ms > last ? last : wall_ms;
    int64_t days = (ms >= 0 ? ms : ms - (DAY_MS - 1)) / DAY_MS;
    int64_t rest = ms - days * DAY_MS, year, month, day;
    date_of(days, &year, &month, &day);
    char *to = put_digits(text, year, 4);
    *to++ = '-';
    to = put_digits(to, month, 2);
    *to++ = '-';
    to = put_digits(to, day, 2);
    *to++ = 'T';
    to = put_digits(to, rest / 3600000, 2);
    *to++ = ':';
    to = put_digits(to, rest / 60000 % 60, 2);
    *to++ = ':';
    to = put_digits(to, rest / 1000 % 60, 2);
    *to++ = '.';
    to = put_digits(to, rest % 1000, 3);
    memcpy(to, "Z", 2);
}

void base_rfc3339_seconds(int64_t wall_ms, char text[BASE_RFC3339_SIZE])
{
    base_rfc3339_format(wall_ms, text);
    memcpy(strchr(text, '.'), "Z", 2);
}

/* Reads exactly `digits` digits and moves the text on. */
static bool take_digits(const char **text, const char *end, int digits, int64_t *number)
{
    *number = 0;
    for (; digits > 0; digits--, (*text)++) {
        if (*text >= end || **text < '0' || **text > '9')
            return false;
        *number = *number * 10 + (**text - '0');
    }
    return true;
}

static bool skip(const char **text, const char *end, char a, char b)
{
    if (*text >= end || (**text != a && **text != b))
        return false;
    (*text)++;
    return true;
}

static bool take_fraction(const char **text, const char *end, int64_t *ms)
{
    int64_t weight = 100;
    *ms = 0;
    if (*text >= end || **text != '.')
        return true;
    const char *first = ++*text;
    for (; *text < end && **text >= '0' && **text <= '9'; (*text)++, weight /= 10)
        *ms += (**text - '0') * weight;
    return *text > first;
}

static bool take_offset(const char **text, const char *end, int64_t *minutes)
{
    int64_t hour, minute;
    *minutes = 0;
    if (skip(text, end, 'Z', 'z'))
        return true;
    int64_t sign = *text < end && **text == '-' ? -1 : 1;
    if (!skip(text, end, '+', '-') || !take_digits(text, end, 2, &hour) ||
        !skip(text, end, ':', ':') || !take_digits(text, end, 2, &minute) || hour > 23 ||
        minute > 59)
        return false;
    *minutes = sign * (hour * 60 + minute);
    return true;
}

static int64_t days_in(int64_t year, int64_t month)
{
    return month == 12 ? 31 : days_of(year, month + 1, 1) - days_of(year, month, 1);
}

bool base_rfc3339_parse(const char *text, size_t size, int64_t *wall_ms)
{
    const char *end = text + size;
    int64_t year, month, day, hour, minute, second, ms, offset;
    if (!take_digits(&text, end, 4, &year) || !skip(&text, end, '-', '-') ||
        !take_digits(&text, end, 2, &month) || !skip(&text, end, '-', '-') ||
        !take_digits(&text, end, 2, &day) || !skip(&text, end, 'T', 't') ||
        !take_digits(&text, end, 2, &hour) || !skip(&text, end, ':', ':') ||
        !take_digits(&text, end, 2, &minute) || !skip(&text, end, ':', ':') ||
        !take_digits(&text, end, 2, &second) || !take_fraction(&text, end, &ms) ||
        !take_offset(&text, end, &offset) || text != end)
        return false;
    if (month < 1 || month > 12 || day < 1 || day > days_in(year, month) || hour > 23 ||
        minute > 59 || second > 60)
        return false;
    *wall_ms = days_of(year, month, day) * DAY_MS + hour * 3600000 + (minute - offset) * 60000 +
               second * 1000 + ms;
    return true;
}
