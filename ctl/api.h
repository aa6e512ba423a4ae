/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api.h - the sidecar's agent API, as sub-commands of handoffctl call it.
 *
 * One call at a time over libcurl, to an http URL or a unix socket. The options that say where and
 * who (--api.url, --api.token-file) are the same for every sub-command.
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
    "  --api.token-file FILE   the bearer token to send\n"                                         \
    "Exit code: 0 done, 1 refused or failed, 2 wrong usage, 3 the sidecar cannot be reached,\n"    \
    "4 there is nothing of this id.\n"

enum {
    CTL_UNREACHABLE = 3,
    CTL_NOT_FOUND = 4,
};

struct ctl_api {
    const char *url;        /* NULL: $HANDOFF_API_URL, else the default */
    const char *token_file; /* NULL: no token */
};

/* Takes an option of ours at argv[*i] and moves *i to its last word. False where it is not ours;
 * the value's absence is left for the call to say. */
bool ctl_api_option(struct ctl_api *api, int argc, char *const argv[], int *i);

struct ctl_answer {
    long status;
    char *body; /* NUL-terminated; free with ctl_answer_free */
    size_t size;
};

/* Calls METHOD path. `body` may be NULL. Answers CTL_OK where the status is 2xx; else says on
 * stderr what was wrong and answers the exit code. `answer` is to be freed in every case. */
int ctl_api_call(const struct ctl_command *command, const struct ctl_api *api, const char *method,
                 const char *path, const char *accept, const char *body, struct ctl_answer *answer);
void ctl_answer_free(struct ctl_answer *answer);

/* Percent-encodes one segment or query value; free() it. NULL: no memory. */
char *ctl_api_escape(const char *text);

#endif
