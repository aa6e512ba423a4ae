/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and closes a client. Only one thread has it then. Closing reverses opening: the engine, the
 * workers, the spine, the store (which commits what it was given), then the tokenizer and the
 * agents. The host has closed the loops before (loop.c).
 */
#include "client/client.h"
#include "client/calls/next.h"

#include "client/store/task_visits.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

/* For one agent: what its next polls take, without a read. A build for tests may set it. */
#ifndef HANDOFF_WAITING_IN_MEMORY
#define HANDOFF_WAITING_IN_MEMORY 64
#endif

enum {
    DEFAULT_TOKEN_BUDGET = 8000,
    DEFAULT_HOPS_MAX = 10,
    DEFAULT_MEMORY_MAX_BYTES = 64 * 1024,
    WORKERS = 2,         /* so that one that takes long does not keep all others waiting */
    WORKERS_QUEUE = 256, /* so much may wait: each holds a body, and then some */
    WORKERS_QUEUE_BYTES = 128 << 20, /* of these bodies */
};

/* ---- opening and closing -------------------------------------------------------------------- */

static void note_unread(void *client, struct base_span channel, struct base_span receiver,
                        int64_t at_ms, int64_t count)
{
    handoff_channels_note_dropped(&((struct handoff_client *)client)->channels, channel, receiver,
                                  at_ms, count);
}

static bool tell_shelf_limits(void *client, struct base_span channel,
                              struct handoff_store_shelf_limits *limits)
{
    return handoff_channels_shelf_limits(&((struct handoff_client *)client)->channels, channel,
                                         limits);
}

static enum handoff_code open_store(struct handoff_client *client,
                                    const struct handoff_options *options,
                                    struct handoff_error *error)
{
    const struct handoff_store_options store = {
        .path = options->storage_path,
        .durability = options->durability_none ? HANDOFF_DURABILITY_NONE : HANDOFF_DURABILITY_FULL,
        .retention_age_ms = options->retention_age_ms,
        .retention_bytes = options->retention_bytes,
        .retention_rows_bytes = options->retention_index_bytes,
        .retention_decisions_ms = options->retention_decisions_ms,
        .on_commit = handoff_client_tell_commit,
        .on_displaced = handoff_client_tell_displaced,
        .on_shortage = handoff_client_tell_shortage,
        .on_upgrade = handoff_client_tell_upgrade,
        .on_unread = note_unread,
        .shelf_limits = tell_shelf_limits,
        .observer = client};
    return handoff_store_open(&client->store, &store, error);
}

/* A missing vocabulary must not block handoffs: an estimate will do. An unknown encoding is a
 * configuration error. */
static enum handoff_code open_tokenizer(struct handoff_client *client,
                                        const struct handoff_options *options,
                                        struct handoff_error *error)
{
    const char *encoding = options->encoding ? options->encoding : HANDOFF_ENCODING_DEFAULT;
    client->tokenizer = handoff_tokenizer_open_encoding(encoding, options->vocabulary_dir,
                                                        &client->tokenizer_error);
    if (client->tokenizer)
        return HANDOFF_OK;
    if (client->tokenizer_error.code == HANDOFF_ERR_UNKNOWN_ENCODING) {
        if (error)
            *error = client->tokenizer_error;
        return HANDOFF_ERR_UNKNOWN_ENCODING;
    }
    if (client->tokenizer_error.code == HANDOFF_ERR_OUT_OF_MEMORY)
        handoff_client_tell_shortage(client, HANDOFF_SHORTAGE_MEMORY, "opening the vocabulary");
    client->tokenizer = handoff_tokenizer_estimate();
    return HANDOFF_OK;
}

static enum handoff_code open_assembler(struct handoff_client *client,
                                        const struct handoff_options *options,
                                        struct handoff_error *error)
{
    client->assembler = (struct handoff_assembler){
        .tokenizer = client->tokenizer,
        .spine = client->spine,
        .store = client->store,
        .clock = &base_clock_system,
        .random = &base_random_system,
        .uuids = &client->uuids,
        .workers = client->workers,
        .memory_max_bytes =
            options->memory_max_bytes ? options->memory_max_bytes : DEFAULT_MEMORY_MAX_BYTES};
    return handoff_assembler_prepare(&client->assembler, error);
}

/* What is live is noted when it is resumed. */
static void note_stored_handoff(void *arg, struct base_span task_id, enum handoff_state state,
                                int64_t settled_ms)
{
    handoff_open_tasks_moved(arg, task_id, HANDOFF_STATE_NONE, state, settled_ms);
}

static void note_stored_completion(void *arg, struct base_span task_id, int64_t completed_ms)
{
    handoff_open_tasks_completed(arg, task_id, completed_ms);
}

static enum handoff_code open_tasks(struct handoff_client *client,
                                    const struct handoff_options *options,
                                    struct handoff_error *error)
{
    client->task_stalled_after_ms = options->task_stalled_after_ms;
    if (options->task_stalled_after_ms <= 0)
        return HANDOFF_OK;
    client->open_tasks = handoff_open_tasks_new();
    if (!client->open_tasks)
        return handoff_error_no_memory(error);
    const struct handoff_task_visitor visitor = {.handoff = note_stored_handoff,
                                                 .completed = note_stored_completion,
                                                 .arg = client->open_tasks};
    return handoff_store_visit_tasks(client->store, &visitor, error);
}

