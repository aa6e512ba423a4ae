/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of agents: looking up, reconfiguring and counting, see agents.h. Any thread: the
 * directory is immutable and replaced whole, and each agent has a lock for its breaker and counts.
 */
#include "client/agents/agents.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"
#include "lib/base/nearest.h"

enum { MAGIC = 0x61676e74u };

/* Agents by name, ascending; immutable once published. */
struct directory {
    size_t count;
    struct handoff_agent *agents[];
};

struct handoff_agents {
    /* changing: one configure or remember at a time */
    pthread_mutex_t changing;

    /* lock: held to look something up, or to exchange the pointer */
    pthread_rwlock_t lock;
    struct directory *directory;
};

/* ---- settings ------------------------------------------------------------------------------- */

void handoff_settings_release(struct handoff_settings **settings)
{
    struct handoff_settings *mine = *settings;
    *settings = NULL;
    if (!mine || atomic_fetch_sub_explicit(&mine->references, 1, memory_order_acq_rel) > 1)
        return;
    base_arena_free(&mine->arena);
    base_free(mine);
}

static bool copy_option_text(struct base_arena *arena, const char **text)
{
    if (!*text)
        return true;
    *text = base_arena_strdup(arena, *text);
    return *text != NULL;
}

static bool copy_agent_names(struct base_arena *arena, const char *const **names, size_t count)
{
    const char **copies = base_arena_calloc(arena, count ? count : 1, sizeof *copies);
    if (!copies)
        return false;
    for (size_t i = 0; i < count; i++) {
        copies[i] = (*names)[i];
        if (!copy_option_text(arena, &copies[i]))
            return false;
    }
    *names = copies;
    return true;
}

/* What is text or a list is copied into the arena; the rest came with the struct. */
#define COPY_NUMBER(field)
#define COPY_DURATION(field)
#define COPY_FLAG(field)
#define COPY_CHOICE(field)
#define COPY_CHOICES(field)
#define COPY_URL(field)     &&copy_option_text(arena, &options->field)
#define COPY_FILE(field)    &&copy_option_text(arena, &options->field)
#define COPY_NAMES(field)   &&copy_agent_names(arena, &options->field, options->n##field)
#define COPY_SENDERS(field) &&copy_agent_names(arena, &options->field, options->n##field)

static bool copy_options(struct handoff_settings *settings)
{
    struct handoff_agent_options *options = &settings->options;
    struct base_arena *arena = &settings->arena;
    bool copied =
        copy_option_text(arena, &options->name) && copy_option_text(arena, &options->bearer_token)
#define HANDOFF_AGENT_KEY(scope, field, path, kind, ...) COPY_##kind(field)
#include "client/model/handoff_agent_keys.def"
        ;
    if (!copied)
        return false;
    if (!options->bearer_token)
        return true;
    settings->authorization =
        base_arena_printf(arena, "Authorization: Bearer %s", options->bearer_token);
    return settings->authorization != NULL;
}

static struct handoff_settings *settings_new(const struct handoff_agent_options *options)
{
    struct handoff_settings *settings = base_calloc(1, sizeof *settings);
    if (!settings)
        return NULL;
    atomic_init(&settings->references, 1);
    base_arena_init(&settings->arena, 0);
    settings->options = *options;
    settings->protocol = handoff_protocol_of(options);
    if (!copy_options(settings))
        handoff_settings_release(&settings);
    return settings;
}

struct handoff_settings *handoff_agent_settings(struct handoff_agent *agent)
{
    BASE_CHECK_MAGIC(agent, MAGIC);
    pthread_mutex_lock(&agent->lock);
    struct handoff_settings *settings = agent->settings;
    if (settings)
        atomic_fetch_add_explicit(&settings->references, 1, memory_order_relaxed);
    pthread_mutex_unlock(&agent->lock);
    return settings;
}

/* Takes the settings over, which may be NULL. */
static void apply_settings(struct handoff_agent *agent, struct handoff_settings *settings)
{
    pthread_mutex_lock(&agent->lock);
    struct handoff_settings *old = agent->settings;
    agent->settings = settings;
    if (settings) {
        agent->breaker.threshold = settings->options.breaker_failures;
        agent->breaker.cooldown_ms = settings->options.breaker_cooldown_ms;
    }
    pthread_mutex_unlock(&agent->lock);
    atomic_store_explicit(&agent->ordered, settings && settings->options.ordered,
                          memory_order_relaxed);
    handoff_settings_release(&old);
}

/* ---- agents --------------------------------------------------------------------------------- */

