/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 by nettle, behind sha256.h. A digest under way belongs to one thread. */
#include "lib/base/sha256.h"

void base_sha256_start(struct base_sha256 *hash)
{
    sha256_init(&hash->context);
}

void base_sha256_add(struct base_sha256 *hash, const void *data, size_t length)
{
    sha256_update(&hash->context, length, data);
}

void base_sha256_finish(struct base_sha256 *hash, unsigned char digest[BASE_SHA256_BYTES])
{
    sha256_digest(&hash->context, BASE_SHA256_BYTES, digest);
}

void base_sha256(const void *data, size_t length, unsigned char digest[BASE_SHA256_BYTES])
{
    struct base_sha256 hash;

    base_sha256_start(&hash);
    base_sha256_add(&hash, data, length);
    base_sha256_finish(&hash, digest);
}

void base_sha256_hex(const unsigned char digest[BASE_SHA256_BYTES], char text[BASE_SHA256_HEX_SIZE])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < BASE_SHA256_BYTES; i++) {
        text[2 * i] = digits[digest[i] >> 4];
        text[2 * i + 1] = digits[digest[i] & 15];
    }
    text[BASE_SHA256_HEX_SIZE - 1] = '\0';
}
