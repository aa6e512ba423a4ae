/* SPDX-License-Identifier: Apache-2.0 */
/* Bearer tokens of requests (RFC 6750, by header only: URLs and bodies end up in logs). */
#include "exporter/access/callers.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "exporter/access/api_tokens.h"
#include "lib/base/check.h"

enum { CALLERS_MAGIC = 0xca11e75 };

struct exporter_callers {
    unsigned magic;
    pthread_rwlock_t lock;
    struct exporter_config *config; /* under the lock; NULL: none yet */
};

struct exporter_callers *exporter_callers_new(void)
{
    struct exporter_callers *callers = calloc(1, sizeof *callers);
    if (callers == NULL)
        return NULL;
    callers->magic = CALLERS_MAGIC;
    pthread_rwlock_init(&callers->lock, NULL);
    return callers;
}

void exporter_callers_free(struct exporter_callers **freeing)
{
    struct exporter_callers *callers = *freeing;
    if (callers == NULL)
        return;
    *freeing = NULL;
    BASE_CHECK_MAGIC(callers, CALLERS_MAGIC);
    exporter_config_unref(&callers->config);
    pthread_rwlock_destroy(&callers->lock);
    callers->magic = 0;
    free(callers);
}

void exporter_callers_apply(struct exporter_callers *callers, struct exporter_config *config)
{
    BASE_CHECK_MAGIC(callers, CALLERS_MAGIC);
    struct exporter_config *added = exporter_config_ref(config);
    pthread_rwlock_wrlock(&callers->lock);
    struct exporter_config *before = callers->config;
    callers->config = added;
    pthread_rwlock_unlock(&callers->lock);
    exporter_config_unref(&before);
}

/* "Bearer TOKEN", the scheme in any case. NULL: it is something else, or nothing. */
static const char *token_of(const char *authorization, size_t *length)
{
    static const char scheme[] = "Bearer";
    if (authorization == NULL || strncasecmp(authorization, scheme, sizeof scheme - 1) != 0 ||
        authorization[sizeof scheme - 1] != ' ')
        return NULL;
    const char *token = authorization + sizeof scheme;
    token += strspn(token, " ");
    *length = strlen(token);
    while (*length > 0 && (token[*length - 1] == ' ' || token[*length - 1] == '\t'))
        --*length;
    return *length > 0 ? token : NULL;
}

/* NULL: the token is not bound in that. */
static bool copy_channels_of_token(char *to, size_t size, const char *channels)
{
    if (channels != NULL)
        snprintf(to, size, "%s", channels);
    return channels != NULL;
}

/* Under the lock. */
static enum exporter_caller_result judge(const struct exporter_api_tokens *tokens,
                                         const char *authorization, struct exporter_caller *caller)
{
    size_t length = 0;
    const char *token = token_of(authorization, &length);
    if (token == NULL)
        return EXPORTER_CALLER_MISSING;
    const struct exporter_token_owner *owner = exporter_api_tokens_owner(tokens, token, length);
    if (owner == NULL)
        return EXPORTER_CALLER_UNKNOWN;
    caller->is_operator = strcmp(owner->name, EXPORTER_OPERATOR) == 0;
    if (!caller->is_operator)
        snprintf(caller->agent, sizeof caller->agent, "%s", owner->name);
    if (owner->scopes != NULL)
        snprintf(caller->scopes, sizeof caller->scopes, "%s", owner->scopes);
    caller->binds_publish =
        copy_channels_of_token(caller->publish, sizeof caller->publish, owner->publish);
    caller->binds_receive =
        copy_channels_of_token(caller->receive, sizeof caller->receive, owner->receive);
    return EXPORTER_CALLER_KNOWN;
}

bool exporter_callers_ask(struct exporter_callers *callers)
{
    BASE_CHECK_MAGIC(callers, CALLERS_MAGIC);
    pthread_rwlock_rdlock(&callers->lock);
    bool ask = callers->config != NULL && callers->config->api.tokens != NULL;
    pthread_rwlock_unlock(&callers->lock);
    return ask;
}

enum exporter_caller_result exporter_callers_authenticate(struct exporter_callers *callers,
                                                          const char *authorization,
                                                          struct exporter_caller *caller)
{
    BASE_CHECK_MAGIC(callers, CALLERS_MAGIC);
    enum exporter_caller_result result = EXPORTER_CALLER_KNOWN;
    caller->is_operator = false;
    caller->agent[0] = caller->sender[0] = caller->scopes[0] = '\0';
    caller->binds_publish = caller->binds_receive = false;
    pthread_rwlock_rdlock(&callers->lock);
    if (callers->config != NULL && callers->config->api.source_agent != NULL)
        snprintf(caller->sender, sizeof caller->sender, "%s", callers->config->api.source_agent);
    if (callers->config != NULL && callers->config->api.tokens != NULL)
        result = judge(callers->config->api.tokens, authorization, caller);
    pthread_rwlock_unlock(&callers->lock);
    return result;
}
