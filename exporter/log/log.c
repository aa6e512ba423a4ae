/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.c - a line is built on the stack and leaves with one write(2).
 *
 * Why so: a logger that allocates or locks fails or stalls just when it is needed. A line is kept
 * within PIPE_BUF, so that a pipe takes it whole and lines of several threads never mix.
 *
 * Escaping: JSON's string escapes, in both formats (logfmt readers take them within quotes).
 * Escaped are the quote, the backslash, control characters of ASCII and Latin-1 (terminals obey
 * both) and the two line separators of Unicode; what is not UTF-8 becomes U+FFFD.
 *
 * Limiting: a slot for each (event, level), found by hash and claimed once with a compare and swap.
 * Its state is one word, the second and the lines seen in it, so that counting a line and learning
 * whether it may pass is one atomic step. Who moves the word to a new second owns the report of
 * the old one, so each line left out is reported exactly once.
 */
#include "exporter/log/log.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/check.h"
#include "lib/base/rfc3339.h"
#include "lib/base/utf8.h"

enum {
    LINE_MAX_BYTES = PIPE_BUF,
    TAIL_BYTES = 32,         /* kept free for truncated=true and the end of the line */
    VALUE_MAX_BYTES = 1024,  /* of one value before escaping; the rest is cut off */
    DEFAULT_PER_SECOND = 10, /* enough to see a pattern, too few to fill a disk */
    SLOTS = 128,             /* of one level: several times the events there are */
};

_Static_assert(TAIL_BYTES > sizeof(",\"truncated\":true}\n"), "the tail fits");

static const char *const level_names[EXPORTER_LOG_LEVELS] = {"debug", "info", "warn", "error"};

struct slot {
    _Atomic(const char *) event;  /* NULL: free. Written once. */
    atomic_uint_least64_t window; /* second << 32 | lines seen in it */
};

static struct {
    atomic_int fd;
    atomic_int level;
    atomic_int format;
    atomic_uint per_second;
    _Atomic(int64_t (*)(void)) wall_ms;
    _Atomic(uint32_t (*)(void)) monotonic_s;
    atomic_uint_least64_t lines[EXPORTER_LOG_LEVELS];
    atomic_uint_least64_t suppressed[EXPORTER_LOG_LEVELS];
    atomic_uint_least64_t write_failures;
    struct slot slots[EXPORTER_LOG_LEVELS][SLOTS];
} logger = {
    .fd = STDERR_FILENO,
    .level = EXPORTER_LOG_INFO,
    .format = EXPORTER_LOG_LOGFMT,
    .per_second = DEFAULT_PER_SECOND,
};

/* ---- clocks -------------------------------------------------------------------------------- */

static int64_t real_wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static uint32_t real_monotonic_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint32_t)now.tv_sec;
}

static int64_t log_clock_ms(void)
{
    int64_t (*clock)(void) = atomic_load_explicit(&logger.wall_ms, memory_order_relaxed);

    return clock != NULL ? clock() : real_wall_ms();
}

static uint32_t monotonic_s(void)
{
    uint32_t (*clock)(void) = atomic_load_explicit(&logger.monotonic_s, memory_order_relaxed);

    return clock != NULL ? clock() : real_monotonic_s();
}

/* ---- a line -------------------------------------------------------------------------------- */

struct line {
    size_t length;
    bool full; /* something did not fit */
    bool json;
    char bytes[LINE_MAX_BYTES];
};

static void put_line_bytes(struct line *line, const char *bytes, size_t length)
{
    if (line->full || length > sizeof(line->bytes) - TAIL_BYTES - line->length) {
        line->full = true;
        return;
    }
    memcpy(line->bytes + line->length, bytes, length);
    line->length += length;
}

static void put_text(struct line *line, const char *text)
{
    put_line_bytes(line, text, strlen(text));
}

static void put_unsigned(struct line *line, uint64_t number)
{
    char digits[20];
    int at = (int)sizeof(digits);

    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    put_line_bytes(line, digits + at, sizeof(digits) - (size_t)at);
}

