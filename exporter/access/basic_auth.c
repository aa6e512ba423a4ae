/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Basic authentication (RFC 7617) with bcrypt hashes.
 *
 * Whether a user exists must not show in the time an answer takes: an unknown user's password is
 * hashed against a fixed hash of the greatest cost in use, and the result thrown away. Results,
 * good and bad, are remembered under a keyed digest of user, hash and password, never the password
 * itself; a changed hash is another key, so a changed file needs no flushing.
 *
 * Threads: the web loop's, but for crypt_r(), which runs on the worker. A job travels there and
 * back by posting; in between only the worker touches it, but for `request`, which is the web
 * loop's.
 */
#include "exporter/access/basic_auth.h"

#include <crypt.h>
#include <gnutls/crypto.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "exporter/http/worker.h"
#include "exporter/log/log.h"
#include "lib/base/check.h"
#include "lib/base/container.h"

enum {
    AUTH_MAGIC = 0xba51ca47,
    CACHE_SIZE = 128, /* scrapers, people and a few wrong guesses */
    DIGEST_SIZE = 32, /* SHA-256 */
    PENDING_MAX = 64, /* at 50 ms each the last one waits for 3 s */
    CREDENTIALS_MAX = 1024,
    HASH_SIZE = 61,
};

struct remembered {
    unsigned char digest[DIGEST_SIZE];
    bool used;
    bool good;
};

struct exporter_basic_auth {
    unsigned magic;
    struct exporter_worker worker;
    struct crypt_data crypt; /* the worker's; 32 KiB */
    atomic_bool stopping;
    /* the web loop's */
    unsigned char secret[DIGEST_SIZE];
    struct remembered cache[CACHE_SIZE];
    size_t oldest;
    unsigned pending;
};

struct job {
    struct base_mail mail;
    struct exporter_basic_auth *auth;
    struct base_loop *loop;
    struct exporter_request *request; /* NULL once it was cancelled */
    void (*done)(struct exporter_request *request, enum exporter_auth_result result);
    unsigned char digest[DIGEST_SIZE];
    bool known; /* the user exists */
    bool matches;
    char hash[HASH_SIZE];
    char password[CREDENTIALS_MAX];
};

/* ---- the header ----------------------------------------------------------------------------- */

static int base64_value(char letter)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = letter != '\0' ? strchr(letters, letter) : NULL;
    return at != NULL ? (int)(at - letters) : -1;
}

/* Padding may be left out. SIZE_MAX where it is not base64 or does not fit. */
static size_t base64_decode(const char *text, char *out, size_t size)
{
    size_t length = 0;
    unsigned bits = 0;
    unsigned held = 0;
    for (; *text != '\0' && *text != '='; text++) {
        const int value = base64_value(*text);
        if (value < 0)
            return SIZE_MAX;
        bits = (bits << 6 | (unsigned)value) & 0xffff;
        held += 6;
        if (held < 8)
            continue;
        held -= 8;
        if (length + 1 >= size)
            return SIZE_MAX;
        out[length++] = (char)(bits >> held & 0xff);
    }
    out[length] = '\0';
    return text[strspn(text, "=")] == '\0' ? length : SIZE_MAX;
}

bool exporter_basic_auth_parse(const char *header, char *buffer, size_t size, const char **user,
                               const char **password)
{
    static const char scheme[] = "Basic";
    if (header == NULL || strncasecmp(header, scheme, sizeof scheme - 1) != 0 ||
        header[sizeof scheme - 1] != ' ')
        return false;
    header += sizeof scheme - 1;
    header += strspn(header, " ");
    const size_t length = base64_decode(header, buffer, size);
    if (length == SIZE_MAX || strlen(buffer) != length)
        return false;
    char *colon = strchr(buffer, ':');
    if (colon == NULL)
        return false;
    *colon = '\0';
    *user = buffer;
    *password = colon + 1;
    return true;
}

/* ---- what is remembered --------------------------------------------------------------------- */

static bool digest_of(const struct exporter_basic_auth *auth, const char *user, const char *hash,
                      const char *password, unsigned char digest[DIGEST_SIZE])
{
    gnutls_hmac_hd_t hmac;
    if (gnutls_hmac_init(&hmac, GNUTLS_MAC_SHA256, auth->secret, sizeof auth->secret) < 0)
        return false;
    /* with their final zeros, so that no two triples read the same */
    gnutls_hmac(hmac, user, strlen(user) + 1);
    gnutls_hmac(hmac, hash, strlen(hash) + 1);
    gnutls_hmac(hmac, password, strlen(password) + 1);
    gnutls_hmac_deinit(hmac, digest);
    return true;
}

static const struct remembered *recall(const struct exporter_basic_auth *auth,
                                       const unsigned char digest[DIGEST_SIZE])
{
    for (size_t i = 0; i < CACHE_SIZE; i++) {
        if (auth->cache[i].used && memcmp(auth->cache[i].digest, digest, DIGEST_SIZE) == 0)
            return &auth->cache[i];
    }
    return NULL;
}

static void remember(struct exporter_basic_auth *auth, const unsigned char digest[DIGEST_SIZE],
                     bool good)
{
    struct remembered *entry = &auth->cache[auth->oldest];
    auth->oldest = (auth->oldest + 1) % CACHE_SIZE;
    memcpy(entry->digest, digest, DIGEST_SIZE);
    entry->good = good;
    entry->used = true;
}

/* ---- jobs ----------------------------------------------------------------------------------- */

