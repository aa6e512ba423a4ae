/* SPDX-License-Identifier: Apache-2.0 */
/* Durations, sizes and ages: whole numbers with a unit from a short table. On any thread. */
#include "lib/base/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct unit {
    const char *name;
    uint64_t factor;
};

/* Largest first: parsing wants each unit after a larger one, printing takes the largest that fits.
 * "ms" must not be read as "m": names are compared whole. */
static const struct unit durations[] = {
    {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
static const struct unit sizes[] = {{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}};

enum { DURATIONS = sizeof(durations) / sizeof(durations[0]) };
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads digits at *at and moves past them. */
static bool read_digits(const char **at, uint64_t *number)
{
    const char *start = *at;
    uint64_t value = 0;

    for (; is_digit(**at); (*at)++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(**at - '0'), &value)) {
            return false;
        }
    }
    *number = value;
    return *at > start && (*start != '0' || *at == start + 1);
}

/* The unit at *at, which must be one of the first `count` of `units`; moves past it. */
static const struct unit *read_unit(const char **at, const struct unit *units, size_t count)
{
    size_t length = 0;

    while ((*at)[length] != '\0' && !is_digit((*at)[length])) {
        length++;
    }
    for (size_t i = 0; i < count; i++) {
        if (strlen(units[i].name) == length && memcmp(units[i].name, *at, length) == 0) {
            *at += length;
            return &units[i];
        }
    }
    return NULL;
}

static bool read_amount(const char **at, const struct unit **units, const struct unit *end,
                        uint64_t *total)
{
    uint64_t number;

    if (!read_digits(at, &number)) {
        return false;
    }
    const struct unit *unit = read_unit(at, *units, (size_t)(end - *units));
    if (unit == NULL || __builtin_mul_overflow(number, unit->factor, &number) ||
        __builtin_add_overflow(*total, number, total)) {
        return false;
    }
    *units = unit + 1; /* what follows must be smaller */
    return true;
}

static bool is_zero(const char *text)
{
    return text[0] == '0' && text[1] == '\0';
}

bool base_duration_parse(const char *text, uint64_t *ms)
{
    const struct unit *units = durations;
    uint64_t total = 0;

    *ms = 0;
    if (is_zero(text)) {
        return true;
    }
    do {
        if (!read_amount(&text, &units, durations + DURATIONS, &total)) {
            return false;
        }
    } while (*text != '\0');
    *ms = total;
    return true;
}

bool base_size_parse(const char *text, uint64_t *bytes)
{
    const struct unit *units = sizes;
    uint64_t total = 0;

    *bytes = 0;
    if (is_zero(text)) {
        return true;
    }
    if (!read_amount(&text, &units, sizes + SIZES, &total) || *text != '\0') {
        return false;
    }
    *bytes = total;
    return true;
}

bool base_number_parse(const char *text, uint64_t *number)
{
    uint64_t value;

    *number = 0;
    if (!read_digits(&text, &value) || *text != '\0') {
        return false;
    }
    *number = value;
    return true;
}

const char *base_duration_print(struct base_printed *printed, uint64_t ms)
{
    size_t used = 0;

    for (size_t i = 0; i < DURATIONS; i++) {
        if (ms >= durations[i].factor) {
            int n = snprintf(printed->text + used, sizeof(printed->text) - used, "%" PRIu64 "%s",
                             ms / durations[i].factor, durations[i].name);
            used += (size_t)n; /* 12 digits of days and 15 bytes for the rest: never cut */
            ms %= durations[i].factor;
        }
    }
    return used > 0 ? printed->text : strcpy(printed->text, "0s");
}

const char *base_size_print(struct base_printed *printed, uint64_t bytes)
{
    size_t i = 0;

    while (i < SIZES - 1 && (bytes == 0 || bytes % sizes[i].factor != 0)) {
        i++;
    }
    (void)snprintf(printed->text, sizeof(printed->text), "%" PRIu64 "%s", bytes / sizes[i].factor,
                   sizes[i].name);
    return printed->text;
}

const char *base_age_print(struct base_printed *printed, int64_t age_ms)
{
    static const struct {
        int64_t seconds;
        const char *name;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    const size_t size = sizeof(printed->text);
    const int64_t seconds = age_ms / 1000;
    if (seconds < 10) {
        snprintf(printed->text, size, "%" PRId64 ".%" PRId64 " s", seconds, age_ms % 1000 / 100);
        return printed->text;
    }
    int i = 0;
    while (seconds < units[i].seconds)
        i++;
    const int64_t rest = i < 3 ? seconds % units[i].seconds / units[i + 1].seconds : 0;
    int used =
        snprintf(printed->text, size, "%" PRId64 " %s", seconds / units[i].seconds, units[i].name);
    if (rest > 0)
        snprintf(printed->text + used, size - (size_t)used, " %" PRId64 " %s", rest,
                 units[i + 1].name);
    return printed->text;
}

int base_choice_index(const char *choices, const char *value)
{
    size_t length = strlen(value);
    int index = 0;

    for (const char *at = choices;; index++) {
        size_t width = strcspn(at, "|");
        if (width == length && memcmp(at, value, width) == 0) {
            return index;
        }
        if (at[width] == '\0') {
            return -1;
        }
        at += width + 1;
    }
}

const char *base_choice_copy(const char *choices, unsigned index, char *to, size_t size)
{
    for (; index > 0 && *choices != '\0'; index--) {
        choices += strcspn(choices, "|");
        choices += *choices == '|';
    }
    snprintf(to, size, "%.*s", (int)strcspn(choices, "|"), choices);
    return to;
}
