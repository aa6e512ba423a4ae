/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api.h - the sidecar's agent API, as sub-commands of handoffctl call it.
 *
 * One call at a time over libcurl, to an http URL or a unix socket. The options that say where and
 * who (--api.url, --token-file) are the same for every sub-command.
 */
#ifndef CTL_API_H
#define CTL_API_H

#include <stdbool.h>
#include <stddef.h>

#include "ctl/command.h"

/* Help text on the options below, for `details` of commands. */
#define CTL_API_DETAILS                                                                            \
    "The sidecar's API:\n"                                                                         \
    "  --api.url URL           http://127.0.0.1:8780, or unix:PATH; also $HANDOFF_API_URL\n"       \
    "  --token-file FILE       holds the bearer token to send; also $HANDOFF_TOKEN_FILE\n"         \
    "Exit code: 0 done, 1 refused or failed, 2 wrong usage, 3 the sidecar cannot be reached,\n"    \
    "4 there is nothing of this id.\n"

enum {
    CTL_UNREACHABLE = 3,
    CTL_NOT_FOUND = 4,
};

struct ctl_api {
    const char *url;        /* NULL: $HANDOFF_API_URL, else the default */
    const char *token_file; /* NULL: $HANDOFF_TOKEN_FILE, else no token. Never the token itself:
                               command lines are seen by every user. */
};

/* Takes an option of ours at argv[*i] and moves *i to its last word. False where it is not ours;
 * the value's absence is left for the call to say. */
bool ctl_api_option(struct ctl_api *api, int argc, char *const argv[], int *i);

struct ctl_answer {
    long status;
    char *body; /* NUL-terminated; free with ctl_answer_free */
    size_t size;
    char handoff_id[40]; /* the header Handoff-Id, or "" */
    long attempt;        /* Handoff-Attempt, or 0 */
    long lease_s;        /* Handoff-Lease-Seconds, or 0 */
};

struct ctl_call {
    const char *method, *path;
    const char *accept;          /* NULL: anything */
    const char *body;            /* JSON, or NULL */
    const char *prefer;          /* NULL: no preference */
    const char *idempotency_key; /* NULL: none */
    bool quiet;                  /* that it cannot be reached has been said */
};

/* Makes the call. CTL_OK: there is an answer, whatever its status; else the exit code, and stderr
 * says why there is none. `answer` is to be freed in every case. */
int ctl_api_exchange(const struct ctl_command *command, const struct ctl_api *api,
                     const struct ctl_call *call, struct ctl_answer *answer);
/* CTL_OK where the status is 2xx; else says on stderr what was wrong and answers the exit code. */
int ctl_api_judge(const struct ctl_command *command, const struct ctl_answer *answer);

/* Both: calls METHOD path, and judges the answer. */
int ctl_api_call(const struct ctl_command *command, const struct ctl_api *api, const char *method,
                 const char *path, const char *accept, const char *body, struct ctl_answer *answer);
void ctl_answer_free(struct ctl_answer *answer);

/* Percent-encodes one segment or query value; free() it. NULL: no memory. */
char *ctl_api_escape(const char *text);
/* "/v1/handoffs/" "a b" "/ack" as a path: the middle part is percent-encoded; free() it. */
char *ctl_api_path(const char *before, const char *segment, const char *after);
/* Adds &name=value (or ?name=value, the first time) to *path, which it replaces. A NULL value adds
 * nothing. False: no memory, and *path is NULL. */
bool ctl_api_add_query(char **path, const char *name, const char *value);

#endif
