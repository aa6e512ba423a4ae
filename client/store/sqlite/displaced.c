/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares device and inode of the database, its WAL, its shared memory and the lock file. The
 * directory needs no row: where it was moved or replaced, the database is not on the path. An inode
 * cannot be given to another file, since SQLite and the lock keep these open.
 *
 * Noted on the thread that opens the store; compared by the writer and by those that open readers.
 */
#include "client/store/sqlite/displaced.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/error.h"
#include "lib/base/memory.h"

static const char *const names[HANDOFF_STORE_FILES] = {
    HANDOFF_STORE_FILE, HANDOFF_STORE_FILE "-wal", HANDOFF_STORE_FILE "-shm", HANDOFF_STORE_LOCK};

/* `name`, in the directory of the database. */
static char *path_beside(const char *database, const char *name)
{
    const size_t folder = strlen(database) - strlen(HANDOFF_STORE_FILE);
    const size_t size = folder + strlen(name) + 1;
    char *path = base_malloc(size);
    if (path)
        snprintf(path, size, "%.*s%s", (int)folder, database, name);
    return path;
}

/* What cannot be found now is not watched: a VFS may do without it. */
static bool note_file(struct handoff_store_file *file, const char *database, const char *name)
{
    struct stat found;
    char *path = path_beside(database, name);
    if (!path)
        return false;
    if (stat(path, &found) != 0) {
        base_free(path);
        return true;
    }
    file->path = path;
    file->device = found.st_dev;
    file->inode = found.st_ino;
    return true;
}

enum handoff_code handoff_store_files_note(struct handoff_store_files *files,
                                           const struct handoff_data_dir *data_dir,
                                           struct handoff_error *error)
{
    for (size_t i = 0; i < HANDOFF_STORE_FILES; i++) {
        if (!note_file(&files->files[i], data_dir->database, names[i]))
            return handoff_error_no_memory(error);
    }
    return HANDOFF_OK;
}

void handoff_store_files_forget(struct handoff_store_files *files)
{
    for (size_t i = 0; i < HANDOFF_STORE_FILES; i++)
        base_free(files->files[i].path);
    *files = (struct handoff_store_files){0};
}

/* An error that says nothing about the file (no memory, no permission to look) displaces nothing.
 */
static bool file_is_displaced(const struct handoff_store_file *file)
{
    struct stat found;
    if (!file->path)
        return false;
    if (stat(file->path, &found) != 0)
        return errno == ENOENT || errno == ENOTDIR || errno == ESTALE || errno == ELOOP;
    return found.st_dev != file->device || found.st_ino != file->inode;
}

const char *handoff_store_files_displaced(const struct handoff_store_files *files, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (file_is_displaced(&files->files[i]))
            return files->files[i].path;
    }
    return NULL;
}

enum handoff_code handoff_store_displaced(const char *path, struct handoff_error *error)
{
    handoff_error_set(error, HANDOFF_ERR_STORE_DISPLACED,
                      "the store's files were deleted, moved or replaced while it was in use, so "
                      "nothing more is stored; " HANDOFF_STORE_DISPLACED_ADVICE,
                      "storage.path", NULL);
    handoff_error_seen(error, "%s is not the file that was opened", path);
    return HANDOFF_ERR_STORE_DISPLACED;
}
