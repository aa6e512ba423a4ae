/* SPDX-License-Identifier: Apache-2.0 */
/*
 * callers.h - who calls the agent API: what the Authorization header of a request comes to under
 * the current configuration.
 *
 * Threads: a new configuration comes from the control thread while API threads ask. They share a
 * read-write lock, held for a walk over the tokens: requests cost a hundred times as much.
 */
#ifndef EXPORTER_ACCESS_CALLERS_H
#define EXPORTER_ACCESS_CALLERS_H

#include <stdbool.h>

#include "exporter/access/api_tokens.h"
#include "exporter/config/config.h"

struct exporter_callers;

/* NULL: out of memory. Every caller may do everything until a configuration restricts it. */
struct exporter_callers *exporter_callers_new(void);
void exporter_callers_free(struct exporter_callers **freeing);

/* Applies the tokens of a configuration; takes its own reference. */
void exporter_callers_apply(struct exporter_callers *callers, struct exporter_config *config);

enum exporter_caller_result {
    EXPORTER_CALLER_KNOWN,
    EXPORTER_CALLER_MISSING, /* there was no bearer token */
    EXPORTER_CALLER_UNKNOWN, /* there was one, but it is unknown */
};

struct exporter_caller {
    char agent[EXPORTER_NAME_MAX + 1];    /* "": the caller may do everything */
    bool is_operator;                     /* it has the operator's token */
    char sender[EXPORTER_NAME_MAX + 1];   /* what it hands off as then (api.source_agent); "": each
                                             request names its sender */
    char scopes[EXPORTER_SCOPES_MAX + 1]; /* separated by commas; "": it is not bound to scopes */
    bool binds_publish, binds_receive;    /* its token does, to the channels that follow */
    char publish[EXPORTER_BOUND_CHANNELS_MAX + 1], receive[EXPORTER_BOUND_CHANNELS_MAX + 1];
};

/* Whether tokens are asked for. Any thread. */
bool exporter_callers_ask(struct exporter_callers *callers);

/* `authorization` is the header's value, or NULL. Any thread. */
enum exporter_caller_result exporter_callers_authenticate(struct exporter_callers *callers,
                                                          const char *authorization,
                                                          struct exporter_caller *caller);

#endif
