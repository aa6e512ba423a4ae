/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as an agent's answer. Read whole and cut in two at a place that the first byte names,
 * they must come to the same; what is kept stays within its bounds.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "client/transport/http_answer.h"
#include "lib/base/check.h"

static enum handoff_http_progress feed(struct handoff_http_answer *answer, const char *bytes,
                                       size_t size, size_t cut, size_t *taken)
{
    handoff_http_answer_begin(answer);
    enum handoff_http_progress progress = handoff_http_answer_read(answer, bytes, cut, taken);
    if (progress == HANDOFF_HTTP_MORE) {
        size_t used;
        BASE_CHECK(*taken == cut);
        progress = handoff_http_answer_read(answer, bytes + cut, size - cut, &used);
        *taken += used;
    }
    return progress == HANDOFF_HTTP_MORE ? handoff_http_answer_end(answer) : progress;
}

static void check_bounds(const struct handoff_http_answer *answer,
                         enum handoff_http_progress progress)
{
    BASE_CHECK(progress == HANDOFF_HTTP_WHOLE || progress == HANDOFF_HTTP_BROKEN);
    BASE_CHECK((progress == HANDOFF_HTTP_BROKEN) == (answer->fault != HANDOFF_FAULT_NONE));
    BASE_CHECK(answer->body.size <= HANDOFF_HTTP_BODY_MAX);
    BASE_CHECK(strlen(answer->ack) < HANDOFF_HTTP_ACK_MAX);
    BASE_CHECK(strlen(answer->retry_after) < HANDOFF_RETRY_AFTER_SIZE);
    if (progress == HANDOFF_HTTP_WHOLE)
        BASE_CHECK(answer->status >= 200 && answer->status <= 999);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct handoff_http_answer whole, cut;
    size_t whole_taken, cut_taken;
    if (size == 0)
        return 0;
    const char *bytes = (const char *)data + 1;
    size--;
    enum handoff_http_progress progress = feed(&whole, bytes, size, size, &whole_taken);
    check_bounds(&whole, progress);
    BASE_CHECK(feed(&cut, bytes, size, data[0] < size ? data[0] : size, &cut_taken) == progress);
    if (progress == HANDOFF_HTTP_WHOLE) {
        BASE_CHECK(whole_taken == cut_taken && whole.status == cut.status &&
                   whole.keep == cut.keep && whole.has_ack == cut.has_ack &&
                   strcmp(whole.ack, cut.ack) == 0);
        BASE_CHECK(
            whole.body.size == cut.body.size &&
            (whole.body.size == 0 || memcmp(whole.body.data, cut.body.data, whole.body.size) == 0));
    }
    handoff_http_answer_free(&whole);
    handoff_http_answer_free(&cut);
    return 0;
}
