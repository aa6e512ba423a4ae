/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A power failure at any moment. While a store works on the disk of fault_vfs.h, all that it asks
 * of the disk is recorded. Afterwards power_cut makes the folder as a failure after so many steps
 * might have left it: what was synced is there, and of what was not, any part may be, in pieces of
 * a sector, and in no order. The same holds for the names of files that were made or removed. What
 * a failed sync should have saved is as Linux leaves it: some of it may be on the disk, and a later
 * sync does not try the rest again, though who reads the file before the power fails sees all of
 * it.
 */
#ifndef TESTS_SUPPORT_POWER_H
#define TESTS_SUPPORT_POWER_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fault_vfs.h"
#include "tests/support/property.h"

enum { POWER_SECTOR = 512, POWER_NAMES = 64 };

/* A file, whatever it is called: one that is removed and made again is another. */
struct power_file {
    char *data; /* what is on the disk for sure */
    size_t size, capacity;
    size_t *unsynced; /* steps */
    size_t unsynced_count;
};

struct power_step {
    int kind; /* as in fault_change */
    int name, file;
    char *data;
    size_t at, size;
    bool folder;
};

static struct {
    pthread_mutex_t lock;
    struct power_step *steps;
    size_t count;
    char names[POWER_NAMES][64];
    int linked[POWER_NAMES]; /* while recording: the file, or -1 */
    int name_count, file_count;

    /* the disk after the first `played` steps */
    size_t played;
    struct power_file *files;
    int on_disk[POWER_NAMES]; /* the file that the name leads to for sure, or -1 */
    size_t *renamed;          /* steps that made or removed names, not synced */
    size_t renamed_count;
} power = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- recording ------------------------------------------------------------------------------ */

static inline int power_name(const char *path)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    for (int i = 0; i < power.name_count; i++) {
        if (strcmp(power.names[i], name) == 0)
            return i;
    }
    if (power.name_count == POWER_NAMES)
        abort();
    snprintf(power.names[power.name_count], sizeof power.names[0], "%s", name);
    power.linked[power.name_count] = power.on_disk[power.name_count] = -1;
    return power.name_count++;
}

static inline void power_record(const struct fault_change *change)
{
    pthread_mutex_lock(&power.lock);
    int name = power_name(change->path);
    bool is_new = change->kind == FAULT_OPENED && power.linked[name] < 0;
    if (is_new)
        power.linked[name] = power.file_count++;
    if (change->kind != FAULT_OPENED || is_new) {
        if (power.count % 1024 == 0)
            power.steps = realloc(power.steps, (power.count + 1024) * sizeof *power.steps);
        struct power_step *step = &power.steps[power.count++];
        *step = (struct power_step){
            (int)change->kind,    name,          power.linked[name], NULL, (size_t)change->at,
            (size_t)change->size, change->folder};
        if (change->data)
            step->data = memcpy(malloc(step->size), change->data, step->size);
    }
    if (change->kind == FAULT_REMOVED)
        power.linked[name] = -1;
    pthread_mutex_unlock(&power.lock);
}

static inline void power_begin(void)
{
    power.count = 0;
    power.name_count = power.file_count = 0;
    fault.watch = power_record;
}

/* How many steps there were so far. */
static inline size_t power_now(void)
{
    pthread_mutex_lock(&power.lock);
    size_t now = power.count;
    pthread_mutex_unlock(&power.lock);
    return now;
}

/* Nothing uses the disk any more. */
static inline void power_end(void)
{
    fault.watch = NULL;
    power.played = 0;
    power.files = calloc((size_t)power.file_count + 1, sizeof *power.files);
    power.renamed = malloc((power.count + 1) * sizeof *power.renamed);
    power.renamed_count = 0;
}

static inline void power_free(void)
{
    for (size_t i = 0; i < power.count; i++)
        free(power.steps[i].data);
    for (int i = 0; i < power.file_count; i++) {
        free(power.files[i].data);
        free(power.files[i].unsynced);
    }
    free(power.steps);
    free(power.files);
    free(power.renamed);
    power.steps = NULL;
}

/* ---- the disk ------------------------------------------------------------------------------- */

