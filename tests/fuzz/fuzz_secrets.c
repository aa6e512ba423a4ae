/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text, and any name before it: what is found lies in the text, in order and apart; the first
 * look passes over none of it; and where nothing is found, a reason stays as it is. The input is
 * the name, a newline, and the text; without a newline it is all text.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/secrets/find.h"
#include "client/secrets/redact.h"
#include "lib/base/check.h"
#include "lib/base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Its own allocation, so that a byte too far is seen. */
static struct base_span copy_exactly(const uint8_t *data, size_t size)
{
    char *copy = malloc(size ? size : 1);
    BASE_CHECK(copy);
    memcpy(copy, data, size);
    return base_span(copy, size);
}

/* Where a marker must not begin or end. In text that is not UTF-8 nothing is a character. */
static bool is_within_character(struct base_span text, size_t at)
{
    return base_utf8_valid_length(text.data, text.size) == text.size && at < text.size &&
           ((unsigned char)text.data[at] & 0xc0) == 0x80;
}

/* Both searches find the same, whether or not the second knows where to begin. */
static bool find_alike(struct base_span text, struct base_span before, size_t at)
{
    struct handoff_secret_search whole, from;
    struct handoff_secret_found one, other;
    size_t end = 0, count = 0;
    handoff_secret_begin(&whole, text, before, 0);
    handoff_secret_begin(&from, text, before, at);
    while (handoff_secret_next(&whole, &one)) {
        BASE_CHECK(handoff_secret_next(&from, &other));
        BASE_CHECK(one.at == other.at && one.size == other.size && one.kind == other.kind);
        BASE_CHECK(one.at >= end && one.size > 0 && one.size <= text.size - one.at);
        BASE_CHECK((unsigned)one.kind < HANDOFF_SECRET_COUNT);
        BASE_CHECK(!is_within_character(text, one.at));
        BASE_CHECK(!is_within_character(text, one.at + one.size));
        end = one.at + one.size;
        BASE_CHECK(++count <= text.size);
    }
    BASE_CHECK(!handoff_secret_next(&from, &other));
    return count > 0;
}

static bool has_secret(struct base_span text)
{
    struct handoff_secret_search search;
    struct handoff_secret_found found;
    size_t at;
    if (!handoff_secret_look(text, &at))
        return false;
    handoff_secret_begin(&search, text, base_span(NULL, 0), at);
    return handoff_secret_next(&search, &found);
}

/* A reason is as it was, but for markers and its length. */
static void check_cut(struct base_span text)
{
    char reason[200];
    const handoff_secret_set kinds =
        handoff_secrets_cut(reason, sizeof reason, text.data, text.size);
    const char *end = memchr(reason, '\0', sizeof reason);
    BASE_CHECK(end);
    if (kinds == 0)
        BASE_CHECK((size_t)(end - reason) <= text.size &&
                   memcmp(reason, text.data, (size_t)(end - reason)) == 0);
    else
        BASE_CHECK(has_secret(text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *newline = size ? memchr(data, '\n', size) : NULL;
    const size_t named = newline ? (size_t)(newline - data) : 0;
    const size_t skipped = newline ? named + 1 : 0;
    struct base_span before = copy_exactly(data, named);
    struct base_span text = copy_exactly(data + skipped, size - skipped);
    size_t at = 0;
    const bool may_have = handoff_secret_look(text, &at);
    BASE_CHECK(!may_have || at <= text.size);
    if (text.size >= HANDOFF_SECRET_SHORTEST) {
        const bool found = find_alike(text, named ? before : base_span(NULL, 0), at);
        BASE_CHECK(may_have || !found);
    }
    check_cut(text);
    free((char *)(uintptr_t)before.data);
    free((char *)(uintptr_t)text.data);
    return 0;
}