static enum handoff_code open_engine(struct handoff_client *client,
                                     const struct handoff_options *options,
                                     struct handoff_error *error)
{
    const struct handoff_engine_options engine = {
        .store = client->store,
        .agents = client->agents,
        .open_tasks = client->open_tasks,
        .feeds = &client->channels.feeds,
        .clock = &base_clock_system,
        .random = &base_random_system,
        .connections_max = options->connections_max,
        .waiting_in_memory = HANDOFF_WAITING_IN_MEMORY,
        .observe = client->observe,
        .observer = client->observer,
        .hand_on = handoff_client_hand_on,
    };
    enum handoff_code code = handoff_engine_new(&client->engine, &engine, error);
    return code == HANDOFF_OK ? handoff_engine_restore(client->engine, error) : code;
}

static enum handoff_code open_parts(struct handoff_client *client,
                                    const struct handoff_options *options,
                                    struct handoff_error *error)
{
    enum handoff_code code = handoff_agents_new(&client->agents, error);
    if (code == HANDOFF_OK)
        code = open_tokenizer(client, options, error);
    if (code == HANDOFF_OK)
        code = open_store(client, options, error);
    if (code == HANDOFF_OK)
        code = handoff_client_open_spine(client, options, error);
    if (code == HANDOFF_OK)
        code =
            base_workers_open(&client->workers, WORKERS, WORKERS_QUEUE, WORKERS_QUEUE_BYTES, error);
    if (code == HANDOFF_OK)
        code = open_assembler(client, options, error);
    if (code == HANDOFF_OK)
        code = open_tasks(client, options, error);
    if (code == HANDOFF_OK)
        code = open_engine(client, options, error);
    return code;
}

enum handoff_code handoff_client_open(struct handoff_client **client,
                                      const struct handoff_options *options,
                                      struct handoff_error *error)
{
    *client = NULL;
    if (!options->storage_path)
        return handoff_error_set(error, HANDOFF_ERR_INVALID, "storage_path is required",
                                 "storage_path", NULL);
    struct handoff_client *made = base_calloc(1, sizeof(*made));
    if (!made)
        return handoff_error_no_memory(error);
    made->magic = HANDOFF_CLIENT_MAGIC;
    made->observe = options->observe;
    made->observer = options->observer;
    atomic_init(&made->hops_max, DEFAULT_HOPS_MAX);
    atomic_init(&made->default_token_budget, DEFAULT_TOKEN_BUDGET);
    atomic_init(&made->secrets, HANDOFF_SECRET_POLICY_REDACT);
    atomic_init(&made->forbids_new_chain, false);
    atomic_init(&made->spine_failures, 0);
    pthread_mutex_init(&made->visit_lock, NULL);
    handoff_recent_init(&made->observed);
    handoff_pipelines_init(&made->pipelines);
    handoff_channels_init(&made->channels);
    handoff_job_runs_init(&made->jobs);
    handoff_catch_ups_init(&made->catch_ups);
    base_uuid_source_init(&made->uuids, NULL, NULL);
    enum handoff_code code = open_parts(made, options, error);
    if (code != HANDOFF_OK) {
        handoff_client_close(&made);
        return code;
    }
    *client = made;
    return HANDOFF_OK;
}

void handoff_client_close(struct handoff_client **client)
{
    struct handoff_client *dying = *client;
    *client = NULL;
    if (!dying)
        return;
    BASE_CHECK_MAGIC(dying, HANDOFF_CLIENT_MAGIC);
    handoff_job_runs_free(&dying->jobs);
    handoff_catch_ups_free(&dying->catch_ups);
    handoff_engine_free(&dying->engine);
    handoff_open_tasks_free(&dying->open_tasks);
    base_workers_close(&dying->workers);
    handoff_spine_close(&dying->spine);
    handoff_store_close(&dying->store);
    handoff_tokenizer_close(&dying->tokenizer);
    handoff_agents_free(&dying->agents);
    pthread_mutex_destroy(&dying->visit_lock);
    handoff_recent_free(&dying->observed);
    handoff_pipelines_free(&dying->pipelines);
    handoff_channels_free(&dying->channels);
    dying->magic = 0;
    base_free(dying);
}

