/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h - the configuration file, read and checked as a whole.
 *
 * A load gives either a complete configuration, in which every value is within its bounds and every
 * name leads somewhere, or one error that names the file, the line, the key, what was seen and what
 * is allowed. There is no half-read configuration, so that a reload cannot break a running process.
 *
 * The keys are declared once, in config.def and, those that the library knows, in
 * handoff_agent_keys.def, with type, bounds, default and help. A value comes
 * from the agent's own key, else from `defaults`, else from the table.
 *
 * A configuration never changes after it was loaded. It is shared by counting references: a reader
 * that keeps it beyond a call takes one, from any thread. All of its memory is one arena, which
 * goes with the last reference.
 */
#ifndef EXPORTER_CONFIG_CONFIG_H
#define EXPORTER_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/handoff.h"
#include "exporter/error.h"

enum {
    EXPORTER_CONFIG_FILE_MAX = 1 << 20, /* bytes; 1,000 agents with every key set take half */
    EXPORTER_AGENTS_MAX = 1000,         /* each is a label value on every family */
    EXPORTER_PIPELINES_MAX = 1000,
    EXPORTER_PIPELINE_STEPS_MAX = 64, /* as hops.max: a longer one could never be walked */
    EXPORTER_CHANNELS_MAX = 1000,     /* each is a label value */
    EXPORTER_CHANNEL_RECEIVERS_MAX = 1000,
    EXPORTER_NAME_MAX = 128, /* of an agent, a pipeline or a channel: [A-Za-z0-9._-] */
};

enum exporter_spine { EXPORTER_SPINE_EMBEDDED, EXPORTER_SPINE_HTTP, EXPORTER_SPINE_MCP };
enum exporter_spine_preset { EXPORTER_PRESET_NONE, EXPORTER_PRESET_MEMORY_SPINE };
enum exporter_spine_write { EXPORTER_SPINE_WRITE_THROUGH, EXPORTER_SPINE_WRITE_LOCAL };
enum exporter_durability { EXPORTER_DURABILITY_FULL, EXPORTER_DURABILITY_NONE };

struct exporter_api_tokens;

/* Laid out as the alternates of struct handoff_agent_options are. */
struct exporter_names {
    const char *const *items;
    size_t count;
};

struct exporter_agent {
    struct handoff_agent_options options; /* but for the bearer token */
    const char *token_file;               /* NULL: no bearer token */
};

struct exporter_pipeline {
    const char *name;
    struct exporter_names agents; /* in order, none twice */
};

struct exporter_channel {
    const char *name;
    struct exporter_names receivers; /* none twice */
    uint64_t token_budget;           /* 0: by its receivers' */
    uint64_t retention_ms;           /* 0: storage.retention decides */
    uint64_t retention_bytes;
};

struct exporter_config {
    unsigned magic;
    const struct exporter_agent *agents; /* by name, ascending in strcmp order */
    size_t nagents;
    const struct exporter_pipeline *pipelines; /* likewise */
    size_t npipelines;
    const struct exporter_channel *channels; /* likewise */
    size_t nchannels;
    uint64_t default_token_budget; /* of `defaults`: for targets that are not configured */
    struct {
        uint32_t max;
        bool new_chain;
    } hops;
    enum handoff_secret_policy secrets;
    struct {
        uint64_t stalled_after_ms; /* 0: it is not watched */
    } tasks;
    struct {
        enum exporter_spine kind;
        enum exporter_spine_preset preset;
        /* each may be NULL */
        const char *url, *operations_file, *token_file, *ca_file, *cert_file, *key_file;
        const char *operations; /* what is in the file */
        uint64_t timeout_ms;
        uint32_t connections;
        uint64_t cache_bytes;
        enum exporter_spine_write write;
        uint64_t search_timeout_ms;
        bool stemming;
        struct handoff_search_boosts boosts;
    } spine;
    struct {
        unsigned encoding; /* an index in HANDOFF_ENCODINGS */
    } tokenizer;
    struct {
        enum exporter_durability durability;
        struct {
            uint64_t age_ms;
            uint64_t size_bytes;
            uint64_t index_size_bytes;
            uint64_t decisions_ms;
        } retention;
    } storage;
    struct {
        const char *tokens_file;                  /* NULL: the API asks for no token */
        const struct exporter_api_tokens *tokens; /* what is in it */
        const char *source_agent; /* the sender where none is named; NULL: each request names one */
        const char *url;          /* as browsers reach it; NULL: as its listener says */
        uint64_t max_body_bytes;
        uint32_t max_in_flight;
        uint32_t max_in_flight_per_agent;
    } api;
    struct {
        uint32_t max_series_per_family;
        bool created;
        uint32_t scrapes;
        const char *dashboard_url; /* NULL: the status page links to no dashboard */
    } metrics;
};

/* Reads a file; a path of NULL gives the defaults. Relative paths in the file are taken from the
 * file's folder. NULL with `error` filled; the caller owns one reference of the result. */
struct exporter_config *exporter_config_load(const char *path, struct exporter_error *error);

/* The same for a path that an option gave: an error about a file that cannot be read names it. */
struct exporter_config *exporter_config_load_option(const char *path, const char *option,
                                                    struct exporter_error *error);

/* The same from memory; `name` is the file in errors, and gives the directory. */
struct exporter_config *exporter_config_load_memory(const char *name, const char *text,
                                                    size_t length, struct exporter_error *error);

struct exporter_config *exporter_config_ref(struct exporter_config *config);
/* Gives one reference back and sets *config to NULL; NULL is fine. */
void exporter_config_unref(struct exporter_config **config);

/* NULL where there is none. */
const struct exporter_agent *exporter_config_agent(const struct exporter_config *config,
                                                   const char *name);
const struct exporter_pipeline *exporter_config_pipeline(const struct exporter_config *config,
                                                         const char *name);
const struct exporter_channel *exporter_config_channel(const struct exporter_config *config,
                                                       const char *name);

/* What --config.check and `handoffctl check-config` do: one line on stdout (FILE: ok ...) or the
 * error on stderr. Answers the exit code, 0 or 1. `option` gave the path; NULL: none did. */
int exporter_config_check(const char *path, const char *option);

#endif
