/* SPDX-License-Identifier: Apache-2.0 */
/* Prints metrics.def as the Markdown table of README.md. */
#include <stdio.h>

#include "collectors/collectors.h"

static const char *type_of(const struct metric_desc *row)
{
    switch (row->type) {
    case METRIC_COUNTER:
        return "counter";
    case METRIC_GAUGE:
        return "gauge";
    case METRIC_HISTOGRAM:
        return row->native.low < row->native.high ? "histogram, classic and native" : "histogram";
    }
    return "";
}

static void print_labels(const struct metric_desc *row)
{
    for (size_t i = 0; row->labels[i] != NULL; i++)
        printf("%s`%s`", i > 0 ? ", " : "", row->labels[i] + (row->labels[i][0] == '*'));
}

int main(void)
{
    size_t count;
    const struct metric_desc *rows = collectors_metrics(&count);
    printf("| metric | type | labels | meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < count; i++) {
        printf("| `%s` | %s | ", rows[i].name, type_of(&rows[i]));
        print_labels(&rows[i]);
        printf(" | %s |\n", rows[i].help);
    }
    return 0;
}
