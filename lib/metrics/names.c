/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules come from the data model of Prometheus, from OpenMetrics 1.0 (reserved suffixes, unit
 * as suffix, clashes of the samples of different families) and from the linter of promtool. They
 * are checked when a program starts, because a scraper that meets a violation rejects the whole
 * scrape, or silently mixes up two metrics. Pure, any thread.
 */
#include "lib/metrics/names.h"

#include <math.h>
#include <string.h>

enum {
    SCHEMA_MIN = -4,
    SCHEMA_MAX = 8,
    /* the exponents of normal doubles: bounds among the subnormal numbers would not be exact */
    EXPONENT_MIN = -1022,
    EXPONENT_MAX = 1023,
    NAME_MAX_LENGTH = 255,    /* samples' names fit into buffers of fixed size */
    NATIVE_CELLS_MAX = 16384, /* 128 KiB for each series and thread, far beyond any use */
};

enum metric_code metric_fail(struct metric_error *error, enum metric_code code, const char *message,
                             const char *subject)
{
    if (error) {
        *error = (struct metric_error){.code = code, .message = message};
        if (subject)
            strncat(error->subject, subject, sizeof error->subject - 1);
    }
    return code;
}

static bool is_name_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* `also`: one more character that counts as a letter, or '_' for none. */
static bool is_identifier_with(char also, const char *name)
{
    if (!name || !(is_name_letter(*name) || *name == also))
        return false;
    for (name++; *name != '\0'; name++) {
        if (!is_name_letter(*name) && *name != also && !(*name >= '0' && *name <= '9'))
            return false;
    }
    return true;
}

static bool is_identifier(const char *name)
{
    return is_identifier_with('_', name);
}

bool metric_label_name_valid(const char *name)
{
    return is_identifier(name) && strncmp(name, "__", 2) != 0;
}

static bool ends_with(const char *text, size_t length, const char *suffix)
{
    size_t n = strlen(suffix);
    return length > n && memcmp(text + length - n, suffix, n) == 0;
}

static bool any_name(const struct metric_desc *desc)
{
    return (desc->flags & METRIC_ANY_NAME) != 0;
}

static enum metric_code check_characters(const struct metric_desc *desc, struct metric_error *error)
{
    if (any_name(desc) && !is_identifier_with(':', desc->name))
        return metric_fail(
            error, METRIC_ERR_NAME,
            "a metric name may contain letters, digits, _ and :, and must not begin with a digit",
            desc->name);
    if (!any_name(desc) && !is_identifier(desc->name))
        return metric_fail(
            error, METRIC_ERR_NAME,
            "a metric name may contain letters, digits and _, and must not begin with a digit",
            desc->name);
    if (strlen(desc->name) > NAME_MAX_LENGTH)
        return metric_fail(error, METRIC_ERR_NAME, "a metric name may have at most 255 characters",
                           desc->name);
    return METRIC_OK;
}

static enum metric_code check_metric_name(const struct metric_desc *desc,
                                          struct metric_error *error)
{
    static const char *const reserved[] = {"_total", "_bucket", "_count", "_sum", "_created"};
    enum metric_code code = check_characters(desc, error);
    if (code != METRIC_OK || any_name(desc))
        return code;
    size_t length = strlen(desc->name);
    if (desc->type == METRIC_COUNTER) {
        if (!ends_with(desc->name, length, "_total"))
            return metric_fail(error, METRIC_ERR_NAME, "a counter's name must end in _total",
                               desc->name);
        return METRIC_OK;
    }
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++) {
        if (ends_with(desc->name, length, reserved[i]))
            return metric_fail(
                error, METRIC_ERR_NAME,
                "_total, _bucket, _count, _sum and _created are reserved suffixes of counters and "
                "histograms",
                desc->name);
    }
    return METRIC_OK;
}

