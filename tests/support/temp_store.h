/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store in a fresh directory, and envelopes to put into it. In memory where the system has such a
 * place: what an fsync costs is measured in tests/bench, and what it is for cannot be tested here.
 */
#ifndef TESTS_SUPPORT_TEMP_STORE_H
#define TESTS_SUPPORT_TEMP_STORE_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/store/store.h"
#include "lib/base/sha256.h"

static inline char *temp_directory(void)
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    char *path = NULL;
    if (asprintf(&path, "%s/handoff-test-XXXXXX", base) < 0 || !mkdtemp(path))
        abort();
    return path;
}

static inline int temp_remove_one(const char *path, const struct stat *found, int kind,
                                  struct FTW *place)
{
    (void)found;
    (void)kind;
    (void)place;
    return remove(path);
}

/* Removes the directory with all it holds and releases the name. */
static inline void temp_remove(char *path)
{
    nftw(path, temp_remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(path);
}

/* An envelope whose document names its own digest, as the real ones do. The body is malloc'ed. */
static inline void temp_envelope(struct handoff_store_put_envelope *put,
                                 struct base_uuid_source *ids, const char *task, size_t filling)
{
    char id[BASE_UUID_TEXT], hex[BASE_SHA256_HEX_SIZE];
    struct base_sha256 hash;
    memset(put, 0, sizeof *put);
    put->id = base_uuid_make(ids);
    base_uuid_format(&put->id, id);
    put->task_id = base_span_text(task);
    put->created_ms = base_uuid_wall_ms(&put->id);
    char *body = malloc(filling + 200);
    int head = sprintf(body, "{\"id\":\"%s\"", id);
    char *tail = body + head + 83; /* ,"digest":"sha256:<64 digits>" */
    memset(tail, 'x', filling);
    memcpy(tail, ",\"x\":\"", 6 < filling ? 6 : filling);
    memcpy(tail + filling, "\"}", 2);
    base_sha256_start(&hash);
    base_sha256_add(&hash, body, (size_t)head);
    base_sha256_add(&hash, tail, filling + 2);
    base_sha256_finish(&hash, put->digest);
    base_sha256_hex(put->digest, hex);
    char named[90];
    snprintf(named, sizeof named, ",\"digest\":\"sha256:%s\"", hex);
    memcpy(body + head, named, 83);
    put->cut_at = (uint32_t)head;
    put->cut_size = 83;
    put->body = base_span(body, (size_t)head + 83 + filling + 2);
}

static inline void temp_envelope_free(struct handoff_store_put_envelope *put)
{
    free((char *)(uintptr_t)put->body.data);
}

static inline void temp_nothing(struct handoff_store_job *job)
{
    (void)job;
}

/* Puts and waits for the verdict. */
static inline enum handoff_code temp_put(struct handoff_store *store,
                                         struct handoff_store_put_envelope *put)
{
    struct base_mailbox mailbox;
    if (base_mailbox_init(&mailbox, NULL) != HANDOFF_OK)
        abort();
    put->job.mailbox = &mailbox;
    put->job.done = temp_nothing;
    handoff_store_put_envelope(store, put);
    while (base_mailbox_wait(&mailbox, -1) == 0)
        ;
    base_mailbox_free(&mailbox);
    return put->job.error.code;
}

#endif
