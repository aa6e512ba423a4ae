/* SPDX-License-Identifier: Apache-2.0 */
/* The client inside the daemon, see client_host.h. */
#include "exporter/client_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/host_loop.h"
#include "exporter/log/delivery_log.h"
#include "exporter/log/log.h"
#include "lib/base/check.h"
#include "lib/base/units.h"

enum { CLIENT_HOST_MAGIC = 0x686f7374, TOKEN_MAX = 4096 };

struct hosted_loop {
    struct base_loop *outer;
    struct handoff_loop *inner;
};

struct exporter_client_host {
    unsigned magic;
    struct handoff_client *client;
    struct collectors *collectors;
    struct exporter_failures *failures;
    struct hosted_loop *loops; /* fixed while the listeners run */
    size_t nloops;
};

/* ---- opening ------------------------------------------------------------------------------- */

static void say_error(struct exporter_error *error, const struct handoff_error *why)
{
    char text[sizeof error->text];
    handoff_error_text(why, text, sizeof text);
    exporter_error_set(error, "%s", text);
}

/* An estimate is safe but wasteful; the operator should know. */
static void log_tokenizer(const struct exporter_client_host *client_host)
{
    struct handoff_error why;
    char text[512];
    const char *encoding =
        handoff_tokenizer_encoding(handoff_client_tokenizer(client_host->client, &why));
    if (why.code == HANDOFF_OK) {
        log_info("token_counts_exact", LOG_STR("encoding", encoding));
        return;
    }
    handoff_error_text(&why, text, sizeof text);
    log_warn("token_counts_estimated", LOG_STR("encoding", encoding), LOG_STR("error", text));
}

/* Any thread. */
static void dispatch_event(void *observer, const struct handoff_event *event)
{
    struct exporter_client_host *client_host = observer;
    BASE_CHECK_MAGIC(client_host, CLIENT_HOST_MAGIC);
    collectors_observe(client_host->collectors, event);
    exporter_failures_note(client_host->failures, event);
    exporter_delivery_log(event);
}

void exporter_client_host_ran_short(struct exporter_client_host *client_host,
                                    enum handoff_shortage resource, const char *hindered)
{
    const struct handoff_event event = {
        .kind = HANDOFF_EVENT_SHORTAGE,
        .of.shortage = {.resource = resource, .hindered = hindered}};
    if (resource != HANDOFF_SHORTAGE_NONE)
        dispatch_event(client_host, &event);
}

/* Whole enough for events, which come as soon as the client opens. */
static struct exporter_client_host *new_client_host(struct collectors *collectors)
{
    struct exporter_client_host *client_host = calloc(1, sizeof *client_host);
    if (client_host == NULL)
        return NULL;
    client_host->magic = CLIENT_HOST_MAGIC;
    client_host->collectors = collectors;
    client_host->failures = exporter_failures_new();
    if (client_host->failures == NULL) {
        free(client_host);
        return NULL;
    }
    return client_host;
}

static void log_orphans(const struct exporter_client_host *client_host)
{
    struct handoff_stats stats;
    handoff_client_stats(client_host->client, &stats);
    if (stats.retention.orphans > 0)
        log_warn("store_orphans_removed", LOG_UINT("files", stats.retention.orphans),
                 LOG_UINT("bytes", stats.retention.orphans_bytes));
}

/* The first word of the file; free() it. NULL with `error` filled. */
static char *read_token(const char *path, const char *of, struct exporter_error *error)
{
    char token[TOKEN_MAX] = "";
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        exporter_error_set(error, "%s.token_file: cannot read %s: %m", of, path);
        return NULL;
    }
    if (fgets(token, sizeof token, file) == NULL)
        token[0] = '\0';
    fclose(file);
    token[strcspn(token, " \t\r\n")] = '\0';
    if (*token == '\0') {
        exporter_error_set(error, "%s.token_file: no token in %s", of, path);
        return NULL;
    }
    char *copy = strdup(token);
    if (copy == NULL)
        exporter_error_set(error, "out of memory (token of %s)", of);
    return copy;
}

