/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api.h - the sidecar's agent API, as the sub-commands of handoffctl call it.
 *
 * One call at a time over libcurl, to an http URL or a unix socket. The options for the address and
 * the token (--api.url, --token-file) are the same for every sub-command.
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
    "Exit code: 0 done, 1 rejected or failed, 2 usage error, 3 the sidecar cannot be reached,\n"   \
    "4 not found.\n"

enum {
    CTL_UNREACHABLE = 3,
    CTL_NOT_FOUND = 4,
};

struct ctl_api {
    const char *url;        /* NULL: $HANDOFF_API_URL, else the default */
    const char *token_file; /* NULL: $HANDOFF_TOKEN_FILE, else no token. Never the token itself:
                               command lines are visible to every user. */
};

/* Takes one of these options at argv[*i] and moves *i to its last word. False: it is another
 * option, or its value is missing, which the caller reports. */
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
    bool quiet;                  /* do not report again that the sidecar cannot be reached */
};

/* Makes the call. CTL_OK: an answer came, whatever its status; else the exit code, after stderr
 * said why none came. The caller frees `answer` in every case. */
int ctl_api_exchange(const struct ctl_command *command, const struct ctl_api *api,
                     const struct ctl_call *call, struct ctl_answer *answer);
/* CTL_OK if the status is 2xx; else reports the problem on stderr and returns the exit code. */
int ctl_api_check_answer(const struct ctl_command *command, const struct ctl_answer *answer);

/* Both: calls METHOD path and checks the answer. */
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
