/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/sha256.h"

void handoff_sha256_start(struct handoff_sha256 *hash)
{
    sha256_init(&hash->context);
}

void handoff_sha256_add(struct handoff_sha256 *hash, const void *data, size_t length)
{
    sha256_update(&hash->context, length, data);
}

void handoff_sha256_finish(struct handoff_sha256 *hash, unsigned char digest[HANDOFF_SHA256_BYTES])
{
    sha256_digest(&hash->context, HANDOFF_SHA256_BYTES, digest);
}

void handoff_sha256(const void *data, size_t length, unsigned char digest[HANDOFF_SHA256_BYTES])
{
    struct handoff_sha256 hash;

    handoff_sha256_start(&hash);
    handoff_sha256_add(&hash, data, length);
    handoff_sha256_finish(&hash, digest);
}

void handoff_sha256_hex(const unsigned char digest[HANDOFF_SHA256_BYTES],
                        char text[HANDOFF_SHA256_HEX_SIZE])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < HANDOFF_SHA256_BYTES; i++) {
        text[2 * i] = digits[digest[i] >> 4];
        text[2 * i + 1] = digits[digest[i] & 15];
    }
    text[HANDOFF_SHA256_HEX_SIZE - 1] = '\0';
}
