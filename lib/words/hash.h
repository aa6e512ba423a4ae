/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash.h - the hash of a term, byte by byte as its letters are found.
 *
 * FNV-1a, whose weak high bits a last mixing mends (Murmur's, which is a bijection). Somebody who
 * tries can find two words of one hash, and has then a memory that is found by another word; that
 * is no more than writing the other word would do. Pure; any thread.
 */
#ifndef WORDS_HASH_H
#define WORDS_HASH_H

#include <stdint.h>

#define WORDS_HASH_START 0xcbf29ce484222325u

static inline uint64_t words_hash_byte(uint64_t hash, uint8_t byte)
{
    return (hash ^ byte) * 0x100000001b3u;
}

/* 0 is no term's, so that it can mean "none". */
static inline uint64_t words_hash_end(uint64_t hash)
{
    hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdu;
    hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53u;
    hash ^= hash >> 33;
    return hash ? hash : 1;
}

#endif