static inline void power_resize(struct power_file *file, size_t size)
{
    if (size > file->capacity) {
        file->capacity = size * 2;
        file->data = realloc(file->data, file->capacity);
    }
    if (size > file->size)
        memset(file->data + file->size, 0, size - file->size);
    file->size = size;
}

/* property: some sectors of it only; NULL: all of it. */
static inline void power_apply(struct power_file *file, const struct power_step *step,
                               struct property *property)
{
    if (step->kind == FAULT_TRUNCATED) {
        power_resize(file, step->size);
        return;
    }
    for (size_t from = 0, next; from < step->size; from = next) {
        next = from + POWER_SECTOR - (step->at + from) % POWER_SECTOR;
        next = next < step->size ? next : step->size;
        if (property && property_below(property, 2))
            continue;
        if (step->at + next > file->size)
            power_resize(file, step->at + next);
        memcpy(file->data + step->at + from, step->data + from, next - from);
    }
}

static inline void power_link(const struct power_step *step, int linked[POWER_NAMES])
{
    linked[step->name] = step->kind == FAULT_OPENED ? step->file : -1;
}

static inline void power_sync_folder(void)
{
    for (size_t i = 0; i < power.renamed_count; i++)
        power_link(&power.steps[power.renamed[i]], power.on_disk);
    power.renamed_count = 0;
}

static inline void power_sync(struct power_file *file, struct property *property)
{
    for (size_t i = 0; i < file->unsynced_count; i++)
        power_apply(file, &power.steps[file->unsynced[i]], property);
    file->unsynced_count = 0;
}

static inline void power_play(size_t at, struct property *property)
{
    const struct power_step *step = &power.steps[at];
    struct power_file *file = step->file < 0 ? NULL : &power.files[step->file];
    if (step->kind == FAULT_OPENED || step->kind == FAULT_REMOVED)
        power.renamed[power.renamed_count++] = at;
    if (file && (step->kind == FAULT_WROTE || step->kind == FAULT_TRUNCATED)) {
        if (file->unsynced_count % 64 == 0)
            file->unsynced = realloc(file->unsynced, (file->unsynced_count + 64) * sizeof(size_t));
        file->unsynced[file->unsynced_count++] = at;
    }
    if (file && step->kind == FAULT_SYNCS)
        power_sync(file, NULL);
    if (file && step->kind == FAULT_SYNC_FAILED)
        power_sync(file, property);
    if (step->folder)
        power_sync_folder();
}

/* What came to the disk of what was not synced. */
enum power_luck { POWER_ALL, POWER_NOTHING, POWER_SOME, POWER_LUCKS };

static inline void power_write_file(const char *directory, int name, int number,
                                    enum power_luck luck, struct property *property)
{
    const struct power_file *file = &power.files[number];
    struct power_file left = {0};
    char path[600];
    power_resize(&left, file->size);
    if (file->size)
        memcpy(left.data, file->data, file->size);
    for (size_t i = 0; luck != POWER_NOTHING && i < file->unsynced_count; i++)
        power_apply(&left, &power.steps[file->unsynced[i]], luck == POWER_ALL ? NULL : property);
    snprintf(path, sizeof path, "%s/%s", directory, power.names[name]);
    FILE *out = fopen(path, "wb");
    bool written = out && (left.size == 0 || fwrite(left.data, left.size, 1, out) == 1);
    if (!written || fclose(out) != 0)
        abort();
    free(left.data);
}

/* Fills an empty directory with what is left after a failure behind the first `steps` steps.
   Moments come in their order. */
static inline void power_cut(size_t steps, const char *directory, enum power_luck luck,
                             struct property *property)
{
    int linked[POWER_NAMES];
    while (power.played < steps)
        power_play(power.played++, property);
    memcpy(linked, power.on_disk, sizeof linked);
    for (size_t i = 0; luck != POWER_NOTHING && i < power.renamed_count; i++) {
        if (luck == POWER_ALL || property_below(property, 2))
            power_link(&power.steps[power.renamed[i]], linked);
    }
    for (int name = 0; name < power.name_count; name++) {
        if (linked[name] >= 0)
            power_write_file(directory, name, linked[name], luck, property);
    }
}

#endif
