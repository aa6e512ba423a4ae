/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any body as a request. What is accepted must hold what later stages rely on, and merging its
 * constraints with themselves must change nothing; what is refused must say why in plain UTF-8.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "client/assemble/request.h"
#include "client/assemble/segment.h"
#include "client/ledger/constraints.h"
#include "client/model/lenient.h"
#include "lib/base/check.h"
#include "lib/base/json.h"
#include "tests/support/refusal.h"

static void check_constraints(yyjson_val *constraints)
{
    struct base_arena arena = {0};
    struct base_buffer once = {.arena = &arena}, twice = {.arena = &arena};
    struct handoff_join_refusal refusal;
    struct handoff_joined *joined = handoff_joined_begin(&arena);
    for (int i = 0; i < 2; i++) {
        BASE_CHECK(joined && handoff_joined_add(joined, constraints, HANDOFF_JOIN_CHILD, &refusal));
        BASE_CHECK(refusal.count == 0);
        handoff_joined_write(i ? &twice : &once, joined);
    }
    BASE_CHECK(once.size == twice.size && memcmp(once.data, twice.data, once.size) == 0);
    base_arena_free(&arena);
}

static void check_steps(yyjson_val *steps)
{
    struct base_buffer out = {0};
    yyjson_doc *doc;
    size_t i, n;
    yyjson_val *step;
    yyjson_arr_foreach(steps, i, n, step)
    {
        base_buffer_clear(&out);
        handoff_segment_step_write(&out, step);
        BASE_CHECK(base_json_read(base_buffer_span(&out), "step", &doc, NULL) == HANDOFF_OK);
        yyjson_doc_free(doc);
        base_buffer_clear(&out);
        handoff_segment_step_write_short(&out, step);
        BASE_CHECK(base_json_read(base_buffer_span(&out), "step", &doc, NULL) == HANDOFF_OK);
        yyjson_doc_free(doc);
    }
    base_buffer_free(&out);
}

static void check_accepted(const struct handoff_request *request)
{
    BASE_CHECK(request->source_agent.size > 0 && request->target_agent.size > 0);
    BASE_CHECK(request->task_summary.size > 0 && !request->raw_log);
    BASE_CHECK(request->include_recent >= 0 && request->include_recent <= HANDOFF_RECENT_MAX);
    BASE_CHECK(request->strategy == -1 ||
               handoff_strategy_name((enum handoff_strategy)request->strategy) != NULL);
    BASE_CHECK(handoff_pattern_name((enum handoff_pattern)request->pattern) != NULL);
    check_constraints(request->constraints);
    check_steps(request->execution_history);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct handoff_request request;
    struct handoff_warnings warnings = {0};
    struct handoff_error error = {0};
    struct base_span caller = {0};
    if (size > 0 && data[0] == ' ')
        caller = base_span_text("researcher");
    enum handoff_code code = handoff_request_read(NULL, base_span((const char *)data, size), caller,
                                                  NULL, &warnings, size % 2, &request, &error);
    BASE_CHECK((handoff_warnings_text(&warnings).data != NULL) == (warnings.count > 0));
    handoff_warnings_free(&warnings);
    if (code != HANDOFF_OK) {
        check_refused(&error);
        return 0;
    }
    check_accepted(&request);
    handoff_request_free(&request);
    return 0;
}
