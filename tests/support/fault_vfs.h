/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk that fails on demand: an SQLite VFS in front of the system's, whose n-th write, sync,
 * truncation or read fails. A test runs the same thing with n = 1, 2, 3 ... and so reaches every
 * place where the disk can say no. Register once with fault_vfs_register, open stores with .vfs =
 * "fault". It also tells a watcher what the disk was asked to do (power.h).
 */
#ifndef TESTS_SUPPORT_FAULT_VFS_H
#define TESTS_SUPPORT_FAULT_VFS_H

#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

enum fault_kind {
    FAULT_WRITE = 1,
    FAULT_SYNC = 2,
    FAULT_TRUNCATE = 4,
    FAULT_ANY = 7, /* that changes something */
    FAULT_READ = 8,
};

/* What the disk did, told from the thread that asked: a sync before it began, the rest when it was
   done. So whatever a sync has to cover was told before it. */
struct fault_change {
    enum {
        FAULT_OPENED, /* made, if it was not there */
        FAULT_WROTE,
        FAULT_TRUNCATED,
        FAULT_SYNCS,
        FAULT_SYNC_FAILED,
        FAULT_REMOVED,
    } kind;
    const char *path;
    const void *data;       /* FAULT_WROTE */
    sqlite3_int64 at, size; /* FAULT_WROTE; FAULT_TRUNCATED: to size */
    bool folder;            /* FAULT_SYNCS, FAULT_REMOVED: the folder is synced, too */
};

static struct {
    sqlite3_vfs vfs;
    sqlite3_vfs *real;
    void (*watch)(const struct fault_change *change); /* or NULL */
    atomic_int kinds;                                 /* which operations count */
    atomic_long until;     /* operations left before the failure; < 0: never */
    atomic_bool lasting;   /* from then on all fail, until it is lifted */
    atomic_int result;     /* the SQLite result of a failure */
    atomic_long failures;  /* that were given */
    atomic_long syncs;     /* that were asked for */
    atomic_bool read_only; /* files beside the database can be opened, but not to be written */
    atomic_long copies;    /* of the WAL that were begun: its lock for checkpoints was taken */
} fault;

struct fault_file {
    sqlite3_file base;
    sqlite3_file *real; /* lies behind this struct */
    const char *path;   /* as SQLite keeps it, until the file is closed; NULL: it has no name */
    bool new_in_folder; /* its first sync syncs the folder, too */
    long failed_syncs;  /* of the file that were told to this descriptor */
};

static inline sqlite3_file *fault_real(sqlite3_file *file)
{
    return ((struct fault_file *)(void *)file)->real;
}

/* Linux tells an error of writing back a file once to each of its descriptors: where another one's
   sync failed, ours does next time, though it saves what it finds (errseq_t). Files are told apart
   by the hash of their path. */
static inline atomic_long *fault_failed_syncs(const char *path)
{
    static atomic_long counts[1 << 20]; /* so many that none is shared */
    unsigned hash = 0;
    for (const char *at = path ? path : ""; *at; at++)
        hash = hash * 31 + (unsigned char)*at;
    return &counts[(hash * 2654435761u) >> 12];
}

static inline void fault_tell(const struct fault_change *change)
{
    if (fault.watch && change->path)
        fault.watch(change);
}

static inline const char *fault_path(sqlite3_file *file)
{
    return ((struct fault_file *)(void *)file)->path;
}

/* The n-th operation (1: the next) of these kinds fails with this result. */
static inline void fault_at(int kinds, long n, bool lasting, int result)
{
    atomic_store(&fault.kinds, kinds);
    atomic_store(&fault.lasting, lasting);
    atomic_store(&fault.result, result);
    atomic_store(&fault.failures, 0);
    atomic_store(&fault.until, n - 1);
}

static inline void fault_lift(void)
{
    atomic_store(&fault.until, -1);
    atomic_store(&fault.read_only, false);
}

static inline int fault_strike(int kind)
{
    if (!(atomic_load(&fault.kinds) & kind))
        return SQLITE_OK;
    long until = atomic_load(&fault.until);
    do {
        if (until < 0)
            return SQLITE_OK;
        if (until == 0 && atomic_load(&fault.lasting))
            break;
    } while (!atomic_compare_exchange_weak(&fault.until, &until, until - 1));
    if (until > 0)
        return SQLITE_OK;
    atomic_fetch_add(&fault.failures, 1);
    return atomic_load(&fault.result);
}

static inline int fault_close(sqlite3_file *file)
{
    return fault_real(file)->pMethods->xClose(fault_real(file));
}

static inline int fault_read(sqlite3_file *file, void *data, int size, sqlite3_int64 at)
{
    const int result = fault_strike(FAULT_READ);
    if (result != SQLITE_OK)
        return result;
    return fault_real(file)->pMethods->xRead(fault_real(file), data, size, at);
}

static inline int fault_write(sqlite3_file *file, const void *data, int size, sqlite3_int64 at)
{
    int result = fault_strike(FAULT_WRITE);
    if (result == SQLITE_OK)
        result = fault_real(file)->pMethods->xWrite(fault_real(file), data, size, at);
    if (result == SQLITE_OK)
        fault_tell(&(struct fault_change){FAULT_WROTE, fault_path(file), data, at, size, false});
    return result;
}

static inline int fault_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    int result = fault_strike(FAULT_TRUNCATE);
    if (result == SQLITE_OK)
        result = fault_real(file)->pMethods->xTruncate(fault_real(file), size);
    if (result == SQLITE_OK)
        fault_tell(&(struct fault_change){FAULT_TRUNCATED, fault_path(file), NULL, 0, size, false});
    return result;
}

