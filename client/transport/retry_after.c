/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing Retry-After; retry_after.h has the rules. Pure, any thread. */
#include "client/transport/retry_after.h"

#include <curl/curl.h>
#include <stdbool.h>

#include "client/transport/transport.h"

static bool is_decimal_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static int64_t at_most_an_hour(int64_t wait_ms)
{
    return wait_ms < HANDOFF_RETRY_AFTER_MAX_MS ? wait_ms : HANDOFF_RETRY_AFTER_MAX_MS;
}

static int64_t read_seconds(const char *digit)
{
    int64_t wait_ms = 0;
    for (; is_decimal_digit(*digit); digit++)
        wait_ms = at_most_an_hour((wait_ms * 10) + (INT64_C(1000) * (*digit - '0')));
    return wait_ms;
}

/* All three forms of RFC 9110 5.6.7 begin with the name of a day; curl would accept more. */
static int64_t read_date(const char *value, int64_t wall_ms)
{
    const char letter = (char)(*value | 0x20);
    const int64_t date_s = letter >= 'a' && letter <= 'z' ? curl_getdate(value, NULL) : -1;
    return date_s > wall_ms / 1000 ? at_most_an_hour(date_s * 1000 - wall_ms) : 0;
}

int64_t handoff_retry_after_ms(const char *value, int64_t wall_ms)
{
    return is_decimal_digit(*value) ? read_seconds(value) : read_date(value, wall_ms);
}
