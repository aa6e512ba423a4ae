/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests: what callers of the agent API are answered.
 *
 * What is rejected before there is a handoff shows in no measure of handoffs, and a sender that is
 * told 422 may tell nobody. So every answer is counted, by the call and the code of its problem.
 * The codes that a call names as its own are there at 0 from the start, so that the first is an
 * increase; the rest, which any call may answer, begin when they occur.
 *
 * Any thread.
 */
#include "collectors/collectors.h"
#include "collectors/rows.h"
#include "lib/base/check.h"

static struct metric_series *resolve_answer(struct collectors *collectors, size_t call,
                                            enum handoff_code code)
{
    const char *const values[] = {collectors->calls[call].name, handoff_code_name(code)};
    struct metric_series *series =
        metric_resolve(collectors->families[COLLECTORS_API_REQUESTS], values);
    atomic_store_explicit(&collectors->answers[call][code], series, memory_order_release);
    return series;
}

void collectors_count_calls(struct collectors *collectors, const struct collectors_call *calls,
                            size_t count)
{
    BASE_CHECK(collectors->magic == COLLECTORS_MAGIC && count <= COLLECTORS_CALLS_MAX);
    collectors->calls = calls;
    collectors->ncalls = count;
    for (size_t i = 0; i < count; i++) {
        resolve_answer(collectors, i, HANDOFF_OK);
        for (const enum handoff_code *code = calls[i].codes; code && *code != HANDOFF_OK; code++)
            resolve_answer(collectors, i, *code);
    }
}

void collectors_answered(struct collectors *collectors, size_t call, enum handoff_code code)
{
    BASE_CHECK(call < collectors->ncalls);
    struct metric_series *series =
        atomic_load_explicit(&collectors->answers[call][code], memory_order_acquire);
    metric_add(series != NULL ? series : resolve_answer(collectors, call, code), 1);
}
