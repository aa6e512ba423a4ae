/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage `inherit`: what an envelope takes from those that it continues (continued.h). Task,
 * path, hop count and trace are theirs; what their chain has said is folded with the request into
 * its ledger (client/ledger). Without a parent, a new chain starts.
 *
 * The thread that runs the assembly; a reader thread of the store reads the chain.
 */
#include <stdio.h>
#include <string.h>

#include "client/assemble/assemble.h"
#include "client/assemble/inherit_scopes.h"
#include "client/ledger/references.h"
#include "client/model/warnings.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/json.h"
#include "lib/base/rfc3339.h"

/* ---- reading the chain ------------------------------------------------------------------------
 */

static struct handoff_assembly *assembly_of_read(struct handoff_store_read *read)
{
    return BASE_CONTAINER_OF(read, struct handoff_assembly, chain_read);
}

/* On a reader thread, which owns the assembly until chain_was_read. */
static void run_chain_read(struct handoff_store_read *read)
{
    struct handoff_assembly *assembly = assembly_of_read(read);
    enum handoff_code code = handoff_read_continued(assembly, &assembly->error);
    BASE_CHECK(code == assembly->error.code);
}

/* Items that were counted by an earlier hop are not counted again. */
static void chain_was_read(struct handoff_store_read *read)
{
    struct handoff_assembly *assembly = assembly_of_read(read);
    assembly->chain_is_read = true;
    assembly->size += assembly->chain.size;
    handoff_assembly_go_on(assembly);
}

static bool ask_for_chain(struct handoff_assembly *assembly)
{
    assembly->chain_read.mailbox = assembly->mailbox;
    assembly->chain_read.run = run_chain_read;
    assembly->chain_read.done = chain_was_read;
    handoff_store_submit_read(assembly->with->store, &assembly->chain_read);
    return true;
}

static enum handoff_progress load_chain(struct handoff_assembly *assembly)
{
    if (assembly->request.new_chain && assembly->forbids_new_chain) {
        handoff_error_set(&assembly->error, HANDOFF_ERR_FORBIDDEN,
                          "the operator does not allow new chains of a task (hops.new_chain)",
                          "new_chain", NULL);
        return HANDOFF_PROGRESS_FAILED;
    }
    if (assembly->chain_is_read || !handoff_continues(assembly))
        return assembly->error.code == HANDOFF_OK ? HANDOFF_PROGRESS_NEXT : HANDOFF_PROGRESS_FAILED;
    /* for handoff_client_assemble_again; out of memory: then it fails if it is overtaken */
    (void)handoff_assembly_keep_texts(assembly);
    assembly->ask = ask_for_chain;
    return HANDOFF_PROGRESS_ASK;
}

/* ---- task, hop and path -----------------------------------------------------------------------
 */

static enum handoff_code inherit_task(struct handoff_assembly *assembly,
                                      struct handoff_error *error)
{
    const struct base_span asked = assembly->request.task_id, theirs = assembly->chain.task_id;
    assembly->task_id = theirs.data ? theirs : asked;
    if (theirs.data && asked.data && !base_span_equal(asked, theirs)) {
        handoff_error_set(error, HANDOFF_ERR_INVALID,
                          "task_id differs from that of the previous envelope", "task_id",
                          asked.data);
        handoff_error_allow(error, "%s, or omit it", theirs.data);
        return HANDOFF_ERR_INVALID;
    }
    if (!assembly->task_id.data) {
        struct base_uuid id = base_uuid_make(assembly->with->uuids);
        char *text = base_arena_alloc(&assembly->arena, BASE_UUID_TEXT);
        if (!text)
            return handoff_error_no_memory(error);
        base_uuid_format(&id, text);
        assembly->task_id = base_span_text(text);
    }
    return HANDOFF_OK;
}

/* The parent whose hop count is the greatest, the newest of those; NULL: a chain starts. */
static const struct handoff_parent *farthest_parent(const struct handoff_assembly *assembly)
{
    const struct handoff_continued_chain *chain = &assembly->chain;
    const struct handoff_parent *farthest = NULL;
    for (size_t i = 0; i < chain->nparents; i++) {
        if (!farthest || chain->parents[i].hop.hop > farthest->hop.hop)
            farthest = &chain->parents[i];
    }
    return farthest;
}

enum handoff_code handoff_refuse_hops(int64_t count, int64_t most, struct handoff_error *error)
{
    handoff_error_set(error, HANDOFF_ERR_HOP_LIMIT, "hop limit reached (hops.max)", "hop.count",
                      NULL);
    if (count > 0)
        handoff_error_seen(error, "%lld", (long long)count);
    if (count > 0)
        handoff_error_allow(error, "up to %lld", (long long)most);
    return HANDOFF_ERR_HOP_LIMIT;
}