/* Its texts are lent by the configuration, but for the token, which is the caller's to free. */
static bool fill_spine(struct handoff_spine_options *spine, const struct exporter_config *config,
                       struct exporter_error *error)
{
    *spine = (struct handoff_spine_options){
        .kind = config->spine.kind == EXPORTER_SPINE_MCP ? HANDOFF_SPINE_KIND_MCP
                                                         : HANDOFF_SPINE_KIND_HTTP,
        .preset = config->spine.preset == EXPORTER_PRESET_MEMORY_SPINE
                      ? HANDOFF_SPINE_PRESET_MEMORY_SPINE
                      : HANDOFF_SPINE_PRESET_NONE,
        .url = config->spine.url,
        .table = config->spine.operations,
        .ca_file = config->spine.ca_file,
        .cert_file = config->spine.cert_file,
        .key_file = config->spine.key_file,
        .timeout_ms = (int64_t)config->spine.timeout_ms,
        .connections = config->spine.connections,
        .cache_bytes = config->spine.cache_bytes,
        .write_local = config->spine.write == EXPORTER_SPINE_WRITE_LOCAL,
    };
    if (config->spine.token_file != NULL)
        spine->bearer_token = read_token(config->spine.token_file, "spine", error);
    return config->spine.token_file == NULL || spine->bearer_token != NULL;
}

static void log_spine(const struct exporter_client_host *client_host,
                      const struct exporter_config *config)
{
    struct handoff_stats stats;
    handoff_client_stats(client_host->client, &stats);
    if (config->spine.preset != EXPORTER_PRESET_NONE)
        log_warn("spine_preset_unverified",
                 LOG_STR("advice", "compare docs/spines.md with your server; if they differ, use "
                                   "operations_file instead of the preset"));
    if (!stats.spine_up)
        log_warn("spine_unavailable",
                 LOG_STR("advice", "handoffs go on without its memories; check its address, token "
                                   "and log"));
    if (stats.spine_lacks != NULL)
        log_warn("spine_lacks", LOG_STR("operations", stats.spine_lacks),
                 LOG_STR("advice", stats.spine_advice));
}

struct exporter_client_host *exporter_client_host_open(const struct exporter_options *options,
                                                       const struct exporter_config *config,
                                                       unsigned connections_max,
                                                       struct collectors *collectors,
                                                       struct exporter_error *error)
{
    struct handoff_error why = {0};
    char encoding[sizeof HANDOFF_ENCODINGS];
    struct handoff_spine_options spine;
    if (!fill_spine(&spine, config, error))
        return NULL;
    struct exporter_client_host *client_host = new_client_host(collectors);
    if (client_host == NULL) {
        exporter_error_set(error, "out of memory (handoff client)");
        free((void *)(uintptr_t)spine.bearer_token);
        return NULL;
    }
    const struct handoff_options client = {
        .storage_path = options->storage_path,
        .durability_none = config->storage.durability == EXPORTER_DURABILITY_NONE,
        .retention_age_ms = (int64_t)config->storage.retention.age_ms,
        .retention_bytes = (int64_t)config->storage.retention.size_bytes,
        .retention_index_bytes = (int64_t)config->storage.retention.index_size_bytes,
        .retention_decisions_ms = (int64_t)config->storage.retention.decisions_ms,
        .task_stalled_after_ms = (int64_t)config->tasks.stalled_after_ms,
        .search_timeout_ms = (int64_t)config->spine.search_timeout_ms,
        .spine = config->spine.kind != EXPORTER_SPINE_EMBEDDED ? &spine : NULL,
        .no_stemming = !config->spine.stemming,
        .connections_max = connections_max,
        .encoding = base_choice_copy(HANDOFF_ENCODINGS, config->tokenizer.encoding, encoding,
                                     sizeof encoding),
        .observe = dispatch_event,
        .observer = client_host,
    };
    const enum handoff_code code = handoff_client_open(&client_host->client, &client, &why);
    free((void *)(uintptr_t)spine.bearer_token);
    if (code != HANDOFF_OK) {
        say_error(error, &why);
        exporter_client_host_close(&client_host);
        return NULL;
    }
    log_tokenizer(client_host);
    log_spine(client_host, config);
    log_orphans(client_host);
    collectors_watch_client(collectors, client_host->client);
    if (!exporter_client_host_configure(client_host, config, error))
        exporter_client_host_close(&client_host);
    return client_host;
}

