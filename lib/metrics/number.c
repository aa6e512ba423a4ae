/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yyjson finds the shortest digits (printf would print 17 digits and the locale's decimal comma);
 * the point and the exponent are placed here as the Prometheus libraries place them. yyjson writes
 * into a pool on the stack: nothing is allocated. Pure, any thread.
 */
#include "lib/metrics/number.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <yyjson.h>

#include "lib/base/check.h"

static const char two_digits[] = "0001020304050607080910111213141516171819"
                                 "2021222324252627282930313233343536373839"
                                 "4041424344454647484950515253545556575859"
                                 "6061626364656667686970717273747576777879"
                                 "8081828384858687888990919293949596979899";

char *metric_number_u64(char *out, uint64_t value)
{
    char digits[20];
    char *begin = digits + sizeof digits;
    while (value >= 100) {
        begin -= 2;
        memcpy(begin, two_digits + value % 100 * 2, 2);
        value /= 100;
    }
    if (value >= 10) {
        begin -= 2;
        memcpy(begin, two_digits + value * 2, 2);
    } else {
        *--begin = (char)('0' + value);
    }
    size_t length = (size_t)(digits + sizeof digits - begin);
    memcpy(out, begin, length);
    return out + length;
}

/* A finite number taken apart: 0.DIGITS * 10^point. No digits: zero. */
struct decimal {
    bool negative;
    int ndigits;
    int point;
    char digits[32];
};

static char *shortest_json(double value, void *pool, size_t size)
{
    yyjson_alc allocator;
    yyjson_val number = {0};
    bool made = yyjson_alc_pool_init(&allocator, pool, size) && yyjson_set_real(&number, value);
    BASE_CHECK(made);
    char *text = yyjson_val_write_opts(&number, YYJSON_WRITE_NOFLAG, &allocator, NULL, NULL);
    BASE_CHECK(text != NULL); /* the pool holds any number */
    return text;
}

static int read_exponent(const char *text)
{
    bool negative = *text == '-';
    int exponent = 0;
    for (text += *text == '-' || *text == '+'; *text != '\0'; text++)
        exponent = exponent * 10 + (*text - '0');
    return negative ? -exponent : exponent;
}

static void decimal_of(double value, struct decimal *decimal)
{
    _Alignas(max_align_t) char pool[1024];
    const char *text = shortest_json(value, pool, sizeof pool);
    *decimal = (struct decimal){.negative = *text == '-'};
    bool after_point = false;
    for (text += decimal->negative; *text != '\0' && *text != 'e' && *text != 'E'; text++) {
        if (*text == '.') {
            after_point = true;
            continue;
        }
        bool leading = decimal->ndigits == 0 && *text == '0';
        if (!leading && decimal->ndigits < (int)sizeof decimal->digits)
            decimal->digits[decimal->ndigits++] = *text;
        if (after_point)
            decimal->point -= leading;
        else
            decimal->point += !leading;
    }
    if (*text != '\0')
        decimal->point += read_exponent(text + 1);
    while (decimal->ndigits > 0 && decimal->digits[decimal->ndigits - 1] == '0')
        decimal->ndigits--;
}

/* d.ddde+XX, the exponent with two digits at least */
static char *write_scientific(char *out, const struct decimal *decimal)
{
    *out++ = decimal->digits[0];
    if (decimal->ndigits > 1) {
        *out++ = '.';
        memcpy(out, decimal->digits + 1, (size_t)decimal->ndigits - 1);
        out += decimal->ndigits - 1;
    }
    int exponent = decimal->point - 1;
    *out++ = 'e';
    *out++ = exponent < 0 ? '-' : '+';
    exponent = exponent < 0 ? -exponent : exponent;
    if (exponent < 10)
        *out++ = '0';
    return metric_number_u64(out, (uint64_t)exponent);
}

static char *write_fixed(char *out, const struct decimal *decimal, bool canonical)
{
    int i = 0;
    if (decimal->point <= 0)
        *out++ = '0';
    for (; i < decimal->point; i++)
        *out++ = i < decimal->ndigits ? decimal->digits[i] : '0';
    if (decimal->ndigits > decimal->point) {
        *out++ = '.';
        for (int zeros = decimal->point; zeros < 0; zeros++)
            *out++ = '0';
        for (; i < decimal->ndigits; i++)
            *out++ = decimal->digits[i];
    } else if (canonical) {
        *out++ = '.';
        *out++ = '0';
    }
    return out;
}

static char *write_special(char *out, double value)
{
    return stpcpy(out, isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
}

/* Go's %g with the shortest digits: exponents below -4 and from 6 up use scientific notation. The
 * digits run out before the point does at 6 places most, so zeros are only filled up to there. */
static char *write_double(char *out, double value, bool canonical)
{
    if (!isfinite(value))
        return write_special(out, value);
    struct decimal decimal;
    decimal_of(value, &decimal);
    if (decimal.negative)
        *out++ = '-';
    if (decimal.ndigits == 0) {
        decimal.point = 1;
        return write_fixed(out, &decimal, canonical);
    }
    int exponent = decimal.point - 1;
    if (exponent < -4 || exponent >= 6)
        return write_scientific(out, &decimal);
    return write_fixed(out, &decimal, canonical);
}

char *metric_number_value(char *out, double value)
{
    const double exact = 9007199254740992.0; /* 2^53: whole numbers up to it are exact */
    if (value >= 0 && value <= exact && !signbit(value)) {
        uint64_t whole = (uint64_t)value;
        if ((double)whole == value)
            return metric_number_u64(out, whole);
    } else if (value < 0 && value >= -exact) {
        uint64_t whole = (uint64_t)-value;
        if ((double)whole == -value) {
            *out++ = '-';
            return metric_number_u64(out, whole);
        }
    }
    return write_double(out, value, false);
}

char *metric_number_bound(char *out, double value)
{
    return write_double(out, value, false);
}

char *metric_number_canonical(char *out, double value)
{
    return write_double(out, value, true);
}

char *metric_number_seconds(char *out, int64_t milliseconds)
{
    if (milliseconds < 0) /* a clock set before 1970 is reported as 0 */
        milliseconds = 0;
    out = metric_number_u64(out, (uint64_t)milliseconds / 1000);
    uint64_t rest = (uint64_t)milliseconds % 1000;
    *out++ = '.';
    *out++ = (char)('0' + rest / 100);
    memcpy(out, two_digits + rest % 100 * 2, 2);
    return out + 2;
}
