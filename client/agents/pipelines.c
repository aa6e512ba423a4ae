/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pipelines and the lookup of the next agent, see pipelines.h. Any thread: the lock is held while
 * a name is copied.
 */
#include "client/agents/pipelines.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/memory.h"

struct handoff_pipeline_set {
    struct base_arena arena; /* holds all that follows */
    const struct handoff_pipeline_options *items;
    size_t count;
};

/* ---- sets ------------------------------------------------------------------------------------ */

static bool copy_one(struct base_arena *arena, const struct handoff_pipeline_options *from,
                     struct handoff_pipeline_options *to)
{
    const char **agents = base_arena_calloc(arena, from->nagents, sizeof *agents);
    to->name = base_arena_strdup(arena, from->name);
    to->agents = agents;
    to->nagents = from->nagents;
    for (size_t i = 0; agents && i < from->nagents; i++) {
        agents[i] = base_arena_strdup(arena, from->agents[i]);
        if (!agents[i])
            return false;
    }
    return agents && to->name;
}

enum handoff_code handoff_pipeline_set_new(struct handoff_pipeline_set **set,
                                           const struct handoff_pipeline_options *options,
                                           size_t count, struct handoff_error *error)
{
    struct handoff_pipeline_set *made = base_calloc(1, sizeof *made);
    struct handoff_pipeline_options *items =
        made ? base_arena_calloc(&made->arena, count, sizeof *items) : NULL;
    bool fine = items != NULL;
    for (size_t i = 0; fine && i < count; i++)
        fine = copy_one(&made->arena, &options[i], &items[i]);
    if (!fine) {
        handoff_pipeline_set_free(&made);
        return handoff_error_no_memory(error);
    }
    made->items = items;
    made->count = count;
    *set = made;
    return HANDOFF_OK;
}

void handoff_pipeline_set_free(struct handoff_pipeline_set **set)
{
    if (!*set)
        return;
    base_arena_free(&(*set)->arena);
    base_free(*set);
    *set = NULL;
}

void handoff_pipelines_init(struct handoff_pipelines *pipelines)
{
    pthread_rwlock_init(&pipelines->lock, NULL);
    pipelines->set = NULL;
}

void handoff_pipelines_free(struct handoff_pipelines *pipelines)
{
    handoff_pipeline_set_free(&pipelines->set);
    pthread_rwlock_destroy(&pipelines->lock);
}

void handoff_pipelines_put_in_force(struct handoff_pipelines *pipelines,
                                    struct handoff_pipeline_set **set)
{
    pthread_rwlock_wrlock(&pipelines->lock);
    struct handoff_pipeline_set *old = pipelines->set;
    pipelines->set = *set;
    pthread_rwlock_unlock(&pipelines->lock);
    *set = NULL;
    handoff_pipeline_set_free(&old);
}

/* ---- refusals -------------------------------------------------------------------------------- */

/* Says "a, b, c" as what is allowed, as far as there is room for it. */
static void allow_names(struct handoff_error *error, const char *const *names, size_t count)
{
    char list[sizeof error->allowed] = "";
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(names[i]) + (i ? 2 : 0);
        if (used + size + sizeof ", ..." > sizeof list) {
            snprintf(list + used, sizeof list - used, ", ...");
            break;
        }
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
    }
    if (error)
        handoff_error_allow(error, "%s", list);
}

static void refuse_pipeline(struct handoff_error *error, const char *message, const char *field,
                            struct base_span seen)
{
    handoff_error_set(error, HANDOFF_ERR_INVALID, message, field, seen.data);
}

/* ---- looking up ------------------------------------------------------------------------------ */

static size_t place_in(const struct handoff_pipeline_options *pipeline, struct base_span agent)
{
    size_t i = 0;
    while (i < pipeline->nagents && !base_span_equal(base_span_text(pipeline->agents[i]), agent))
        i++;
    return i;
}

/* NULL: it was refused, and the error says why. */
static const struct handoff_pipeline_options *find_named(const struct handoff_pipeline_set *set,
                                                         struct base_span name,
                                                         struct base_span source,
                                                         struct handoff_error *error)
{
    const struct handoff_pipeline_options *found = NULL;
    for (size_t i = 0; set && i < set->count; i++) {
        if (base_span_equal(base_span_text(set->items[i].name), name))
            found = &set->items[i];
    }
    if (!found) {
        refuse_pipeline(error, "no pipeline with this name is configured", "pipeline", name);
        return NULL;
    }
    if (place_in(found, source) < found->nagents)
        return found;
    refuse_pipeline(error, "the source is not in the pipeline, so it has no next agent",
                    "source_agent", source);
    allow_names(error, found->agents, found->nagents);
    return NULL;
}

/* The same where none was named. */
static const struct handoff_pipeline_options *find_only(const struct handoff_pipeline_set *set,
                                                        struct base_span source,
                                                        struct handoff_error *error)
{
    enum { NAMES_SHOWN = 16 };
    const struct handoff_pipeline_options *found = NULL;
    const char *names[NAMES_SHOWN];
    size_t count = 0;
    for (size_t i = 0; set && i < set->count && count < NAMES_SHOWN; i++) {
        if (place_in(&set->items[i], source) == set->items[i].nagents)
            continue;
        found = &set->items[i];
        names[count++] = found->name;
    }
    if (count == 1)
        return found;
    if (count == 0) {
        refuse_pipeline(error, "the source is not in any pipeline, so it has no next agent",
                        "source_agent", source);
    } else {
        refuse_pipeline(error, "the source is in several pipelines; choose one", "pipeline",
                        base_span(NULL, 0));
        allow_names(error, names, count);
    }
    return NULL;
}

static enum handoff_code find_next(const struct handoff_pipeline_set *set, struct base_span name,
                                   struct base_span source, const char **next,
                                   struct handoff_error *error)
{
    const struct handoff_pipeline_options *pipeline =
        name.data ? find_named(set, name, source, error) : find_only(set, source, error);
    if (!pipeline)
        return HANDOFF_ERR_INVALID;
    size_t place = place_in(pipeline, source);
    if (place + 1 == pipeline->nagents)
        return handoff_error_set(error, HANDOFF_ERR_NO_NEXT_AGENT,
                                 "the source is the last agent in its pipeline, so it has no next "
                                 "agent; complete the task instead",
                                 "source_agent", source.data);
    *next = pipeline->agents[place + 1];
    return HANDOFF_OK;
}

enum handoff_code handoff_pipelines_next(struct handoff_pipelines *pipelines, struct base_span name,
                                         struct base_span source, struct base_arena *arena,
                                         struct base_span *next, struct handoff_error *error)
{
    const char *found = NULL;
    pthread_rwlock_rdlock(&pipelines->lock);
    enum handoff_code code = find_next(pipelines->set, name, source, &found, error);
    if (code == HANDOFF_OK)
        *next = base_span_text(base_arena_strdup(arena, found));
    pthread_rwlock_unlock(&pipelines->lock);
    if (code == HANDOFF_OK && !next->data)
        return handoff_error_no_memory(error);
    return code;
}
