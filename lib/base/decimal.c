/* SPDX-License-Identifier: Apache-2.0 */
/* Whole numbers in digits, without printf. Pure, on any thread. */
#include "lib/base/decimal.h"

#include <string.h>

size_t base_decimal(int64_t number, char text[BASE_DECIMAL_SIZE])
{
    char digits[BASE_DECIMAL_SIZE];
    char *end = digits + sizeof digits, *first = end;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do
        *--first = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (number < 0)
        *--first = '-';
    const size_t size = (size_t)(end - first);
    memcpy(text, first, size);
    text[size] = '\0';
    return size;
}
