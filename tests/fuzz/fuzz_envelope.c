/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as an envelope. What is read can be written in every other form; version 1 is JSON, and
 * the brief's fences are closed.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "client/envelope/brief.h"
#include "client/envelope/digest.h"
#include "client/envelope/legacy.h"
#include "client/envelope/read.h"
#include "lib/base/check.h"
#include "lib/base/json.h"

static void check_legacy(const struct handoff_envelope *envelope)
{
    struct base_buffer out = {0};
    yyjson_doc *doc;
    handoff_legacy_write(&out, envelope);
    BASE_CHECK(!out.failed);
    BASE_CHECK(base_json_read(base_buffer_span(&out), "v1", &doc, NULL) == HANDOFF_OK);
    yyjson_doc_free(doc);
    base_buffer_free(&out);
}

/* Lines as CommonMark sees them: a block closes by a fence at least as long as the one it began
 * with. */
static void check_brief(const struct handoff_envelope *envelope)
{
    struct base_buffer out = {0};
    size_t fence = 0;
    handoff_brief_write(&out, envelope);
    BASE_CHECK(!out.failed);
    for (size_t at = 0; at < out.size;) {
        size_t ticks = 0, end = at;
        while (end < out.size && out.data[end] != '\n' && out.data[end] != '\r')
            end++;
        while (at + ticks < end && out.data[at + ticks] == '`')
            ticks++;
        if (fence == 0 && ticks >= 3)
            fence = ticks;
        else if (fence != 0 && ticks >= fence && at + ticks == end)
            fence = 0;
        at = end + 1;
    }
    BASE_CHECK(fence == 0);
    base_buffer_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct handoff_envelope envelope;
    struct base_span text = base_span((const char *)data, size);
    bool sealed = handoff_digest_verify(text);
    if (handoff_envelope_read(text, &envelope, NULL) != HANDOFF_OK)
        return 0;
    (void)sealed;
    BASE_CHECK(envelope.hop_count > 0 && envelope.hop_max > 0);
    check_legacy(&envelope);
    check_brief(&envelope);
    handoff_envelope_free(&envelope);
    return 0;
}