static void put_signed(struct line *line, int64_t number)
{
    if (number < 0) {
        put_text(line, "-");
        put_unsigned(line, -(uint64_t)number);
    } else {
        put_unsigned(line, (uint64_t)number);
    }
}

static void put_time(struct line *line, int64_t ms)
{
    char text[BASE_RFC3339_SIZE];
    base_rfc3339_format(ms > 0 ? ms : 0, text); /* a clock before 1970 is broken */
    put_text(line, text);
}

/* ---- text from outside --------------------------------------------------------------------- */

static bool needs_escape(uint32_t character)
{
    return character < 0x20 || (character >= 0x7F && character < 0xA0) || character == 0x2028 ||
           character == 0x2029;
}

static void put_escape(struct line *line, uint32_t character)
{
    static const char hex[] = "0123456789abcdef";
    static const char named[] = "\b\t\n\f\r";
    static const char letters[] = "btnfr";
    char escape[6] = {'\\',
                      'u',
                      hex[character >> 12 & 15],
                      hex[character >> 8 & 15],
                      hex[character >> 4 & 15],
                      hex[character & 15]};

    for (size_t i = 0; named[i] != '\0'; i++) {
        if (character == (unsigned char)named[i]) {
            escape[1] = letters[i];
            put_line_bytes(line, escape, 2);
            return;
        }
    }
    put_line_bytes(line, escape, sizeof(escape));
}

static void put_character(struct line *line, uint32_t character, const char *bytes, size_t size)
{
    if (character == BASE_UTF8_INVALID) {
        put_text(line, "\xEF\xBF\xBD");
    } else if (needs_escape(character)) {
        put_escape(line, character);
    } else if (character == '"' || character == '\\') {
        put_text(line, character == '"' ? "\\\"" : "\\\\");
    } else {
        put_line_bytes(line, bytes, size);
    }
}

static void put_quoted(struct line *line, const char *bytes, size_t length)
{
    size_t at = 0;

    put_text(line, "\"");
    while (at < length && at < VALUE_MAX_BYTES && !line->full) {
        uint32_t character;
        size_t size = base_utf8_next(bytes + at, length - at, &character);
        put_character(line, character, bytes + at, size);
        at += size;
    }
    put_text(line, at < length ? "...\"" : "\"");
}

/* logfmt leaves a value bare where nothing in it could be taken for something else. */
static bool is_bare(const char *bytes, size_t length)
{
    if (length == 0 || length > VALUE_MAX_BYTES) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] <= ' ' || bytes[i] > '~' || bytes[i] == '"' || bytes[i] == '=' ||
            bytes[i] == '\\') {
            return false;
        }
    }
    return true;
}

static void put_value(struct line *line, const char *bytes, size_t length)
{
    if (bytes == NULL) {
        length = 0;
    }
    if (!line->json && is_bare(bytes, length)) {
        put_line_bytes(line, bytes, length);
    } else {
        put_quoted(line, bytes, length);
    }
}

/* ---- fields -------------------------------------------------------------------------------- */

static void put_key(struct line *line, const char *key)
{
    if (line->json) {
        put_text(line, line->length == 0 ? "{\"" : ",\"");
        put_text(line, key);
        put_text(line, "\":");
    } else {
        put_text(line, line->length == 0 ? "" : " ");
        put_text(line, key);
        put_text(line, "=");
    }
}

static void put_system_error(struct line *line, int code)
{
    char buffer[128];
    const char *text = strerror_r(code, buffer, sizeof(buffer));

    put_value(line, text, strlen(text));
}