static enum handoff_code check_hop_limit(struct handoff_assembly *assembly,
                                         struct handoff_error *error)
{
    /* for an edit, an operator has said that it is delivered */
    assembly->over_limit = assembly->hop_count > assembly->hop_max && !assembly->chain.replaced;
    if (!assembly->over_limit || assembly->parks_at_limit)
        return HANDOFF_OK;
    return handoff_refuse_hops(assembly->hop_count, assembly->hop_max, error);
}

static void lower_hop_max(struct handoff_assembly *assembly, const struct handoff_way *way)
{
    if (way->hop_max < assembly->hop_max)
        assembly->hop_max = way->hop_max;
}

/* Hops count a chain, whatever else the task has. What replaces another has its hop. */
static enum handoff_code count_hop(struct handoff_assembly *assembly, struct handoff_error *error)
{
    const struct handoff_continued_chain *chain = &assembly->chain;
    const struct handoff_parent *farthest = farthest_parent(assembly);
    assembly->hop_count = chain->replaced ? chain->replaced->hop.hop
                          : farthest      ? farthest->hop.hop + 1
                                          : 1;
    BASE_CHECK(chain->parents || chain->nparents == 0);
    for (size_t i = 0; i < chain->nparents; i++)
        lower_hop_max(assembly, &chain->parents[i].way);
    if (chain->replaced)
        lower_hop_max(assembly, &chain->replaced->way);
    return check_hop_limit(assembly, error);
}

/* That of the farthest parent, and its source. */
static enum handoff_code inherit_path(struct handoff_assembly *assembly,
                                      struct handoff_error *error)
{
    const struct handoff_parent *farthest = farthest_parent(assembly);
    if (assembly->chain.replaced)
        farthest = assembly->chain.replaced;
    if (!farthest)
        return HANDOFF_OK;
    const struct handoff_way *way = &farthest->way;
    assembly->path = base_arena_alloc(&assembly->arena, (way->npath + 1) * sizeof *assembly->path);
    if (!assembly->path)
        return handoff_error_no_memory(error);
    if (way->npath)
        memcpy(assembly->path, way->path, way->npath * sizeof *assembly->path);
    assembly->npath = way->npath;
    if (!assembly->chain.replaced)
        assembly->path[assembly->npath++] = farthest->hop.agent;
    return HANDOFF_OK;
}

/* What replaces another sees no more than that did. */
static enum handoff_code inherit_scopes(struct handoff_assembly *assembly,
                                        struct handoff_error *error)
{
    const struct handoff_continued_chain *chain = &assembly->chain;
    yyjson_val **scopes =
        base_arena_calloc(&assembly->arena, chain->nparents + 1, sizeof(yyjson_val *));
    size_t count = 0;
    if (!scopes)
        return handoff_error_no_memory(error);
    if (chain->replaced)
        scopes[count++] = chain->replaced->way.scope;
    else
        for (; count < chain->nparents; count++)
            scopes[count] = chain->parents[count].way.scope;
    return handoff_assembly_inherit_scopes(assembly, scopes, count, error);
}

/* ---- what was said ----------------------------------------------------------------------------
 */

static enum handoff_code find_mentioned(struct handoff_assembly *assembly,
                                        struct handoff_error *error)
{
    const struct handoff_request *request = &assembly->request;
    const struct base_span texts[] = {request->task_summary, request->intent};
    return handoff_find_references(&assembly->arena, texts, sizeof texts / sizeof *texts,
                                   &assembly->mentioned, &assembly->unsought, error);
}

static enum handoff_code fold_ledger(struct handoff_assembly *assembly, struct handoff_error *error)
{
    struct handoff_ledger *ledger = &assembly->ledger;
    const struct handoff_said own = handoff_assembly_said(assembly);
    enum handoff_code code = handoff_ledger_fold(ledger, &assembly->arena, assembly->chain.said,
                                                 assembly->chain.nsaid, &own, error);
    assembly->intent = ledger->intent;
    assembly->constraints = ledger->constraints;
    return code;
}

