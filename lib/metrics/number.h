/* SPDX-License-Identifier: Apache-2.0 */
/* The only number printer: the shortest text that reads back as the same number, the same in every
 * locale. Each function returns the end of what it wrote, at most METRIC_NUMBER_MAX bytes. Pure,
 * any thread. */
#ifndef METRIC_NUMBER_H
#define METRIC_NUMBER_H

#include <stdint.h>

enum { METRIC_NUMBER_MAX = 40 };

char *metric_number_u64(char *out, uint64_t value);

/* A sample value: whole numbers up to 2^53 as digits, others as Go prints them ("1e+21"). */
char *metric_number_value(char *out, double value);

/* A bucket bound as Go's %g prints it ("0.005", "1", "1e+06", "+Inf"), so the label has the same
 * text as with other client libraries. */
char *metric_number_bound(char *out, double value);

/* The same in the canonical form of OpenMetrics: always recognisable as a float ("1.0"). */
char *metric_number_canonical(char *out, double value);

/* Milliseconds since the epoch as seconds: "1700000000.123". */
char *metric_number_seconds(char *out, int64_t milliseconds);

#endif
