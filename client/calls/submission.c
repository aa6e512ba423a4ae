/* SPDX-License-Identifier: Apache-2.0 */
/* What delivery needs of an assembly. On the loop's thread. */
#include "client/calls/submission.h"

#include <string.h>

#include "lib/base/json.h"

static int64_t deadline_of(const struct handoff_assembly *assembly)
{
    int64_t wall_ms = 0;
    if (!base_json_time(yyjson_obj_get(assembly->constraints, "deadline"), &wall_ms))
        return 0;
    return wall_ms != 0 ? wall_ms : 1; /* 0 means none; 1 ms after 1970 is just as long ago */
}

void handoff_submission_of(struct handoff_assembly *assembly, struct handoff_submission *submission)
{
    *submission = (struct handoff_submission){
        .id = assembly->id,
        .envelope = base_buffer_span(&assembly->out),
        .cut_at = HANDOFF_DIGEST_AT,
        .cut_size = HANDOFF_DIGEST_SIZE,
        .excerpt = assembly->excerpt,
        .contribution = base_buffer_span(&assembly->contribution),
        .own_envelope = &assembly->own_envelope,
        .own_contribution = &assembly->own_contribution,
        .parents = assembly->chain.parent_ids,
        .nparents = assembly->chain.nparents,
        .hop = assembly->hop_count,
        .task_id = assembly->task_id,
        .source = assembly->request.source_agent,
        .target = assembly->request.target_agent,
        .summary = assembly->request.task_summary,
        .pattern = (enum handoff_pattern)assembly->request.pattern,
        .created_ms = assembly->created_ms,
        .deadline_ms = deadline_of(assembly),
        .tokens = assembly->plan.count,
        .parked_for = assembly->over_limit ? HANDOFF_REASON_HOP_LIMIT : HANDOFF_REASON_NONE,
        .traceparent = assembly->traceparent,
        .tracestate = assembly->tracestate,
    };
    if (assembly->chain.replaced)
        submission->replaces = assembly->replaces;
    memcpy(submission->digest, assembly->digest, sizeof submission->digest);
}