static void put_field_value(struct line *line, const struct exporter_log_field *field)
{
    switch (field->type) {
    case EXPORTER_LOG_BYTES:
        put_value(line, field->bytes, (size_t)field->number);
        return;
    case EXPORTER_LOG_SIGNED:
        put_signed(line, (int64_t)field->number);
        return;
    case EXPORTER_LOG_UNSIGNED:
        put_unsigned(line, field->number);
        return;
    case EXPORTER_LOG_FLAG:
        put_text(line, field->number != 0 ? "true" : "false");
        return;
    case EXPORTER_LOG_SYSTEM:
        put_system_error(line, (int)field->number);
        return;
    case EXPORTER_LOG_END:
        break;
    }
    BASE_CHECK(false); /* a type without a writer */
}

/* Fields are whole or absent: half a string would leave the line unreadable. */
static void put_fields(struct line *line, const struct exporter_log_field *fields)
{
    for (; fields->type != EXPORTER_LOG_END && !line->full; fields++) {
        size_t start = line->length;
        put_key(line, fields->key);
        put_field_value(line, fields);
        if (line->full) {
            line->length = start;
        }
    }
}

static void put_end(struct line *line)
{
    const char *tail = line->json ? "}\n" : "\n";

    if (line->full) {
        tail = line->json ? ",\"truncated\":true}\n" : " truncated=true\n";
    }
    memcpy(line->bytes + line->length, tail, strlen(tail));
    line->length += strlen(tail);
}

static void write_line(const struct line *line)
{
    int fd = atomic_load_explicit(&logger.fd, memory_order_relaxed);
    size_t at = 0;
    int saved = errno; /* logging must not change what the caller is about to look at */

    while (at < line->length) {
        ssize_t n = write(fd, line->bytes + at, line->length - at);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            atomic_fetch_add_explicit(&logger.write_failures, 1, memory_order_relaxed);
            break;
        }
        at += (size_t)n;
    }
    errno = saved;
}

static void emit(enum exporter_log_level level, const char *event,
                 const struct exporter_log_field *fields)
{
    const struct exporter_log_field head[] = {LOG_STR("level", level_names[level]),
                                              LOG_STR("event", event), EXPORTER_LOG_LAST};
    struct line line;

    line.length = 0;
    line.full = false;
    line.json = atomic_load_explicit(&logger.format, memory_order_relaxed) == EXPORTER_LOG_JSON;
    put_key(&line, "ts");
    put_text(&line, line.json ? "\"" : "");
    put_time(&line, log_clock_ms());
    put_text(&line, line.json ? "\"" : "");
    put_fields(&line, head);
    put_fields(&line, fields);
    put_end(&line);
    write_line(&line);
    atomic_fetch_add_explicit(&logger.lines[level], 1, memory_order_relaxed);
}

/* ---- limiting ------------------------------------------------------------------------------ */

static size_t hash_event(const char *event)
{
    uint32_t value = 2166136261u; /* FNV-1a: short strings, no adversary */

    for (; *event != '\0'; event++) {
        value = (value ^ (unsigned char)*event) * 16777619u;
    }
    return value;
}

/* NULL where all slots of the level are taken: such an event is not limited. */
static struct slot *find_slot(enum exporter_log_level level, const char *event)
{
    size_t start = hash_event(event);

    for (size_t i = 0; i < SLOTS; i++) {
        struct slot *slot = &logger.slots[level][(start + i) % SLOTS];
        const char *owner = atomic_load_explicit(&slot->event, memory_order_acquire);
        if (owner == NULL &&
            atomic_compare_exchange_strong_explicit(&slot->event, &owner, event,
                                                    memory_order_acq_rel, memory_order_acquire)) {
            return slot;
        }
        if (owner == event || strcmp(owner, event) == 0) {
            return slot;
        }
    }
    return NULL;
}

static uint32_t second_of(uint64_t window)
{
    return (uint32_t)(window >> 32);
}

static uint64_t left_out(uint64_t window)
{
    uint64_t lines = window & UINT32_MAX;
    uint64_t limit = atomic_load_explicit(&logger.per_second, memory_order_relaxed);

    return lines > limit ? lines - limit : 0;
}

