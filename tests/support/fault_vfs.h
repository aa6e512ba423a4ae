/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk that fails on demand: an SQLite VFS in front of the system's, whose n-th write, sync or
 * truncation fails. A test runs the same thing with n = 1, 2, 3 ... and so reaches every place
 * where the disk can say no. Register once with fault_vfs_register, open stores with .vfs =
 * "fault".
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
    FAULT_ANY = 7,
};

static struct {
    sqlite3_vfs vfs;
    sqlite3_vfs *real;
    atomic_int kinds;      /* which operations count */
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
};

static inline sqlite3_file *fault_real(sqlite3_file *file)
{
    return ((struct fault_file *)(void *)file)->real;
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
    return fault_real(file)->pMethods->xRead(fault_real(file), data, size, at);
}

static inline int fault_write(sqlite3_file *file, const void *data, int size, sqlite3_int64 at)
{
    int result = fault_strike(FAULT_WRITE);
    return result ? result : fault_real(file)->pMethods->xWrite(fault_real(file), data, size, at);
}

static inline int fault_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    int result = fault_strike(FAULT_TRUNCATE);
    return result ? result : fault_real(file)->pMethods->xTruncate(fault_real(file), size);
}

static inline int fault_sync(sqlite3_file *file, int flags)
{
    atomic_fetch_add(&fault.syncs, 1);
    int result = fault_strike(FAULT_SYNC);
    return result ? result : fault_real(file)->pMethods->xSync(fault_real(file), flags);
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
    fault_lift();
    sqlite3_vfs_register(&fault.vfs, 0);
}

#endif
