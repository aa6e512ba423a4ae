/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sha256.h - SHA-256 (FIPS 180-4), for envelope digests and for pinned downloads.
 *
 * The work is nettle's: it is on every machine that has GnuTLS, and it uses the processor's own
 * SHA instructions where there are any. This module is the only place that knows so.
 * Nothing here allocates or fails. A struct belongs to one thread at a time.
 */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <nettle/sha2.h>
#include <stddef.h>

#define BASE_SHA256_BYTES    32
#define BASE_SHA256_HEX_SIZE 65 /* two digits a byte and the terminating NUL */

struct base_sha256 {
    struct sha256_ctx context;
};

void base_sha256_start(struct base_sha256 *hash);
void base_sha256_add(struct base_sha256 *hash, const void *data, size_t length);
/* Writes the digest; the struct must be started again before its next use. */
void base_sha256_finish(struct base_sha256 *hash, unsigned char digest[BASE_SHA256_BYTES]);

/* All three steps for data that lies in one place. */
void base_sha256(const void *data, size_t length, unsigned char digest[BASE_SHA256_BYTES]);

/* Writes the digest in lower-case hexadecimal, NUL-terminated. */
void base_sha256_hex(const unsigned char digest[BASE_SHA256_BYTES],
                     char text[BASE_SHA256_HEX_SIZE]);

#endif
