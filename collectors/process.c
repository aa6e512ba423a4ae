/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process_*: what the kernel knows about the process, in seconds and bytes. Read when a scrape
 * begins, by read() into a buffer on the stack: nothing is allocated. What cannot be read (no
 * /proc, an old kernel) keeps its last value.
 *
 * One hook runs at a time, so the mirrored counters have one writer.
 *
 * On the thread that scrapes.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "collectors/rows.h"
#include "lib/base/check.h"

static double seconds_of(clockid_t clock)
{
    struct timespec now = {0};
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The text of a file of /proc, cut to fit and ended by NUL. */
static bool read_file(const char *path, char *text, size_t size)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    size_t length = 0;
    ssize_t got;
    while (length < size - 1 && (got = read(file, text + length, size - 1 - length)) > 0)
        length += (size_t)got;
    close(file);
    text[length] = '\0';
    return length > 0;
}

static void set(struct collectors *collectors, enum collectors_row row, double value)
{
    metric_gauge_set(collectors->single[row], value);
}

/* proc(5): fields of /proc/self/stat, counted from 1; the second is a name in parentheses that may
 * hold anything, parentheses too. */
enum stat_field {
    STAT_AFTER_NAME = 3,
    STAT_THREADS = 20,
    STAT_START_TICKS = 22, /* since boot */
    STAT_VIRTUAL_BYTES = 23,
    STAT_RESIDENT_PAGES = 24,
    STAT_FIELDS_READ,
};

static bool read_stat(unsigned long long fields[STAT_FIELDS_READ])
{
    char text[2048];
    if (!read_file("/proc/self/stat", text, sizeof text))
        return false;
    char *at = strrchr(text, ')');
    if (at == NULL)
        return false;
    at++;
    for (int field = STAT_AFTER_NAME; field < STAT_FIELDS_READ; field++) {
        at += strspn(at, " ");
        if (*at == '\0')
            return false;
        fields[field] = strtoull(at, NULL, 10);
        at += strcspn(at, " ");
    }
    return true;
}

/* Ticks since boot, as seconds since 1970. Taken once: a clock that is corrected later would make
 * the process look as if it had been started again. */
static double start_time(unsigned long long ticks)
{
    double per_second = (double)sysconf(_SC_CLK_TCK);
    double boot = seconds_of(CLOCK_REALTIME) - seconds_of(CLOCK_BOOTTIME);
    return boot + (double)ticks / per_second;
}

static void set_from_stat(struct collectors *collectors)
{
    unsigned long long fields[STAT_FIELDS_READ];
    if (!read_stat(fields))
        return;
    set(collectors, COLLECTORS_PROCESS_THREADS, (double)fields[STAT_THREADS]);
    if (!collectors->start_known)
        set(collectors, COLLECTORS_PROCESS_START_TIME, start_time(fields[STAT_START_TICKS]));
    collectors->start_known = true;
    set(collectors, COLLECTORS_PROCESS_VIRTUAL_MEMORY, (double)fields[STAT_VIRTUAL_BYTES]);
    set(collectors, COLLECTORS_PROCESS_RESIDENT_MEMORY,
        (double)fields[STAT_RESIDENT_PAGES] * (double)sysconf(_SC_PAGESIZE));
}

/* Entries of one getdents64 buffer that are descriptors, which are those that begin with a digit.
 */
static size_t count_entries(const char *entries, ssize_t size)
{
    size_t count = 0;
    for (ssize_t at = 0; at < size;) {
        const struct dirent64 *entry = (const void *)(entries + at);
        count += entry->d_name[0] != '.';
        at += entry->d_reclen;
    }
    return count;
}

static void set_open_fds(struct collectors *collectors)
{
    _Alignas(struct dirent64) char entries[4096];
    int directory = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return;
    size_t count = 0;
    ssize_t got;
    while ((got = getdents64(directory, entries, sizeof entries)) > 0)
        count += count_entries(entries, got);
    close(directory);
    if (got == 0 && count > 0)
        set(collectors, COLLECTORS_PROCESS_OPEN_FDS,
            (double)(count - 1)); /* ours is closed again */
}

/* RLIM_INFINITY shows as the largest 64-bit number, as it does in other exporters. */
static void set_limit(struct collectors *collectors, enum collectors_row row,
                      __rlimit_resource_t resource)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) == 0)
        set(collectors, row, (double)limit.rlim_cur);
}

/* The value in the column called `name` of the IpExt table: a line of names, then one of values. */
static bool column(const char *names, const char *values, const char *name, double *value)
{
    size_t length = strlen(name);
    while (*names != '\n' && *names != '\0' && *values != '\n' && *values != '\0') {
        size_t name_length = strcspn(names, " \n");
        if (name_length == length && memcmp(names, name, length) == 0) {
            *value = (double)strtoull(values, NULL, 10);
            return true;
        }
        names += name_length + (names[name_length] == ' ');
        values += strcspn(values, " \n");
        values += *values == ' ';
    }
    return false;
}

static void set_network(struct collectors *collectors)
{
    static const char table[] = "\nIpExt: ";
    char text[16384]; /* a line of names and one of values for each of 3 tables; 4 KiB today */
    if (!read_file("/proc/self/net/netstat", text, sizeof text))
        return;
    const char *names = strstr(text, table);
    if (names == NULL)
        return;
    names += sizeof table - 1;
    const char *values = strstr(names, table);
    if (values == NULL)
        return;
    values += sizeof table - 1;
    double octets;
    if (column(names, values, "InOctets", &octets))
        metric_mirror(collectors->single[COLLECTORS_PROCESS_RECEIVED], octets);
    if (column(names, values, "OutOctets", &octets))
        metric_mirror(collectors->single[COLLECTORS_PROCESS_SENT], octets);
}

void collectors_process_read(void *arg)
{
    struct collectors *collectors = arg;
    BASE_CHECK(collectors->magic == COLLECTORS_MAGIC);
    metric_mirror(collectors->single[COLLECTORS_PROCESS_CPU], seconds_of(CLOCK_PROCESS_CPUTIME_ID));
    set_from_stat(collectors);
    set_open_fds(collectors);
    set_limit(collectors, COLLECTORS_PROCESS_MAX_FDS, RLIMIT_NOFILE);
    set_limit(collectors, COLLECTORS_PROCESS_VIRTUAL_MEMORY_MAX, RLIMIT_AS);
    set_network(collectors);
}
