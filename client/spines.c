/* SPDX-License-Identifier: Apache-2.0 */
/* Which spine the options ask for: with which table, and with what in front of a remote one. On the
   thread that opens the client. */
#include "client/client.h"
#include "client/spine/embedded/embedded_spine.h"
#include "client/spine/http/http_spine.h"
#include "client/spine/layered/layered.h"
#include "client/spine/mcp/mcp_spine.h"
#include "client/spine/remote/presets.h"
#include "client/spine/remote/remote.h"
#include "lib/base/buffer.h"
#include "lib/base/error.h"

static const struct handoff_remote_wire *wire_of(const struct handoff_spine_options *options)
{
    return options->kind == HANDOFF_SPINE_KIND_MCP ? &handoff_mcp_wire : &handoff_http_wire;
}

/* NULL: there is none, and tools of other servers cannot be guessed. */
static const char *spine_table_of(const struct handoff_spine_options *options)
{
    const struct handoff_remote_preset *preset =
        handoff_remote_preset(options->preset, options->kind);
    if (options->table || preset)
        return options->table ? options->table : preset->table;
    return options->kind == HANDOFF_SPINE_KIND_HTTP ? handoff_http_usual_table : NULL;
}

static const char *spine_url_of(const struct handoff_spine_options *options)
{
    const struct handoff_remote_preset *preset =
        handoff_remote_preset(options->preset, options->kind);
    return !options->url && preset ? preset->url : options->url;
}

static enum handoff_code refuse_spine_options(const char *field, const char *allowed,
                                              struct handoff_error *error)
{
    handoff_error_set(error, HANDOFF_ERR_INVALID, "missing", field, NULL);
    handoff_error_allow(error, "%s", allowed);
    return HANDOFF_ERR_INVALID;
}

enum handoff_code handoff_spine_options_check(const struct handoff_spine_options *options,
                                              struct handoff_error *error)
{
    struct handoff_remote_table table;
    if (!spine_url_of(options))
        return refuse_spine_options("url", "the address of the server, or a preset", error);
    if (!spine_table_of(options))
        return refuse_spine_options("operations_file", "a table of the server's tools, or a preset",
                                    error);
    enum handoff_code code =
        handoff_remote_table_read(&table, wire_of(options), spine_table_of(options), error);
    handoff_remote_table_free(&table);
    return code;
}

static enum handoff_code open_remote(struct handoff_client *client,
                                     const struct handoff_spine_options *given,
                                     struct handoff_spine **spine, struct handoff_error *error)
{
    struct handoff_spine_options options = *given;
    enum handoff_code code = handoff_spine_options_check(&options, error);
    if (code != HANDOFF_OK)
        return code;
    options.url = spine_url_of(given);
    options.table = spine_table_of(given);
    return handoff_remote_spine_open(spine, wire_of(given), &options, handoff_client_tell_shortage,
                                     client, error);
}

/* In a store for them alone. */
static enum handoff_code open_copies(struct handoff_copies **copies,
                                     const struct handoff_options *options,
                                     const struct handoff_embedded_options *embedded,
                                     struct handoff_error *error)
{
    struct base_buffer path = {0};
    base_buffer_printf(&path, "%s/spine-cache", options->storage_path);
    const struct handoff_copies_options cache = {.path = path.data,
                                                 .bytes_max = (int64_t)options->spine->cache_bytes,
                                                 .embedded = *embedded};
    enum handoff_code code =
        path.failed ? handoff_error_no_memory(error) : handoff_copies_open(copies, &cache, error);
    base_buffer_free(&path);
    return code;
}

static enum handoff_code open_layers(struct handoff_client *client,
                                     const struct handoff_options *options,
                                     const struct handoff_embedded_options *embedded,
                                     struct handoff_error *error)
{
    struct handoff_layered_options layers = {
        .clock = &base_clock_system, .on_copies = handoff_client_tell_copies, .observer = client};
    enum handoff_code code = open_remote(client, options->spine, &layers.remote, error);
    if (code == HANDOFF_OK && options->spine->write_local)
        code = handoff_embedded_spine_open(&layers.local, client->store, embedded, error);
    if (code == HANDOFF_OK && options->spine->cache_bytes > 0)
        code = open_copies(&layers.copies, options, embedded, error);
    if (code == HANDOFF_OK)
        return handoff_layered_spine_open(&client->spine, &layers, error);
    handoff_spine_close(&layers.remote);
    handoff_spine_close(&layers.local);
    return code;
}

enum handoff_code handoff_client_open_spine(struct handoff_client *client,
                                            const struct handoff_options *options,
                                            struct handoff_error *error)
{
    const struct handoff_embedded_options embedded = {
        .search_timeout_ms = options->search_timeout_ms, .no_stemming = options->no_stemming};
    return options->spine
               ? open_layers(client, options, &embedded, error)
               : handoff_embedded_spine_open(&client->spine, client->store, &embedded, error);
}
