/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Label values of any bytes: what a scrape shows, read by a parser of its own, is the value again,
 * with U+FFFD for each byte that is not UTF-8. The input is cut at its first NUL, as a label is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/metrics/metric.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

#define MUST(condition) ((condition) ? (void)0 : fail(#condition))

static void fail(const char *what)
{
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

/* Decodes one code point by arithmetic (the escaper goes by a table of ranges); 0: invalid. */
static size_t code_point(const unsigned char *s, size_t n)
{
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = s[0] < 0x80       ? 1
                    : s[0] >> 5 == 6  ? 2
                    : s[0] >> 4 == 14 ? 3
                    : s[0] >> 3 == 30 ? 4
                                      : 0;
    if (length <= 1 || length > n)
        return length <= n ? length : 0;
    unsigned value = s[0] & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if (s[i] >> 6 != 2)
            return 0;
        value = value << 6 | (s[i] & 0x3fu);
    }
    bool surrogate = value >= 0xd800 && value <= 0xdfff;
    return value >= least[length] && value <= 0x10ffff && !surrogate ? length : 0;
}

static char *expected_value(const unsigned char *s, size_t n)
{
    char *out = malloc(3 * n + 1), *end = out;
    MUST(out != NULL);
    while (n > 0) {
        size_t length = code_point(s, n);
        memcpy(end, length > 0 ? (const char *)s : "\xef\xbf\xbd", length > 0 ? length : 3);
        end += length > 0 ? length : 3;
        s += length > 0 ? length : 1;
        n -= length > 0 ? length : 1;
    }
    *end = '\0';
    return out;
}

/* Reads `"..."` up to its closing quote as the exposition formats say; answers what follows. */
static const char *read_quoted(const char *in, char *out)
{
    MUST(*in++ == '"');
    for (; *in != '"'; in++) {
        MUST(*in != '\n' && *in != '\0');
        if (*in != '\\') {
            *out++ = *in;
            continue;
        }
        in++;
        MUST(*in == '\\' || *in == '"' || *in == 'n');
        *out++ = *in == 'n' ? '\n' : *in;
    }
    *out = '\0';
    return in + 1;
}

static void check(struct metric_registry *registry, enum metric_format format, const char *expected)
{
    struct metric_scrape_options options = {.format = format};
    struct metric_buffer out = {0};
    struct metric_scrape *scrape = metric_scrape_begin(registry, &options);
    MUST(scrape != NULL);
    while (metric_scrape_step(scrape, &out, 1 << 20)) {
    }
    metric_scrape_end(&scrape);
    static const char head[] = "\nc_total{first=";
    char *text = calloc(1, out.length + 1), *value = malloc(out.length + 1);
    MUST(!out.failed && text != NULL && value != NULL);
    memcpy(text, out.data, out.length);
    const char *at = strstr(text, head);
    MUST(at != NULL && strstr(at + 1, head) == NULL);
    at = read_quoted(at + sizeof head - 1, value);
    MUST(strcmp(value, expected) == 0);
    MUST(strncmp(at, ",second=", 8) == 0);
    at = read_quoted(at + 8, value);
    MUST(strcmp(value, expected) == 0);
    MUST(strncmp(at, "} 2\n", 4) == 0);
    free(text);
    free(value);
    metric_buffer_free(&out);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    char *label = calloc(1, size + 1);
    MUST(label != NULL);
    memcpy(label, data, size);
    char *expected = expected_value((const unsigned char *)label, strlen(label));
    struct metric_registry *registry =
        metric_registry_new(&(struct metric_registry_options){.threads = 1, .max_series = 10});
    MUST(registry != NULL);
    struct metric_family *family = metric_register(
        registry,
        &(struct metric_desc){
            .name = "c_total", .type = METRIC_COUNTER, .help = "h", .labels = {"first", "second"}},
        NULL);
    MUST(family != NULL);
    metric_add(metric_resolve(family, (const char *[]){label, label}), 1);
    metric_add(metric_resolve(family, (const char *[]){expected, label}), 1); /* the same series */
    check(registry, METRIC_TEXT, expected);
    check(registry, METRIC_OPENMETRICS, expected);
    metric_registry_free(&registry);
    free(expected);
    free(label);
    return 0;
}
