/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_internal.h - what the files of the configuration reader share.
 *
 *   config_yaml.c    text to YAML document, within limits
 *   config_keys.c    mappings, and finding their keys in a table
 *   config_values.c  one row of the table: from a YAML node to a typed field
 *   config_read.c    the walk: sections, agents, pipelines, channels, and what must fit together
 *   config.c         files, references and lookup
 */
#ifndef EXPORTER_CONFIG_CONFIG_INTERNAL_H
#define EXPORTER_CONFIG_CONFIG_INTERNAL_H

#include <yaml.h>

#include "exporter/config/config.h"
#include "lib/base/arena.h"

enum config_kind {
    CONFIG_NUMBER,    /* uint32_t or uint64_t */
    CONFIG_DURATION,  /* uint64_t or int64_t, milliseconds */
    CONFIG_SIZE,      /* uint64_t, bytes */
    CONFIG_FLAG,      /* bool */
    CONFIG_CHOICE,    /* an enum: position in the choices */
    CONFIG_CHOICES,   /* unsigned: one bit for each choice */
    CONFIG_URL,       /* const char * */
    CONFIG_FILE,      /* const char * */
    CONFIG_NAME,      /* const char * */
    CONFIG_NAMES,     /* struct exporter_names */
    CONFIG_SENDERS,   /* struct exporter_names */
    CONFIG_AGENT_MAP, /* these four are only kept for later: they need each other */
    CONFIG_PIPELINE_MAP,
    CONFIG_CHANNEL_MAP,
    CONFIG_SECTION,
};

/* Where a key is allowed; a row's scope is a set of them. */
enum config_scope {
    CONFIG_IN_ROOT = 1 << 0,
    CONFIG_IN_AGENT = 1 << 1,
    CONFIG_IN_DEFAULTS = 1 << 2,
    CONFIG_IN_CHANNEL = 1 << 3,
};

struct config_row {
    const char *path;     /* keys from the scope's top, joined with dots */
    const char *fallback; /* as in the file; NULL: none, or the number ... */
    uint64_t number;      /* ... that the field begins with */
    const char *choices;  /* "a|b|c" */
    uint64_t least;
    uint64_t most;
    size_t offset, size; /* of the field in the scope's struct */
    unsigned scope;
    enum config_kind kind;
};

/* The way to a node, for messages: agents, coder, timeout. Lives on the stack of the walk. */
struct config_place {
    const struct config_place *above;
    const char *name;
    size_t length;
};

/* One load. */
struct config_reader {
    const char *file;
    yaml_document_t *document;
    struct base_arena *arena;
    struct exporter_config *config;
    struct exporter_error *error;
    /* agents in the order of the file; all are named before any is read */
    struct exporter_agent *agents;
    size_t nagents;
    struct exporter_agent every; /* what an agent has that says nothing: table, then `defaults` */
    const struct exporter_agent *current; /* the agent being read, or NULL */
    /* parts that are read after the rest; NULL where the file has none */
    yaml_node_t *agents_node;
    yaml_node_t *defaults_node;
    yaml_node_t *pipelines_node;
    yaml_node_t *channels_node;
};

/* Composes the one document of a file. false with `error` filled; else the caller deletes it. Its
 * root is NULL where the file is empty. */
bool exporter_config_yaml(const char *file, const char *text, size_t length,
                          yaml_document_t *document, struct exporter_error *error);

/* "FILE:LINE:COLUMN: PLACE: ...", false. */
bool exporter_config_refuse(const struct config_reader *reader, const yaml_node_t *node,
                            const struct config_place *place, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same as "saw ..., allowed: ...", where what was seen is the node. */
bool exporter_config_refuse_node(const struct config_reader *reader, const yaml_node_t *node,
                                 const struct config_place *place, const char *allowed);
bool exporter_config_no_memory(const struct config_reader *reader);

/* A node that says nothing: `key:` alone, or null. */
bool exporter_config_is_null(const yaml_node_t *node);
/* 1 to 128 of [A-Za-z0-9._-]. */
bool exporter_config_is_name(const char *text, size_t length);

/* A mapping, or nothing at all: a section whose keys are commented out. *pairs is 0 for the
 * latter. */
bool exporter_config_open(const struct config_reader *reader, const yaml_node_t *node,
                          const struct config_place *place, size_t *pairs);
/* The i-th key and value of a mapping. */
yaml_node_t *exporter_config_key(const struct config_reader *reader, const yaml_node_t *node,
                                 size_t i);
yaml_node_t *exporter_config_value(const struct config_reader *reader, const yaml_node_t *node,
                                   size_t i);
/* Refuses a key that is not text or is given twice. All keys before `index` were checked already.
 */
bool exporter_config_check_key(const struct config_reader *reader, const yaml_node_t *node,
                               size_t index, const struct config_place *above);
struct config_place exporter_config_below(const struct config_place *above, const yaml_node_t *key);

/* A table of keys as it looks from one place in the file. */
struct config_keys {
    /* What of the i-th row's path lies below the place: "breaker.failures"; NULL: the row is
     * elsewhere. */
    const char *(*path)(size_t i, const void *place);
    const void *place;
    size_t count;
};

/* What follows the prefix in the path; NULL where it has another one. */
const char *exporter_config_below_prefix(const char *path, const char *prefix);
/* The row of a key, or the first of those below it; *leaf tells which. `count`: no such key. */
size_t exporter_config_find(const struct config_keys *keys, const yaml_node_t *key, bool *leaf);
/* "unknown key, did you mean ...?", or "unknown key" and `otherwise` where none is near. */
bool exporter_config_refuse_unknown(const struct config_reader *reader,
                                    const struct config_keys *keys, const yaml_node_t *key,
                                    const struct config_place *place, const char *otherwise);

/* Text of the node, or NULL where it is not text: another type, null, a tag, a zero inside. */
const char *exporter_config_text(const yaml_node_t *node);
/* Reads a whole file of up to EXPORTER_CONFIG_FILE_MAX bytes, and one more where it is larger; the
 * caller frees. NULL with `error` filled. */
char *exporter_config_slurp(const char *path, size_t *length, struct exporter_error *error);

/* Sets the row's field of `target` from its default. */
void exporter_config_set_default(const struct config_row *row, void *target);
/* Sets the row's field of `target` from a node. */
bool exporter_config_read_value(struct config_reader *reader, const struct config_row *row,
                                const yaml_node_t *node, const struct config_place *place,
                                void *target);
/* A list of least to most names of known agents, none twice. */
bool exporter_config_read_names(struct config_reader *reader, const yaml_node_t *node,
                                const struct config_place *place, uint64_t least, uint64_t most,
                                struct exporter_names *names);

/* Reads the whole document into reader->config. */
bool exporter_config_read(struct config_reader *reader);

#endif
