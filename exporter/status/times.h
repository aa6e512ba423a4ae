/* SPDX-License-Identifier: Apache-2.0 */
/* times.h - moments and ages, as people and programs read them. */
#ifndef EXPORTER_STATUS_TIMES_H
#define EXPORTER_STATUS_TIMES_H

#include <stdint.h>

enum { EXPORTER_TIME_SIZE = 32, EXPORTER_AGE_SIZE = 32 };

/* "2026-03-01T12:00:00Z"; RFC 3339 in UTC. */
void exporter_time_text(char text[EXPORTER_TIME_SIZE], int64_t at_ms);

/* "0.4 s", "12 s", "3 min 20 s", "2 h 5 min" or "4 d 1 h": the two largest units. */
void exporter_age_text(char text[EXPORTER_AGE_SIZE], int64_t age_ms);

#endif
