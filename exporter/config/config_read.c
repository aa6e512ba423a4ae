/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk over the document.
 *
 * Keys are looked up in the table, which decides how deep a section goes. Four parts need each
 * other and are read last, in this order: the agents are named, so that any list may refer to any
 * of them; `defaults` make the agent that says nothing; each agent starts as a copy of that one;
 * pipelines and channels come when all agents are known.
 *
 * On the thread that loads the file.
 */
#include <string.h>

#include "exporter/access/api_tokens.h"
#include "exporter/config/config_internal.h"
#include "lib/base/check.h"
#include "lib/base/units.h"

#define SCOPE_ROOT         CONFIG_IN_ROOT
#define SCOPE_AGENT        CONFIG_IN_AGENT
#define SCOPE_EVERY_AGENT  (CONFIG_IN_AGENT | CONFIG_IN_DEFAULTS)
#define SCOPE_CHANNEL      CONFIG_IN_CHANNEL
#define STRUCT_ROOT        struct exporter_config
#define STRUCT_AGENT       struct exporter_agent
#define STRUCT_EVERY_AGENT struct exporter_agent
#define STRUCT_CHANNEL     struct exporter_channel

#define ROW(in, field, key, type, text, value, low, high, words)                                   \
    {.path = (key),                                                                                \
     .fallback = (text),                                                                           \
     .number = (value),                                                                            \
     .choices = (words),                                                                           \
     .least = (low),                                                                               \
     .most = (high),                                                                               \
     .offset = offsetof(STRUCT_##in, field),                                                       \
     .size = sizeof(((STRUCT_##in *)0)->field),                                                    \
     .scope = SCOPE_##in,                                                                          \
     .kind = CONFIG_##type},

static const struct config_row rows[] = {
#define CONFIG(scope, field, path, kind, fallback, least, most, choices, help)                     \
    ROW(scope, field, path, kind, fallback, 0, least, most, choices)
#define HANDOFF_AGENT_KEY(scope, field, path, kind, number, floor, least, most, choices, help)     \
    ROW(scope, options.field, path, kind, NULL, number, least, most, choices)
#include "exporter/config/config.def"
#undef CONFIG
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

/* A field that is narrower or wider than its kind would be overrun or half written. */
#define IS_SIZE(type, field, wanted)   (sizeof(((type *)0)->field) == sizeof(wanted))
#define FITS_NUMBER(type, field)       (IS_SIZE(type, field, uint32_t) || IS_SIZE(type, field, uint64_t))
#define FITS_DURATION(type, field)     IS_SIZE(type, field, uint64_t)
#define FITS_SIZE(type, field)         IS_SIZE(type, field, uint64_t)
#define FITS_FLAG(type, field)         IS_SIZE(type, field, bool)
#define FITS_CHOICE(type, field)       IS_SIZE(type, field, unsigned)
#define FITS_CHOICES(type, field)      IS_SIZE(type, field, unsigned)
#define FITS_URL(type, field)          IS_SIZE(type, field, char *)
#define FITS_FILE(type, field)         IS_SIZE(type, field, char *)
#define FITS_NAME(type, field)         IS_SIZE(type, field, char *)
#define FITS_NAMES(type, field)        IS_SIZE(type, field, char **) /* and its count behind it */
#define FITS_SENDERS(type, field)      IS_SIZE(type, field, char **) /* likewise */
#define FITS_AGENT_MAP(type, field)    1 /* these four are set by name, not through the table */
#define FITS_PIPELINE_MAP(type, field) 1
#define FITS_CHANNEL_MAP(type, field)  1
#define FITS_SECTION(type, field)      1
#define CONFIG(scope, field, path, kind, fallback, least, most, choices, help)                     \
    _Static_assert(FITS_##kind(STRUCT_##scope, field), path);
#define HANDOFF_AGENT_KEY(scope, field, path, kind, ...)                                           \
    _Static_assert(FITS_##kind(STRUCT_##scope, options.field), path);
#include "exporter/config/config.def"
#undef CONFIG

/* A list of names is read into both at once. */
_Static_assert(sizeof(struct exporter_names) == 2 * sizeof(char **) &&
                   offsetof(struct exporter_names, count) == sizeof(char **) &&
                   offsetof(struct handoff_agent_options, nalternates) ==
                       offsetof(struct handoff_agent_options, alternates) + sizeof(char **) &&
                   offsetof(struct handoff_agent_options, nfrom) ==
                       offsetof(struct handoff_agent_options, from) + sizeof(char **),
               "a list's count follows its items");

/* ---- the table ----------------------------------------------------------------------------- */

/* Where the walk is in the table: the scope, and the keys down to here joined with dots, with a
 * dot at the end ("breaker."). */
struct level {
    unsigned scope;
    char prefix[64];
};

static const char *below_level(size_t i, const void *place)
{
    const struct level *level = place;

    return (rows[i].scope & level->scope) == 0
               ? NULL
               : exporter_config_below_prefix(rows[i].path, level->prefix);
}

static struct config_keys keys_of(const struct level *level)
{
    return (struct config_keys){.path = below_level, .place = level, .count = ROWS};
}

/* The names that are allowed at a level, joined with commas. */
static void list_names(const struct level *level, struct exporter_error *list)
{
    const char *last = "";
    size_t last_length = 0;
    size_t used = 0;

    list->text[0] = '\0';
    for (size_t i = 0; i < ROWS; i++) {
        const char *rest = below_level(i, level);
        size_t length = rest == NULL ? 0 : strcspn(rest, ".");
        bool again = length == last_length && rest != NULL && memcmp(rest, last, length) == 0;
        if (rest == NULL || again || used + length + 3 > sizeof(list->text)) {
            continue; /* the rows of a section are adjacent */
        }
        if (used > 0) {
            memcpy(list->text + used, ", ", 2);
            used += 2;
        }
        memcpy(list->text + used, rest, length);
        used += length;
        list->text[used] = '\0';
        last = rest;
        last_length = length;
    }
}

static bool refuse_unknown_key(const struct config_reader *reader, const struct level *level,
                               const yaml_node_t *key, const struct config_place *place)
{
    const struct config_keys keys = keys_of(level);
    struct exporter_error names;
    struct exporter_error allowed;

    if (strcmp((const char *)key->data.scalar.value, "<<") == 0) {
        return exporter_config_refuse(reader, key, place,
                                      "merging is not supported; use the defaults section");
    }
    list_names(level, &names);
    exporter_error_set(&allowed, ", allowed: %s", names.text);
    return exporter_config_refuse_unknown(reader, &keys, key, place, allowed.text);
}

/* The four parts that are read later are only kept. */
static bool read_leaf(struct config_reader *reader, const struct config_row *row, yaml_node_t *node,
                      const struct config_place *place, void *target)
{
    switch (row->kind) {
    case CONFIG_AGENT_MAP:
        reader->agents_node = node;
        return true;
    case CONFIG_SECTION:
        reader->defaults_node = node;
        return true;
    case CONFIG_PIPELINE_MAP:
        reader->pipelines_node = node;
        return true;
    case CONFIG_CHANNEL_MAP:
        reader->channels_node = node;
        return true;
    default:
        return exporter_config_read_value(reader, row, node, place, target);
    }
}

static struct level level_below(const struct level *level, const yaml_node_t *key)
{
    struct level below = *level;
    size_t used = strlen(below.prefix);

    /* the key is part of a path of the table, so it fits */
    BASE_CHECK(used + key->data.scalar.length + 2 <= sizeof(below.prefix));
    memcpy(below.prefix + used, key->data.scalar.value, key->data.scalar.length);
    memcpy(below.prefix + used + key->data.scalar.length, ".", 2);
    return below;
}

/* Reads all keys of a mapping into `target`, the struct of the level's scope. */
static bool read_config_section(struct config_reader *reader, const struct level *level,
                                const yaml_node_t *node, const struct config_place *above,
                                void *target)
{
    const struct config_keys keys = keys_of(level);
    size_t pairs;

    if (!exporter_config_open(reader, node, above, &pairs)) {
        return false;
    }
    for (size_t i = 0; i < pairs; i++) {
        const yaml_node_t *key = exporter_config_key(reader, node, i);
        yaml_node_t *value = exporter_config_value(reader, node, i);
        bool leaf = false;
        bool ok;
        if (!exporter_config_check_key(reader, node, i, above)) {
            return false;
        }
        struct config_place place = exporter_config_below(above, key);
        const size_t row = exporter_config_find(&keys, key, &leaf);
        if (row == ROWS) {
            return refuse_unknown_key(reader, level, key, &place);
        }
        if (leaf) {
            ok = read_leaf(reader, &rows[row], value, &place, target);
        } else {
            struct level below = level_below(level, key);
            ok = read_config_section(reader, &below, value, &place, target);
        }
        if (!ok) {
            return false;
        }
    }
    return true;
}

/* ---- agents -------------------------------------------------------------------------------- */

static const struct config_place agents_place = {NULL, "agents", 6};
static const struct config_place defaults_place = {NULL, "defaults", 8};
static const struct config_place pipelines_place = {NULL, "pipelines", 9};
static const struct config_place channels_place = {NULL, "channels", 8};

/* What must fit together within one agent, whichever way the values came. */
static bool check_configured_agent(const struct config_reader *reader,
                                   const struct exporter_agent *agent, const yaml_node_t *node,
                                   const struct config_place *place)
{
    struct base_printed base;
    struct base_printed most;

    if (agent->options.backoff_base_ms > agent->options.backoff_max_ms) {
        return exporter_config_refuse(
            reader, node, place,
            "saw a backoff.base of %s over the backoff.max of %s, "
            "allowed: a base up to max",
            base_duration_print(&base, (uint64_t)agent->options.backoff_base_ms),
            base_duration_print(&most, (uint64_t)agent->options.backoff_max_ms));
    }
    if ((agent->options.cert_file == NULL) != (agent->options.key_file == NULL)) {
        return exporter_config_refuse(
            reader, node, place,
            "saw tls.%s alone, allowed: tls.cert_file and tls.key_file together",
            agent->options.cert_file != NULL ? "cert_file" : "key_file");
    }
    return true;
}

static void set_key_defaults(unsigned scope, void *target)
{
    for (size_t i = 0; i < ROWS; i++) {
        if ((rows[i].scope & scope) != 0) {
            exporter_config_set_default(&rows[i], target);
        }
    }
}

static bool read_agent_defaults(struct config_reader *reader)
{
    static const struct level level = {CONFIG_IN_DEFAULTS, ""};

    set_key_defaults(CONFIG_IN_AGENT, &reader->every);
    return reader->defaults_node == NULL ||
           (read_config_section(reader, &level, reader->defaults_node, &defaults_place,
                                &reader->every) &&
            check_configured_agent(reader, &reader->every, reader->defaults_node, &defaults_place));
}

static bool check_agent_name(const struct config_reader *reader, const yaml_node_t *key,
                             const struct config_place *above)
{
    const char *name = (const char *)key->data.scalar.value;

    if (!exporter_config_is_name(name, key->data.scalar.length)) {
        return exporter_config_refuse_node(reader, key, above,
                                           "a name of 1 to 128 letters, digits and ._-");
    }
    return true;
}

/* It becomes the value of a label, and stands where reserved words may stand. */
static bool check_unreserved_name(const struct config_reader *reader, const yaml_node_t *key,
                                  const struct config_place *above)
{
    const char *name = (const char *)key->data.scalar.value;

    if (!check_agent_name(reader, key, above)) {
        return false;
    }
    if (handoff_name_is_reserved(name, key->data.scalar.length)) {
        return exporter_config_refuse_node(reader, key, above,
                                           "a name other than other, next and broadcast");
    }
    return true;
}

static bool name_agent(struct config_reader *reader, const yaml_node_t *key)
{
    const char *name = (const char *)key->data.scalar.value;

    if (!check_unreserved_name(reader, key, &agents_place)) {
        return false;
    }
    reader->agents[reader->nagents].options.name =
        base_arena_copy(reader->arena, name, key->data.scalar.length);
    return reader->agents[reader->nagents++].options.name != NULL ||
           exporter_config_no_memory(reader);
}

static bool open_map(const struct config_reader *reader, const yaml_node_t *node,
                     const struct config_place *place, size_t most, size_t *pairs)
{
    if (!exporter_config_open(reader, node, place, pairs)) {
        return false;
    }
    if (*pairs > most) {
        return exporter_config_refuse(reader, node, place, "saw %zu of them, allowed: up to %zu",
                                      *pairs, most);
    }
    return true;
}

static bool name_agents(struct config_reader *reader)
{
    const yaml_node_t *node = reader->agents_node;
    size_t pairs;

    if (node == NULL) {
        return true;
    }
    if (!open_map(reader, node, &agents_place, EXPORTER_AGENTS_MAX, &pairs)) {
        return false;
    }
    reader->agents = base_arena_calloc(reader->arena, pairs, sizeof(*reader->agents));
    if (reader->agents == NULL) {
        return exporter_config_no_memory(reader);
    }
    for (size_t i = 0; i < pairs; i++) {
        if (!exporter_config_check_key(reader, node, i, &agents_place) ||
            !name_agent(reader, exporter_config_key(reader, node, i))) {
            return false;
        }
    }
    return true;
}

/* An agent cannot be its own alternate: `defaults` may name it for all others. */
static bool leave_out_itself(const struct config_reader *reader,
                             struct handoff_agent_options *agent)
{
    const struct handoff_agent_options *every = &reader->every.options;
    const char **items = base_arena_calloc(reader->arena, every->nalternates, sizeof(*items));
    size_t count = 0;

    if (items == NULL) {
        return exporter_config_no_memory(reader);
    }
    for (size_t i = 0; i < every->nalternates; i++) {
        if (every->alternates[i] != agent->name) {
            items[count++] = every->alternates[i];
        }
    }
    agent->alternates = items;
    agent->nalternates = count;
    return true;
}

static bool read_agent(struct config_reader *reader, struct exporter_agent *agent,
                       const yaml_node_t *key, const yaml_node_t *node)
{
    static const struct level level = {CONFIG_IN_AGENT, ""};
    struct config_place place = exporter_config_below(&agents_place, key);
    const char *name = agent->options.name;
    bool ok;

    *agent = reader->every;
    agent->options.name = name;
    reader->current = agent;
    ok = leave_out_itself(reader, &agent->options) &&
         read_config_section(reader, &level, node, &place, agent) &&
         check_configured_agent(reader, agent, key, &place);
    reader->current = NULL;
    return ok;
}

static bool read_agents_section(struct config_reader *reader)
{
    const yaml_node_t *node = reader->agents_node;

    for (size_t i = 0; i < reader->nagents; i++) {
        if (!read_agent(reader, &reader->agents[i], exporter_config_key(reader, node, i),
                        exporter_config_value(reader, node, i))) {
            return false;
        }
    }
    return true;
}

/* ---- pipelines ----------------------------------------------------------------------------- */

static bool read_pipeline(struct config_reader *reader, struct exporter_pipeline *pipeline,
                          const yaml_node_t *key, const yaml_node_t *node)
{
    struct config_place place = exporter_config_below(&pipelines_place, key);
    const char *name = (const char *)key->data.scalar.value;

    if (!check_agent_name(reader, key, &pipelines_place) ||
        !exporter_config_read_names(reader, node, &place, 1, EXPORTER_PIPELINE_STEPS_MAX,
                                    &pipeline->agents)) {
        return false;
    }
    pipeline->name = base_arena_copy(reader->arena, name, key->data.scalar.length);
    return pipeline->name != NULL || exporter_config_no_memory(reader);
}

static bool read_pipelines(struct config_reader *reader)
{
    const yaml_node_t *node = reader->pipelines_node;
    size_t pairs;

    if (node == NULL) {
        return true;
    }
    if (!open_map(reader, node, &pipelines_place, EXPORTER_PIPELINES_MAX, &pairs)) {
        return false;
    }
    struct exporter_pipeline *pipelines =
        base_arena_calloc(reader->arena, pairs, sizeof(*pipelines));
    if (pipelines == NULL) {
        return exporter_config_no_memory(reader);
    }
    for (size_t i = 0; i < pairs; i++) {
        if (!exporter_config_check_key(reader, node, i, &pipelines_place) ||
            !read_pipeline(reader, &pipelines[i], exporter_config_key(reader, node, i),
                           exporter_config_value(reader, node, i))) {
            return false;
        }
    }
    reader->config->pipelines = pipelines;
    reader->config->npipelines = pairs;
    return true;
}

/* ---- channels ------------------------------------------------------------------------------ */

static bool read_channel(struct config_reader *reader, struct exporter_channel *channel,
                         const yaml_node_t *key, const yaml_node_t *node)
{
    static const struct level level = {CONFIG_IN_CHANNEL, ""};
    struct config_place place = exporter_config_below(&channels_place, key);
    const char *name = (const char *)key->data.scalar.value;

    set_key_defaults(CONFIG_IN_CHANNEL, channel);
    if (!check_unreserved_name(reader, key, &channels_place) ||
        !read_config_section(reader, &level, node, &place, channel)) {
        return false;
    }
    channel->name = base_arena_copy(reader->arena, name, key->data.scalar.length);
    return channel->name != NULL || exporter_config_no_memory(reader);
}

static bool read_channels(struct config_reader *reader)
{
    const yaml_node_t *node = reader->channels_node;
    size_t pairs;

    if (node == NULL) {
        return true;
    }
    if (!open_map(reader, node, &channels_place, EXPORTER_CHANNELS_MAX, &pairs)) {
        return false;
    }
    struct exporter_channel *channels = base_arena_calloc(reader->arena, pairs, sizeof(*channels));
    if (channels == NULL) {
        return exporter_config_no_memory(reader);
    }
    for (size_t i = 0; i < pairs; i++) {
        if (!exporter_config_check_key(reader, node, i, &channels_place) ||
            !read_channel(reader, &channels[i], exporter_config_key(reader, node, i),
                          exporter_config_value(reader, node, i))) {
            return false;
        }
    }
    reader->config->channels = channels;
    reader->config->nchannels = pairs;
    return true;
}

/* ---- the whole ----------------------------------------------------------------------------- */

static bool read_api_tokens(struct config_reader *reader)
{
    struct exporter_config *config = reader->config;

    if (config->api.tokens_file != NULL) {
        config->api.tokens =
            exporter_api_tokens_load(config->api.tokens_file, reader->arena, reader->error);
    }
    return config->api.tokens_file == NULL || config->api.tokens != NULL;
}

/* ---- the spine ------------------------------------------------------------------------------ */

static bool refuse_spine(const struct config_reader *reader, const char *key, const char *message)
{
    exporter_error_set(reader->error, "%s: spine.%s: %s", reader->file, key, message);
    return false;
}

static bool refuse_operations(const struct config_reader *reader, const struct handoff_error *why)
{
    char text[512];
    handoff_error_text(why, text, sizeof text);
    exporter_error_set(reader->error, "%s: spine.operations_file: %s", reader->file, text);
    return false;
}

static bool read_operations(struct config_reader *reader)
{
    struct exporter_config *config = reader->config;
    struct handoff_error why = {0};
    size_t length;
    if (config->spine.operations_file == NULL)
        return true;
    char *text = exporter_config_slurp(config->spine.operations_file, &length, reader->error);
    if (text == NULL)
        return false;
    config->spine.operations = base_arena_copy(reader->arena, text, length);
    free(text);
    if (config->spine.operations == NULL)
        return exporter_config_no_memory(reader);
    const struct handoff_spine_options options = {.kind = config->spine.kind == EXPORTER_SPINE_MCP
                                                              ? HANDOFF_SPINE_KIND_MCP
                                                              : HANDOFF_SPINE_KIND_HTTP,
                                                  .url = "http://localhost", /* it was checked */
                                                  .table = config->spine.operations};
    return handoff_spine_options_check(&options, &why) == HANDOFF_OK ||
           refuse_operations(reader, &why);
}

/* What the keys need of each other, where the spine is a server. */
static bool check_remote_spine(const struct config_reader *reader)
{
    const struct exporter_config *config = reader->config;
    const bool has_preset = config->spine.preset != EXPORTER_PRESET_NONE;
    if (config->spine.url == NULL && !has_preset)
        return refuse_spine(reader, "url",
                            "missing, allowed: the URL of the spine, which kind: http and "
                            "kind: mcp need without a preset");
    if (config->spine.operations_file != NULL && has_preset)
        return refuse_spine(reader, "preset", "it has no effect with an operations_file");
    if (config->spine.kind == EXPORTER_SPINE_MCP && config->spine.operations_file == NULL &&
        !has_preset)
        return refuse_spine(reader, "operations_file",
                            "missing, allowed: a file with the tools of the spine, which "
                            "kind: mcp needs without a preset");
    return true;
}

static bool read_spine(struct config_reader *reader)
{
    const struct exporter_config *config = reader->config;
    const bool is_remote = config->spine.kind != EXPORTER_SPINE_EMBEDDED;
    if (!is_remote && config->spine.url != NULL)
        return refuse_spine(reader, "url", "it has no effect without kind: http or kind: mcp");
    if (!is_remote && config->spine.preset != EXPORTER_PRESET_NONE)
        return refuse_spine(reader, "preset", "it has no effect without kind: http or kind: mcp");
    if ((config->spine.cert_file == NULL) != (config->spine.key_file == NULL))
        return refuse_spine(reader, "tls", "allowed: cert_file and key_file together");
    return (!is_remote || check_remote_spine(reader)) && read_operations(reader);
}

bool exporter_config_read(struct config_reader *reader)
{
    static const struct level level = {CONFIG_IN_ROOT, ""};
    const yaml_node_t *root = yaml_document_get_root_node(reader->document);

    set_key_defaults(CONFIG_IN_ROOT, reader->config);
    if (root != NULL && !read_config_section(reader, &level, root, NULL, reader->config)) {
        return false;
    }
    if (!name_agents(reader) || !read_agent_defaults(reader) || !read_agents_section(reader) ||
        !read_pipelines(reader) || !read_channels(reader) || !read_api_tokens(reader) ||
        !read_spine(reader)) {
        return false;
    }
    reader->config->agents = reader->agents;
    reader->config->nagents = reader->nagents;
    reader->config->default_token_budget = reader->every.options.token_budget;
    return true;
}
