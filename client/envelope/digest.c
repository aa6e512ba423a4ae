/* SPDX-License-Identifier: Apache-2.0 */
/* Sealing and verifying; digest.h has the format. Pure, any thread. */
#include "client/envelope/digest.h"

#include <string.h>

#include "lib/base/check.h"

enum { HEX_AT = HANDOFF_DIGEST_AT + sizeof(HANDOFF_DIGEST_MEMBER) - 1 };

void handoff_digest_begin(struct base_buffer *envelope, const char id[BASE_UUID_TEXT])
{
    static const char unsealed[] =
        "0000000000000000000000000000000000000000000000000000000000000000";
    BASE_CHECK(envelope->size == 0);
    base_buffer_text(envelope, HANDOFF_DIGEST_BEFORE);
    base_buffer_text(envelope, id);
    base_buffer_text(envelope, "\"," HANDOFF_DIGEST_MEMBER);
    base_buffer_text(envelope, unsealed);
    base_buffer_text(envelope, "\",");
    BASE_CHECK(envelope->failed || envelope->size == HANDOFF_DIGEST_AT + HANDOFF_DIGEST_SIZE);
}

static void compute_digest(struct base_span envelope, unsigned char digest[BASE_SHA256_BYTES])
{
    const size_t behind = HANDOFF_DIGEST_AT + HANDOFF_DIGEST_SIZE;
    struct base_sha256 hash;
    base_sha256_start(&hash);
    base_sha256_add(&hash, envelope.data, HANDOFF_DIGEST_AT);
    base_sha256_add(&hash, envelope.data + behind, envelope.size - behind);
    base_sha256_finish(&hash, digest);
}

void handoff_digest_seal(struct base_buffer *envelope, unsigned char digest[BASE_SHA256_BYTES])
{
    char hex[BASE_SHA256_HEX_SIZE];
    BASE_CHECK(!envelope->failed && envelope->size > HANDOFF_DIGEST_AT + HANDOFF_DIGEST_SIZE);
    compute_digest(base_buffer_span(envelope), digest);
    base_sha256_hex(digest, hex);
    memcpy(envelope->data + HEX_AT, hex, sizeof(hex) - 1);
}

static bool begins_as_ours(struct base_span envelope)
{
    static const char older[] = "{" HANDOFF_EXCERPT_VERSION_BEFORE ",\"id\":\"";
    _Static_assert(sizeof older == sizeof HANDOFF_DIGEST_BEFORE, "the digest is where it was");
    return memcmp(envelope.data, HANDOFF_DIGEST_BEFORE, sizeof older - 1) == 0 ||
           memcmp(envelope.data, older, sizeof older - 1) == 0;
}

bool handoff_digest_verify(struct base_span envelope)
{
    unsigned char digest[BASE_SHA256_BYTES];
    char hex[BASE_SHA256_HEX_SIZE];
    if (envelope.size <= HANDOFF_DIGEST_AT + HANDOFF_DIGEST_SIZE || !begins_as_ours(envelope) ||
        memcmp(envelope.data + HANDOFF_DIGEST_AT, HANDOFF_DIGEST_MEMBER,
               sizeof(HANDOFF_DIGEST_MEMBER) - 1) != 0)
        return false;
    compute_digest(envelope, digest);
    base_sha256_hex(digest, hex);
    return memcmp(envelope.data + HEX_AT, hex, sizeof(hex) - 1) == 0 &&
           memcmp(envelope.data + HEX_AT + sizeof(hex) - 1, "\",", 2) == 0;
}