static enum metric_code check_label(const struct metric_desc *desc, size_t index,
                                    struct metric_error *error)
{
    const char *name = desc->labels[index];
    name += *name == '*';
    if (!metric_label_name_valid(name))
        return metric_fail(
            error, METRIC_ERR_NAME,
            "a label name may contain letters, digits and _, and must not begin with a "
            "digit or with __",
            name);
    if (strcmp(name, "le") == 0 || strcmp(name, "quantile") == 0)
        return metric_fail(error, METRIC_ERR_NAME, "le and quantile are reserved label names",
                           name);
    for (size_t i = 0; i < index; i++) {
        const char *before = desc->labels[i];
        before += *before == '*';
        if (strcmp(before, name) == 0)
            return metric_fail(error, METRIC_ERR_LABELS, "duplicate label name", name);
    }
    return METRIC_OK;
}

static enum metric_code check_labels(const struct metric_desc *desc, struct metric_error *error)
{
    for (size_t i = 0; desc->labels[i]; i++) {
        if (i == METRIC_LABELS_MAX)
            return metric_fail(error, METRIC_ERR_LABELS, "a family may have at most 16 labels",
                               desc->name);
        enum metric_code code = check_label(desc, i, error);
        if (code != METRIC_OK)
            return code;
    }
    return METRIC_OK;
}

static enum metric_code check_unit(const struct metric_desc *desc, struct metric_error *error)
{
    if (!desc->unit || *desc->unit == '\0')
        return METRIC_OK;
    size_t base = metric_base_length(desc->name, desc->type);
    size_t unit = strlen(desc->unit);
    if (!is_identifier(desc->unit) || !ends_with(desc->name, base, desc->unit) ||
        desc->name[base - unit - 1] != '_')
        return metric_fail(error, METRIC_ERR_UNIT,
                           "the unit must be the last word of the name (before _total)",
                           desc->name);
    return METRIC_OK;
}

static enum metric_code check_bounds(const struct metric_desc *desc, struct metric_error *error)
{
    if (desc->type != METRIC_HISTOGRAM && desc->nbounds > 0)
        return metric_fail(error, METRIC_ERR_BOUNDS, "only a histogram may have bounds",
                           desc->name);
    if (desc->nbounds > METRIC_BOUNDS_MAX)
        return metric_fail(error, METRIC_ERR_BOUNDS, "a histogram may have at most 128 bounds",
                           desc->name);
    for (size_t i = 0; i < desc->nbounds; i++) {
        if (!isfinite(desc->bounds[i]))
            return metric_fail(error, METRIC_ERR_BOUNDS,
                               "bounds must be finite; the +Inf bucket is implicit", desc->name);
        if (i > 0 && !(desc->bounds[i - 1] < desc->bounds[i]))
            return metric_fail(error, METRIC_ERR_BOUNDS, "bounds must be in ascending order",
                               desc->name);
    }
    return METRIC_OK;
}

static bool native_cells_fit(const struct metric_native *native)
{
    int octaves = native->high - native->low;
    return native->schema <= 0 || octaves <= NATIVE_CELLS_MAX >> native->schema;
}

static bool native_edges_are_bounds(const struct metric_native *native)
{
    int unit = native->schema < 0 ? 1 << -native->schema : 1;
    return native->low % unit == 0 && native->high % unit == 0;
}

static enum metric_code check_native(const struct metric_desc *desc, struct metric_error *error)
{
    const struct metric_native *native = &desc->native;
    if (native->schema == 0 && native->low == 0 && native->high == 0)
        return METRIC_OK;
    const char *why = NULL;
    if (desc->type != METRIC_HISTOGRAM)
        why = "only a histogram may have native buckets";
    else if (native->schema < SCHEMA_MIN || native->schema > SCHEMA_MAX)
        why = "the native schema must be -4 to 8";
    else if (native->low >= native->high)
        why = "the native range is empty";
    else if (native->low < EXPONENT_MIN || native->high > EXPONENT_MAX)
        why = "the native range must lie within 2^-1022 to 2^1023";
    else if (!native_edges_are_bounds(native))
        why = "with a negative schema s, the native range must begin and end at multiples of 2^-s";
    else if (!native_cells_fit(native))
        why = "the native range has more than 16384 buckets at this schema";
    return !why ? METRIC_OK : metric_fail(error, METRIC_ERR_NATIVE, why, desc->name);
}

