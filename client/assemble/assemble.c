/* SPDX-License-Identifier: Apache-2.0 */
/* The table of stages, and the time each takes. The thread that runs the assembly. */
#include "client/assemble/assemble.h"

#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/json.h"

/* The host lends its texts for one call only, and the spine may answer after it. */
static bool copy_lent_text(struct handoff_assembly *assembly, struct base_span *text)
{
    if (text->data)
        text->data = base_arena_copy(&assembly->arena, text->data, text->size);
    return text->data || text->size == 0;
}

static bool copy_lent_names(struct handoff_assembly *assembly)
{
    return copy_lent_text(assembly, &assembly->caller) &&
           copy_lent_text(assembly, &assembly->given_traceparent) &&
           copy_lent_text(assembly, &assembly->given_tracestate);
}

bool handoff_assembly_keep_texts(struct handoff_assembly *assembly)
{
    return copy_lent_text(assembly, &assembly->body) && copy_lent_names(assembly);
}

static enum handoff_progress stage_validate(struct handoff_assembly *assembly)
{
    if (!copy_lent_names(assembly)) {
        handoff_error_no_memory(&assembly->error);
        return HANDOFF_PROGRESS_FAILED;
    }
    if (handoff_request_read(&assembly->arena, assembly->body, assembly->caller, &assembly->request,
                             &assembly->error) != HANDOFF_OK)
        return HANDOFF_PROGRESS_FAILED;
    return assembly->target(assembly) == HANDOFF_OK ? HANDOFF_PROGRESS_NEXT
                                                    : HANDOFF_PROGRESS_FAILED;
}

static const struct stage {
    const char *name;
    enum handoff_progress (*run)(struct handoff_assembly *);
} stages[HANDOFF_STAGES] = {
    [HANDOFF_STAGE_VALIDATE] = {"validate", stage_validate},
    [HANDOFF_STAGE_INHERIT] = {"inherit", handoff_stage_inherit},
    [HANDOFF_STAGE_RESOLVE] = {"resolve", handoff_stage_resolve},
    [HANDOFF_STAGE_TRIM] = {"trim", handoff_stage_trim},
    [HANDOFF_STAGE_ENCODE] = {"encode", handoff_stage_encode},
};

const char *handoff_stage_name(enum handoff_stage stage)
{
    return stages[stage].name;
}

bool handoff_assembly_run(struct handoff_assembly *assembly)
{
    const struct base_clock *clock = assembly->with->clock;
    if (!assembly->stage_began_ns)
        assembly->stage_began_ns = base_monotonic_ns(clock);
    while (assembly->stage < HANDOFF_STAGES) {
        enum handoff_progress progress = stages[assembly->stage].run(assembly);
        if (progress == HANDOFF_PROGRESS_WAIT)
            return false;
        BASE_CHECK((progress == HANDOFF_PROGRESS_FAILED) == (assembly->error.code != HANDOFF_OK));
        int64_t now = base_monotonic_ns(clock);
        assembly->stage_ns[assembly->stage] += now - assembly->stage_began_ns;
        assembly->stage_began_ns = now;
        assembly->stage =
            progress == HANDOFF_PROGRESS_RERANK ? HANDOFF_STAGE_RESOLVE : assembly->stage + 1;
        if (progress == HANDOFF_PROGRESS_FAILED)
            return true;
    }
    return true;
}

bool handoff_assembly_is_cycle(const struct handoff_assembly *assembly)
{
    struct base_span target = assembly->request.target_agent;
    size_t i, n;
    yyjson_val *agent;
    yyjson_arr_foreach(assembly->parent.path, i, n, agent)
    {
        if (base_span_equal(base_json_span(agent), target))
            return true;
    }
    return base_span_equal(assembly->request.source_agent, target) ||
           (assembly->parent.doc && base_span_equal(assembly->parent.source_agent, target));
}

struct base_arena handoff_assembly_end(struct handoff_assembly *assembly)
{
    struct base_arena arena = assembly->arena;
    handoff_request_free(&assembly->request);
    handoff_envelope_free(&assembly->parent);
    yyjson_doc_free(assembly->constraints_doc);
    return arena;
}

void handoff_assembly_free(struct handoff_assembly *assembly)
{
    struct base_arena arena = handoff_assembly_end(assembly);
    *assembly = (struct handoff_assembly){0};
    base_arena_free(&arena);
}