enum handoff_code handoff_client_configure(struct handoff_client *client,
                                           const struct handoff_configuration *configuration,
                                           struct handoff_error *error)
{
    BASE_CHECK_MAGIC(client, HANDOFF_CLIENT_MAGIC);
    struct handoff_pipeline_set *pipelines = NULL;
    struct handoff_channel_set *channels = NULL;
    enum handoff_code code =
        handoff_agent_options_check(configuration->agents, configuration->nagents, error);
    if (code == HANDOFF_OK)
        code = handoff_pipeline_set_new(&pipelines, configuration->pipelines,
                                        configuration->npipelines, error);
    if (code == HANDOFF_OK)
        code = handoff_channel_set_new(&channels, configuration->channels, configuration->nchannels,
                                       error);
    if (code == HANDOFF_OK)
        code = handoff_agents_configure(client->agents, configuration->agents,
                                        configuration->nagents, error);
    if (code != HANDOFF_OK) {
        handoff_pipeline_set_free(&pipelines);
        handoff_channel_set_free(&channels);
        return code;
    }
    handoff_pipelines_put_in_force(&client->pipelines, &pipelines);
    handoff_channels_put_in_force(&client->channels, &channels);
    atomic_store(&client->hops_max,
                 configuration->hops_max ? configuration->hops_max : DEFAULT_HOPS_MAX);
    atomic_store(&client->secrets, (int)configuration->secrets);
    atomic_store(&client->forbids_new_chain, configuration->forbid_new_chain);
    handoff_engine_limit(client->engine, configuration->max_in_flight,
                         configuration->max_in_flight_per_agent);
    handoff_spine_weigh(client->spine, configuration->boosts);
    atomic_store(&client->default_token_budget, configuration->default_token_budget
                                                    ? configuration->default_token_budget
                                                    : DEFAULT_TOKEN_BUDGET);
    return HANDOFF_OK;
}

const struct handoff_tokenizer *handoff_client_tokenizer(const struct handoff_client *client,
                                                         struct handoff_error *error)
{
    BASE_CHECK_MAGIC(client, HANDOFF_CLIENT_MAGIC);
    if (error)
        *error = client->tokenizer_error;
    return client->tokenizer;
}

/* 0 if there is nothing to measure, otherwise at least 1: the wall clock may have been set back. */
static int64_t age_ns(int64_t now_ms, int64_t then_ms)
{
    return then_ms == 0 ? 0 : now_ms > then_ms ? (now_ms - then_ms) * 1000000 : 1;
}

static int64_t oldest_open_task_ns(const struct handoff_client *client)
{
    struct handoff_store_kept kept;
    if (!client->open_tasks)
        return 0;
    handoff_store_kept(client->store, &kept);
    return age_ns(base_wall_ms(&base_clock_system),
                  handoff_open_tasks_oldest_ms(client->open_tasks, kept.kept_from_ms));
}

static struct handoff_retention_stats retention_stats(const struct handoff_client *client)
{
    struct handoff_store_kept kept;
    handoff_store_kept(client->store, &kept);
    const int64_t now_ms = base_wall_ms(&base_clock_system) + kept.ahead_ms;
    return (struct handoff_retention_stats){
        .body_bytes = kept.body_bytes,
        .index_bytes = kept.row_bytes,
        .oldest_body_ns = age_ns(now_ms, kept.oldest_body_ms),
        .oldest_key_ns = age_ns(now_ms, kept.oldest_key_ms),
        .oldest_chain_ns = age_ns(now_ms, kept.oldest_row_ms),
        .bodies_removed = kept.bodies_for_size,
        .chains_removed_by_age = kept.rows_for_age,
        .chains_removed_by_size = kept.rows_for_size,
        .orphans = kept.orphans,
        .orphans_bytes = kept.orphans_bytes,
    };
}

void handoff_client_stats(struct handoff_client *client, struct handoff_stats *stats)
{
    BASE_CHECK_MAGIC(client, HANDOFF_CLIENT_MAGIC);
    struct handoff_store_disk disk;
    handoff_store_disk(client->store, &disk);
    *stats = (struct handoff_stats){
        .store_bytes = handoff_store_bytes(client->store),
        .disk_free_bytes = disk.free_bytes,
        .disk_bytes = disk.bytes,
        .store_displaced = handoff_store_displaced_file(client->store),
        .store_failing = handoff_store_failing(client->store),
        .spine_up = handoff_spine_is_up(client->spine, atomic_load(&client->spine_failures)),
        .spine_cache_bytes = handoff_spine_copies_bytes(client->spine),
        .spine_lacks = handoff_spine_lacks(client->spine),
        .spine_advice = handoff_spine_instead(client->spine),
        .spine_complete = handoff_spine_is_complete(client->spine),
        .exact_tokens = client->tokenizer != handoff_tokenizer_estimate(),
        .oldest_open_task_ns = oldest_open_task_ns(client),
        .task_stalled_after_ms = client->task_stalled_after_ms,
        .retention = retention_stats(client)};
}

/* ---- texts the caller owns ----------------------------------------------------------------- */

enum handoff_code handoff_client_give(struct base_buffer *from, struct handoff_text *text,
                                      struct handoff_error *error)
{
    *text = (struct handoff_text){0};
    if (from->failed || !from->data) {
        base_buffer_free(from);
        return handoff_error_no_memory(error);
    }
    *text = (struct handoff_text){.data = from->data, .size = from->size};
    *from = (struct base_buffer){0};
    return HANDOFF_OK;
}

void handoff_text_free(struct handoff_text *text)
{
    base_free(text->data);
    *text = (struct handoff_text){0};
}
