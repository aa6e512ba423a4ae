/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api.h - the sidecar's listeners, as the sub-commands of handoffctl call them.
 *
 * One call at a time over libcurl, to an http URL or a unix socket. Where they are, and the token,
 * come from options that are the same for every sub-command, or from the environment.
 */
#ifndef CTL_API_H
#define CTL_API_H

#include <stdbool.h>
#include <stddef.h>

#include "ctl/command_line.h"

struct ctl_answer {
    long status;
    char *body; /* NUL-terminated; free with ctl_answer_free */
    size_t size;
    char handoff_id[40]; /* the header Handoff-Id, or "" */
    char date[40];       /* the header Date, or "" */
    long attempt;        /* Handoff-Attempt, or 0 */
    long lease_s;        /* Handoff-Lease-Seconds, or 0 */
};

struct ctl_call {
    const char *method, *path;
    const char *accept;          /* NULL: anything */
    const char *body;            /* JSON, or NULL */
    const char *prefer;          /* NULL: no preference */
    const char *idempotency_key; /* NULL: none */
    long timeout_ms;             /* 0: as long as a slow receiver may take */
    bool web;                    /* to the web listener, which gets no token */
    bool quiet;                  /* do not report that it cannot be reached */
};

/* Where they are: by option, environment or default. */
const char *ctl_api_url(const struct ctl_line *line);
const char *ctl_web_url(const struct ctl_line *line);
/* The token's file; NULL: none is used. Never the token itself: command lines are visible to every
 * user. */
const char *ctl_token_file(const struct ctl_line *line);

/* Makes the call. CTL_OK: an answer came, whatever its status; else the exit code, after stderr
 * said why none came. The caller frees `answer` in every case. */
int ctl_api_exchange(const struct ctl_line *line, const struct ctl_call *call,
                     struct ctl_answer *answer);
/* CTL_OK if the status is 2xx; else reports the problem on stderr and returns the exit code. */
int ctl_api_check_answer(const struct ctl_line *line, const struct ctl_answer *answer);

/* Both: calls METHOD path and checks the answer. A NULL path: no memory. */
int ctl_api_call(const struct ctl_line *line, const char *method, const char *path,
                 const char *accept, const char *body, struct ctl_answer *answer);
void ctl_answer_free(struct ctl_answer *answer);

/* Percent-encodes one segment or query value; free() it. NULL: no memory. */
char *ctl_api_escape(const char *text);
/* "/v1/handoffs/" "a b" "/ack" as a path: the middle part is percent-encoded; free() it. */
char *ctl_api_path(const char *before, const char *segment, const char *after);
/* Adds &name=value (or ?name=value, the first time) to *path, which it replaces. A NULL value adds
 * nothing. False: no memory, and *path is NULL. */
bool ctl_api_add_query(char **path, const char *name, const char *value);
/* The same for each of these options that was given; the list ends with NULL. */
bool ctl_api_add_options(char **path, const struct ctl_line *line, const char *const *names);

#endif