/* The sender learns that its next request has more to continue. */
static enum handoff_code warn_of_rest(struct handoff_assembly *assembly,
                                      struct handoff_error *error)
{
    char detail[160];
    (void)error;
    if (assembly->chain.not_continued == 0 || !assembly->warnings)
        return HANDOFF_OK;
    snprintf(
        detail, sizeof detail,
        "the newest %d handoffs of this task to %.*s are continued; the next request continues "
        "%zu older ones",
        HANDOFF_PARENTS_MAX, (int)assembly->request.source_agent.size,
        assembly->request.source_agent.data, assembly->chain.not_continued);
    handoff_warn(assembly->warnings, "task_id", detail); /* out of memory: the envelope says it */
    return HANDOFF_OK;
}

/* The agent learns what others see only in a metric. */
static enum handoff_code warn_of_ping_pong(struct handoff_assembly *assembly,
                                           struct handoff_error *error)
{
    char detail[512];
    const struct handoff_request *request = &assembly->request;
    (void)error;
    if (!handoff_assembly_is_ping_pong(assembly) || !assembly->warnings)
        return HANDOFF_OK;
    const struct base_span other = request->channel.data && assembly->npath > 0
                                       ? assembly->path[assembly->npath - 1]
                                       : request->target_agent;
    snprintf(
        detail, sizeof detail,
        "the last %zu handoffs of this task between %.*s and %.*s added nothing but summaries; "
        "add what was decided or is unresolved to state, or hand the task to another agent",
        assembly->ledger.fruitless, (int)request->source_agent.size, request->source_agent.data,
        (int)other.size, other.data);
    handoff_warn(assembly->warnings, "state", detail); /* out of memory: the metric says it */
    return HANDOFF_OK;
}

/* A deadline that was inherited may have passed: then the handoff expires at once. But nobody asks
 * for that, nor revives work without giving it more time. */
static enum handoff_code check_deadline(struct handoff_assembly *assembly,
                                        struct handoff_error *error)
{
    yyjson_val *named = yyjson_obj_get(assembly->chain.replaced ? assembly->constraints
                                                                : assembly->request.constraints,
                                       "deadline");
    int64_t deadline_ms, now_ms = base_wall_ms(assembly->with->clock);
    if (!base_json_time(named, &deadline_ms) || deadline_ms > now_ms)
        return HANDOFF_OK;
    char now[BASE_RFC3339_SIZE];
    base_rfc3339_format(now_ms, now);
    handoff_error_set(error, HANDOFF_ERR_DEADLINE_PASSED, "the deadline has passed",
                      "constraints.deadline", yyjson_get_str(named));
    handoff_error_allow(error, "a time after %s", now);
    return HANDOFF_ERR_DEADLINE_PASSED;
}

/* ---- the trace --------------------------------------------------------------------------------
 */

static const struct handoff_way *way_to_follow(const struct handoff_assembly *assembly)
{
    const struct handoff_continued_chain *chain = &assembly->chain;
    return chain->replaced   ? &chain->replaced->way
           : chain->nparents ? &chain->parents[0].way
                             : NULL;
}

/* The caller's trace, else the newest parent's, else a new one. */
static enum handoff_code inherit_trace(struct handoff_assembly *assembly,
                                       struct handoff_error *error)
{
    const struct handoff_way *way = way_to_follow(assembly);
    if (handoff_traceparent_is_valid(assembly->given_traceparent)) {
        assembly->traceparent = assembly->given_traceparent;
        if (handoff_tracestate_is_valid(assembly->given_tracestate))
            assembly->tracestate = assembly->given_tracestate;
        return HANDOFF_OK;
    }
    if (way && handoff_traceparent_is_valid(way->traceparent)) {
        assembly->traceparent = way->traceparent;
        assembly->tracestate = way->tracestate;
        return HANDOFF_OK;
    }
    char *text = base_arena_alloc(&assembly->arena, HANDOFF_TRACEPARENT_SIZE);
    if (!text)
        return handoff_error_no_memory(error);
    handoff_traceparent_make(assembly->with->random, text);
    assembly->traceparent = base_span_text(text);
    return HANDOFF_OK;
}

enum handoff_progress handoff_stage_inherit(struct handoff_assembly *assembly)
{
    static enum handoff_code (*const steps[])(struct handoff_assembly *, struct handoff_error *) = {
        inherit_task, count_hop,      inherit_path,  inherit_scopes, find_mentioned,
        fold_ledger,  check_deadline, inherit_trace, warn_of_rest,   warn_of_ping_pong,
    };
    const enum handoff_progress loaded = load_chain(assembly);
    if (loaded != HANDOFF_PROGRESS_NEXT)
        return loaded;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        if (steps[i](assembly, &assembly->error) != HANDOFF_OK)
            return HANDOFF_PROGRESS_FAILED;
    }
    return HANDOFF_PROGRESS_NEXT;
}