void exporter_client_host_close(struct exporter_client_host **closing)
{
    struct exporter_client_host *client_host = *closing;
    if (client_host == NULL)
        return;
    BASE_CHECK_MAGIC(client_host, CLIENT_HOST_MAGIC);
    *closing = NULL;
    exporter_client_host_detach(client_host);
    handoff_client_close(&client_host->client);
    exporter_failures_free(&client_host->failures);
    client_host->magic = 0;
    free(client_host);
}

struct handoff_client *exporter_client_host_client(struct exporter_client_host *client_host)
{
    BASE_CHECK_MAGIC(client_host, CLIENT_HOST_MAGIC);
    return client_host->client;
}

struct exporter_failures *exporter_client_host_failures(struct exporter_client_host *client_host)
{
    BASE_CHECK_MAGIC(client_host, CLIENT_HOST_MAGIC);
    return client_host->failures;
}

/* ---- loops --------------------------------------------------------------------------------- */

static bool attach_one(struct exporter_client_host *client_host, struct hosted_loop *hosted,
                       struct base_loop *outer, struct exporter_error *error)
{
    struct handoff_error why;
    hosted->outer = outer;
    if (handoff_loop_open_on(&hosted->inner, client_host->client, outer, &why) == HANDOFF_OK)
        return true;
    say_error(error, &why);
    return false;
}

bool exporter_client_host_attach(struct exporter_client_host *client_host,
                                 struct exporter_listeners *listeners, struct exporter_error *error)
{
    BASE_CHECK_MAGIC(client_host, CLIENT_HOST_MAGIC);
    const size_t count = exporter_listeners_loop_count(listeners);
    client_host->loops = calloc(count, sizeof *client_host->loops);
    if (client_host->loops == NULL) {
        exporter_error_set(error, "out of memory (loops of the handoff client)");
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!attach_one(client_host, &client_host->loops[i], exporter_listeners_loop(listeners, i),
                        error))
            return false;
        client_host->nloops++;
    }
    return true;
}

/* What was live when the last process ended goes on, on all loops. */
bool exporter_client_host_resume(struct exporter_client_host *client_host,
                                 struct exporter_error *error)
{
    struct handoff_error why;
    struct handoff_loop **loops = calloc(client_host->nloops, sizeof loops[0]);
    if (loops == NULL) {
        exporter_error_set(error, "out of memory (stored handoffs)");
        return false;
    }
    for (size_t i = 0; i < client_host->nloops; i++)
        loops[i] = client_host->loops[i].inner;
    bool good =
        handoff_client_resume(client_host->client, loops, client_host->nloops, &why) == HANDOFF_OK;
    free(loops);
    if (!good)
        say_error(error, &why);
    else if (handoff_client_in_flight(client_host->client) > 0)
        log_info("handoffs_resumed",
                 LOG_UINT("count", handoff_client_in_flight(client_host->client)));
    return good;
}

/* What was asked before the threads ended is still answered. Loops may wait for each other's mail,
 * so all are run until none has an answer pending. */
static void finish_loops(struct exporter_client_host *client_host)
{
    enum { TURN_MS = 20 };
    bool pending = true;
    for (size_t i = 0; i < client_host->nloops; i++)
        handoff_loop_stop(client_host->loops[i].inner);
    while (pending) {
        pending = false;
        for (size_t i = 0; i < client_host->nloops; i++) {
            const bool waits = handoff_loop_pending(client_host->loops[i].inner) > 0;
            base_loop_turn(client_host->loops[i].outer, waits ? TURN_MS : 0);
            pending = pending || handoff_loop_pending(client_host->loops[i].inner) > 0;
        }
    }
}

void exporter_client_host_detach(struct exporter_client_host *client_host)
{
    BASE_CHECK_MAGIC(client_host, CLIENT_HOST_MAGIC);
    finish_loops(client_host);
    for (size_t i = 0; i < client_host->nloops; i++)
        handoff_loop_close(&client_host->loops[i].inner);
    free(client_host->loops);
    client_host->loops = NULL;
    client_host->nloops = 0;
}

struct handoff_loop *exporter_client_host_loop(struct exporter_client_host *client_host,
                                               const struct base_loop *loop)
{
    BASE_CHECK_MAGIC(client_host, CLIENT_HOST_MAGIC);
    size_t i = 0;
    while (i < client_host->nloops && client_host->loops[i].outer != loop)
        i++;
    BASE_CHECK(i < client_host->nloops); /* a loop of the listeners */
    return client_host->loops[i].inner;
}