static void report_left_out(enum exporter_log_level level, const char *event, uint64_t window)
{
    const struct exporter_log_field fields[] = {LOG_STR("suppressed_event", event),
                                                LOG_UINT("suppressed", left_out(window)),
                                                EXPORTER_LOG_LAST};

    if (left_out(window) > 0) {
        emit(level, "log_suppressed", fields);
    }
}

/* Counts one line and tells whether it may be written. */
static bool allow(enum exporter_log_level level, const char *event)
{
    struct slot *slot = find_slot(level, event);
    uint64_t now = monotonic_s();
    uint64_t before;
    uint64_t after;

    if (slot == NULL) {
        return true;
    }
    before = atomic_load_explicit(&slot->window, memory_order_relaxed);
    do {
        /* another thread may already be in the next second: time never goes back here */
        after = now > second_of(before) ? now << 32 | 1 : before + 1;
    } while (!atomic_compare_exchange_weak_explicit(&slot->window, &before, after,
                                                    memory_order_relaxed, memory_order_relaxed));
    if (second_of(before) != second_of(after)) {
        report_left_out(level, event, before);
    }
    if (left_out(after) == 0) {
        return true;
    }
    atomic_fetch_add_explicit(&logger.suppressed[level], 1, memory_order_relaxed);
    return false;
}

static void flush_slot(enum exporter_log_level level, struct slot *slot)
{
    const char *event = atomic_load_explicit(&slot->event, memory_order_acquire);
    uint64_t window = atomic_load_explicit(&slot->window, memory_order_relaxed);
    uint64_t emptied = window & ~(uint64_t)UINT32_MAX;

    if (event != NULL && left_out(window) > 0 && second_of(window) < monotonic_s() &&
        atomic_compare_exchange_strong_explicit(&slot->window, &window, emptied,
                                                memory_order_relaxed, memory_order_relaxed)) {
        report_left_out(level, event, window);
    }
}

/* ---- what others call ---------------------------------------------------------------------- */

void exporter_log_setup(const struct exporter_log_setup *setup)
{
    unsigned limit = setup->lines_per_second;

    atomic_store(&logger.fd, setup->fd);
    atomic_store(&logger.level, (int)setup->level);
    atomic_store(&logger.format, (int)setup->format);
    atomic_store(&logger.per_second, limit > 0 ? limit : DEFAULT_PER_SECOND);
    atomic_store(&logger.wall_ms, setup->wall_ms);
    atomic_store(&logger.monotonic_s, setup->monotonic_s);
}

void exporter_log_set_level(enum exporter_log_level level)
{
    atomic_store_explicit(&logger.level, (int)level, memory_order_relaxed);
}

enum exporter_log_level exporter_log_get_level(void)
{
    return (enum exporter_log_level)atomic_load_explicit(&logger.level, memory_order_relaxed);
}

struct exporter_log_field exporter_log_string(const char *key, const char *text)
{
    return LOG_BYTES(key, text, text != NULL ? strlen(text) : 0);
}

void exporter_log_write(enum exporter_log_level level, const char *event,
                        const struct exporter_log_field *fields)
{
    BASE_CHECK(level < EXPORTER_LOG_LEVELS);
    if (allow(level, event)) {
        emit(level, event, fields);
    }
}

void exporter_log_flush(void)
{
    for (int level = 0; level < EXPORTER_LOG_LEVELS; level++) {
        for (size_t i = 0; i < SLOTS; i++) {
            flush_slot((enum exporter_log_level)level, &logger.slots[level][i]);
        }
    }
}

void exporter_log_stats(struct exporter_log_stats *stats)
{
    for (int level = 0; level < EXPORTER_LOG_LEVELS; level++) {
        stats->lines[level] = atomic_load_explicit(&logger.lines[level], memory_order_relaxed);
        stats->suppressed[level] =
            atomic_load_explicit(&logger.suppressed[level], memory_order_relaxed);
    }
    stats->write_failures = atomic_load_explicit(&logger.write_failures, memory_order_relaxed);
}
