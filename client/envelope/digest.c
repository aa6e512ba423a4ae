/* SPDX-License-Identifier: Apache-2.0 */
/* The seal of digest.h. Pure, any thread. */
#include "client/envelope/digest.h"

#include <string.h>

#include "lib/base/check.h"

enum { HEX_AT = HANDOFF_DIGEST_AT + sizeof(HANDOFF_DIGEST_MEMBER) - 1 };

void handoff_digest_begin(struct handoff_buffer *envelope, const char id[HANDOFF_UUID_TEXT])
{
    static const char unsealed[] =
        "0000000000000000000000000000000000000000000000000000000000000000";
    HANDOFF_CHECK(envelope->size == 0);
    handoff_buffer_text(envelope, HANDOFF_DIGEST_BEFORE);
    handoff_buffer_text(envelope, id);
    handoff_buffer_text(envelope, "\"," HANDOFF_DIGEST_MEMBER);
    handoff_buffer_text(envelope, unsealed);
    handoff_buffer_text(envelope, "\",");
    HANDOFF_CHECK(envelope->failed || envelope->size == HANDOFF_DIGEST_AT + HANDOFF_DIGEST_SIZE);
}

static void compute(struct handoff_span envelope, unsigned char digest[HANDOFF_SHA256_BYTES])
{
    const size_t behind = HANDOFF_DIGEST_AT + HANDOFF_DIGEST_SIZE;
    struct handoff_sha256 hash;
    handoff_sha256_start(&hash);
    handoff_sha256_add(&hash, envelope.data, HANDOFF_DIGEST_AT);
    handoff_sha256_add(&hash, envelope.data + behind, envelope.size - behind);
    handoff_sha256_finish(&hash, digest);
}

void handoff_digest_seal(struct handoff_buffer *envelope,
                         unsigned char digest[HANDOFF_SHA256_BYTES])
{
    char hex[HANDOFF_SHA256_HEX_SIZE];
    HANDOFF_CHECK(!envelope->failed && envelope->size > HANDOFF_DIGEST_AT + HANDOFF_DIGEST_SIZE);
    compute(handoff_buffer_span(envelope), digest);
    handoff_sha256_hex(digest, hex);
    memcpy(envelope->data + HEX_AT, hex, sizeof(hex) - 1);
}

bool handoff_digest_verify(struct handoff_span envelope)
{
    unsigned char digest[HANDOFF_SHA256_BYTES];
    char hex[HANDOFF_SHA256_HEX_SIZE];
    if (envelope.size <= HANDOFF_DIGEST_AT + HANDOFF_DIGEST_SIZE ||
        memcmp(envelope.data, HANDOFF_DIGEST_BEFORE, sizeof(HANDOFF_DIGEST_BEFORE) - 1) != 0 ||
        memcmp(envelope.data + HANDOFF_DIGEST_AT, HANDOFF_DIGEST_MEMBER,
               sizeof(HANDOFF_DIGEST_MEMBER) - 1) != 0)
        return false;
    compute(envelope, digest);
    handoff_sha256_hex(digest, hex);
    return memcmp(envelope.data + HEX_AT, hex, sizeof(hex) - 1) == 0 &&
           memcmp(envelope.data + HEX_AT + sizeof(hex) - 1, "\",", 2) == 0;
}
