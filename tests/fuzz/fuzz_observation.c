/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any JSON as an observation. What is accepted must be within the bounds that the counters rely on;
 * what is refused must say why in plain UTF-8. A first byte of ' ' makes the
 * caller known.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "client/assemble/request.h"
#include "client/calls/observation.h"
#include "client/model/model.h"
#include "lib/base/check.h"
#include "lib/base/json.h"
#include "tests/support/refusal.h"

enum { NOW_MS = 1000000000 };

static void check_refs(const struct handoff_observed_refs *refs)
{
    BASE_CHECK((refs->ratio >= 0 && refs->ratio <= 1) || refs->included < 0);
    if (refs->included < 0)
        return;
    BASE_CHECK(refs->missing >= 0 && refs->trimmed >= 0);
    BASE_CHECK(refs->included + refs->missing + refs->trimmed == refs->requested);
    BASE_CHECK(refs->requested <= 3 * (int64_t)HANDOFF_OBSERVATION_REFS_MAX);
}

static void check_accepted(const struct handoff_observation *observation)
{
    BASE_CHECK(observation->source_agent.size > 0 && observation->target_agent.size > 0);
    BASE_CHECK(observation->outcome >= HANDOFF_OUTCOME_ACKNOWLEDGED &&
               observation->outcome <= HANDOFF_OUTCOME_CIRCUIT_OPEN);
    BASE_CHECK(handoff_pattern_name((enum handoff_pattern)observation->pattern) != NULL);
    BASE_CHECK(!observation->id.data || strlen(observation->id.data) == observation->id.size);
    BASE_CHECK(!observation->trace_id.data || observation->trace_id.size == 32);
    BASE_CHECK(observation->at_ms == HANDOFF_OBSERVATION_NO_TIME ||
               (observation->at_ms >= NOW_MS - HANDOFF_OBSERVATION_PAST_MS &&
                observation->at_ms <= NOW_MS + HANDOFF_OBSERVATION_FUTURE_MS));
    BASE_CHECK(observation->latency_s >= -1 &&
               observation->latency_s <= (double)HANDOFF_OBSERVATION_LATENCY_MAX_S);
    for (int i = 0; i < HANDOFF_RESULT_COUNT; i++)
        BASE_CHECK(observation->attempts[i] >= 0 &&
                   observation->attempts[i] <= HANDOFF_OBSERVATION_ATTEMPTS_MAX);
    BASE_CHECK(observation->tokens >= -1 && observation->budget >= 0 && observation->hops >= 0);
    check_refs(&observation->refs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct handoff_observation observation;
    struct handoff_error error = {0};
    struct base_span caller = {0};
    yyjson_doc *doc;
    if (size > 0 && data[0] == ' ')
        caller = base_span_text("researcher");
    if (base_json_read(base_span((const char *)data, size), "body", &doc, &error) != HANDOFF_OK)
        return 0;
    if (handoff_observation_read(yyjson_doc_get_root(doc), caller, NOW_MS, &observation, &error) ==
        HANDOFF_OK)
        check_accepted(&observation);
    else
        check_refused(&error);
    yyjson_doc_free(doc);
    return 0;
}