static inline int fault_sync(sqlite3_file *file, int flags)
{
    atomic_fetch_add(&fault.syncs, 1);
    struct fault_file *own = (struct fault_file *)(void *)file;
    atomic_long *failed = fault_failed_syncs(own->path);
    int result = fault_strike(FAULT_SYNC);
    if (result != SQLITE_OK) {
        own->failed_syncs = atomic_fetch_add(failed, 1) + 1;
        fault_tell(&(struct fault_change){FAULT_SYNC_FAILED, own->path, NULL, 0, 0, false});
        return result;
    }
    fault_tell(&(struct fault_change){FAULT_SYNCS, own->path, NULL, 0, 0, own->new_in_folder});
    own->new_in_folder = false;
    result = own->real->pMethods->xSync(own->real, flags);
    long told = own->failed_syncs;
    own->failed_syncs = atomic_load(failed);
    return told < own->failed_syncs ? SQLITE_IOERR_FSYNC : result;
}

static inline int fault_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return fault_real(file)->pMethods->xFileSize(fault_real(file), size);
}

static inline int fault_lock(sqlite3_file *file, int level)
{
    return fault_real(file)->pMethods->xLock(fault_real(file), level);
}

static inline int fault_unlock(sqlite3_file *file, int level)
{
    return fault_real(file)->pMethods->xUnlock(fault_real(file), level);
}

static inline int fault_reserved(sqlite3_file *file, int *held)
{
    return fault_real(file)->pMethods->xCheckReservedLock(fault_real(file), held);
}

static inline int fault_control(sqlite3_file *file, int operation, void *argument)
{
    return fault_real(file)->pMethods->xFileControl(fault_real(file), operation, argument);
}

static inline int fault_sector(sqlite3_file *file)
{
    return fault_real(file)->pMethods->xSectorSize(fault_real(file));
}

static inline int fault_device(sqlite3_file *file)
{
    return fault_real(file)->pMethods->xDeviceCharacteristics(fault_real(file));
}

static inline int fault_shm_map(sqlite3_file *file, int page, int size, int extend,
                                void volatile **map)
{
    return fault_real(file)->pMethods->xShmMap(fault_real(file), page, size, extend, map);
}

static inline int fault_shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
    enum { CHECKPOINT_LOCK = 1 }; /* https://sqlite.org/walformat.html */
    int taking = SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE;
    if (offset == CHECKPOINT_LOCK && (flags & taking) == taking)
        atomic_fetch_add(&fault.copies, 1);
    return fault_real(file)->pMethods->xShmLock(fault_real(file), offset, count, flags);
}

static inline void fault_shm_barrier(sqlite3_file *file)
{
    fault_real(file)->pMethods->xShmBarrier(fault_real(file));
}

static inline int fault_shm_unmap(sqlite3_file *file, int remove)
{
    return fault_real(file)->pMethods->xShmUnmap(fault_real(file), remove);
}

static const sqlite3_io_methods fault_methods = {
    .iVersion = 2, /* no xFetch: the store maps nothing */
    .xClose = fault_close,
    .xRead = fault_read,
    .xWrite = fault_write,
    .xTruncate = fault_truncate,
    .xSync = fault_sync,
    .xFileSize = fault_size,
    .xLock = fault_lock,
    .xUnlock = fault_unlock,
    .xCheckReservedLock = fault_reserved,
    .xFileControl = fault_control,
    .xSectorSize = fault_sector,
    .xDeviceCharacteristics = fault_device,
    .xShmMap = fault_shm_map,
    .xShmLock = fault_shm_lock,
    .xShmBarrier = fault_shm_barrier,
    .xShmUnmap = fault_shm_unmap,
};

static inline int fault_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                             int *out_flags)
{
    struct fault_file *own = (struct fault_file *)(void *)file;
    (void)vfs;
    own->real = (sqlite3_file *)(void *)(own + 1);
    own->real->pMethods = NULL;
    if (atomic_load(&fault.read_only) && (flags & SQLITE_OPEN_SUPER_JOURNAL)) /* as unix does */
        flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_SUPER_JOURNAL;
    int result = fault.real->xOpen(fault.real, name, own->real, flags, out_flags);
    own->base.pMethods = own->real->pMethods ? &fault_methods : NULL;
    enum { FOLDER_TOO = SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL };
    own->path = name;
    own->failed_syncs = atomic_load(fault_failed_syncs(name));
    own->new_in_folder = (flags & SQLITE_OPEN_CREATE) && (flags & FOLDER_TOO);
    if (result == SQLITE_OK)
        fault_tell(&(struct fault_change){FAULT_OPENED, name, NULL, 0, 0, false});
    return result;
}

static inline int fault_delete(sqlite3_vfs *vfs, const char *name, int folder)
{
    (void)vfs;
    int result = fault.real->xDelete(fault.real, name, folder);
    if (result == SQLITE_OK)
        fault_tell(&(struct fault_change){FAULT_REMOVED, name, NULL, 0, 0, folder != 0});
    return result;
}

static inline void fault_vfs_register(void)
{
    fault.real = sqlite3_vfs_find(NULL);
    fault.vfs = *fault.real;
    fault.vfs.zName = "fault";
    fault.vfs.pNext = NULL;
    fault.vfs.szOsFile = (int)sizeof(struct fault_file) + fault.real->szOsFile;
    fault.vfs.xOpen = fault_open;
    fault.vfs.xDelete = fault_delete;
    fault_lift();
    sqlite3_vfs_register(&fault.vfs, 0);
}

#endif
