/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes one projection after the other, see projections.h. Each takes as long as the last stages of
 * an assembly; the loop serves others in between. On the loop's thread.
 */
#include "client/calls/projections.h"

#include <string.h>

#include "client/calls/submission.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/sha256.h"

enum { PROJECTIONS_TURN_NS = 1000000 }; /* then the loop serves others */

/* The owner may free the assembly, and this with it. */
static void projections_are_over(struct handoff_projections *projections,
                                 const struct handoff_error *failure)
{
    const struct handoff_error error = failure ? *failure : (struct handoff_error){0};
    handoff_projections_stop(projections);
    projections->assembly = NULL;
    projections->made(projections, &error);
}

/* False: it failed for a reason that is not this receiver's. */
static bool keep_projection(struct handoff_projections *projections)
{
    struct handoff_assembly *assembly = projections->assembly;
    struct handoff_projection *made = &projections->list[projections->at++];
    made->code = assembly->error.code;
    if (made->code != HANDOFF_OK)
        return made->code == HANDOFF_ERR_BUDGET_TOO_SMALL;
    handoff_submission_of(assembly, &made->submission);
    made->submission.own_envelope = made->submission.own_contribution = NULL;
    made->submission.replaces = (struct base_uuid){0};
    handoff_client_describe(assembly, &made->event);
    memcpy(made->id_text, assembly->id_text, sizeof made->id_text);
    made->event.who.id = made->id_text;
    return true;
}

static void make_projections(struct handoff_projections *projections)
{
    struct handoff_assembly *assembly = projections->assembly;
    const struct base_clock *clock = assembly->with->clock;
    const int64_t until_ns = base_monotonic_ns(clock) + PROJECTIONS_TURN_NS;
    while (projections->at < projections->count) {
        if (base_monotonic_ns(clock) > until_ns) {
            base_loop_start_timer(assembly->base, &projections->timer, 0);
            return;
        }
        if (!handoff_assembly_run_again(assembly, projections->list[projections->at].budget))
            return; /* projection_assembled goes on */
        if (!keep_projection(projections)) {
            projections_are_over(projections, &assembly->error);
            return;
        }
    }
    projections_are_over(projections, NULL);
}

static void projection_assembled(struct handoff_assembly *assembly)
{
    struct handoff_projections *projections = assembly->context;
    if (keep_projection(projections))
        make_projections(projections);
    else
        projections_are_over(projections, &assembly->error);
}

static void projections_timer_fired(struct base_timer *timer)
{
    make_projections(BASE_CONTAINER_OF(timer, struct handoff_projections, timer));
}

/* In the assembly's arena. NULL: out of memory. */
static const char *write_published_digest(struct handoff_assembly *assembly, const uint8_t *digest)
{
    static const char algorithm[] = "sha256:";
    char *text = base_arena_alloc(&assembly->arena, sizeof algorithm - 1 + BASE_SHA256_HEX_SIZE);
    if (!text)
        return NULL;
    memcpy(text, algorithm, sizeof algorithm - 1);
    base_sha256_hex(digest, text + sizeof algorithm - 1);
    return text;
}

void handoff_projections_make(struct handoff_projections *projections)
{
    struct handoff_assembly *assembly = projections->assembly;
    struct handoff_error error;
    const char *digest = write_published_digest(assembly, assembly->digest);
    const char *id = base_arena_strdup(&assembly->arena, assembly->id_text);
    if (!digest || !id) {
        handoff_error_no_memory(&error);
        projections_are_over(projections, &error);
        return;
    }
    assembly->projects = (struct handoff_parent){
        .id = base_span_text(id), .digest = base_span_text(digest), .uuid = assembly->id};
    assembly->context = projections;
    assembly->finished = projection_assembled;
    projections->at = 0;
    projections->timer.fire = projections_timer_fired;
    make_projections(projections);
}

/* Any thread, as every target of an assembly. The receivers' budgets decide. */
static enum handoff_code keep_first_budget(struct handoff_assembly *assembly)
{
    const struct handoff_projections *projections = assembly->context;
    assembly->token_budget = projections->list[0].budget;
    return HANDOFF_OK;
}

struct handoff_assembly *handoff_projections_begin_anew(struct handoff_loop *loop,
                                                        struct base_span request,
                                                        const struct handoff_submission *published)
{
    const struct handoff_ask ask = {.body = request.data, .size = request.size, .any_task = true};
    struct handoff_assembly *assembly = handoff_client_begin_assembly(loop, &ask);
    if (!assembly)
        return NULL;
    char id[BASE_UUID_TEXT];
    base_uuid_format(&published->id, id);
    const char *id_text = base_arena_strdup(&assembly->arena, id);
    const char *digest = write_published_digest(assembly, published->digest);
    assembly->projects = (struct handoff_parent){
        .id = base_span_text(id_text), .digest = base_span_text(digest), .uuid = published->id};
    assembly->replaces = published->id;
    assembly->target = keep_first_budget;
    assembly->finished = projection_assembled;
    if (!id_text || !digest || !handoff_assembly_keep_texts(assembly))
        handoff_client_end_assembly(&assembly);
    return assembly;
}

void handoff_projections_make_anew(struct handoff_projections *projections)
{
    struct handoff_assembly *assembly = projections->assembly;
    BASE_CHECK(projections->count > 0);
    assembly->context = projections;
    projections->at = 0;
    projections->timer.fire = projections_timer_fired;
    if (handoff_assembly_run(assembly))
        projection_assembled(assembly);
}

bool handoff_projections_may_succeed_later(enum handoff_code code)
{
    const enum handoff_class class = handoff_code_class(code);
    return class == HANDOFF_CLASS_BUSY || class == HANDOFF_CLASS_TIMEOUT ||
           class == HANDOFF_CLASS_UNAVAILABLE;
}

void handoff_projections_stop(struct handoff_projections *projections)
{
    if (projections->assembly)
        base_timers_stop(&projections->assembly->base->timers, &projections->timer);
}