static void job_free(struct job *job)
{
    explicit_bzero(job, sizeof *job);
    free(job);
}

static void job_cancelled(void *arg)
{
    struct job *job = arg;
    job->request = NULL;
}

static void finish_job(struct base_mail *mail)
{
    struct job *job = BASE_CONTAINER_OF(mail, struct job, mail);
    struct exporter_basic_auth *auth = job->auth;
    const bool good = job->matches && job->known;
    auth->pending--;
    if (!atomic_load(&auth->stopping))
        remember(auth, job->digest, good);
    if (job->request != NULL)
        job->done(job->request, good ? EXPORTER_AUTH_GOOD : EXPORTER_AUTH_BAD);
    job_free(job);
}

static bool is_equal(const char *a, const char *b)
{
    const size_t length = strlen(a);
    return strlen(b) == length && gnutls_memcmp(a, b, length) == 0;
}

static void check_password_job(struct base_mail *mail)
{
    struct job *job = BASE_CONTAINER_OF(mail, struct job, mail);
    struct exporter_basic_auth *auth = job->auth;
    BASE_CHECK_MAGIC(auth, AUTH_MAGIC);
    if (!atomic_load(&auth->stopping)) {
        const char *made = crypt_r(job->password, job->hash, &auth->crypt);
        job->matches = made != NULL && is_equal(made, job->hash);
        explicit_bzero(&auth->crypt, sizeof auth->crypt);
        log_debug("password_hashed");
    }
    job->mail.deliver = finish_job;
    base_loop_post(job->loop, &job->mail);
}

/* The user's hash, or one that no password of anybody has, at the same cost. */
static bool choose_hash(const struct exporter_web_settings *settings, const char *user,
                        char hash[HASH_SIZE])
{
    for (size_t i = 0; i < settings->nusers; i++) {
        if (strcmp(settings->users[i].name, user) == 0) {
            snprintf(hash, HASH_SIZE, "%s", settings->users[i].hash);
            return true;
        }
    }
    snprintf(hash, HASH_SIZE, "$2y$%02u$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi",
             settings->bcrypt_cost);
    return false;
}

static void submit_job(struct exporter_basic_auth *auth, const struct job *wanted)
{
    struct job *job = auth->pending < PENDING_MAX ? malloc(sizeof *job) : NULL;
    if (job == NULL) {
        wanted->done(wanted->request, EXPORTER_AUTH_BUSY);
        return;
    }
    *job = *wanted;
    auth->pending++;
    exporter_request_defer(job->request, job_cancelled, job);
    job->mail.deliver = check_password_job;
    base_loop_post(&auth->worker.loop, &job->mail);
}

void exporter_basic_auth_check(struct exporter_basic_auth *auth,
                               const struct exporter_web_settings *settings,
                               struct exporter_request *request,
                               void (*done)(struct exporter_request *request,
                                            enum exporter_auth_result result))
{
    BASE_CHECK_MAGIC(auth, AUTH_MAGIC);
    char buffer[CREDENTIALS_MAX];
    const char *user;
    const char *password;
    struct job job = {.auth = auth, .request = request, .done = done};
    job.loop = exporter_request_loop(request);
    if (!exporter_basic_auth_parse(exporter_request_header(request, "Authorization"), buffer,
                                   sizeof buffer, &user, &password)) {
        done(request, EXPORTER_AUTH_BAD);
        return;
    }
    job.known = choose_hash(settings, user, job.hash);
    snprintf(job.password, sizeof job.password, "%s", password);
    const bool digested = digest_of(auth, user, job.hash, password, job.digest);
    const struct remembered *known = digested ? recall(auth, job.digest) : NULL;
    explicit_bzero(buffer, sizeof buffer);
    if (!digested)
        done(request, EXPORTER_AUTH_BUSY);
    else if (known != NULL)
        done(request, known->good ? EXPORTER_AUTH_GOOD : EXPORTER_AUTH_BAD);
    else
        submit_job(auth, &job);
    explicit_bzero(&job, sizeof job);
}

/* ---- making and freeing --------------------------------------------------------------------- */

struct exporter_basic_auth *exporter_basic_auth_new(struct exporter_error *error)
{
    struct exporter_basic_auth *auth = calloc(1, sizeof *auth);
    if (auth == NULL) {
        exporter_error_set(error, "out of memory");
        return NULL;
    }
    auth->magic = AUTH_MAGIC;
    if (gnutls_rnd(GNUTLS_RND_KEY, auth->secret, sizeof auth->secret) < 0) {
        exporter_error_set(error, "GnuTLS cannot generate random numbers");
        exporter_basic_auth_free(&auth);
        return NULL;
    }
    if (!exporter_worker_prepare(&auth->worker, "passwords", error) ||
        !exporter_worker_start(&auth->worker, error))
        exporter_basic_auth_free(&auth);
    return auth;
}

void exporter_basic_auth_stop(struct exporter_basic_auth *auth)
{
    atomic_store(&auth->stopping, true);
    exporter_worker_join(&auth->worker);
    base_loop_settle(&auth->worker.loop);
}

void exporter_basic_auth_free(struct exporter_basic_auth **auth_pointer)
{
    struct exporter_basic_auth *auth = *auth_pointer;
    if (auth == NULL)
        return;
    *auth_pointer = NULL;
    BASE_CHECK_MAGIC(auth, AUTH_MAGIC);
    atomic_store(&auth->stopping, true);
    exporter_worker_free(&auth->worker);
    explicit_bzero(auth, sizeof *auth);
    free(auth);
}
