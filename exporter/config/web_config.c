/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live side of the web configuration.
 *
 * Files are told apart by inode, size and times, as rotation by rename, by symbolic link and in
 * place all change one of them. A file that turned out bad is not read again until it changes, so
 * it costs one line in the log and not one for each request.
 */
#include "exporter/config/web_config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "exporter/log/log.h"
#include "lib/base/check.h"
#include "lib/base/loop.h"

enum {
    WEB_CONFIG_MAGIC = 0x3eb0c0f6,
    LOOK_MS = 1000, /* how often files are looked at, at most */
};

/* What tells one content of a file from another; all zero where there is no file. */
struct fingerprint {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec modified;
    struct timespec changed;
};

struct exporter_web_config {
    unsigned magic;
    const char *path;
    bool has_tls;
    struct exporter_web_settings *settings;
    struct exporter_tls *tls;
    struct exporter_basic_auth *basic_auth;
    /* watching */
    int64_t looked_ms;
    struct fingerprint file;
    struct fingerprint tls_files[3]; /* certificate, key, CA */
    /* rate limit: tokens in thousandths of a request */
    int64_t tokens;
    int64_t refilled_ms;
};

static struct fingerprint take_fingerprint(const char *path)
{
    struct stat found;
    struct fingerprint print;
    memset(&print, 0, sizeof print);
    if (path == NULL || stat(path, &found) != 0)
        return print;
    print.device = found.st_dev;
    print.inode = found.st_ino;
    print.size = found.st_size;
    print.modified = found.st_mtim;
    print.changed = found.st_ctim;
    return print;
}

