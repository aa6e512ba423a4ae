/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UUIDv7, RFC 9562 section 5.7, with the counter of section 6.2 method 1: the 12 bits of rand_a
 * count within a millisecond, and start there at random in the lower half so that there is room to
 * count. Milliseconds and counter together are one 60-bit number that only ever grows; it lives in
 * one atomic word. If the counter overflows or the wall clock steps back, the number simply runs
 * ahead of the clock until the clock has caught up, which the RFC allows. The other 62 bits are
 * random every time. Any thread.
 */
#include "lib/base/uuid.h"

#include <string.h>

enum { COUNTER_BITS = 12, COUNTER_SEED_MASK = 0x7FF };

void base_uuid_source_init(struct base_uuid_source *source, const struct base_clock *clock,
                           const struct base_random *random)
{
    source->clock = clock ? clock : &base_clock_system;
    source->random = random ? random : &base_random_system;
    atomic_init(&source->last, 0);
}

static uint64_t next_tick(struct base_uuid_source *source, uint64_t seed)
{
    uint64_t now = (uint64_t)base_wall_ms(source->clock) << COUNTER_BITS | seed;
    uint64_t last = atomic_load_explicit(&source->last, memory_order_relaxed), next;
    do {
        uint64_t same_ms = last >> COUNTER_BITS == now >> COUNTER_BITS;
        next = now > last && !same_ms ? now : last + 1;
    } while (!atomic_compare_exchange_weak(&source->last, &last, next));
    return next;
}

struct base_uuid base_uuid_make(struct base_uuid_source *source)
{
    struct base_uuid uuid;
    uint8_t random[10];
    source->random->fill(source->random, random, sizeof random);
    uint64_t tick = next_tick(source, ((uint64_t)random[0] << 8 | random[1]) & COUNTER_SEED_MASK);
    uint64_t ms = tick >> COUNTER_BITS;
    for (int i = 5; i >= 0; i--, ms >>= 8)
        uuid.bytes[i] = (uint8_t)ms;
    uuid.bytes[6] = (uint8_t)(0x70u | (tick >> 8 & 0x0Fu));
    uuid.bytes[7] = (uint8_t)tick;
    memcpy(uuid.bytes + 8, random + 2, 8);
    uuid.bytes[8] = (uint8_t)(0x80u | (uuid.bytes[8] & 0x3Fu));
    return uuid;
}

static bool is_dash(int at)
{
    return at == 8 || at == 13 || at == 18 || at == 23;
}

void base_uuid_format(const struct base_uuid *uuid, char text[BASE_UUID_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *byte = uuid->bytes;
    for (int at = 0; at < 36;) {
        if (is_dash(at)) {
            text[at++] = '-';
            continue;
        }
        text[at++] = digits[*byte >> 4];
        text[at++] = digits[*byte++ & 15];
    }
    text[36] = '\0';
}

static int hex_nibble(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

bool base_uuid_parse(const char *text, size_t size, struct base_uuid *uuid)
{
    uint8_t *byte = uuid->bytes;
    if (size != 36)
        return false;
    for (int at = 0; at < 36;) {
        if (is_dash(at)) {
            if (text[at++] != '-')
                return false;
            continue;
        }
        int high = hex_nibble(text[at]), low = hex_nibble(text[at + 1]);
        if (high < 0 || low < 0)
            return false;
        *byte++ = (uint8_t)(high << 4 | low);
        at += 2;
    }
    return true;
}

int64_t base_uuid_wall_ms(const struct base_uuid *uuid)
{
    uint64_t ms = 0;
    for (int i = 0; i < 6; i++)
        ms = ms << 8 | uuid->bytes[i];
    return (int64_t)ms;
}
