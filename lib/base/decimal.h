/* SPDX-License-Identifier: Apache-2.0 */
/* decimal.h - a whole number in digits, for where one is written for every handoff: printf takes
 * some seven hundred instructions to get to the first of them. */
#ifndef BASE_DECIMAL_H
#define BASE_DECIMAL_H

#include <stddef.h>
#include <stdint.h>

enum { BASE_DECIMAL_SIZE = 21 }; /* of the least number there is: a sign, 19 digits, and the NUL */

/* Answers how many characters there are before the NUL. */
size_t base_decimal(int64_t number, char text[BASE_DECIMAL_SIZE]);

#endif
