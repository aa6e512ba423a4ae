/* SPDX-License-Identifier: Apache-2.0 */
/* Which spine the options ask for, and with which table. On the thread that opens the client. */
#include "client/client.h"
#include "client/spine/embedded/embedded_spine.h"
#include "client/spine/http/http_spine.h"
#include "client/spine/remote/remote.h"

static const char *spine_table_of(const struct handoff_spine_options *options)
{
    return options->table ? options->table : handoff_http_usual_table;
}

enum handoff_code handoff_client_open_spine(struct handoff_client *client,
                                            const struct handoff_options *options,
                                            struct handoff_error *error)
{
    const struct handoff_embedded_options embedded = {
        .search_timeout_ms = options->search_timeout_ms, .no_stemming = options->no_stemming};
    if (!options->spine)
        return handoff_embedded_spine_open(&client->spine, client->store, &embedded, error);
    return handoff_remote_spine_open(&client->spine, &handoff_http_wire,
                                     spine_table_of(options->spine), options->spine,
                                     handoff_client_tell_shortage, client, error);
}

enum handoff_code handoff_spine_options_check(const struct handoff_spine_options *options,
                                              struct handoff_error *error)
{
    struct handoff_remote_table table;
    enum handoff_code code =
        handoff_remote_table_read(&table, &handoff_http_wire, spine_table_of(options), error);
    handoff_remote_table_free(&table);
    return code;
}
