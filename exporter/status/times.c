/* SPDX-License-Identifier: Apache-2.0 */
/* Moments and ages as text. */
#include "exporter/status/times.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

void exporter_time_text(char text[EXPORTER_TIME_SIZE], int64_t at_ms)
{
    const time_t seconds = (time_t)(at_ms / 1000);
    struct tm utc;
    if (gmtime_r(&seconds, &utc) == NULL || strftime(text, EXPORTER_TIME_SIZE, "%FT%TZ", &utc) == 0)
        text[0] = '\0'; /* a year beyond all calendars */
}

void exporter_age_text(char text[EXPORTER_AGE_SIZE], int64_t age_ms)
{
    static const struct {
        int64_t seconds;
        const char *name;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    const int64_t seconds = age_ms / 1000;
    if (seconds < 10) {
        snprintf(text, EXPORTER_AGE_SIZE, "%" PRId64 ".%" PRId64 " s", seconds,
                 age_ms % 1000 / 100);
        return;
    }
    int i = 0;
    while (seconds < units[i].seconds)
        i++;
    const int64_t rest = i < 3 ? seconds % units[i].seconds / units[i + 1].seconds : 0;
    int used = snprintf(text, EXPORTER_AGE_SIZE, "%" PRId64 " %s", seconds / units[i].seconds,
                        units[i].name);
    if (rest > 0 && used > 0 && used < EXPORTER_AGE_SIZE)
        snprintf(text + used, EXPORTER_AGE_SIZE - (size_t)used, " %" PRId64 " %s", rest,
                 units[i + 1].name);
}
