/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api_tokens.h - the tokens file: bearer tokens of the agent API and the names of their owners.
 *
 * A line is NAME TOKEN, and behind these what the token is bound to. scopes=SCOPE,SCOPE: its
 * bearer sees, stores and asks for memories only in these scopes. publish=CHANNEL,CHANNEL and
 * receive=CHANNEL,CHANNEL: it publishes to, or subscribes to, these channels only. A name may have
 * several tokens, so that one can be replaced while both are good; a token has one name. A # at the
 * beginning of a word begins a comment.
 *
 * Only digests are kept, and no message shows a word of the file: readers of the log need not
 * have the tokens, and a line whose words are swapped must not tell one.
 *
 * A table never changes after it was read; any thread may look things up.
 */
#ifndef EXPORTER_ACCESS_API_TOKENS_H
#define EXPORTER_ACCESS_API_TOKENS_H

#include <stdbool.h>
#include <stddef.h>

#include "exporter/error.h"
#include "lib/base/arena.h"

/* The name that may do everything; no agent can have it. */
#define EXPORTER_OPERATOR "@operator"
/* Who decides where no tokens are asked for; no name of an agent has an @ either. */
#define EXPORTER_ANONYMOUS "@anyone"

enum {
    EXPORTER_TOKEN_MIN = 16,    /* bytes; 16 random letters cannot be guessed over a network */
    EXPORTER_TOKEN_MAX = 512,   /* a JSON web token of some claims is shorter */
    EXPORTER_TOKENS_MAX = 4000, /* four for each of 1,000 agents; a look-up walks over all */
    EXPORTER_SCOPES_MAX = 512,  /* bytes of the scopes of one token, with their commas */
    EXPORTER_BOUND_CHANNELS_MAX = 256 /* the same of channels; each request has a copy */
};

struct exporter_api_tokens;

/* Reads a file into the arena. NULL with `error` filled: "FILE:LINE: api.tokens_file: saw ...". */
const struct exporter_api_tokens *
exporter_api_tokens_load(const char *path, struct base_arena *arena, struct exporter_error *error);
/* The same from memory; errors call the file `file`. */
const struct exporter_api_tokens *exporter_api_tokens_read(const char *file, const char *text,
                                                           size_t length, struct base_arena *arena,
                                                           struct exporter_error *error);

struct exporter_token_owner {
    const char *name;
    /* separated by commas; NULL: it is not bound in that */
    const char *scopes, *publish, *receive; /* of channels "": to none */
};

/* A token's owner, or NULL. The time it takes says nothing about any token. */
const struct exporter_token_owner *
exporter_api_tokens_owner(const struct exporter_api_tokens *tokens, const char *token,
                          size_t length);

/* Whether every user of the machine may read the file. */
bool exporter_api_tokens_are_exposed(const char *path);

#endif
