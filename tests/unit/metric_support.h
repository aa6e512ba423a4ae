/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the metrics core share. */
#ifndef METRIC_SUPPORT_H
#define METRIC_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/metrics/metric.h"

#define VALUES(...) ((const char *const[]){__VA_ARGS__})

static inline struct metric_registry *registry_with(unsigned threads, size_t cap)
{
    struct metric_registry *registry = metric_registry_new(
        &(struct metric_registry_options){.threads = threads, .max_series = cap});
    assert_non_null(registry);
    return registry;
}

static inline struct metric_family *must_register(struct metric_registry *registry,
                                                  const struct metric_desc *desc)
{
    struct metric_error error;
    struct metric_family *family = metric_register(registry, desc, &error);
    if (family == NULL)
        fail_msg("%s: %s", desc->name, error.message);
    return family;
}

/* The whole scrape, ended by NUL; freed with metric_buffer_free. `want` is the size of a step. */
static inline struct metric_buffer scrape_steps(struct metric_registry *registry,
                                                const struct metric_scrape_options *options,
                                                size_t want)
{
    struct metric_buffer out = {0};
    struct metric_scrape *scrape = metric_scrape_begin(registry, options);
    assert_non_null(scrape);
    while (metric_scrape_step(scrape, &out, want)) {
    }
    metric_scrape_end(&scrape);
    assert_null(scrape);
    assert_false(out.failed);
    out.data = realloc(out.data, out.length + 1);
    assert_non_null(out.data);
    out.data[out.length] = '\0';
    out.capacity = out.length + 1;
    return out;
}

static inline struct metric_buffer scrape_all(struct metric_registry *registry,
                                              enum metric_format format)
{
    return scrape_steps(registry, &(struct metric_scrape_options){.format = format}, 65536);
}

/* The value of the sample whose line begins with `head` (name, labels), as text; fails without. */
static inline void sample_text(const char *scrape, const char *head, char *out, size_t size)
{
    size_t length = strlen(head);
    for (const char *line = scrape; line != NULL && *line != '\0';) {
        const char *end = strchr(line, '\n');
        assert_non_null(end);
        if (strncmp(line, head, length) == 0 && line[length] == ' ') {
            snprintf(out, size, "%.*s", (int)(end - line - (ptrdiff_t)length - 1),
                     line + length + 1);
            return;
        }
        line = end + 1;
    }
    fail_msg("no sample %s in:\n%s", head, scrape);
}

static inline double sample(const char *scrape, const char *head)
{
    char text[256];
    sample_text(scrape, head, text, sizeof text);
    return strtod(text, NULL);
}

static inline void assert_has_line(const char *scrape, const char *line)
{
    size_t length = strlen(line);
    for (const char *at = scrape; (at = strstr(at, line)) != NULL; at++) {
        if ((at == scrape || at[-1] == '\n') && (at[length] == '\n' || at[length] == '\0'))
            return;
    }
    fail_msg("no line %s in:\n%s", line, scrape);
}

/* Scrapes the text format and gives one sample of it. */
static inline double scraped(struct metric_registry *registry, const char *head)
{
    struct metric_buffer out = scrape_all(registry, METRIC_TEXT);
    double value = sample(out.data, head);
    metric_buffer_free(&out);
    return value;
}

#endif