static bool is_same(const struct fingerprint *a, const struct fingerprint *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->modified.tv_sec == b->modified.tv_sec && a->modified.tv_nsec == b->modified.tv_nsec &&
           a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

/* Notes what the file is now; answers whether it was something else before. */
static bool note_change(struct fingerprint *noted, const char *path)
{
    const struct fingerprint now = take_fingerprint(path);
    if (is_same(noted, &now))
        return false;
    *noted = now;
    return true;
}

static bool note_tls_changes(struct exporter_web_config *web_config)
{
    const struct exporter_web_tls *tls = &web_config->settings->tls;
    const char *const files[] = {tls->cert.file, tls->key.file, tls->client_ca.file};
    bool changed = false;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        changed = note_change(&web_config->tls_files[i], files[i]) || changed;
    return changed;
}

/* ---- taking what changed -------------------------------------------------------------------- */

static void log_reload_failure(const char *what, const struct exporter_error *error)
{
    log_error("web_config_reload_failed", LOG_STR("what", what), LOG_STR("error", error->text));
}

static void renew_tls(struct exporter_web_config *web_config)
{
    struct exporter_error error;
    struct exporter_tls *tls = exporter_tls_new(&web_config->settings->tls, &error);
    if (tls == NULL) {
        log_reload_failure("certificates", &error);
        return;
    }
    exporter_tls_unref(&web_config->tls);
    web_config->tls = tls;
    log_info("certificates_reloaded");
}

/* A listener speaks TLS from its start or never; the rest of such a file is refused with it. */
static bool switches_tls(const struct exporter_web_config *web_config,
                         const struct exporter_web_settings *settings, struct exporter_error *error)
{
    if (settings->tls.given == web_config->has_tls)
        return false;
    exporter_error_set(error, "%s: turning TLS on or off needs a restart", web_config->path);
    return true;
}

static void renew_settings(struct exporter_web_config *web_config)
{
    struct exporter_error error;
    struct exporter_web_settings *settings = exporter_web_settings_load(web_config->path, &error);
    struct exporter_tls *tls = NULL;
    if (settings == NULL || switches_tls(web_config, settings, &error) ||
        (settings->tls.given && (tls = exporter_tls_new(&settings->tls, &error)) == NULL)) {
        log_reload_failure("file", &error);
        exporter_web_settings_free(&settings);
        return;
    }
    exporter_web_settings_free(&web_config->settings);
    exporter_tls_unref(&web_config->tls);
    web_config->settings = settings;
    web_config->tls = tls;
    note_tls_changes(web_config);
    log_info("web_config_reloaded");
}

void exporter_web_config_refresh(struct exporter_web_config *web_config)
{
    BASE_CHECK_MAGIC(web_config, WEB_CONFIG_MAGIC);
    const int64_t now = base_monotonic_ms(&base_clock_system);
    if (now - web_config->looked_ms < LOOK_MS)
        return;
    web_config->looked_ms = now;
    if (note_change(&web_config->file, web_config->path))
        renew_settings(web_config);
    else if (web_config->has_tls && note_tls_changes(web_config))
        renew_tls(web_config);
}

/* ---- opening and closing -------------------------------------------------------------------- */

/* Fingerprints are taken before the files are read: a change in between is then seen later. */
static bool open_all(struct exporter_web_config *web_config, struct exporter_error *error)
{
    note_change(&web_config->file, web_config->path);
    web_config->settings = exporter_web_settings_load(web_config->path, error);
    if (web_config->settings == NULL)
        return false;
    note_tls_changes(web_config);
    web_config->has_tls = web_config->settings->tls.given;
    if (web_config->has_tls) {
        web_config->tls = exporter_tls_new(&web_config->settings->tls, error);
        if (web_config->tls == NULL)
            return false;
    }
    web_config->basic_auth = exporter_basic_auth_new(error);
    return web_config->basic_auth != NULL;
}

struct exporter_web_config *exporter_web_config_open(const char *path, struct exporter_error *error)
{
    struct exporter_web_config *web_config = calloc(1, sizeof *web_config);
    if (web_config == NULL) {
        exporter_error_set(error, "%s: out of memory", path);
        return NULL;
    }
    web_config->magic = WEB_CONFIG_MAGIC;
    web_config->path = path;
    web_config->looked_ms = base_monotonic_ms(&base_clock_system);
    web_config->refilled_ms = web_config->looked_ms;
    web_config->tokens = INT64_MAX; /* full, whatever the burst is */
    if (!open_all(web_config, error))
        exporter_web_config_free(&web_config);
    return web_config;
}

void exporter_web_config_stop(struct exporter_web_config *web_config)
{
    BASE_CHECK_MAGIC(web_config, WEB_CONFIG_MAGIC);
    exporter_basic_auth_stop(web_config->basic_auth);
}

void exporter_web_config_free(struct exporter_web_config **web_config_pointer)
{
    struct exporter_web_config *web_config = *web_config_pointer;
    if (web_config == NULL)
        return;
    *web_config_pointer = NULL;
    BASE_CHECK_MAGIC(web_config, WEB_CONFIG_MAGIC);
    exporter_basic_auth_free(&web_config->basic_auth);
    exporter_tls_unref(&web_config->tls);
    exporter_web_settings_free(&web_config->settings);
    web_config->magic = 0;
    free(web_config);
}

bool exporter_web_config_has_tls(const struct exporter_web_config *web_config)
{
    return web_config->has_tls;
}

const struct exporter_web_settings *
exporter_web_config_settings(const struct exporter_web_config *web_config)
{
    return web_config->settings;
}

struct exporter_tls *exporter_web_config_tls(const struct exporter_web_config *web_config)
{
    return web_config->tls;
}

struct exporter_basic_auth *
exporter_web_config_basic_auth(const struct exporter_web_config *web_config)
{
    return web_config->basic_auth;
}

/* ---- the rate limit ------------------------------------------------------------------------- */

/* A token for each interval, at most `burst` of them; a request takes one. */
bool exporter_web_config_admit(struct exporter_web_config *web_config)
{
    const int64_t interval = (int64_t)web_config->settings->rate_limit.interval_ms;
    if (interval == 0)
        return true;
    const int64_t full = (int64_t)web_config->settings->rate_limit.burst * 1000;
    const int64_t now = base_monotonic_ms(&base_clock_system);
    const int64_t earned = (now - web_config->refilled_ms) * 1000 / interval;
    if (web_config->tokens > full - earned)
        web_config->tokens = full;
    else
        web_config->tokens += earned;
    if (earned > 0)
        web_config->refilled_ms = now;
    if (web_config->tokens < 1000)
        return false;
    web_config->tokens -= 1000;
    return true;
}
