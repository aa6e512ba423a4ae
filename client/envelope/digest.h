/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digest.h - the seal of an envelope.
 *
 * The digest is SHA-256 over the compact JSON of the envelope without its `digest` member. Our
 * envelopes have that member third, after members of fixed length, so the bytes without it are
 * those before and after it: a seal is checked without parsing or rewriting anything.
 */
#ifndef HANDOFF_ENVELOPE_DIGEST_H
#define HANDOFF_ENVELOPE_DIGEST_H

#include <stdbool.h>
#include <stdint.h>

#include "client/envelope/excerpt.h"
#include "lib/base/buffer.h"
#include "lib/base/sha256.h"
#include "lib/base/uuid.h"

/* {"envelope_version":"2.1","id":"<36 characters>",  and  "digest":"sha256:<64 digits>", */
#define HANDOFF_DIGEST_BEFORE "{" HANDOFF_EXCERPT_VERSION ",\"id\":\""
#define HANDOFF_DIGEST_MEMBER "\"digest\":\"sha256:"
enum {
    HANDOFF_DIGEST_AT = sizeof(HANDOFF_DIGEST_BEFORE) - 1 + BASE_UUID_TEXT - 1 + 2,
    HANDOFF_DIGEST_SIZE = sizeof(HANDOFF_DIGEST_MEMBER) - 1 + (BASE_SHA256_HEX_SIZE - 1) + 2,
};

/* Appends the head of a new envelope, with room for its digest. The buffer must be empty. */
void handoff_digest_begin(struct base_buffer *envelope, const char id[BASE_UUID_TEXT]);

/* Computes the digest of the finished document and writes it into its place. */
void handoff_digest_seal(struct base_buffer *envelope, unsigned char digest[BASE_SHA256_BYTES]);

/* Whether the bytes are one of our envelopes, unchanged; also one of version 2.0, whose members lie
 * at the same places. */
bool handoff_digest_verify(struct base_span envelope);

#endif