static enum metric_code check_flags(const struct metric_desc *desc, struct metric_error *error)
{
    if (desc->type == METRIC_GAUGE && (desc->flags & METRIC_EXEMPLARS) != 0)
        return metric_fail(error, METRIC_ERR_FLAGS, "a gauge cannot have exemplars", desc->name);
    if (desc->type != METRIC_COUNTER && (desc->flags & METRIC_FRACTIONS) != 0)
        return metric_fail(error, METRIC_ERR_FLAGS, "only a counter may count fractions",
                           desc->name);
    return METRIC_OK;
}

enum metric_code metric_desc_check(const struct metric_desc *desc, struct metric_error *error)
{
    static enum metric_code (*const checks[])(const struct metric_desc *, struct metric_error *) = {
        check_metric_name, check_labels, check_unit, check_bounds, check_native, check_flags};
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        enum metric_code code = checks[i](desc, error);
        if (code != METRIC_OK)
            return code;
    }
    if (!desc->help || (*desc->help == '\0' && !any_name(desc)))
        return metric_fail(error, METRIC_ERR_HELP, "a metric must have a help text", desc->name);
    return METRIC_OK;
}

size_t metric_base_length(const char *name, enum metric_type type)
{
    const size_t length = strlen(name);
    const bool suffixed = type == METRIC_COUNTER && ends_with(name, length, "_total");
    return length - (suffixed ? strlen("_total") : 0);
}

/* Whether the family or one of its samples is called `wanted`. */
static bool shows_sample(const char *name, enum metric_type type, const char *wanted, size_t length)
{
    static const char *const suffixes[][6] = {
        [METRIC_COUNTER] = {"", "_total", "_created"},
        [METRIC_GAUGE] = {""},
        [METRIC_HISTOGRAM] = {"", "_bucket", "_count", "_sum", "_created"},
    };
    size_t base = metric_base_length(name, type);
    if (type == METRIC_COUNTER && name[base] == '\0') /* without _total it is its only sample */
        type = METRIC_GAUGE;
    if (length < base || memcmp(name, wanted, base) != 0)
        return false;
    for (size_t i = 0; suffixes[type][i]; i++) {
        size_t suffix = strlen(suffixes[type][i]);
        if (length == base + suffix && memcmp(wanted + base, suffixes[type][i], suffix) == 0)
            return true;
    }
    return false;
}

static bool shows_any_sample_of(const char *name, enum metric_type type, const char *other_name,
                                enum metric_type other_type)
{
    static const char *const suffixes[] = {"", "_total", "_bucket", "_count", "_sum", "_created"};
    char sample[NAME_MAX_LENGTH + sizeof "_created"];
    size_t base = metric_base_length(other_name, other_type);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        size_t suffix = strlen(suffixes[i]);
        memcpy(sample, other_name, base);
        memcpy(sample + base, suffixes[i], suffix);
        if (shows_sample(other_name, other_type, sample, base + suffix) &&
            shows_sample(name, type, sample, base + suffix))
            return true;
    }
    return false;
}

/* Of two names that clash, the one without its suffix begins the other. Most pairs do not get
 * further than this, of which a registry of many metrics has very many. */
static bool one_begins_other(const char *name, enum metric_type type, const char *other_name,
                             enum metric_type other_type)
{
    const size_t base = metric_base_length(name, type);
    const size_t other_base = metric_base_length(other_name, other_type);
    return memcmp(name, other_name, base < other_base ? base : other_base) == 0;
}

bool metric_names_clash(const char *name, enum metric_type type, const char *other_name,
                        enum metric_type other_type)
{
    return one_begins_other(name, type, other_name, other_type) &&
           shows_any_sample_of(name, type, other_name, other_type);
}
