/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h - one line per event, in logfmt or JSON, on stderr.
 *
 *     log_info("listening", LOG_STR("address", host), LOG_UINT("port", port));
 *     ts=2026-01-30T10:00:00.125Z level=info event=listening address=127.0.0.1 port=9780
 *
 * The event and the keys are literals of ours; values may come from anywhere and are escaped, so
 * that nothing from outside can forge a line or a field. There is no format string on purpose.
 * Never log payloads or credentials: there is no escaping for those.
 *
 * What repeats is limited per event and level; the first line after a full second says how many
 * were left out, and exporter_log_stats() counts them.
 *
 * Threads: every function from any thread; exporter_log_setup() before the others start.
 * A line is one write(2) and no allocation.
 */
#ifndef EXPORTER_LOG_LOG_H
#define EXPORTER_LOG_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum exporter_log_level {
    EXPORTER_LOG_DEBUG,
    EXPORTER_LOG_INFO,
    EXPORTER_LOG_WARN,
    EXPORTER_LOG_ERROR,
    EXPORTER_LOG_LEVELS, /* how many there are */
};

enum exporter_log_format { EXPORTER_LOG_LOGFMT, EXPORTER_LOG_JSON };

struct exporter_log_setup {
    int fd; /* where lines go; stays the caller's */
    enum exporter_log_level level;
    enum exporter_log_format format;
    unsigned lines_per_second; /* of one event and level; 0 takes the default of 10 */
    /* For tests: wall clock in milliseconds and monotonic clock in seconds; NULL takes the real. */
    int64_t (*wall_ms)(void);
    uint32_t (*monotonic_s)(void);
};

/* Without it, lines of level info and above go to stderr as logfmt. */
void exporter_log_setup(const struct exporter_log_setup *setup);

void exporter_log_set_level(enum exporter_log_level level);
enum exporter_log_level exporter_log_get_level(void);

/* Says what was left out in seconds that are over, for events that have been silent since. Called
 * now and then by the daemon's clock, and before it ends. */
void exporter_log_flush(void);

struct exporter_log_stats {
    uint64_t lines[EXPORTER_LOG_LEVELS];
    uint64_t suppressed[EXPORTER_LOG_LEVELS];
    uint64_t write_failures;
};

void exporter_log_stats(struct exporter_log_stats *stats);

/* ---- fields -------------------------------------------------------------------------------- */

enum exporter_log_type {
    EXPORTER_LOG_END,
    EXPORTER_LOG_BYTES,
    EXPORTER_LOG_SIGNED,
    EXPORTER_LOG_UNSIGNED,
    EXPORTER_LOG_FLAG,
    EXPORTER_LOG_SYSTEM, /* an errno value, shown as its text */
};

struct exporter_log_field {
    const char *key; /* a literal: lower case letters, digits and _ */
    enum exporter_log_type type;
    const char *bytes; /* NULL is shown as an empty value */
    uint64_t number;   /* the length of bytes, or the value */
};

struct exporter_log_field exporter_log_string(const char *key, const char *text);

#define LOG_STR(key, text) exporter_log_string(key, text)
#define LOG_BYTES(key, data, length)                                                               \
    ((struct exporter_log_field){(key), EXPORTER_LOG_BYTES, (data), (uint64_t)(length)})
#define LOG_INT(key, value)                                                                        \
    ((struct exporter_log_field){(key), EXPORTER_LOG_SIGNED, NULL, (uint64_t)(int64_t)(value)})
#define LOG_UINT(key, value)                                                                       \
    ((struct exporter_log_field){(key), EXPORTER_LOG_UNSIGNED, NULL, (uint64_t)(value)})
#define LOG_BOOL(key, value)                                                                       \
    ((struct exporter_log_field){(key), EXPORTER_LOG_FLAG, NULL, (value) ? 1 : 0})
#define LOG_ERRNO(key, value)                                                                      \
    ((struct exporter_log_field){(key), EXPORTER_LOG_SYSTEM, NULL, (uint64_t)(int64_t)(value)})

/* ---- writing ------------------------------------------------------------------------------- */

#define log_debug(event, ...)                                                                      \
    EXPORTER_LOG_AT(EXPORTER_LOG_DEBUG, event, ##__VA_ARGS__, EXPORTER_LOG_LAST)
#define log_info(event, ...)                                                                       \
    EXPORTER_LOG_AT(EXPORTER_LOG_INFO, event, ##__VA_ARGS__, EXPORTER_LOG_LAST)
#define log_warn(event, ...)                                                                       \
    EXPORTER_LOG_AT(EXPORTER_LOG_WARN, event, ##__VA_ARGS__, EXPORTER_LOG_LAST)
#define log_error(event, ...)                                                                      \
    EXPORTER_LOG_AT(EXPORTER_LOG_ERROR, event, ##__VA_ARGS__, EXPORTER_LOG_LAST)

#define EXPORTER_LOG_LAST ((struct exporter_log_field){NULL, EXPORTER_LOG_END, NULL, 0})

/* The event is joined to "" so that only a literal compiles: the limiter keeps its address. Fields
 * are not evaluated when the level is off. */
#define EXPORTER_LOG_AT(severity, event, ...)                                                      \
    do {                                                                                           \
        if ((severity) >= exporter_log_get_level()) {                                              \
            exporter_log_write((severity), "" event,                                               \
                               (const struct exporter_log_field[]){__VA_ARGS__});                  \
        }                                                                                          \
    } while (0)

/* `event` is a literal; `fields` ends with EXPORTER_LOG_END. */
void exporter_log_write(enum exporter_log_level level, const char *event,
                        const struct exporter_log_field *fields);

#endif