static void agent_free(struct handoff_agent *agent)
{
    if (!agent)
        return;
    BASE_CHECK_MAGIC(agent, MAGIC);
    handoff_settings_release(&agent->settings);
    handoff_inbox_free(&agent->inbox);
    handoff_parked_clear(&agent->parked);
    pthread_mutex_destroy(&agent->lock);
    agent->magic = 0;
    base_free(agent);
}

static struct handoff_agent *agent_new(struct base_span name)
{
    struct handoff_agent *agent = base_calloc(1, sizeof *agent + name.size + 1);
    if (!agent)
        return NULL;
    agent->magic = MAGIC;
    char *copy = (char *)(agent + 1);
    memcpy(copy, name.data, name.size);
    agent->name = copy;
    agent->name_size = name.size;
    pthread_mutex_init(&agent->lock, NULL);
    handoff_inbox_init(&agent->inbox);
    return agent;
}

static int compare(struct base_span a, struct base_span b)
{
    size_t shorter = a.size < b.size ? a.size : b.size;
    int order = shorter ? memcmp(a.data, b.data, shorter) : 0;
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

static struct base_span name_of(const struct handoff_agent *agent)
{
    return base_span(agent->name, agent->name_size);
}

/* Where the name is, or would be; *found tells which. */
static size_t position(const struct directory *directory, struct base_span name, bool *found)
{
    size_t low = 0, high = directory->count;
    *found = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare(name_of(directory->agents[middle]), name);
        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- the breaker ---------------------------------------------------------------------------- */

static void count_up(unsigned *counter)
{
    if (*counter < UINT32_MAX)
        ++*counter;
}

static bool teach(struct handoff_breaker *breaker, enum handoff_breaker_event event, int64_t now_ms)
{
    breaker->opened = breaker->closed = false;
    switch (event) {
    case HANDOFF_BREAKER_ANSWERED:
    case HANDOFF_BREAKER_REFUSED:
        return handoff_breaker_answered(breaker);
    case HANDOFF_BREAKER_DEFERRED:
        return handoff_breaker_took(breaker);
    case HANDOFF_BREAKER_PROBE_FAILED:
        return handoff_breaker_probe_failed(breaker, now_ms);
    case HANDOFF_BREAKER_PROBE_ABANDONED:
        return handoff_breaker_probe_abandoned(breaker, now_ms);
    case HANDOFF_BREAKER_EXHAUSTED:
        return handoff_breaker_exhausted(breaker, now_ms);
    case HANDOFF_BREAKER_RESET:
        return handoff_breaker_reset(breaker);
    }
    return false;
}

bool handoff_agent_learn(struct handoff_agent *agent, enum handoff_breaker_event event,
                         int64_t now_ms, struct handoff_breaker *after)
{
    BASE_CHECK_MAGIC(agent, MAGIC);
    pthread_mutex_lock(&agent->lock);
    unsigned failures = agent->breaker.consecutive_failures;
    bool changed = teach(&agent->breaker, event, now_ms);
    if (event == HANDOFF_BREAKER_RESET)
        agent->observed_failures = 0;
    if (event == HANDOFF_BREAKER_REFUSED)
        count_up(&agent->refusals);
    else if (event == HANDOFF_BREAKER_ANSWERED || event == HANDOFF_BREAKER_RESET)
        agent->refusals = 0;
    *after = agent->breaker;
    pthread_mutex_unlock(&agent->lock);
    return changed || after->consecutive_failures != failures;
}

enum handoff_admission handoff_agent_admit(struct handoff_agent *agent, int64_t now_ms,
                                           int64_t *wait_ms, struct handoff_breaker *after)
{
    BASE_CHECK_MAGIC(agent, MAGIC);
    pthread_mutex_lock(&agent->lock);
    enum handoff_admission admission = handoff_breaker_admit(&agent->breaker, now_ms, wait_ms);
    *after = agent->breaker;
    pthread_mutex_unlock(&agent->lock);
    return admission;
}

bool handoff_agent_is_open(struct handoff_agent *agent, int64_t now_ms, int64_t *wait_ms)
{
    BASE_CHECK_MAGIC(agent, MAGIC);
    pthread_mutex_lock(&agent->lock);
    bool open = handoff_breaker_is_open(&agent->breaker, now_ms, wait_ms);
    pthread_mutex_unlock(&agent->lock);
    return open;
}

/* As the breaker counts its own: an agent that acknowledges or refuses is up. */
void handoff_agent_note_observed(struct handoff_agent *agent, enum handoff_outcome outcome)
{
    BASE_CHECK_MAGIC(agent, MAGIC);
    pthread_mutex_lock(&agent->lock);
    if (outcome == HANDOFF_OUTCOME_ACKNOWLEDGED || outcome == HANDOFF_OUTCOME_REFUSED)
        agent->observed_failures = 0;
    else if (outcome == HANDOFF_OUTCOME_EXHAUSTED || outcome == HANDOFF_OUTCOME_REJECTED)
        count_up(&agent->observed_failures);
    if (outcome == HANDOFF_OUTCOME_REFUSED)
        count_up(&agent->refusals);
    else if (outcome == HANDOFF_OUTCOME_ACKNOWLEDGED)
        agent->refusals = 0;
    pthread_mutex_unlock(&agent->lock);
}

/* ---- the table ------------------------------------------------------------------------------ */

enum handoff_code handoff_agents_new(struct handoff_agents **agents, struct handoff_error *error)
{
    struct handoff_agents *made = base_calloc(1, sizeof *made);
    struct directory *directory = base_calloc(1, sizeof *directory);
    if (!made || !directory) {
        base_free(made);
        base_free(directory);
        return handoff_error_no_memory(error);
    }
    made->directory = directory;
    pthread_mutex_init(&made->changing, NULL);
    pthread_rwlock_init(&made->lock, NULL);
    *agents = made;
    return HANDOFF_OK;
}

void handoff_agents_free(struct handoff_agents **agents)
{
    struct handoff_agents *dying = *agents;
    if (!dying)
        return;
    *agents = NULL;
    for (size_t i = 0; i < dying->directory->count; i++)
        agent_free(dying->directory->agents[i]);
    base_free(dying->directory);
    pthread_rwlock_destroy(&dying->lock);
    pthread_mutex_destroy(&dying->changing);
    base_free(dying);
}

/* A directory with room for `more` further agents. */
static struct directory *directory_copy(const struct directory *from, size_t more)
{
    struct directory *copy =
        base_malloc(sizeof *copy + (from->count + more) * sizeof copy->agents[0]);
    if (copy) {
        copy->count = from->count;
        memcpy(copy->agents, from->agents, from->count * sizeof copy->agents[0]);
    }
    return copy;
}

static void directory_insert(struct directory *directory, size_t at, struct handoff_agent *agent)
{
    memmove(&directory->agents[at + 1], &directory->agents[at],
            (directory->count - at) * sizeof directory->agents[0]);
    directory->agents[at] = agent;
    directory->count++;
}

static void publish_directory(struct handoff_agents *agents, struct directory *directory)
{
    pthread_rwlock_wrlock(&agents->lock);
    struct directory *old = agents->directory;
    agents->directory = directory;
    pthread_rwlock_unlock(&agents->lock);
    base_free(old);
}

/* Everything a configure needs, made before anything is changed. */
struct change {
    struct directory *directory;
    struct handoff_agent **made; /* new in the directory */
    size_t nmade;
    struct handoff_settings **settings; /* parallel to the options */
};

static bool prepare_one(struct change *change, const struct handoff_agent_options *options,
                        size_t i)
{
    bool found;
    struct base_span name = base_span_text(options[i].name);
    size_t at = position(change->directory, name, &found);
    change->settings[i] = settings_new(&options[i]);
    if (!change->settings[i] || found)
        return change->settings[i] != NULL;
    struct handoff_agent *agent = agent_new(name);
    if (!agent)
        return false;
    change->made[change->nmade++] = agent;
    directory_insert(change->directory, at, agent);
    return true;
}

static bool prepare(struct change *change, const struct directory *from,
                    const struct handoff_agent_options *options, size_t count)
{
    change->directory = directory_copy(from, count);
    change->made = base_calloc(count ? count : 1, sizeof(struct handoff_agent *));
    change->settings = base_calloc(count ? count : 1, sizeof(struct handoff_settings *));
    bool fine = change->directory && change->made && change->settings;
    for (size_t i = 0; fine && i < count; i++)
        fine = prepare_one(change, options, i);
    return fine;
}

static void abandon(struct change *change, size_t count)
{
    for (size_t i = 0; i < change->nmade; i++)
        agent_free(change->made[i]);
    for (size_t i = 0; change->settings && i < count; i++)
        handoff_settings_release(&change->settings[i]);
    base_free(change->directory);
}

static void commit_changes(struct handoff_agents *agents, struct change *change, size_t count)
{
    struct directory *directory = change->directory;
    publish_directory(agents, directory);
    for (size_t i = 0; i < directory->count; i++) {
        struct handoff_settings *settings = NULL;
        for (size_t k = 0; k < count && !settings; k++) {
            if (change->settings[k] &&
                strcmp(change->settings[k]->options.name, directory->agents[i]->name) == 0) {
                settings = change->settings[k];
                change->settings[k] = NULL;
            }
        }
        apply_settings(directory->agents[i], settings);
    }
}

enum handoff_code handoff_agents_configure(struct handoff_agents *agents,
                                           const struct handoff_agent_options *options,
                                           size_t count, struct handoff_error *error)
{
    struct change change = {0};
    pthread_mutex_lock(&agents->changing);
    bool fine = prepare(&change, agents->directory, options, count);
    if (fine)
        commit_changes(agents, &change, count);
    else
        abandon(&change, count);
    pthread_mutex_unlock(&agents->changing);
    base_free(change.made);
    base_free(change.settings);
    return fine ? handoff_error_clear(error) : handoff_error_no_memory(error);
}

static struct handoff_agent *look_up_agent(struct handoff_agents *agents, struct base_span name)
{
    bool found;
    pthread_rwlock_rdlock(&agents->lock);
    size_t at = position(agents->directory, name, &found);
    struct handoff_agent *agent = found ? agents->directory->agents[at] : NULL;
    pthread_rwlock_unlock(&agents->lock);
    return agent;
}

struct handoff_agent *handoff_agents_find(struct handoff_agents *agents, struct base_span name)
{
    struct handoff_agent *agent = look_up_agent(agents, name);
    if (!agent)
        return NULL;
    pthread_mutex_lock(&agent->lock);
    bool configured = agent->settings != NULL;
    pthread_mutex_unlock(&agent->lock);
    return configured ? agent : NULL;
}

/* Not one that a reload has removed: it may be the very name that is unknown. */
static void offer_agent(struct handoff_agent *agent, void *nearest)
{
    pthread_mutex_lock(&agent->lock);
    const bool configured = agent->settings != NULL;
    pthread_mutex_unlock(&agent->lock);
    if (configured)
        base_nearest_offer(nearest, agent->name, agent->name_size);
}

static const char *why_unknown(struct base_span name)
{
    if (base_span_equal(name, base_span_text(handoff_reserved_name(HANDOFF_RESERVED_BROADCAST))))
        return "what is for several agents is published to a channel: "
               "POST /v1/channels/{channel}/publish";
    return handoff_code_meaning(HANDOFF_ERR_UNKNOWN_AGENT);
}

enum handoff_code handoff_agents_refuse_unknown(struct handoff_agents *agents,
                                                struct base_span name, const char *field,
                                                struct handoff_error *error)
{
    const enum handoff_code code = HANDOFF_ERR_UNKNOWN_AGENT;
    struct base_nearest nearest = base_nearest_begin(name.data, name.size);
    handoff_agents_each(agents, offer_agent, &nearest);
    handoff_error_set(error, code, why_unknown(name), field, NULL);
    handoff_error_seen(error, "%.*s", (int)(name.size < 128 ? name.size : 128), name.data);
    if (nearest.best)
        handoff_error_allow(error, "%.*s (the nearest name)", (int)nearest.best_length,
                            nearest.best);
    return code;
}

enum handoff_code handoff_agents_check_filter(struct handoff_agents *agents, const char *target,
                                              struct handoff_error *error)
{
    if (!target || look_up_agent(agents, base_span_text(target)))
        return handoff_error_clear(error);
    return handoff_agents_refuse_unknown(agents, base_span_text(target), "target", error);
}

struct handoff_agent *handoff_agents_remember(struct handoff_agents *agents, struct base_span name)
{
    struct handoff_agent *agent = look_up_agent(agents, name);
    if (agent)
        return agent;
    pthread_mutex_lock(&agents->changing);
    bool found;
    size_t at = position(agents->directory, name, &found);
    struct directory *directory = NULL;
    if (found) {
        agent = agents->directory->agents[at];
    } else if ((directory = directory_copy(agents->directory, 1)) != NULL &&
               (agent = agent_new(name)) != NULL) {
        directory_insert(directory, at, agent);
        publish_directory(agents, directory);
    } else {
        base_free(directory);
    }
    pthread_mutex_unlock(&agents->changing);
    return agent;
}

void handoff_agents_each(struct handoff_agents *agents,
                         void (*visit)(struct handoff_agent *agent, void *arg), void *arg)
{
    /* goes on behind the last name each time, so that agents may be added meanwhile */
    const char *last = NULL;
    for (;;) {
        bool found = false;
        pthread_rwlock_rdlock(&agents->lock);
        const struct directory *directory = agents->directory;
        size_t at = last ? position(directory, base_span_text(last), &found) + found : 0;
        struct handoff_agent *agent = at < directory->count ? directory->agents[at] : NULL;
        pthread_rwlock_unlock(&agents->lock);
        if (!agent)
            return;
        last = agent->name;
        visit(agent, arg);
    }
}
