/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process_reading.h - what the kernel knows about this process, in seconds, bytes and counts. Read
 * with read() into a buffer on the stack: nothing is allocated. What cannot be read (no /proc, an
 * old kernel) is NaN. Any thread.
 */
#ifndef PROM_PROCESS_READING_H
#define PROM_PROCESS_READING_H

struct prom_process_reading {
    double cpu_seconds;
    double start_time_seconds; /* since 1970 */
    double virtual_bytes;
    double
        virtual_most_bytes; /* unlimited: the largest 64-bit number, as other exporters show it */
    double resident_bytes;
    double open_fds;
    double most_fds;
    double threads;
    double received_bytes; /* by the network namespace */
    double sent_bytes;
};

/* `limits_path`, `stat_path`: in place of what the kernel says about this process in /proc/self;
 * NULL: that. The CPU time then has a resolution of nanoseconds, and that of a file one of ticks.
 */
void prom_process_read(const char *limits_path, const char *stat_path,
                       struct prom_process_reading *reading);

#endif
