/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions of the review page, see session.h. Digests are compared in full, so that the time of an
 * answer does not tell how much of a guess was right. Any thread.
 */
#include "exporter/review/session.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/random.h"

enum {
    SESSION_UNUSED_MS = 60 * 60 * 1000,
    SESSION_WHOLE_MS = 12 * 60 * 60 * 1000,
    SESSION_WHOLE_S = SESSION_WHOLE_MS / 1000,
};

static const char cookie_name[] = "handoff_review";

static bool same_bytes(const void *one, const void *other, size_t size)
{
    const uint8_t *a = one, *b = other;
    uint8_t different = 0;
    for (size_t i = 0; i < size; i++)
        different |= (uint8_t)(a[i] ^ b[i]);
    return different == 0;
}

void review_sessions_init(struct review_sessions *sessions, struct exporter_callers *callers)
{
    *sessions = (struct review_sessions){.callers = callers};
    base_random_system.fill(&base_random_system, sessions->secret, sizeof sessions->secret);
    pthread_mutex_init(&sessions->lock, NULL);
}

bool review_sessions_ask(struct review_sessions *sessions)
{
    return exporter_callers_ask(sessions->callers);
}

/* ---- forms ---------------------------------------------------------------------------------- */

static void sign_form(const struct review_sessions *sessions, struct review_session *session)
{
    struct base_sha256 hash;
    uint8_t digest[BASE_SHA256_BYTES];
    base_sha256_start(&hash);
    base_sha256_add(&hash, sessions->secret, sizeof sessions->secret);
    base_sha256_add(&hash, session->cookie, strlen(session->cookie));
    base_sha256_finish(&hash, digest);
    base_sha256_hex(digest, session->form);
}

bool review_session_owns_form(const struct review_session *session, const char *form)
{
    return form != NULL && strlen(form) == strlen(session->form) &&
           same_bytes(form, session->form, strlen(session->form));
}

/* ---- finding -------------------------------------------------------------------------------- */

/* The value of our cookie in "a=b; c=d", or "". */
static void read_cookie(const char *header, char value[REVIEW_COOKIE_SIZE])
{
    const size_t name = sizeof cookie_name - 1;
    value[0] = '\0';
    for (const char *at = header; at != NULL && *at != '\0';) {
        at += strspn(at, "; ");
        const size_t length = strcspn(at, "; ");
        if (length == name + REVIEW_COOKIE_SIZE && at[name] == '=' &&
            memcmp(at, cookie_name, name) == 0)
            snprintf(value, REVIEW_COOKIE_SIZE, "%.*s", REVIEW_COOKIE_SIZE - 1, at + name + 1);
        at += length;
    }
}

static void free_session(struct review_kept_session *kept)
{
    explicit_bzero(kept, sizeof *kept);
}

static bool has_run_out(const struct review_kept_session *kept, int64_t now_ms)
{
    return now_ms - kept->used_ms > SESSION_UNUSED_MS || now_ms - kept->began_ms > SESSION_WHOLE_MS;
}

/* Under the lock. NULL: there is none. */
static struct review_kept_session *find_session(struct review_sessions *sessions,
                                                const char *cookie, bool is_used)
{
    uint8_t digest[BASE_SHA256_BYTES];
    const int64_t now_ms = base_monotonic_ms(&base_clock_system);
    struct review_kept_session *found = NULL;
    base_sha256(cookie, strlen(cookie), digest);
    for (size_t i = 0; i < REVIEW_SESSIONS_MAX; i++) {
        struct review_kept_session *kept = &sessions->kept[i];
        if (kept->began_ms != 0 && has_run_out(kept, now_ms))
            free_session(kept);
        if (kept->began_ms != 0 && same_bytes(kept->digest, digest, sizeof digest))
            found = kept;
    }
    if (found != NULL && is_used)
        found->used_ms = now_ms;
    return found;
}

/* False: the token is unknown; `caller` says whose it is. */
static bool owner_of(struct review_sessions *sessions, const char *token,
                     struct exporter_caller *caller)
{
    char header[sizeof "Bearer " + EXPORTER_TOKEN_MAX];
    snprintf(header, sizeof header, "Bearer %s", token);
    const bool known =
        exporter_callers_authenticate(sessions->callers, header, caller) == EXPORTER_CALLER_KNOWN;
    explicit_bzero(header, sizeof header);
    return known;
}

