/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory and its lock. The lock is flock(2): it belongs to the open file, so it also keeps a
 * second store in the same process out, and the kernel drops it when the process dies, however it
 * dies. The file's content (a process id) is only there to be shown. Whoever deletes the file, in
 * the belief that it is stale, still finds the directory locked.
 *
 * On the thread that opens the store.
 */
#include "client/store/sqlite/data_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/memory.h"

static char *join(const char *directory, const char *name)
{
    size_t size = strlen(directory) + strlen(name) + 2;
    char *path = base_malloc(size);
    if (path)
        snprintf(path, size, "%s/%s", directory, name);
    return path;
}

static enum handoff_code system_failure(const char *path, int number, struct handoff_error *error)
{
    enum handoff_code code = number == ENOSPC || number == EDQUOT ? HANDOFF_ERR_STORE_FULL
                             : number == ENOMEM                   ? HANDOFF_ERR_OUT_OF_MEMORY
                             : number == EIO                      ? HANDOFF_ERR_STORE_IO
                                                                  : HANDOFF_ERR_STORE_READ_ONLY;
    const char *message =
        code == HANDOFF_ERR_STORE_FULL ? "the store's disk is full; free space"
        : code == HANDOFF_ERR_STORE_READ_ONLY
            ? "the store's directory cannot be used; create it and give this user read "
              "and write access, or change storage.path"
            : "the store's directory cannot be used";
    handoff_error_set(error, code, message, "storage.path", path);
    handoff_error_seen(error, "%s: %s", path, strerror(number));
    return code;
}

/* ---- the folder ----------------------------------------------------------------------------- */

int handoff_path_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    int number = fsync(fd) == 0 ? 0 : errno;
    close(fd);
    return number;
}

int handoff_path_sync_name(const char *path)
{
    char *folder = base_strdup(path);
    if (!folder)
        return ENOMEM;
    char *slash = strrchr(folder, '/');
    if (slash && slash != folder)
        *slash = '\0';
    int number = handoff_path_sync(!slash ? "." : slash == folder ? "/" : folder);
    base_free(folder);
    return number;
}

/* Where its folder may not be read it cannot be synced, which is no reason not to go on. */
static int make_folder(const char *path)
{
    if (mkdir(path, 0700) != 0)
        return errno == EEXIST ? 0 : errno;
    return handoff_path_sync_name(path) == EIO ? EIO : 0;
}

/* As mkdir -p. An existing part is fine, whatever it is: the open that follows will tell. */
static enum handoff_code make_directory(const char *path, struct handoff_error *error)
{
    if (path[0] == '\0')
        return system_failure(path, ENOENT, error);
    char *part = base_strdup(path);
    if (!part)
        return handoff_error_no_memory(error);
    int number = 0;
    for (char *slash = part; slash && number == 0;) {
        slash = strchr(slash + 1, '/');
        if (slash)
            *slash = '\0';
        number = make_folder(part);
        if (slash)
            *slash = '/';
    }
    base_free(part);
    struct stat found;
    if (number != EIO && stat(path, &found) == 0 && S_ISDIR(found.st_mode))
        return HANDOFF_OK;
    return system_failure(path, number ? number : ENOTDIR, error);
}

/* `lock`: the file, or -1 where it cannot be opened. */
static enum handoff_code taken_by_another(int lock, const char *directory,
                                          struct handoff_error *error)
{
    char holder[32] = "";
    ssize_t size = pread(lock, holder, sizeof holder - 1, 0);
    holder[size > 0 ? strspn(holder, "0123456789") : 0] = '\0';
    handoff_error_set(
        error, HANDOFF_ERR_STORE_LOCKED,
        "another process is using this store; stop it, or give each process its own storage.path",
        "storage.path", directory);
    handoff_error_seen(error, "%s: in use by process %s", directory, holder[0] ? holder : "?");
    return HANDOFF_ERR_STORE_LOCKED;
}

/* A file system that cannot lock a directory (NFS) has the file alone. */
static bool directory_is_taken(struct handoff_data_dir *data_dir, const char *directory)
{
    data_dir->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return data_dir->directory >= 0 && flock(data_dir->directory, LOCK_EX | LOCK_NB) != 0 &&
           errno == EWOULDBLOCK;
}

/* Made only by who has the directory. -1 with errno. */
static int open_lock_file(const char *directory, int flags)
{
    char *path = join(directory, HANDOFF_STORE_LOCK);
    if (!path) {
        errno = ENOMEM;
        return -1;
    }
    int file = open(path, flags | O_CLOEXEC, 0600);
    int number = errno;
    base_free(path);
    errno = number;
    return file;
}

static enum handoff_code lock_directory(struct handoff_data_dir *data_dir, const char *directory,
                                        struct handoff_error *error)
{
    bool taken = directory_is_taken(data_dir, directory);
    data_dir->lock = open_lock_file(directory, taken ? O_RDONLY : O_RDWR | O_CREAT);
    if (taken)
        return taken_by_another(data_dir->lock, directory, error);
    if (data_dir->lock < 0)
        return system_failure(directory, errno, error);
    if (flock(data_dir->lock, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK ? taken_by_another(data_dir->lock, directory, error)
                                    : system_failure(directory, errno, error);
    char text[32];
    int length = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(data_dir->lock, 0) != 0 ||
        pwrite(data_dir->lock, text, (size_t)length, 0) != length) {
        /* a full disk may refuse even this; the lock holds all the same */
    }
    return HANDOFF_OK;
}

enum handoff_code handoff_data_dir_lock(struct handoff_data_dir *data_dir, const char *directory,
                                        struct handoff_error *error)
{
    *data_dir = (struct handoff_data_dir){.directory = -1, .lock = -1};
    enum handoff_code code = make_directory(directory, error);
    if (code == HANDOFF_OK)
        code = lock_directory(data_dir, directory, error);
    if (code == HANDOFF_OK) {
        data_dir->database = join(directory, HANDOFF_STORE_FILE);
        code = data_dir->database ? HANDOFF_OK : handoff_error_no_memory(error);
    }
    if (code != HANDOFF_OK)
        handoff_data_dir_unlock(data_dir);
    return code;
}

void handoff_data_dir_unlock(struct handoff_data_dir *data_dir)
{
    base_free(data_dir->database);
    if (data_dir->lock >= 0)
        close(data_dir->lock);
    if (data_dir->directory >= 0)
        close(data_dir->directory);
    *data_dir = (struct handoff_data_dir){.directory = -1, .lock = -1};
}

enum handoff_code handoff_data_dir_find_database(const char *path, char **database,
                                                 struct handoff_error *error)
{
    struct stat found;
    bool there = stat(path, &found) == 0;
    *database =
        there && S_ISDIR(found.st_mode) ? join(path, HANDOFF_STORE_FILE) : base_strdup(path);
    if (!*database)
        return handoff_error_no_memory(error);
    enum handoff_code code = HANDOFF_OK;
    if (stat(*database, &found) != 0)
        code = handoff_error_set(error, HANDOFF_ERR_STORE_MISSING,
                                 "no store found; give the directory that storage.path is set to",
                                 "path", *database);
    if (code != HANDOFF_OK) {
        base_free(*database);
        *database = NULL;
    }
    return code;
}
