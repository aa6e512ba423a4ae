/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checksum of 64 bits, against damage and not against malice: four lanes that are multiplied and
 * rotated, as fast as memory is read. Pure; any thread.
 */
#include <string.h>

#include "lib/base/check.h"
#include "lib/search/segment.h"

enum { STRIPE = 32 };

static const uint64_t odd[2] = {UINT64_C(0x9E3779B97F4A7C15), UINT64_C(0xC2B2AE3D27D4EB4F)};

static uint64_t mix_lane(uint64_t lane, uint64_t word)
{
    lane += word * odd[1];
    return (lane << 31 | lane >> 33) * odd[0];
}

void search_checksum_begin(struct search_checksum *sum)
{
    *sum = (struct search_checksum){.lanes = {odd[0], odd[1], odd[0] ^ odd[1], 1}};
}

void search_checksum_add(struct search_checksum *sum, const void *bytes, size_t size)
{
    const unsigned char *at = bytes, *end = at + size;
    BASE_CHECK(sum->size % STRIPE == 0);
    sum->size += size;
    for (uint64_t words[4]; end - at >= STRIPE; at += STRIPE) {
        memcpy(words, at, sizeof words);
        for (int i = 0; i < 4; i++)
            sum->lanes[i] = mix_lane(sum->lanes[i], words[i]);
    }
    if (at < end) {
        uint64_t words[4] = {0};
        memcpy(words, at, (size_t)(end - at));
        for (int i = 0; i < 4; i++)
            sum->lanes[i] = mix_lane(sum->lanes[i], words[i]);
    }
}

uint64_t search_checksum_end(const struct search_checksum *sum)
{
    uint64_t all = sum->size * odd[0];
    for (int i = 0; i < 4; i++)
        all = mix_lane(all, sum->lanes[i] ^ sum->lanes[i] >> 29);
    return all ^ all >> 32;
}

uint64_t search_checksum(const void *bytes, size_t size)
{
    struct search_checksum sum;
    search_checksum_begin(&sum);
    search_checksum_add(&sum, bytes, size);
    return search_checksum_end(&sum);
}