static bool is_operators(struct review_sessions *sessions, const char *token)
{
    struct exporter_caller caller;
    return owner_of(sessions, token, &caller) && caller.is_operator;
}

/* A page that refreshes by itself is left open; nobody uses it. */
static bool is_by_script(struct exporter_request *request)
{
    const char *accept = exporter_request_header(request, "Accept");
    return exporter_request_header(request, "Handoff-Refresh") != NULL ||
           (accept != NULL && strstr(accept, "text/event-stream") != NULL);
}

static void find_operator(struct review_sessions *sessions, struct review_session *session,
                          bool is_used)
{
    char token[EXPORTER_TOKEN_MAX + 1] = "";
    pthread_mutex_lock(&sessions->lock);
    const struct review_kept_session *kept = find_session(sessions, session->cookie, is_used);
    if (kept != NULL) {
        memcpy(token, kept->token, sizeof token);
        memcpy(session->person, kept->person, sizeof session->person);
    }
    pthread_mutex_unlock(&sessions->lock);
    if (token[0] != '\0' && is_operators(sessions, token))
        session->who = EXPORTER_OPERATOR;
    explicit_bzero(token, sizeof token);
}

void review_session_find(struct review_sessions *sessions, struct exporter_request *request,
                         struct review_session *session)
{
    *session = (struct review_session){.who = NULL};
    read_cookie(exporter_request_header(request, "Cookie"), session->cookie);
    if (!review_sessions_ask(sessions))
        session->who = EXPORTER_ANONYMOUS;
    else if (session->cookie[0] != '\0')
        find_operator(sessions, session, !is_by_script(request));
    if (session->who == NULL || !review_sessions_ask(sessions))
        session->cookie[0] = '\0';
    sign_form(sessions, session);
}

/* ---- beginning and ending ------------------------------------------------------------------- */

static void write_cookie(char set_cookie[REVIEW_SET_COOKIE_SIZE], const char *value, int seconds)
{
    snprintf(set_cookie, REVIEW_SET_COOKIE_SIZE,
             "%s=%s; Path=/review; Max-Age=%d; HttpOnly; SameSite=Strict", cookie_name, value,
             seconds);
}

/* Under the lock: a free place, or that of the session that was not used for longest. */
static struct review_kept_session *take_session_place(struct review_sessions *sessions)
{
    struct review_kept_session *place = &sessions->kept[0];
    for (size_t i = 1; i < REVIEW_SESSIONS_MAX; i++) {
        if (sessions->kept[i].used_ms < place->used_ms)
            place = &sessions->kept[i];
    }
    free_session(place);
    return place;
}

static void keep_session(struct review_sessions *sessions, const char *cookie, const char *token,
                         const char *person)
{
    pthread_mutex_lock(&sessions->lock);
    struct review_kept_session *kept = take_session_place(sessions);
    kept->began_ms = kept->used_ms = base_monotonic_ms(&base_clock_system);
    base_sha256(cookie, strlen(cookie), kept->digest);
    snprintf(kept->token, sizeof kept->token, "%s", token);
    snprintf(kept->person, sizeof kept->person, "%s", person);
    pthread_mutex_unlock(&sessions->lock);
}

enum review_sign_in review_session_open(struct review_sessions *sessions, const char *token,
                                        const char *person, char set_cookie[REVIEW_SET_COOKIE_SIZE])
{
    struct exporter_caller caller;
    uint8_t random[BASE_SHA256_BYTES];
    char cookie[BASE_SHA256_HEX_SIZE];
    if (strlen(token) > EXPORTER_TOKEN_MAX || !owner_of(sessions, token, &caller))
        return REVIEW_NO_SUCH_TOKEN;
    if (!caller.is_operator)
        return REVIEW_NOT_OPERATOR;
    base_random_system.fill(&base_random_system, random, sizeof random);
    base_sha256_hex(random, cookie);
    keep_session(sessions, cookie, token, person);
    write_cookie(set_cookie, cookie, SESSION_WHOLE_S);
    return REVIEW_SIGNED_IN;
}

void review_session_end(struct review_sessions *sessions, const struct review_session *session,
                        char set_cookie[REVIEW_SET_COOKIE_SIZE])
{
    pthread_mutex_lock(&sessions->lock);
    struct review_kept_session *kept =
        session->cookie[0] != '\0' ? find_session(sessions, session->cookie, true) : NULL;
    if (kept != NULL)
        free_session(kept);
    pthread_mutex_unlock(&sessions->lock);
    write_cookie(set_cookie, "", 0);
}
