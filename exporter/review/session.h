/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.h - who uses the review page: an operator who signed in with a token, or anyone where no
 * tokens are asked for.
 *
 * A session is in memory, and knows the token that it was opened with. Each request asks again
 * whether that token is the operator's, so a session ends with the next request after a reload
 * removed the token; it also ends by signing out, when nobody used it for an hour (a page that
 * refreshes by itself does not use it), 12 hours after it began, and with the process. The cookie
 * is random, and only its digest is kept.
 *
 * Every form carries a token that other sites cannot know: a digest of a secret of this process and
 * of the session.
 *
 * Any thread; one lock, held for a walk over the sessions.
 */
#ifndef EXPORTER_REVIEW_SESSION_H
#define EXPORTER_REVIEW_SESSION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "exporter/access/api_tokens.h"
#include "exporter/access/callers.h"
#include "exporter/http/http.h"
#include "lib/base/sha256.h"

enum {
    REVIEW_SESSIONS_MAX = 64, /* operators at once; another one ends the oldest */
    REVIEW_PERSON_MAX = 64,   /* bytes of what a person is called */
    REVIEW_COOKIE_SIZE = 65,  /* of the value: 32 random bytes in hexadecimal */
    REVIEW_FORM_SIZE = 65,
    REVIEW_SET_COOKIE_SIZE = 192,
};

struct review_kept_session {
    uint8_t digest[BASE_SHA256_BYTES]; /* of its cookie */
    int64_t began_ms, used_ms;         /* monotonic; began 0: it is free */
    char token[EXPORTER_TOKEN_MAX + 1];
    char person[REVIEW_PERSON_MAX + 1];
};

struct review_sessions {
    struct exporter_callers *callers;
    uint8_t secret[BASE_SHA256_BYTES];
    pthread_mutex_t lock;
    struct review_kept_session kept[REVIEW_SESSIONS_MAX]; /* under the lock */
};

/* Of one request. */
struct review_session {
    const char *who;                    /* as decisions record it; NULL: nobody is signed in */
    char person[REVIEW_PERSON_MAX + 1]; /* what the person wants to be called; "": not known */
    char cookie[REVIEW_COOKIE_SIZE];    /* "": none */
    char form[REVIEW_FORM_SIZE];        /* what its forms carry */
};

void review_sessions_init(struct review_sessions *sessions, struct exporter_callers *callers);

/* Whether anybody has to sign in at all. */
bool review_sessions_ask(struct review_sessions *sessions);

/* Who sent the request. */
void review_session_find(struct review_sessions *sessions, struct exporter_request *request,
                         struct review_session *session);

enum review_sign_in { REVIEW_SIGNED_IN, REVIEW_NO_SUCH_TOKEN, REVIEW_NOT_OPERATOR };

/* Opens one for the owner of the token. `set_cookie` is the header's value. */
enum review_sign_in review_session_open(struct review_sessions *sessions, const char *token,
                                        const char *person,
                                        char set_cookie[REVIEW_SET_COOKIE_SIZE]);
/* Ends the one that the request is of, if any. */
void review_session_end(struct review_sessions *sessions, const struct review_session *session,
                        char set_cookie[REVIEW_SET_COOKIE_SIZE]);

/* Whether a form with this token is ours, for this session. */
bool review_session_owns_form(const struct review_session *session, const char *form);

#endif
