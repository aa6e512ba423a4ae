/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uuid.h - UUID version 7 (RFC 9562): ids that sort by the time they were made.
 *
 * Ids from one source strictly increase, also within a millisecond, across threads, and when the
 * wall clock steps back; a database index of them grows at its end only.
 */
#ifndef BASE_UUID_H
#define BASE_UUID_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/random.h"

enum { BASE_UUID_TEXT = 37 }; /* 36 characters and a NUL */

struct base_uuid {
    uint8_t bytes[16];
};

/* Makes ids; shared by all threads of a process, one per process is enough. */
struct base_uuid_source {
    const struct base_clock *clock;
    const struct base_random *random;
    atomic_uint_fast64_t last; /* milliseconds and 12-bit counter of the newest id */
};

/* NULL for the system's clock and random bytes. */
void base_uuid_source_init(struct base_uuid_source *source, const struct base_clock *clock,
                           const struct base_random *random);

/* Any thread; takes no lock. */
struct base_uuid base_uuid_make(struct base_uuid_source *source);

/* Lower case, as RFC 9562 recommends. */
void base_uuid_format(const struct base_uuid *uuid, char text[BASE_UUID_TEXT]);

/* Any version, either case; false if it is not a UUID in the 8-4-4-4-12 form. */
bool base_uuid_parse(const char *text, size_t size, struct base_uuid *uuid);

/* The milliseconds since 1970 that a version 7 id carries. */
int64_t base_uuid_wall_ms(const struct base_uuid *uuid);

#endif
