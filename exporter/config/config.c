/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading, sharing and looking things up. A configuration, its strings and its lists are one
 * allocation of ours and one arena; the last reference frees both.
 */
#include "exporter/config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exporter/config/config_internal.h"
#include "lib/base/check.h"

#define CONFIG_MAGIC 0x636f6e66u

struct loaded_config {
    struct exporter_config config; /* first: the two pointers are one */
    atomic_uint references;
    struct base_arena arena;
};

static struct loaded_config *loaded(struct exporter_config *config)
{
    BASE_CHECK(config->magic == CONFIG_MAGIC);
    return (struct loaded_config *)config;
}

/* ---- references ---------------------------------------------------------------------------- */

struct exporter_config *exporter_config_ref(struct exporter_config *config)
{
    unsigned before =
        atomic_fetch_add_explicit(&loaded(config)->references, 1, memory_order_relaxed);

    BASE_CHECK(before > 0);
    return config;
}

static void free_loaded(struct loaded_config *whole)
{
    base_arena_free(&whole->arena);
    whole->config.magic = 0;
    free(whole);
}

void exporter_config_unref(struct exporter_config **config)
{
    if (*config == NULL) {
        return;
    }
    struct loaded_config *whole = loaded(*config);
    *config = NULL;
    if (atomic_fetch_sub_explicit(&whole->references, 1, memory_order_acq_rel) == 1) {
        free_loaded(whole);
    }
}

/* ---- lookup -------------------------------------------------------------------------------- */

static int compare_agents(const void *a, const void *b)
{
    return strcmp(((const struct exporter_agent *)a)->options.name,
                  ((const struct exporter_agent *)b)->options.name);
}

static int compare_pipelines(const void *a, const void *b)
{
    return strcmp(((const struct exporter_pipeline *)a)->name,
                  ((const struct exporter_pipeline *)b)->name);
}

static int compare_channels(const void *a, const void *b)
{
    return strcmp(((const struct exporter_channel *)a)->name,
                  ((const struct exporter_channel *)b)->name);
}

const struct exporter_agent *exporter_config_agent(const struct exporter_config *config,
                                                   const char *name)
{
    const struct exporter_agent wanted = {.options.name = name};

    return config->nagents == 0
               ? NULL
               : bsearch(&wanted, config->agents, config->nagents, sizeof(wanted), compare_agents);
}

const struct exporter_pipeline *exporter_config_pipeline(const struct exporter_config *config,
                                                         const char *name)
{
    const struct exporter_pipeline wanted = {.name = name};

    return config->npipelines == 0 ? NULL
                                   : bsearch(&wanted, config->pipelines, config->npipelines,
                                             sizeof(wanted), compare_pipelines);
}

const struct exporter_channel *exporter_config_channel(const struct exporter_config *config,
                                                       const char *name)
{
    const struct exporter_channel wanted = {.name = name};

    return config->nchannels == 0 ? NULL
                                  : bsearch(&wanted, config->channels, config->nchannels,
                                            sizeof(wanted), compare_channels);
}

/* ---- loading ------------------------------------------------------------------------------- */

static void sort(struct exporter_config *config)
{
    if (config->nagents > 0) {
        qsort((void *)config->agents, config->nagents, sizeof(*config->agents), compare_agents);
    }
    if (config->npipelines > 0) {
        qsort((void *)config->pipelines, config->npipelines, sizeof(*config->pipelines),
              compare_pipelines);
    }
    if (config->nchannels > 0) {
        qsort((void *)config->channels, config->nchannels, sizeof(*config->channels),
              compare_channels);
    }
}

static struct exporter_config *read_config_document(const char *name, yaml_document_t *document,
                                                    struct exporter_error *error)
{
    struct loaded_config *whole = calloc(1, sizeof(*whole));

    if (whole == NULL) {
        exporter_error_set(error, "%s: out of memory", name);
        return NULL;
    }
    struct config_reader reader = {.file = name,
                                   .document = document,
                                   .arena = &whole->arena,
                                   .config = &whole->config,
                                   .error = error};
    if (!exporter_config_read(&reader)) {
        free_loaded(whole);
        return NULL;
    }
    sort(&whole->config);
    whole->config.magic = CONFIG_MAGIC;
    atomic_init(&whole->references, 1);
    return &whole->config;
}

struct exporter_config *exporter_config_load_memory(const char *name, const char *text,
                                                    size_t length, struct exporter_error *error)
{
    yaml_document_t document;

    if (!exporter_config_yaml(name, text, length, &document, error)) {
        return NULL;
    }
    struct exporter_config *config = read_config_document(name, &document, error);
    yaml_document_delete(&document);
    return config;
}

/* Fills `text` from the file, at most one byte more than is allowed: the reader refuses that. */
static bool read_whole(const char *path, char *text, size_t *length, struct exporter_error *error)
{
    char reason[128];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    ssize_t n = fd < 0 ? -1 : 1;

    *length = 0;
    while (n > 0 && *length <= EXPORTER_CONFIG_FILE_MAX) {
        n = read(fd, text + *length, EXPORTER_CONFIG_FILE_MAX + 1 - *length);
        if (n > 0) {
            *length += (size_t)n;
        } else if (n < 0 && errno == EINTR) {
            n = 1;
        }
    }
    if (n < 0) {
        exporter_error_set(error, "%s: cannot be read: %s", path,
                           strerror_r(errno, reason, sizeof(reason)));
    }
    if (fd >= 0) {
        close(fd);
    }
    return n >= 0;
}

char *exporter_config_slurp(const char *path, size_t *length, struct exporter_error *error)
{
    char *text = malloc(EXPORTER_CONFIG_FILE_MAX + 1);

    if (text == NULL) {
        exporter_error_set(error, "%s: out of memory", path);
        return NULL;
    }
    if (!read_whole(path, text, length, error)) {
        free(text);
        return NULL;
    }
    return text;
}

struct exporter_config *exporter_config_load(const char *path, struct exporter_error *error)
{
    size_t length;

    if (path == NULL) {
        return exporter_config_load_memory("defaults", "", 0, error);
    }
    char *text = exporter_config_slurp(path, &length, error);
    if (text == NULL) {
        return NULL;
    }
    struct exporter_config *config = exporter_config_load_memory(path, text, length, error);
    free(text);
    return config;
}

struct exporter_config *exporter_config_load_option(const char *path, const char *option,
                                                    struct exporter_error *error)
{
    struct exporter_config *config = exporter_config_load(path, error);

    if (config == NULL && path != NULL && option != NULL && access(path, R_OK) != 0) {
        const struct exporter_error why = *error;
        exporter_error_set(error, "%s (%s)", why.text, option);
    }
    return config;
}

/* ---- checking ------------------------------------------------------------------------------ */

int exporter_config_check(const char *path, const char *option)
{
    struct exporter_error error;
    struct exporter_config *config = exporter_config_load_option(path, option, &error);

    if (config == NULL) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    printf("%s: ok (%zu agent%s, %zu pipeline%s)\n", path != NULL ? path : "defaults",
           config->nagents, config->nagents == 1 ? "" : "s", config->npipelines,
           config->npipelines == 1 ? "" : "s");
    exporter_config_unref(&config);
    return 0;
}