/* ---- configuring --------------------------------------------------------------------------- */

static bool fill_agent(struct handoff_agent_options *options, const struct exporter_agent *agent,
                       struct exporter_error *error)
{
    char of[160];
    *options = agent->options;
    snprintf(of, sizeof of, "agents.%s", agent->options.name);
    if (agent->token_file != NULL)
        options->bearer_token = read_token(agent->token_file, of, error);
    return agent->token_file == NULL || options->bearer_token != NULL;
}

/* Lends the configuration's texts; free() it. NULL: out of memory. */
static struct handoff_pipeline_options *pipelines_of(const struct exporter_config *config)
{
    struct handoff_pipeline_options *pipelines = calloc(config->npipelines + 1, sizeof *pipelines);
    for (size_t i = 0; i < config->npipelines && pipelines != NULL; i++) {
        const struct exporter_pipeline *pipeline = &config->pipelines[i];
        pipelines[i] = (struct handoff_pipeline_options){pipeline->name, pipeline->agents.items,
                                                         pipeline->agents.count};
    }
    return pipelines;
}

/* Likewise. */
static struct handoff_channel_options *channels_of(const struct exporter_config *config)
{
    struct handoff_channel_options *channels = calloc(config->nchannels + 1, sizeof *channels);
    for (size_t i = 0; i < config->nchannels && channels != NULL; i++) {
        const struct exporter_channel *channel = &config->channels[i];
        channels[i] =
            (struct handoff_channel_options){.name = channel->name,
                                             .receivers = channel->receivers.items,
                                             .nreceivers = channel->receivers.count,
                                             .token_budget = channel->token_budget,
                                             .retention_ms = (int64_t)channel->retention_ms,
                                             .retention_bytes = (int64_t)channel->retention_bytes};
    }
    return channels;
}

static bool configure(struct exporter_client_host *client_host,
                      const struct exporter_config *config,
                      const struct handoff_agent_options *agents, struct exporter_error *error)
{
    struct handoff_error why;
    struct handoff_pipeline_options *pipelines = pipelines_of(config);
    struct handoff_channel_options *channels = channels_of(config);
    if (pipelines == NULL || channels == NULL) {
        free(pipelines);
        free(channels);
        exporter_error_set(error, "out of memory (pipelines and channels)");
        return false;
    }
    const struct handoff_configuration configuration = {
        .agents = agents,
        .nagents = config->nagents,
        .default_token_budget = config->default_token_budget,
        .hops_max = config->hops.max,
        .secrets = config->secrets,
        .forbid_new_chain = !config->hops.new_chain,
        .max_in_flight = config->api.max_in_flight,
        .max_in_flight_per_agent = config->api.max_in_flight_per_agent,
        .pipelines = pipelines,
        .npipelines = config->npipelines,
        .channels = channels,
        .nchannels = config->nchannels,
        .boosts = &config->spine.boosts};
    enum handoff_code code = handoff_client_configure(client_host->client, &configuration, &why);
    free(pipelines);
    free(channels);
    if (code != HANDOFF_OK) {
        say_error(error, &why);
        return false;
    }
    if (collectors_configure(client_host->collectors, agents, config->nagents))
        return true;
    exporter_error_set(error, "out of memory (metrics of the agents)");
    return false;
}

bool exporter_client_host_configure(struct exporter_client_host *client_host,
                                    const struct exporter_config *config,
                                    struct exporter_error *error)
{
    BASE_CHECK_MAGIC(client_host, CLIENT_HOST_MAGIC);
    struct handoff_agent_options *agents = calloc(config->nagents + 1, sizeof *agents);
    bool good = agents != NULL;
    if (!good)
        exporter_error_set(error, "out of memory (agents)");
    for (size_t i = 0; i < config->nagents && good; i++)
        good = fill_agent(&agents[i], &config->agents[i], error);
    good = good && configure(client_host, config, agents, error);
    for (size_t i = 0; i < config->nagents && agents != NULL; i++)
        free((void *)(uintptr_t)agents[i].bearer_token);
    free(agents);
    return good;
}
