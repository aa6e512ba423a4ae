/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of process_reading.h. The thread that scrapes. */
#include "lib/prom/process_reading.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "lib/prom/internal.h"
#include "lib/prom/prom_counter.h"
#include "lib/prom/prom_gauge.h"

static double clock_seconds(clockid_t clock)
{
    struct timespec now = {0};
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The text of a file of /proc, cut to fit and ended by NUL. */
static bool read_proc_file(const char *path, char *text, size_t size)
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

/* ---- stat ----------------------------------------------------------------------------------- */

/* proc(5): fields of /proc/self/stat, counted from 1; the second is a name in parentheses that may
 * hold anything, parentheses too. */
enum stat_field {
    STAT_AFTER_NAME = 3,
    STAT_USER_TICKS = 14,
    STAT_SYSTEM_TICKS = 15,
    STAT_THREADS = 20,
    STAT_START_TICKS = 22, /* since boot */
    STAT_VIRTUAL_BYTES = 23,
    STAT_RESIDENT_PAGES = 24,
    STAT_FIELDS_READ,
};

static bool read_stat_fields(const char *path, unsigned long long fields[STAT_FIELDS_READ])
{
    char text[2048];
    if (!read_proc_file(path, text, sizeof text))
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

static double boot_seconds;
static pthread_once_t boot_once = PTHREAD_ONCE_INIT;

/* Taken once: a clock that is corrected later would make the process look as if it had been started
 * again. */
static void note_boot(void)
{
    boot_seconds = clock_seconds(CLOCK_REALTIME) - clock_seconds(CLOCK_BOOTTIME);
}

static void take_stat(const char *path, double values[PROM_PROCESS_VALUES])
{
    unsigned long long fields[STAT_FIELDS_READ];
    const double per_second = (double)sysconf(_SC_CLK_TCK);
    if (path == NULL)
        values[PROM_PROCESS_CPU_SECONDS] = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
    if (!read_stat_fields(path != NULL ? path : "/proc/self/stat", fields))
        return;
    if (path != NULL)
        values[PROM_PROCESS_CPU_SECONDS] =
            (double)(fields[STAT_USER_TICKS] + fields[STAT_SYSTEM_TICKS]) / per_second;
    pthread_once(&boot_once, note_boot);
    values[PROM_PROCESS_START_SECONDS] =
        boot_seconds + (double)fields[STAT_START_TICKS] / per_second;
    values[PROM_PROCESS_THREADS] = (double)fields[STAT_THREADS];
    values[PROM_PROCESS_VIRTUAL_BYTES] = (double)fields[STAT_VIRTUAL_BYTES];
    values[PROM_PROCESS_RESIDENT_BYTES] =
        (double)fields[STAT_RESIDENT_PAGES] * (double)sysconf(_SC_PAGESIZE);
}

/* ---- descriptors and limits ----------------------------------------------------------------- */

/* Entries of one getdents64 buffer that are descriptors, which are those that begin with a digit.
 */
static size_t count_descriptors(const char *entries, ssize_t size)
{
    size_t count = 0;
    for (ssize_t at = 0; at < size;) {
        const struct dirent64 *entry = (const void *)(entries + at);
        count += entry->d_name[0] != '.';
        at += entry->d_reclen;
    }
    return count;
}

static void take_open_fds(double values[PROM_PROCESS_VALUES])
{
    _Alignas(struct dirent64) char entries[4096];
    int directory = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return;
    size_t count = 0;
    ssize_t got;
    while ((got = getdents64(directory, entries, sizeof entries)) > 0)
        count += count_descriptors(entries, got);
    close(directory);
    if (got == 0 && count > 0)
        values[PROM_PROCESS_OPEN_FDS] = (double)(count - 1); /* ours is closed again */
}

static double resource_limit(__rlimit_resource_t resource)
{
    struct rlimit limit;
    return getrlimit(resource, &limit) == 0 ? (double)limit.rlim_cur : NAN;
}

/* `Max open files            1024                 524288               files` */
static double soft_limit_in(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    if (at == NULL)
        return NAN;
    at += strlen(name);
    at += strspn(at, " ");
    if (strncmp(at, "unlimited", strlen("unlimited")) == 0)
        return (double)RLIM_INFINITY;
    return *at >= '0' && *at <= '9' ? (double)strtoull(at, NULL, 10) : NAN;
}

static void take_limits(const char *path, double values[PROM_PROCESS_VALUES])
{
    char text[4096];
    if (path == NULL) {
        values[PROM_PROCESS_MOST_FDS] = resource_limit(RLIMIT_NOFILE);
        values[PROM_PROCESS_VIRTUAL_MOST_BYTES] = resource_limit(RLIMIT_AS);
    } else if (read_proc_file(path, text, sizeof text)) {
        values[PROM_PROCESS_MOST_FDS] = soft_limit_in(text, "Max open files");
        values[PROM_PROCESS_VIRTUAL_MOST_BYTES] = soft_limit_in(text, "Max address space");
    }
}

/* ---- the network ---------------------------------------------------------------------------- */

/* The value in the column called `name` of the IpExt table: a line of names, then one of values.
 * NaN: there is none. */
static double value_in_column(const char *names, const char *values, const char *name)
{
    size_t length = strlen(name);
    while (*names != '\n' && *names != '\0' && *values != '\n' && *values != '\0') {
        size_t name_length = strcspn(names, " \n");
        if (name_length == length && memcmp(names, name, length) == 0)
            return (double)strtoull(values, NULL, 10);
        names += name_length + (names[name_length] == ' ');
        values += strcspn(values, " \n");
        values += *values == ' ';
    }
    return NAN;
}

static void take_network(double values[PROM_PROCESS_VALUES])
{
    static const char table[] = "\nIpExt: ";
    char text[16384]; /* a line of names and one of values for each of 3 tables; 4 KiB today */
    if (!read_proc_file("/proc/self/net/netstat", text, sizeof text))
        return;
    const char *names = strstr(text, table);
    if (names == NULL)
        return;
    names += sizeof table - 1;
    const char *row = strstr(names, table);
    if (row == NULL)
        return;
    row += sizeof table - 1;
    values[PROM_PROCESS_RECEIVED_BYTES] = value_in_column(names, row, "InOctets");
    values[PROM_PROCESS_SENT_BYTES] = value_in_column(names, row, "OutOctets");
}

/* ---- the metrics ---------------------------------------------------------------------------- */

/* NaN: not known. The network's bytes are counted since the namespace was made, whenever that was.
 */
static double counted_since(size_t value, const double values[PROM_PROCESS_VALUES])
{
    return value == PROM_PROCESS_CPU_SECONDS ? values[PROM_PROCESS_START_SECONDS] : NAN;
}

void prom_process_set(prom_metric_t *const metrics[PROM_PROCESS_VALUES], const char *limits_path,
                      const char *stat_path)
{
    double values[PROM_PROCESS_VALUES];
    for (size_t i = 0; i < PROM_PROCESS_VALUES; i++)
        values[i] = NAN;
    take_stat(stat_path, values);
    take_open_fds(values);
    take_limits(limits_path, values);
    take_network(values);
    for (size_t i = 0; i < PROM_PROCESS_VALUES; i++) {
        if (metrics[i] == NULL || isnan(values[i]))
            continue;
        if (metrics[i]->type == METRIC_COUNTER)
            prom_counter_set_since(metrics[i], values[i], counted_since(i, values), NULL);
        else
            prom_gauge_set(metrics[i], values[i], NULL);
    }
}
